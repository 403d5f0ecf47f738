"""Which worker a job lacks, or waits for, in words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from foliot.explain_gate import Reason
from foliot.model.job import Job
from foliot.model.session import SUSPECTS, Claim, Session


def missing_worker(
    job: Job, sessions: Sequence[Session], waits_since: datetime, now: datetime
) -> Reason | None:
    """What none of the live workers has."""
    lost = [s for s in sessions if not s.live and s.kinds]
    since = _since(lost, waits_since, now)
    start = "a worker starts: foliot worker module:app"
    if job.requires:
        start += f" --capabilities {','.join(job.requires)}"
    workers = [s for s in sessions if s.live and s.kinds]
    if not workers:
        return Reason("no worker is alive", since=since, change=start)
    since = _since([s for s in lost if could_run(s, job)], waits_since, now)
    workers = [s for s in workers if not s.queues or job.queue in s.queues]
    if not workers:
        why = f"no live worker serves the queue {job.queue!r}"
        return Reason(why, since=since, change=f"{start} --queues {job.queue}")
    able = [s for s in workers if set(job.requires).issubset(s.capabilities)]
    if not able:
        return Reason(_unable(job, workers), since=since, change=start)
    able = [s for s in able if job.kind in s.kinds]
    if not able:
        why = f"no live worker of the queue {job.queue!r} knows the kind {job.kind!r}"
        return Reason(why, since=since, change="a worker starts whose app has it")
    if all(s.drain for s in able):
        return Reason("every worker that could run it is draining", change=start)
    return None


def _since(lost: Sequence[Session], waits_since: datetime, now: datetime) -> datetime | None:
    """When the last of those that are lost was heard of. One that ended in good order has left nothing behind: without
    one that is lost it is not known. Before the job is due that has kept it from nothing yet."""
    if not lost or waits_since > now:
        return None
    return max(waits_since, *(s.beat_at for s in lost))


def could_run(session: Session, job: Job) -> bool:
    serves = not session.queues or job.queue in session.queues
    return serves and job.kind in session.kinds and set(job.requires) <= set(session.capabilities)


def _unable(job: Job, workers: Sequence[Session]) -> str:
    """What it requires, and what of that nobody has."""
    lacks = [name for name in job.requires if not any(name in s.capabilities for s in workers)]
    needs, wanted = ", ".join(job.requires), ", ".join(lacks)
    why = f"no live worker of the queue {job.queue!r} has what it requires: {needs}"
    return why + (f"; nobody has {wanted}" if lacks else "; no single one has all of it")


def suspicion(job: Job, *, since: datetime) -> list[Reason]:
    """That it runs alone, if workers were lost with it."""
    if not job.losses:
        return []
    why = f"{_suspect(job)}; it waits to run alone"
    return [Reason(why, since=since, change="a worker has a child process free for it")]


def not_started(
    job: Job, claim: Claim | None, holder: Session, *, since: datetime
) -> Reason | None:
    """That a worker has it, and it does not run: it waits there for a child process, or for a thread."""
    if claim is None or (behind := claim.behind(SUSPECTS)) is None:
        return None
    if not (claim.seen or job.losses):
        return None
    where = f"{holder.host}, process {holder.pid}"
    if job.losses:
        others = f", behind {count(behind, 'other suspect')}" if behind else ""
        why = f"{_suspect(job)}; it waits to run alone in a child process of {where}{others}"
        change = f"a child is free for it: there are {SUSPECTS}, or worker.children if that is more"
        return Reason(why, since=since, change=f"{change}, in each worker process")
    why = f"claimed by {where}, where it waits for a thread or a child process"
    return Reason(why, since=job.started_at, change="one is free; or another worker takes it")


def _suspect(job: Job) -> str:
    lost = "a worker was" if job.losses == 1 else f"{count(job.losses, 'worker')} were"
    return f"suspect: {lost} lost while it ran"


def count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"

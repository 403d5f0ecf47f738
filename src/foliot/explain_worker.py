"""Which worker a job lacks, or waits for, in words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from foliot.explain_gate import Reason
from foliot.model.job import Job
from foliot.model.session import SUSPECTS, Claim, Session
from foliot.model.workflow import BUILTIN_KINDS


def missing_worker(
    job: Job, sessions: Sequence[Session], waits_since: datetime, now: datetime
) -> Reason | None:
    """What none of the live workers has."""
    lacks = partial(_lacks, since=waits_since, now=now)
    lost = [s for s in sessions if not s.live and s.kinds]
    start = "a worker starts: foliot worker module:app"
    if job.requires:
        start += f" --capabilities {','.join(job.requires)}"
    workers = [s for s in sessions if s.live and s.kinds]
    if not workers:
        return lacks("no worker is alive", start, lost)
    lost = [s for s in lost if could_run(s, job)]
    workers = [s for s in workers if not s.queues or job.queue in s.queues]
    if not workers:
        why = f"no live worker serves the queue {job.queue!r}"
        return lacks(why, f"{start} --queues {job.queue}", lost)
    able = [s for s in workers if set(job.requires).issubset(s.capabilities)]
    if not able:
        return lacks(_unable(job, workers), start, lost)
    able = [s for s in able if job.kind in s.kinds]
    if not able:
        why = f"no live worker of the queue {job.queue!r} knows the kind {job.kind!r}"
        return lacks(why, "a worker starts whose app has it", lost)
    if all(s.drain for s in able):
        return lacks("every worker that could run it is draining", start, wanted="another")
    return None


def missing_duties(
    sessions: Sequence[Session], since: datetime | None, now: datetime
) -> Reason | None:
    """That nobody does the scheduler's duties. `since`: when there came to be something to do; None: not yet."""
    if any(s.live and s.duties for s in sessions):
        return None
    why, change = (
        "no live process does the scheduler's duties",
        "a worker starts, or: foliot scheduler",
    )
    if any(s.live and s.kinds for s in sessions):
        why += ": the live workers have worker.scheduler=false"
        change = "foliot scheduler runs, or a worker with worker.scheduler=true"
    return _lacks(why, change, [s for s in sessions if s.duties], since=since, now=now)


def _lacks(
    why: str,
    change: str,
    lost: Sequence[Session] = (),
    *,
    since: datetime | None,
    now: datetime,
    wanted: str = "one",
) -> Reason:
    """Since the last of those that are lost was heard of. One that ended in good order has left nothing behind: without
    one that is lost it is known since when the job waits. Before it is due that has kept it from nothing yet."""
    if since is None or since > now:
        return Reason(why, change=change)
    if not lost:
        return Reason(f"{why}; it waits for {wanted}", since=since, change=change)
    return Reason(why, since=max(since, *(s.beat_at for s in lost)), change=change)


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
    """That a worker has it, and it does not run: it waits there for what its function needs to run."""
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
    # How the functions of an app run, only its workers know; Foliot's own are async.
    needs = "a slot" if job.kind in BUILTIN_KINDS else "a slot, a thread or a child process"
    why = f"claimed by {where}, where it waits for {needs}"
    return Reason(why, since=job.started_at, change="one is free; or another worker takes it")


def _suspect(job: Job) -> str:
    lost = "a worker was" if job.losses == 1 else f"{count(job.losses, 'worker')} were"
    return f"suspect: {lost} lost while it ran"


def count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"

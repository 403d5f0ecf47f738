"""Why a job is not running, or how it ended: facts in, a sentence out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from foliot.errors import did_you_mean
from foliot.model.job import STOPPED, Attempt, Job, JobState
from foliot.model.search import Standing
from foliot.model.session import Session
from foliot.store.queueing import Queue
from foliot.units import show_duration

MOST_AHEAD: Final = 1_000  # jobs before it that are counted
_MOST_NAMED: Final = 10


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to know around a job. The sessions may be of any state; the failure is the last one."""

    job: Job
    now: datetime
    sessions: Sequence[Session] = ()
    queue: Queue | None = None
    standing: Standing = Standing(0, [])
    failure: Attempt | None = None

    @property
    def live(self) -> list[Session]:
        return [session for session in self.sessions if session.live]


class Explanation(msgspec.Struct, frozen=True):
    """`why` is the sentence that answers; `more` is what else stands in the way, or helps."""

    state: JobState
    why: str
    more: list[str] = []

    def __str__(self) -> str:
        return "\n".join([f"{self.state}: {self.why}", *self.more])


def explain(facts: Facts) -> Explanation:
    why, more = _BY_STATE[facts.job.state](facts)
    return Explanation(facts.job.state, why, [line for line in more if line])


_Answer = tuple[str, list[str]]


def _scheduled(facts: Facts) -> _Answer:
    job = facts.job
    wait = (job.run_at - facts.now).total_seconds()
    due = f"due in {_duration(wait)}, at {_time(job.run_at)}"
    if wait <= 0:
        due = f"due since {_time(job.run_at)}, and about to be made ready"
    again = f"{_attempt(job)} failed; the next is {due}" if job.attempt else due
    return again, [_failure(facts), _no_duties(facts) if wait <= 0 else "", *_obstacles(facts)]


def _waiting(facts: Facts) -> _Answer:
    return "its parents have not ended yet", [facts.job.note or ""]


def _held(facts: Facts) -> _Answer:
    reason = facts.job.reason or "unknown"
    answer = _HOLDS.get(reason)
    if answer is None:
        return reason, [facts.job.note or ""]
    why, more = answer(facts)
    return why, [*more, facts.job.note or ""]


def _held_for_admission(facts: Facts) -> _Answer:
    return "about to be looked at for its turn or its predecessors", [_no_duties(facts)]


def _held_for_order(facts: Facts) -> _Answer:
    key, earlier = facts.job.ordering_key, facts.standing.earlier
    if not earlier:
        return f"the next of ordering key {key!r}, about to be made ready", [_no_duties(facts)]
    first, state = earlier[0]
    count = _count(len(earlier), "job")
    return f"waits for job {first} ({state}) of ordering key {key!r}: {count} before it", []


def _held_for_kind(facts: Facts) -> _Answer:
    kind, known = facts.job.kind, sorted({k for s in facts.live for k in s.kinds})
    if not facts.live:
        return f"the kind {kind!r} was unknown to its worker, and no worker is alive now", []
    if kind in known:
        return f"a live worker knows the kind {kind!r} by now: it is about to be made ready", []
    names = ", ".join(known[:_MOST_NAMED]) + (" …" if len(known) > _MOST_NAMED else "")
    return f"no live worker knows the kind {kind!r}", [
        f"they know: {names or 'none'}",
        did_you_mean(kind, known) or "",
    ]


def _held_for_payload(facts: Facts) -> _Answer:
    why = f"its payload does not fit the arguments of {facts.job.kind!r}"
    return why, [f"it is looked at again when a worker with another {facts.job.kind} starts"]


def _ready(facts: Facts) -> _Answer:
    job = facts.job
    if job.expires_at is not None and job.expires_at <= facts.now:
        return f"expired at {_time(job.expires_at)}: about to be cancelled", []
    obstacles = _obstacles(facts)
    if obstacles:
        return obstacles[0], obstacles[1:]
    ahead = facts.standing.ahead
    if not ahead:
        return "the next of its lane: it runs as soon as a worker has room", [_room(facts)]
    least = "at least " if ahead >= MOST_AHEAD else ""
    return f"{least}{_count(ahead, 'ready job')} of its lane before it", [_room(facts)]


def _running(facts: Facts) -> _Answer:
    job = facts.job
    holder = next((s for s in facts.sessions if s.id == job.session), None)
    where = f"on {holder.host}, process {holder.pid}" if holder else "on a worker that is gone"
    since = "" if job.started_at is None else f", since {_time(job.started_at)}"
    more = ["it was asked to end"] if job.cancel_requested else []
    if holder is None or not holder.live:
        more.append("its worker is lost: the job is about to be taken back")
    if job.progress is not None:
        said = f": {job.progress.message}" if job.progress.message else ""
        more.append(f"{job.progress.fraction:.0%} done{said}")
    return f"{_attempt(job)} runs {where}{since}", more


def _succeeded(facts: Facts) -> _Answer:
    return f"{_attempt(facts.job)} succeeded{_at(facts.job)}", []


def _dead(facts: Facts) -> _Answer:
    job = facts.job
    why = f"{_attempt(job)} was the last{_at(job)}: {job.reason or 'failed'}"
    return why, [_failure(facts), f"try it again with: foliot dead retry {job.id}"]


def _cancelled(facts: Facts) -> _Answer:
    job, failure = facts.job, facts.failure
    match job.reason:
        case "requested" if failure is not None and failure.outcome in STOPPED:
            return (
                f"somebody asked for its end; {_attempt(job)} was {failure.outcome}{_at(job)}",
                [],
            )
        case "requested":
            early = "" if job.attempt else ", before it had started"
            return f"somebody asked for its end; ended{_at(job)}{early}", [_failure(facts)]
        case "expired":
            return f"it had not started when it expired; ended{_at(job)}", [_failure(facts)]
        case "handler" | None:
            return f"its function ended it{_at(job)}", []
    return f"its function ended it{_at(job)}: {job.reason}", []


def _skipped(facts: Facts) -> _Answer:
    return f"ended{_at(facts.job)}: {facts.job.reason or 'a parent ended otherwise'}", []


def _obstacles(facts: Facts) -> list[str]:
    """What would keep the job from being claimed if it were ready and the first."""
    found = []
    job, queue = facts.job, facts.queue
    if queue is not None and queue.paused_at is not None:
        by = f" by {queue.paused_by}" if queue.paused_by else ""
        note = f": {queue.note}" if queue.note else ""
        found.append(f"the queue {queue.name!r} was paused{by} at {_time(queue.paused_at)}{note}")
    if missing := _missing(facts):
        found.append(missing)
    if job.cancel_requested:
        found.append("it was asked to end")
    return found


def _missing(facts: Facts) -> str | None:
    """What no live worker has."""
    job, workers = facts.job, facts.live
    if not workers:
        return "no worker is alive"
    workers = [s for s in workers if not s.queues or job.queue in s.queues]
    if not workers:
        return f"no live worker serves the queue {job.queue!r}"
    able = [s for s in workers if set(job.requires).issubset(s.capabilities)]
    if not able:
        needs = ", ".join(job.requires)
        return f"no live worker of the queue {job.queue!r} has what it requires: {needs}"
    if not any(job.kind in s.kinds for s in able):
        return f"no live worker of the queue {job.queue!r} knows the kind {job.kind!r}"
    if all(s.drain for s in able):
        return "every worker that could run it is draining"
    return None


def _no_duties(facts: Facts) -> str:
    if any(session.duties for session in facts.live):
        return ""
    return "no live process does the scheduler's duties: start a worker, or foliot scheduler"


def _room(facts: Facts) -> str:
    job = facts.job
    able = [s for s in facts.live if not s.queues or job.queue in s.queues]
    return f"{_count(len(able), 'live worker')} of its queue" if able else ""


def _failure(facts: Facts) -> str:
    failure = facts.failure
    if failure is None:
        return ""
    return f"last failure: {failure.outcome}" + (f": {failure.error}" if failure.error else "")


def _attempt(job: Job) -> str:
    most = "" if job.max_attempts is None else f" of {job.max_attempts}"
    return f"attempt {job.attempt - job.losses if job.max_attempts else job.attempt}{most}"


def _at(job: Job) -> str:
    return "" if job.finished_at is None else f" at {_time(job.finished_at)}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _duration(seconds: float) -> str:
    return show_duration(float(max(1, round(seconds))))


def _time(time: datetime) -> str:
    return time.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")


_HOLDS: Final[dict[str, Callable[[Facts], _Answer]]] = {
    "admission": _held_for_admission,
    "turn": _held_for_admission,
    "order": _held_for_order,
    "unknown_kind": _held_for_kind,
    "unfitting_payload": _held_for_payload,
}
_BY_STATE: Final[dict[JobState, Callable[[Facts], _Answer]]] = {
    JobState.SCHEDULED: _scheduled,
    JobState.WAITING: _waiting,
    JobState.HELD: _held,
    JobState.READY: _ready,
    JobState.RUNNING: _running,
    JobState.SUCCEEDED: _succeeded,
    JobState.DEAD: _dead,
    JobState.CANCELLED: _cancelled,
    JobState.SKIPPED: _skipped,
}

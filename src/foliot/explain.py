"""Why a job is not running, or how it ended: facts in, reasons out, the most decisive first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from foliot.explain_gate import GateFacts, Reason, say_gate, show_time
from foliot.explain_step import StepFacts, say_policy, say_skipped, say_until, say_waiting
from foliot.explain_worker import count, due_since, missing_worker, suspicion
from foliot.ids import inner_id
from foliot.model.job import STOPPED, Attempt, Job, JobState
from foliot.model.limit import HELD_FOR_LIMIT
from foliot.model.search import Standing
from foliot.model.session import Session
from foliot.model.workflow import HELD_BY_PAUSE, HELD_FOR_SIGNAL, HELD_FOR_WORKFLOW, Workflow
from foliot.shown import did_you_mean
from foliot.store.queueing import Queue
from foliot.units import show_duration

MOST_AHEAD: Final = 10_000  # jobs before it that are counted
_MOST_NAMED: Final = 10


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to know around a job. The sessions may be of any state; the failure is the last one."""

    job: Job
    now: datetime
    sessions: Sequence[Session] = ()
    queue: Queue | None = None
    standing: Standing = Standing(0, [])
    failure: Attempt | None = None
    flow: StepFacts | None = None  # if it is a step of a workflow
    inner: Workflow | None = None  # that it stands for
    gate: GateFacts | None = None  # the limit or breaker that it is held for
    gates: Sequence[GateFacts] = ()  # that a ready one will be asked at
    pace: float | None = None  # about how many jobs of its queue end a second

    @property
    def live(self) -> list[Session]:
        return [session for session in self.sessions if session.live]

    @property
    def workers(self) -> list[Session]:
        """Those that run jobs: not who only does the scheduler's duties."""
        return [session for session in self.live if session.kinds]


class Explanation(msgspec.Struct, frozen=True):
    """What keeps a job from running, the most decisive first; or, of one that runs or has ended, how that is. `more` is
    what else helps."""

    state: JobState
    reasons: list[Reason]
    more: list[str] = []

    @property
    def why(self) -> str:
        return self.reasons[0].why

    def __str__(self) -> str:
        first, *others = self.reasons
        return "\n".join([f"{self.state}: {first}", *map(str, others), *self.more])


def explain(facts: Facts) -> Explanation:
    first, rest = _BY_STATE[facts.job.state](facts)
    others = [one for one in rest if isinstance(one, Reason)]
    more = [one for one in [*rest, _home(facts)] if isinstance(one, str) and one]
    reason = first if isinstance(first, Reason) else Reason(first)
    return Explanation(facts.job.state, [reason, *others], more)


_Answer = tuple[str | Reason, list[str | Reason]]


def _scheduled(facts: Facts) -> _Answer:
    job = facts.job
    wait = (job.run_at - facts.now).total_seconds()
    due = f"due in {_duration(wait)}, at {show_time(job.run_at)}"
    if wait <= 0:
        due = f"due since {show_time(job.run_at)}, and about to be made ready"
    again = f"{_attempt(job)} failed; the next is {due}" if job.attempt > job.losses else due
    change = f"its time comes; sooner with: foliot jobs change {job.id} --in 0s"
    since = facts.failure.finished_at if facts.failure else job.created_at
    reason = Reason(again, since=since, change=change if wait > 0 else None)
    return reason, [_failure(facts), _no_duties(facts) if wait <= 0 else "", *_obstacles(facts)]


def _waiting(facts: Facts) -> _Answer:
    if facts.flow is None:
        return "its parents have not ended yet", [facts.job.note or ""]
    why, more = say_waiting(facts.flow)
    change = say_until(facts.flow) if facts.flow.pending else None
    return Reason(why, since=facts.job.created_at, change=change), [
        *more,
        _pause(facts.flow.workflow),
        "" if facts.flow.pending else _no_duties(facts),
    ]


def _held(facts: Facts) -> _Answer:
    reason = facts.job.reason or "unknown"
    answer = _HOLDS.get(reason)
    if answer is None:
        return reason, [facts.job.note or ""]
    why, more = answer(facts)
    note = facts.job.note if reason != HELD_FOR_LIMIT else None
    if not isinstance(why, Reason):
        why = Reason(why)
    if why.since is None:
        why = msgspec.structs.replace(why, since=due_since(facts.job))
    return why, [*more, note or ""]


def _held_for_admission(facts: Facts) -> _Answer:
    return "about to be looked at for its turn or its predecessors", [_no_duties(facts)]


def _held_for_order(facts: Facts) -> _Answer:
    key, earlier = facts.job.ordering_key, facts.standing.earlier
    if not earlier:
        return f"the next of ordering key {key!r}, about to be made ready", [_no_duties(facts)]
    first, state = earlier[0]
    before = count(len(earlier), "job")
    if len(earlier) >= MOST_AHEAD:
        before = f"at least {before}"
    why = f"waits for job {first} ({state}) of ordering key {key!r}: {before} before it"
    return Reason(why, change=f"it has ended; see: foliot jobs explain {first}"), []


def _held_for_kind(facts: Facts) -> _Answer:
    kind, known = facts.job.kind, sorted({k for s in facts.workers for k in s.kinds})
    change = "a worker starts whose app has it"
    if not facts.workers:
        why = f"the kind {kind!r} was unknown to its worker, and no worker is alive now"
        return Reason(why, change=change), []
    if kind in known:
        return f"a live worker knows the kind {kind!r} by now: it is about to be made ready", []
    names = ", ".join(known[:_MOST_NAMED]) + (" …" if len(known) > _MOST_NAMED else "")
    return Reason(f"no live worker knows the kind {kind!r}", change=change), [
        f"they know: {names or 'none'}",
        did_you_mean(kind, known) or "",
    ]


def _held_for_payload(facts: Facts) -> _Answer:
    why = f"its payload does not fit the arguments of {facts.job.kind!r}"
    return Reason(why, change=f"a worker with another {facts.job.kind} starts"), []


def _held_for_gate(facts: Facts) -> _Answer:
    gate = facts.gate
    if gate is None:
        why = f"waited for {facts.job.note}, which is no limit any more: it is about to be asked again"
        return _unless_kept(facts, Reason(why, since=due_since(facts.job)))
    reason = say_gate(gate, since=due_since(facts.job))
    paused = facts.queue is not None and facts.queue.paused_at is not None
    if gate.has_room or paused:  # then that is not what keeps it
        return _unless_kept(facts, reason)
    return reason, [*_obstacles(facts)]


def _unless_kept(facts: Facts, reason: Reason) -> _Answer:
    """It is about to be asked again: if its queue is not paused, and somebody is there to run it."""
    first, *others = [*_obstacles(facts), reason]
    return first, [*others, _no_duties(facts)]


def _held_for_signal(facts: Facts) -> _Answer:
    flow, until = facts.flow, facts.job.expires_at
    if flow is None or flow.step.signal is None:
        return "waits for a signal", []
    change = f"it comes: foliot workflows signal {flow.workflow.id} {flow.step.signal}"
    return Reason(f"waits for the signal {flow.step.signal!r}", change=change), [
        "" if until is None else f"it is cancelled at {show_time(until)}, unless it comes",
    ]


def _held_by_pause(facts: Facts) -> _Answer:
    flow = facts.flow
    if flow is None or flow.workflow.paused_at is None:
        return "its workflow was paused, and is about to go on", []
    change = f"foliot workflows resume {flow.workflow.id}"
    return Reason(_pause(flow.workflow), since=flow.workflow.paused_at, change=change), []


def _held_for_workflow(facts: Facts) -> _Answer:
    inner = facts.inner
    if inner is None:
        return f"it stands for workflow {inner_id(facts.job.id)}, which runs", []
    done = f"{inner.total - inner.remaining:,} of {count(inner.total, 'step')} done"
    why = f"it stands for workflow {inner.name}, {inner.id}, which is {inner.state}: {done}"
    change = f"it has ended; see: foliot workflows show {inner.id}"
    return Reason(why, change=change), [_pause(inner)]


def _ready(facts: Facts) -> _Answer:
    job = facts.job
    if job.expires_at is not None and job.expires_at <= facts.now:
        why = f"expired at {show_time(job.expires_at)}: about to be cancelled"
        return why, [_no_duties(facts)]
    full = [say_gate(gate, since=due_since(job)) for gate in facts.gates if not gate.has_room]
    found = [*_obstacles(facts), *full, *suspicion(job)]
    if len(found) == len(full) or facts.standing.ahead:
        found.append(_place(facts, pace=None if found else facts.pace))
    first, *others = found
    return first, [*others, _room(facts)]


def _place(facts: Facts, *, pace: float | None) -> Reason:
    """Where it stands in its lane. The pace is that of before, if something stands in the way now."""
    ahead, since = facts.standing.ahead, due_since(facts.job)
    if not ahead:
        why = "the next of its lane: it runs as soon as a worker has room"
        return Reason(why, since=since, change="a worker has room")
    many = f"more than {MOST_AHEAD:,} jobs" if ahead >= MOST_AHEAD else count(ahead, "job")
    if not pace:
        return Reason(f"{many} ahead", since=since, change="they are done, or more workers come")
    least = "at least " if ahead >= MOST_AHEAD else ""
    start = f"expected start in {least}{_duration(ahead / pace)}"
    why = f"{many} ahead at about {pace:,.0f}/s, {start}" if pace >= 1 else f"{many} ahead, {start}"
    return Reason(why, since=since, change="they are done, or more workers come")


def _running(facts: Facts) -> _Answer:
    job = facts.job
    holder = next((s for s in facts.sessions if s.id == job.session), None)
    where = f"on {holder.host}, process {holder.pid}" if holder else "on a worker that is gone"
    more = ["it was asked to end"] if job.cancel_requested else []
    if holder is None or not holder.live:
        taken = "the job is taken back when somebody does the scheduler's duties"
        nobody = _no_duties(facts)
        more.append(
            f"its worker is lost: {taken if nobody else 'the job is about to be taken back'}"
        )
        more.append(nobody)
    elif holder.expires_at is not None:
        more.append(
            f"its lease is good until {show_time(holder.expires_at)}, if no other beat comes"
        )
    if job.progress is not None:
        said = f": {job.progress.message}" if job.progress.message else ""
        more.append(f"last progress: {job.progress.fraction:.0%} done{said}")
    reason = Reason(f"{_attempt(job)} runs {where}", since=job.started_at)
    return reason, [*more]


def _succeeded(facts: Facts) -> _Answer:
    return f"{_attempt(facts.job)} succeeded{_at(facts.job)}", []


def _dead(facts: Facts) -> _Answer:
    job = facts.job
    last = f"{_attempt(job)} was the last"
    if job.reason == "worker_lost":
        last = f"{count(job.losses, 'worker')} were lost while it ran, the last"
    why = f"{last}{_at(job)}: {job.reason or 'failed'}"
    again = f"foliot dead retry {job.id}"
    if facts.flow is not None:
        again = f"foliot workflows retry {facts.flow.workflow.id} --step {facts.flow.step.name}"
    return why, [_failure(facts), f"try it again with: {again}"]


def _cancelled(facts: Facts) -> _Answer:
    job, failure = facts.job, facts.failure
    match job.reason:
        case "requested" if failure is not None and failure.outcome in STOPPED:
            return f"{_who_ended(facts)}; {_attempt(job)} was {failure.outcome}{_at(job)}", []
        case "requested":
            early = "" if job.attempt else ", before it had started"
            return f"{_who_ended(facts)}; ended{_at(job)}{early}", [_failure(facts)]
        case "expired" if facts.flow is not None and facts.flow.step.signal is not None:
            return (
                f"the signal {facts.flow.step.signal!r} did not come in time; ended{_at(job)}",
                [],
            )
        case "expired":
            return f"it had not started when it expired; ended{_at(job)}", [_failure(facts)]
        case "handler" | None:
            return f"its function ended it{_at(job)}", []
    return f"its function ended it{_at(job)}: {job.reason}", []


def _who_ended(facts: Facts) -> str:
    """Who asked for its end: of a step, mostly the workflow."""
    flow = facts.flow
    if flow is None:
        return "somebody asked for its end"
    if flow.workflow.reason == "deadline":
        return "the deadline of its workflow passed"
    if flow.workflow.cancel_requested:
        return "its workflow was cancelled"
    return say_policy(flow) or "somebody asked for its end"


def _skipped(facts: Facts) -> _Answer:
    why = facts.job.reason or "a parent ended otherwise"
    if facts.flow is not None:
        why = say_skipped(facts.flow)
    return f"ended{_at(facts.job)}: {why}", []


def _home(facts: Facts) -> str:
    """Where a step is looked at among the others."""
    flow = facts.flow
    if flow is None or flow.workflow.chain:
        return ""
    return (
        f"step {flow.step.name} of {flow.workflow.name}: foliot workflows show {flow.workflow.id}"
    )


def _pause(workflow: Workflow) -> str:
    if workflow.paused_at is None:
        return ""
    by = f" by {workflow.paused_by}" if workflow.paused_by else ""
    note = f": {workflow.note}" if workflow.note else ""
    return f"workflow {workflow.name} was paused{by} at {show_time(workflow.paused_at)}{note}"


def _obstacles(facts: Facts) -> list[Reason]:
    """What would keep the job from being claimed if it were ready and the first."""
    found: list[Reason] = []
    job, queue = facts.job, facts.queue
    if queue is not None and queue.paused_at is not None:
        by = f" by {queue.paused_by}" if queue.paused_by else ""
        note = f": {queue.note}" if queue.note else ""
        why = f"the queue {queue.name!r} was paused{by} at {show_time(queue.paused_at)}{note}"
        change = f"foliot queues resume {queue.name}"
        found.append(Reason(why, since=queue.paused_at, change=change))
    if missing := missing_worker(job, facts.workers, facts.now):
        found.append(missing)
    if job.cancel_requested:
        found.append(Reason("it was asked to end"))
    return found


def _no_duties(facts: Facts) -> str:
    if any(session.duties for session in facts.live):
        return ""
    return "no live process does the scheduler's duties: start a worker, or foliot scheduler"


def _room(facts: Facts) -> str:
    job = facts.job
    able = [s for s in facts.workers if not s.queues or job.queue in s.queues]
    return f"{count(len(able), 'live worker')} of its queue" if able else ""


def _failure(facts: Facts) -> str:
    failure = facts.failure
    if failure is None:
        return ""
    return f"last failure: {failure.outcome}" + (f": {failure.error}" if failure.error else "")


def _attempt(job: Job) -> str:
    most = "" if job.max_attempts is None else f" of {job.max_attempts}"
    return f"attempt {job.attempt - job.losses if job.max_attempts else job.attempt}{most}"


def _at(job: Job) -> str:
    return "" if job.finished_at is None else f" at {show_time(job.finished_at)}"


def _duration(seconds: float) -> str:
    return show_duration(float(max(1, round(seconds))))


_HOLDS: Final[dict[str, Callable[[Facts], _Answer]]] = {
    "admission": _held_for_admission,
    "turn": _held_for_admission,
    "order": _held_for_order,
    "unknown_kind": _held_for_kind,
    "unfitting_payload": _held_for_payload,
    HELD_FOR_LIMIT: _held_for_gate,
    HELD_FOR_SIGNAL: _held_for_signal,
    HELD_BY_PAUSE: _held_by_pause,
    HELD_FOR_WORKFLOW: _held_for_workflow,
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

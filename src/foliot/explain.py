"""Why a job is not running, or how it ended: facts in, reasons out, the most decisive first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from foliot.explain_end import say_cancelled, say_dead, say_ruled_out, say_succeeded
from foliot.explain_facts import (
    MOST_AHEAD,
    Answer,
    Facts,
    in_order,
    last_failure,
    no_duties,
    obstacles,
    paused_workflow,
    say_attempt,
    shut_by_hand,
    soon,
    waits,
)
from foliot.explain_gate import Reason, say_shut, show_time
from foliot.explain_held import say_held
from foliot.explain_step import say_until, say_waiting
from foliot.explain_worker import could_run, count, not_started, suspicion
from foliot.model.job import JobState
from foliot.model.session import Session
from foliot.model.workflow import HELD_BY_PAUSE
from foliot.units import show_duration


class Explanation(msgspec.Struct, frozen=True):
    """What keeps a job from running, the most decisive first; or, of one that runs or has ended, how that is. `more` is
    what else helps."""

    state: JobState
    reasons: list[Reason]
    more: list[str] = []

    @property
    def why(self) -> str:
        return self.reasons[0].why

    @property
    def lines(self) -> list[str]:
        first, *others = [line for reason in self.reasons for line in reason.lines]
        return [f"{self.state}: {first}", *others, *self.more]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def explain(facts: Facts) -> Explanation:
    first, rest = _BY_STATE[facts.job.state](facts)
    late, deadline = _deadline(facts)
    known = [one.why for one in late]
    reason = first if isinstance(first, Reason) else Reason(first)
    others = [one for one in [reason, *rest] if isinstance(one, Reason) and one.why not in known]
    more = [one for one in [*rest, deadline, _home(facts)] if isinstance(one, str) and one]
    return Explanation(facts.job.state, [*late, *others], more)


def _deadline(facts: Facts) -> tuple[list[Reason], str]:
    """Of its workflow: that it has passed, or when it will."""
    flow = None if facts.flow is None else facts.flow.workflow
    if flow is None or flow.deadline_at is None or flow.cancel_requested or facts.job.state.final:
        return [], ""
    at = show_time(flow.deadline_at)
    if flow.deadline_at > facts.now:
        return [], f"its workflow is cancelled at {at}, unless it has ended by then"
    why = f"the deadline of its workflow passed at {at}"
    return soon(facts, why, ", and it is about to be cancelled", since=flow.deadline_at), ""


def _scheduled(facts: Facts) -> Answer:
    job = facts.job
    wait = (job.run_at - facts.now).total_seconds()
    again = f"{say_attempt(job)} failed; the next is " if job.attempt > job.losses else ""
    if wait > 0:
        why = f"{again}due in {_duration(wait)}, at {show_time(job.run_at)}"
        since = facts.failure.finished_at if facts.failure else job.created_at
        change = f"its time comes; sooner with: foliot jobs change {job.id} --in 0s"
        found = [Reason(why, since=since, change=change), *no_duties(facts)]
    else:
        why = f"{again}due since {show_time(job.run_at)}"
        found = soon(facts, why, ", and about to be made ready")
    return in_order(*found, last_failure(facts), *obstacles(facts), *shut_by_hand(facts))


def _waiting(facts: Facts) -> Answer:
    if facts.flow is None:
        return "its parents have not ended yet", [facts.job.note or ""]
    pending, created = facts.flow.pending, facts.job.created_at
    why, more = say_waiting(facts.flow)
    if pending:
        found = [Reason(why, since=created, change=say_until(facts.flow))]
    else:
        ended = max((one.finished_at or created for one in facts.flow.parents), default=created)
        found = soon(facts, why, ": whether it runs is about to be decided", since=ended)
    paused = paused_workflow(facts.flow.workflow)
    if any(parent.reason == HELD_BY_PAUSE for parent in pending):  # they do not end by themselves
        found = [*paused, *found]
    else:
        found += paused
    return in_order(*found, *more)


def _ready(facts: Facts) -> Answer:
    job = facts.job
    if job.expires_at is not None and job.expires_at <= facts.now:
        why = f"expired at {show_time(job.expires_at)}"
        return in_order(*soon(facts, why, ": about to be cancelled", since=job.expires_at))
    shut = say_shut(facts.gates, since=facts.waits_since)
    found = [*obstacles(facts), *shut, *suspicion(job, since=facts.waits_since)]
    if len(found) == len(shut) or facts.standing.ahead:
        found.append(_place(facts, found))
    return in_order(*found, _room(facts))


def _place(facts: Facts, found: list[Reason]) -> Reason:
    """Where it stands in its lane. The pace is that of before, if something else stands in the way now."""
    ahead, pace = facts.standing.ahead, None if found else facts.pace
    if not ahead:
        why = "the next of its lane" + ("" if found else ": it runs as soon as a worker has room")
        return waits(facts, why, "a worker has room")
    many = f"more than {MOST_AHEAD:,} jobs" if ahead >= MOST_AHEAD else count(ahead, "job")
    change = "they are done, or more workers come"
    if not pace:
        return waits(facts, f"{many} ahead", change)
    least = "at least " if ahead >= MOST_AHEAD else ""
    start = f"expected start in {least}{_duration(ahead / pace)}"
    why = f"{many} ahead at about {pace:,.0f}/s, {start}" if pace >= 1 else f"{many} ahead, {start}"
    return waits(facts, why, change)


def _running(facts: Facts) -> Answer:
    job = facts.job
    holder = next((s for s in facts.sessions if s.id == job.session), None)
    more = ["it was asked to end"] if job.cancel_requested else []
    progress = []
    if job.progress is not None:
        said = f": {job.progress.message}" if job.progress.message else ""
        progress.append(f"last progress: {job.progress.fraction:.0%} done{said}")
    if holder is None or not holder.live:
        return in_order(*_lost(facts, holder), *more, *progress)
    more.append(f"its lease is good until {show_time(holder.expires_at)}, if no other beat comes")
    if waiting := not_started(job, facts.claim, holder, since=facts.waits_since):
        return in_order(waiting, *more)
    change = "it ends" if job.cancel_requested else f"it ends; or: foliot jobs cancel {job.id}"
    why = f"{say_attempt(job)} runs on {holder.host}, process {holder.pid}"
    return in_order(Reason(why, since=job.started_at, change=change), *more, *progress)


def _lost(facts: Facts, holder: Session | None) -> list[Reason]:
    """Of the worker that has it."""
    since = None if holder is None else holder.beat_at
    nobody = no_duties(facts, since)
    lost = "is gone" if holder is None else f"{holder.host}, process {holder.pid}, was lost"
    then = "" if nobody else ": it is about to be taken back"
    return [
        Reason(f"its worker {lost}{then}", since=since),
        *nobody,
        Reason(f"{say_attempt(facts.job)} began there", since=facts.job.started_at),
    ]


def _home(facts: Facts) -> str:
    """Where a step is looked at among the others."""
    flow = facts.flow
    if flow is None or flow.workflow.chain:
        return ""
    return (
        f"step {flow.step.name} of {flow.workflow.name}: foliot workflows show {flow.workflow.id}"
    )


def _room(facts: Facts) -> str:
    able = [s for s in facts.workers if could_run(s, facts.job) and not s.drain]
    return f"{count(len(able), 'live worker')} of its queue can run it" if able else ""


def _duration(seconds: float) -> str:
    return show_duration(float(max(1, round(seconds))))


_BY_STATE: Final[dict[JobState, Callable[[Facts], Answer]]] = {
    JobState.SCHEDULED: _scheduled,
    JobState.WAITING: _waiting,
    JobState.HELD: say_held,
    JobState.READY: _ready,
    JobState.RUNNING: _running,
    JobState.SUCCEEDED: say_succeeded,
    JobState.DEAD: say_dead,
    JobState.CANCELLED: say_cancelled,
    JobState.SKIPPED: say_ruled_out,
}

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
    last_failure,
    no_duties,
    obstacles,
    paused_workflow,
    say_attempt,
    waits,
)
from foliot.explain_gate import Reason, say_shut, show_time
from foliot.explain_held import say_held
from foliot.explain_step import say_until, say_waiting
from foliot.explain_worker import could_run, count, not_started, suspicion
from foliot.model.job import JobState
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
    others = [one for one in rest if isinstance(one, Reason)]
    more = [one for one in [*rest, _home(facts)] if isinstance(one, str) and one]
    reason = first if isinstance(first, Reason) else Reason(first)
    return Explanation(facts.job.state, [reason, *others], more)


def _scheduled(facts: Facts) -> Answer:
    job = facts.job
    wait = (job.run_at - facts.now).total_seconds()
    due = f"due in {_duration(wait)}, at {show_time(job.run_at)}"
    if wait <= 0:
        due = f"due since {show_time(job.run_at)}, and about to be made ready"
    again = f"{say_attempt(job)} failed; the next is {due}" if job.attempt > job.losses else due
    change = f"its time comes; sooner with: foliot jobs change {job.id} --in 0s"
    since = facts.failure.finished_at if facts.failure else job.created_at
    reason = Reason(again, since=since, change=change if wait > 0 else None)
    return reason, [last_failure(facts), no_duties(facts) if wait <= 0 else "", *obstacles(facts)]


def _waiting(facts: Facts) -> Answer:
    if facts.flow is None:
        return "its parents have not ended yet", [facts.job.note or ""]
    pending = facts.flow.pending
    why, more = say_waiting(facts.flow)
    change = say_until(facts.flow) if pending else None
    found = [Reason(why, since=facts.job.created_at, change=change)]
    paused = paused_workflow(facts.flow.workflow)
    if any(parent.reason == HELD_BY_PAUSE for parent in pending):  # they do not end by themselves
        found = [*paused, *found]
    else:
        found += paused
    return found[0], [*found[1:], *more, "" if pending else no_duties(facts)]


def _ready(facts: Facts) -> Answer:
    job = facts.job
    if job.expires_at is not None and job.expires_at <= facts.now:
        why = f"expired at {show_time(job.expires_at)}: about to be cancelled"
        return why, [no_duties(facts)]
    shut = say_shut(facts.gates, since=facts.waits_since)
    found = [*obstacles(facts), *shut, *suspicion(job, since=facts.waits_since)]
    if len(found) == len(shut) or facts.standing.ahead:
        found.append(_place(facts, found))
    first, *others = found
    return first, [*others, _room(facts)]


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
    where = f"on {holder.host}, process {holder.pid}" if holder else "on a worker that is gone"
    more = ["it was asked to end"] if job.cancel_requested else []
    change = "it ends" if job.cancel_requested else f"it ends; or: foliot jobs cancel {job.id}"
    if holder is None or not holder.live:
        change, nobody = "it is taken back", no_duties(facts)
        when = "is taken back when somebody does the scheduler's duties"
        more.append(
            f"its worker is lost: the job {when if nobody else 'is about to be taken back'}"
        )
        more.append(nobody)
    else:
        until = show_time(holder.expires_at)
        more.append(f"its lease is good until {until}, if no other beat comes")
        if waiting := not_started(job, facts.claim, holder, since=facts.waits_since):
            return waiting, [*more]
    if job.progress is not None:
        said = f": {job.progress.message}" if job.progress.message else ""
        more.append(f"last progress: {job.progress.fraction:.0%} done{said}")
    reason = Reason(f"{say_attempt(job)} runs {where}", since=job.started_at, change=change)
    return reason, [*more]


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

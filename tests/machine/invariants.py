"""What must hold in every history, by the names of the list they come from. A break names the invariant.

Each looks at one event and at what came before it. `check` walks a history; a `Checker` goes along with a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from foliot.model.job import End
from machine import ordering
from machine.content import Live
from machine.history import (
    Cancel,
    Claim,
    Count,
    Event,
    Extend,
    Finish,
    Prune,
    Reap,
    Rest,
    Retry,
    Submit,
)
from machine.naming import INVARIANTS, InvariantBroken, Named
from machine.past import Grant, Past

__all__ = ["DEADLINE_GRACE", "INVARIANTS", "Checker", "InvariantBroken", "check", "ordering"]
DEADLINE_GRACE: Final = (
    10.0  # seconds past its timeout before a job is taken from a session that lives
)


class Checker:
    """Sees a run event by event. `only` some invariants, or all."""

    def __init__(self, *only: str) -> None:
        self._past = Past()
        self._names = only or tuple(INVARIANTS)

    def see(self, event: Event) -> None:
        if isinstance(event, Prune):
            self._past.prune(event)
        elif isinstance(event, Retry):
            self._past.retry(event)
        for name in self._names:
            INVARIANTS[name](event, self._past)
        self._past.see(event)


def check(history: Iterable[Event], *only: str) -> None:
    checker = Checker(*only)
    for event in history:
        checker.see(event)


I1: Final = Named("I1 no loss")
I2: Final = Named("I2 no phantom")
I3: Final = Named("I3 one submit")
I4: Final = Named("I4 one lease")
I5: Final = Named("I5 fences rise")
I6: Final = Named("I6 fenced out")
I7: Final = Named("I7 terminal stays")
I8: Final = Named("I8 completed once")
I9: Final = Named("I9 no unexplained duplicate")
I10: Final = Named("I10 not early")
I12: Final = Named("I12 attempts bounded")
I13: Final = Named("I13 dead letters kept")
I23: Final = Named("I23 cancel")
I24: Final = Named("I24 pause")
I27: Final = Named("I27 conservation")


@I1
def no_loss(event: Event, past: Past) -> None:
    """What was acknowledged is there; at rest, what lives has a reason to."""
    told = past.acknowledged
    if isinstance(event, Submit) and event.ids is not None:
        told = told | set(event.ids)
    there = {row.id for row in event.moment.after.rows}
    for id in told - there:
        I1.expect(past.forgettable(id), f"{id} was acknowledged and is gone")
    if isinstance(event, Rest):
        for row in event.moment.after.live:
            I1.expect(_may_wait(row, event), f"{row.id} is {row.state} for ever: {row}")


@I2
def no_phantom(event: Event, past: Past) -> None:
    """What is there or runs was submitted, as it is."""
    sent = past.attempted
    if isinstance(event, Submit):
        sent = sent | {job.id: job for job in event.jobs}
    for row in event.moment.after.rows:
        I2.expect(row.id in sent, f"{row.id} was never submitted")
        I2.expect(row.payload == sent[row.id].payload, f"{row.id} has another payload")
    if isinstance(event, Claim):
        for job in event.claimed:
            I2.expect(job.id in sent, f"{job.id} runs and was never submitted")
            I2.expect(job.payload == sent[job.id].payload, f"{job.id} runs with another payload")


@I3
def one_submit(event: Event, past: Past) -> None:
    """One request, one job; one live job for a key; one answer, however often it is asked."""
    after = event.moment.after
    for id, count in Counter(row.id for row in event.moment.after.rows).items():
        I3.expect(count == 1, f"{id} is there {count} times")
    for payload, count in Counter(row.payload for row in event.moment.after.rows).items():
        I3.expect(count == 1, f"the request {payload!r} has made {count} jobs")
    sent = past.attempted
    if isinstance(event, Submit):
        sent = sent | {job.id: job for job in event.jobs}
    jobs = [(row.partition, sent[row.id]) for row in after.live if row.id in sent]
    keys = Counter((home, job.namespace, job.kind, job.key) for home, job in jobs if job.key)
    for key, count in keys.items():
        I3.expect(count == 1, f"{count} live jobs have the key {key}")
    if isinstance(event, Submit) and event.ids is not None:
        for job, id in zip(event.jobs, event.ids, strict=True):
            known = past.replies.get(job.id, id)
            I3.expect(known == id, f"{job.id} was answered with {known} and with {id}")


@I4
def one_lease(event: Event, past: Past) -> None:
    """Nobody is granted what another still has, and nothing is taken back before its time."""
    if isinstance(event, Claim):
        for id, count in Counter(job.id for job in event.claimed).items():
            I4.expect(count == 1, f"{id} was claimed {count} times at once")
            grant = past.current(id)
            if grant is not None and grant.open:
                ends = _lease_end(grant, past)
                I4.expect(
                    ends <= event.moment.at,
                    f"{id} was granted to {event.session} at {event.moment.at}, "
                    f"while {grant.session} had it until {ends}",
                )
    if isinstance(event, Reap):
        for grant in past.taken(event.moment.after):
            ends = _lease_end(grant, past)
            I4.expect(
                ends <= event.moment.at,
                f"{grant.job} was taken from {grant.session} at {event.moment.at}, "
                f"and the lease was until {ends}",
            )


@I5
def fences_rise(event: Event, past: Past) -> None:
    for row in event.moment.after.rows:
        known = past.fences.get(row.id, 0)
        I5.expect(row.fence >= known, f"{row.id} has the fence {row.fence} after {known}")
    if isinstance(event, Claim):
        for job in event.claimed:
            for grant in past.grants.get(job.id, ()):
                I5.expect(
                    job.fence > grant.fence,
                    f"{job.id} was claimed with the fence {job.fence} after {grant.fence}",
                )


@I6
def fenced_out(event: Event, past: Past) -> None:
    """Only who holds a job changes it, with the fence of that claim; a lost session writes nothing."""
    if isinstance(event, Extend) and event.extended:
        expiry = past.expiry.get(event.session)
        I6.expect(
            expiry is not None and expiry > event.moment.at,
            f"{event.session} was extended at {event.moment.at}, its lease was until {expiry}",
        )
    if isinstance(event, Finish):
        for outcome in event.outcomes:
            grant = past.current(outcome.id)
            mine = (
                grant is not None
                and not grant.end
                and (grant.fence, grant.session, grant.process)
                == (outcome.fence, event.session, event.process)
            )
            accepted = outcome.id not in event.refused
            I6.expect(
                mine == accepted,
                f"{outcome} of {event.process} was {'accepted' if accepted else 'refused'}; "
                f"the job is held by {grant}",
            )


@I7
def terminal_stays(event: Event, past: Past) -> None:
    ended = {row.id: row for row in event.moment.after.ended}
    for id, row in past.ended.items():
        if not past.forgettable(id):
            I7.expect(ended.get(id, row) == row, f"{row} became {ended.get(id)}")
    for live in event.moment.after.live:
        I7.expect(live.id not in past.ended, f"{live.id} had ended and is {live.state}")


@I8
def completed_once(event: Event, past: Past) -> None:
    for id, count in Counter(row.id for row in event.moment.after.ended).items():
        I8.expect(count == 1, f"{id} has ended {count} times")
    if isinstance(event, Finish):
        for outcome in event.accepted:
            if outcome.end in (End.SUCCEED, End.CANCEL, End.BURY):
                before = past.completions.get(outcome.id, 0)
                I8.expect(before == 0, f"{outcome} was accepted after {before} others")


@I9
def no_unexplained_duplicate(event: Event, past: Past) -> None:
    """Another attempt only after a recorded end of the last."""
    if isinstance(event, Claim):
        for job in event.claimed:
            grant = past.current(job.id)
            I9.expect(
                grant is None or not grant.open,
                f"{job.id} was claimed again and nobody recorded how {grant} ended",
            )


@I10
def not_early(event: Event, past: Past) -> None:
    if isinstance(event, Claim):
        for job in event.claimed:
            due = past.due.get(job.id, event.moment.at)
            I10.expect(due <= event.moment.at, f"{job.id}, due {due}, started {event.moment.at}")


@I12
def attempts_bounded(event: Event, past: Past) -> None:
    """Started attempts that were not lost with their session up to the maximum; losses below their limit."""
    if not isinstance(event, Claim):
        return
    for job in event.claimed:
        if job.id not in past.attempted:
            continue
        ends = Counter(grant.end for grant in past.this_life(job.id))
        started = ends.total() - ends["unstarted"] - ends["lost"] + 1
        most = past.attempted[job.id].max_attempts
        I12.expect(started <= most, f"{job.id} started {started} times, of at most {most}")
        limit = past.loss_limit
        I12.expect(
            limit is None or ends["lost"] < limit,
            f"{job.id} started again after {ends['lost']} lost sessions, of at most {limit}",
        )


@I13
def dead_letters_kept(event: Event, past: Past) -> None:
    """With every attempt that failed. So are the attempts of what lives."""
    after = event.moment.after
    dead = {row.id for row in after.dead}
    for id in past.buried:
        I13.expect(id in dead, f"{id} is no longer among the dead")
    recorded = {(row.job, row.fence) for row in after.attempts}
    for id in (*(row.id for row in after.live), *dead):
        for fence in past.failures.get(id, ()):
            I13.expect((id, fence) in recorded, f"{id} lost its attempt {fence}")


@I23
def cancel(event: Event, past: Past) -> None:
    """No attempt starts after it; what was not running has ended, what was ends with its attempt."""
    asked = past.cancelled
    if isinstance(event, Claim):
        for job in event.claimed:
            I23.expect(job.id not in asked, f"{job.id} was cancelled and started")
    if isinstance(event, Cancel):
        asked = asked | set(event.states)
    for row in event.moment.after.live:
        if row.id in asked:
            I23.expect(row.state == "running", f"{row.id} was cancelled and is {row.state}")
            I23.expect(row.cancel_requested, f"{row.id} was cancelled and does not know it")
    for ended in event.moment.after.dead:
        I23.expect(ended.id not in asked, f"{ended.id} was cancelled and is dead")


@I24
def pause(event: Event, past: Past) -> None:
    if isinstance(event, Claim):
        for job in event.claimed:
            sent = past.attempted.get(job.id)
            since = past.paused.get(sent.queue) if sent else None
            I24.expect(
                since is None or event.moment.began < since,
                f"{job.id} started in a pause of its queue",
            )


@I27
def conservation(event: Event, past: Past) -> None:
    """What was ever there is there in one state, and counted so."""
    there = {row.id for row in event.moment.after.rows}
    for id in past.born - there:
        I27.expect(past.forgettable(id), f"{id} was there and is gone")
    if isinstance(event, Count):
        counted = {str(state): count for state, count in event.counts.items() if count}
        kept = dict(Counter(row.state for row in event.moment.after.rows))
        I27.expect(counted == kept, f"counted {counted}, there are {kept}")


def _may_wait(row: Live, event: Event) -> bool:
    at, after = event.moment.at, event.moment.after
    match row.state:
        case "scheduled":
            return row.run_at > at
        case "ready":
            return row.queue in after.paused
        case "running":
            return any(s.id == row.session and s.expires_at > at for s in after.sessions)
        case "held" if row.in_line:
            return any(one.order == row.order and not one.in_line for one in after.live)
    return row.state == "held" and row.hold not in ("admission", "turn")


def _lease_end(grant: Grant, past: Past) -> datetime:
    """Whichever comes first: the end of the session's lease, or the job's own deadline."""
    ends = past.expiry.get(grant.session, grant.at)
    job = past.attempted.get(grant.job)
    if job is None or job.timeout is None:
        return ends
    return min(ends, grant.at + timedelta(seconds=job.timeout + DEADLINE_GRACE))

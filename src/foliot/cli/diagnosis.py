"""Diagnosis: what of the jobs and workers of a store is not as it should be, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from foliot.cli.output import ago
from foliot.cli.workers import remark
from foliot.model.breaker import State
from foliot.model.definition import StoredDefinition
from foliot.model.lane import Lane
from foliot.model.overview import HeldJobs, Overdue
from foliot.model.session import Session
from foliot.namesakes import find_namesakes
from foliot.shown import counted, first_of
from foliot.store.breaking import Found
from foliot.store.port import Store
from foliot.store.queueing import Queue
from foliot.store.scheduling import GRACE, MOST_LATE, MOST_SHARING, LateTrigger

_CAP: Final = 10_000
_LATE: Final = 10.0  # seconds behind its time before something is overdue
HELP: Final = "start foliot scheduler, or a worker without --no-scheduler"
_FOREVER: Final = {  # nobody but a person can help these
    "unknown_kind": "start a worker that knows the kind, or cancel them",
    "unfitting_payload": "foliot check module:app says what does not fit; change or cancel them",
}


class Finding(msgspec.Struct, frozen=True):
    verdict: str  # ok, look, bad
    what: str
    value: str
    advice: str = ""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a store's jobs and workers."""

    sessions: list[Session]
    held: list[HeldJobs]
    overdue: Overdue
    late: list[LateTrigger]
    ready: list[Lane]
    queues: list[Queue]
    breakers: list[Found]
    definitions: list[StoredDefinition]

    @property
    def workers(self) -> list[Session]:
        """Those alive that run jobs, not only the scheduler's duties."""
        return [session for session in self.sessions if session.live and session.kinds]


async def gather(store: Store) -> Facts:
    return Facts(
        sessions=await store.sessions.all(),
        held=await store.overview.held(cap=_CAP),
        overdue=await store.overview.overdue(late=_LATE, cap=_CAP),
        late=await store.schedules.overdue(seconds=GRACE),
        ready=list(dict.fromkeys(lane for _, lane in (await store.jobs.peek()).ready)),
        queues=await store.queues.all(),
        breakers=await store.breakers.all(most=_CAP),
        definitions=await store.definitions.all(),
    )


def diagnose(facts: Facts) -> Iterator[Finding]:
    yield from _duties(facts)
    yield from _sick(facts)
    yield from _held(facts)
    yield from _overdue(facts)
    yield from _late(facts)
    yield from _stranded(facts)
    yield from _paused(facts)
    yield from _breakers(facts)
    yield from _unknown(facts)
    yield from _namesakes(facts)


def _duties(facts: Facts) -> Iterator[Finding]:
    """Without any process, that is what is wrong."""
    live = [session for session in facts.sessions if session.live]
    if live and not any(session.duties for session in live):
        value = "no live process does the scheduler's duties"
        yield Finding("bad", "duties", value, f"what is not due at once waits: {HELP}")


def _sick(facts: Facts) -> Iterator[Finding]:
    for session in facts.sessions:
        name = f"{session.host}:{session.pid}"
        if session.live and session.note:
            advice = "see its log; drain it, or start it again"
            yield Finding("bad", f"worker {name}", session.note, advice)
        elif still := remark(session):
            advice = "are its jobs that long? give them timeouts, or start more workers"
            yield Finding("look", f"worker {name}", still, advice)
    lost = [session for session in facts.sessions if not session.live]
    if lost:
        names = ", ".join(f"{session.host}:{session.pid}" for session in lost)
        advice = "their jobs are taken back as soon as somebody does the scheduler's duties"
        yield Finding("look", "lost processes", names, advice)


def _held(facts: Facts) -> Iterator[Finding]:
    for held in facts.held:
        advice = _FOREVER.get(held.reason, "")
        note = f": {held.note}" if held.note else ""
        value = f"{_count(held.count)} {held.kind}{note}"
        yield Finding("bad" if advice else "ok", f"held, {held.reason}", value, advice)


def _overdue(facts: Facts) -> Iterator[Finding]:
    found = facts.overdue
    since = f", the first for {ago(found.oldest or 0)}"
    for count, what, is_, more in (
        (found.scheduled, "job", "due and not made ready", since),
        (found.past_deadline, "job", "running past the timeout", ""),
        (found.workflows, "workflow", "past the deadline", ""),
        (found.events, "event", "not told to those who listen", ""),
    ):
        if count:
            value = f"{counted(count, what, or_more=count >= _CAP)} {is_}{more}"
            yield Finding("bad", "overdue", value, f"somebody must see to that: {HELP}")


def _late(facts: Facts) -> Iterator[Finding]:
    if not facts.late:
        return
    first, count = facts.late[0], sum(trigger.size for trigger in facts.late)
    capped = len(facts.late) >= MOST_LATE or any(one.size >= MOST_SHARING for one in facts.late)
    said = "has not fired" if count == 1 else "have not fired, the first"
    value = f"{first_of(first.schedule, count - 1, or_more=capped)} {said} for {ago(first.seconds)}"
    advice = f"missed times follow each schedule's misfire rule: {HELP}"
    yield Finding("bad", "schedules overdue", value, advice)


def _stranded(facts: Facts) -> Iterator[Finding]:
    """Ready jobs that no live worker may take. Without any worker, that is what is wrong."""
    for lane in facts.ready if facts.workers else ():
        if not any(
            lane.served_by(frozenset(session.queues), frozenset(session.capabilities))
            for session in facts.workers
        ):
            needs = f" with {', '.join(lane.requires)}" if lane.requires else ""
            flags = f" --capabilities {','.join(lane.requires)}" if lane.requires else ""
            value = f"no live worker{needs} serves queue {lane.queue}"
            yield Finding(
                "bad",
                "nobody takes",
                value,
                f"start one: foliot worker --queues {lane.queue}{flags}",
            )


def _paused(facts: Facts) -> Iterator[Finding]:
    for queue in facts.queues:
        if queue.paused_at is not None:
            by = f" by {queue.paused_by}" if queue.paused_by else ""
            note = f": {queue.note}" if queue.note else ""
            advice = f"foliot queues resume {queue.name}"
            value = f"{queue.name}, {queue.paused_at:%Y-%m-%d %H:%M:%S}Z{by}{note}"
            yield Finding("look", "paused", value, advice)


def _breakers(facts: Facts) -> Iterator[Finding]:
    for found in facts.breakers:
        one = found.breaker
        if one.state is not State.CLOSED:
            why = f": {one.note or one.reason}" if one.note or one.reason else ""
            state = one.state.replace("_", " ")
            value = f"{one.name} is {state}, {_count(found.waiting)} wait{why}"
            by_hand = one.state is State.OPEN and one.until is None
            ends = "until somebody closes it:" if by_hand else "until calls succeed; or:"
            advice = f"it stays so {ends} foliot breakers close {one.name}"
            if one.state is State.RECOVERING:
                advice = "those who waited start at a rate; it closes when all have"
            yield Finding("look", "breaker", value, advice)


def _unknown(facts: Facts) -> Iterator[Finding]:
    """Kinds that were announced once and that nobody alive knows."""
    known = {kind for session in facts.workers for kind in session.kinds}
    gone = [each.kind for each in facts.definitions if each.kind not in known]
    if gone and facts.workers:
        advice = "jobs of these kinds wait until a worker knows them"
        yield Finding("look", "kinds without worker", ", ".join(gone), advice)


def _namesakes(facts: Facts) -> Iterator[Finding]:
    for told in find_namesakes(facts.sessions):
        yield Finding("look", "kinds of several apps", told, "give the functions different names")


def _count(count: int) -> str:
    return f"{count} or more" if count >= _CAP else str(count)

"""The table of a job's life, walked on each store: every verb from every state, legal or without effect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from foliot.ids import JobId, SessionId
from foliot.model.change import Change, take_over
from foliot.model.job import ClaimedJob, End, Job, JobState, More, Outcome
from foliot.model.lifecycle import TRANSITIONS, VERBS, reachable
from support.stores import World

pytestmark = pytest.mark.anyio

# What no call of the store leads to yet. Whoever adds one takes it from here, and the walk covers it.
UNREACHED_STATES = {JobState.WAITING, JobState.SKIPPED}
UNREACHED_VERBS: set[str] = set()

STATES = [state for state in JobState if state not in UNREACHED_STATES]


class Subject:
    """One job, the session that has or last had it, and what that session knows of it."""

    def __init__(self, world: World, id: JobId, session: SessionId) -> None:
        self.world = world
        self.id = id
        self.session = session

    async def outcome(self, end: End) -> None:
        """With the current fence: where it is refused, the state alone is the reason."""
        fence = (await self.world.get(self.id)).fence
        reason = "unknown_kind" if end is End.HOLD else None
        await self.world.finish(
            self.session, Outcome(self.id, fence, end, delay=5000, reason=reason)
        )

    async def reap(self, *, executing: bool = True, loss_limit: int = 100) -> None:
        self.world.clock.advance(1)
        self.world.beat(self.session, *([self.id] if executing else []))
        self.world.expire()
        await self.world.reap(self.session, loss_limit=loss_limit)

    async def flag(self) -> None:
        """Asked to end while it runs; in any other state this is `cancel` and would end it."""
        if await self.world.state(self.id) is JobState.RUNNING:
            await self.world.cancel(self.id)

    async def admit(self) -> None:
        self.world.clock.advance(10_000)
        await self.world.admit()
        await self.world.store.jobs.admit_kinds(self.world.partition, ["echo"])

    async def hold(self) -> None:
        await self.world.store.admission.hold_kinds(self.world.partition, ["other"], limit=10)

    async def pass_deadline(self) -> None:
        self.world.clock.advance(10_000)
        await self.world.reap()

    async def change(self, change: Change) -> None:
        await self.world.store.jobs.change(self.world.partition, self.id, change)

    async def retry(self) -> None:
        await self.world.store.dead.retry(self.world.partition, [self.id], record=lambda ids: [])


Act = Callable[[Subject], Awaitable[object]]


async def _flagged(subject: Subject, act: Act) -> None:
    await subject.flag()
    await act(subject)


ACTS: dict[str, dict[str, Act]] = {
    "admit": {"admit": lambda s: s.admit()},
    "hold": {"nobody knows its kind": lambda s: s.hold()},
    "cancel": {"cancel": lambda s: s.world.cancel(s.id)},
    "claim": {"claim": lambda s: s.world.claim(s.session)},
    "finish": {
        "succeed": lambda s: s.outcome(End.SUCCEED),
        "cancel": lambda s: s.outcome(End.CANCEL),
        "retry": lambda s: s.outcome(End.RETRY),
        "bury": lambda s: s.outcome(End.BURY),
        "retry, flagged": lambda s: _flagged(s, lambda s: s.outcome(End.RETRY)),
        "bury, flagged": lambda s: _flagged(s, lambda s: s.outcome(End.BURY)),
        "succeed, flagged": lambda s: _flagged(s, lambda s: s.outcome(End.SUCCEED)),
    },
    "release": {
        "release": lambda s: s.outcome(End.RELEASE),
        "hold": lambda s: s.outcome(End.HOLD),
        "release, flagged": lambda s: _flagged(s, lambda s: s.outcome(End.RELEASE)),
        "hold, flagged": lambda s: _flagged(s, lambda s: s.outcome(End.HOLD)),
    },
    "reap": {
        "executing": lambda s: s.reap(),
        "not started": lambda s: s.reap(executing=False),
        "last loss": lambda s: s.reap(loss_limit=1),
        "flagged": lambda s: _flagged(s, lambda s: s.reap()),
        "past its deadline": lambda s: s.pass_deadline(),
    },
    "retry": {"retry": lambda s: s.retry()},
    "change": {
        "priority": lambda s: s.change(Change(priority=1)),
        "to now": lambda s: s.change(Change(retime=True)),
        "to later": lambda s: s.change(Change(retime=True, delay=60)),
        "taken over": lambda s: s.change(take_over(s.world.new_job())),
        "into an order": lambda s: s.change(
            take_over(s.world.new_job(more=More(ordering_key=str(s.id))))
        ),
        "taken over and put off": lambda s: s.change(
            take_over(s.world.new_job(delay=60, key="k", key_mode="debounce"))
        ),
    },
}
# Only a retry with a backoff would lead there from reaping; the store sends what it takes back to ready.
# A retry leads to held where the job has an ordering key or its queue is served round robin: test_dead.py.
# Where jobs wait for a turn or for an earlier one, test_order.py and test_turns.py show it.
NOT_TAKEN = {
    ("running", "reap", "scheduled"),
    ("dead", "retry", "held"),
    ("scheduled", "admit", "held"),
    ("held", "admit", "scheduled"),
}


async def _bring(world: World, state: JobState) -> Subject:
    """A job in this state, by real calls; its session has claimed it once, wherever that is possible."""
    session = await world.open_session()
    if state is JobState.SCHEDULED:
        return Subject(world, await world.submit(run_at=world.after(5000)), session)
    job: ClaimedJob = await world.run(session, timeout=100)
    end = {
        JobState.HELD: End.HOLD,
        JobState.READY: End.RELEASE,
        JobState.SUCCEEDED: End.SUCCEED,
        JobState.DEAD: End.BURY,
        JobState.CANCELLED: End.CANCEL,
    }.get(state)
    if end is not None:
        await world.end(session, job, end, reason="unknown_kind" if end is End.HOLD else None)
    assert await world.state(job.id) is state
    return Subject(world, job.id, session)


def _pairs() -> list[tuple[JobState, str]]:
    return [(state, verb) for state in STATES for verb in ACTS]


@pytest.mark.parametrize(("state", "verb"), _pairs(), ids=str)
async def test_a_verb_leads_where_the_table_says_and_nowhere_else(
    world: World, state: JobState, verb: str
) -> None:
    allowed = reachable(state, verb)
    reached = set()
    for name, act in ACTS[verb].items():
        subject = await _bring(world, state)
        before = await world.get(subject.id)
        await act(subject)
        after = await world.get(subject.id)
        if allowed:
            assert after.state in allowed, f"{verb} ({name}) led from {state} to {after.state}"
            reached.add(after.state)
        else:
            if verb == "cancel":  # a running job is asked to end, and goes on
                after = msgspec.structs.replace(after, cancel_requested=before.cancel_requested)
            assert after == before, f"{verb} ({name}) changed a job that is {state}"
        await _clear(world, after)
    missed = {to for to in allowed - reached if (state, verb, to) not in NOT_TAKEN}
    assert not missed, f"{verb} never led from {state} to {missed}"


async def _clear(world: World, job: Job) -> None:
    """Out of the way of the next one, and never to be claimed in its place."""
    await world.cancel(job.id)


def test_the_walk_covers_the_whole_table() -> None:
    assert set(ACTS) == VERBS - UNREACHED_VERBS
    walked = set(_pairs())
    left = {pair for pair in TRANSITIONS if pair not in walked}
    assert {
        (s, v) for s, v in left if s not in UNREACHED_STATES and v not in UNREACHED_VERBS
    } == set()


def test_a_state_that_is_final_is_left_only_by_retry() -> None:
    for state in JobState:
        verbs = {verb for verb in VERBS if reachable(state, verb)}
        if state.final:
            assert verbs <= {"retry"}
        else:
            assert "cancel" in verbs or state is JobState.RUNNING


def test_every_state_but_the_first_is_reached_by_some_verb() -> None:
    reached = {state for states in TRANSITIONS.values() for state in states}
    assert set(JobState) - reached == {JobState.WAITING}  # only ever submitted so

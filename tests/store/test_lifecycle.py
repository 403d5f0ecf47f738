"""The table of a job's life, walked on each store: every verb from every state, legal or without effect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from foliot.ids import JobId, SessionId
from foliot.model.change import Change, take_over
from foliot.model.job import ClaimedJob, End, Job, JobState, More, Outcome
from foliot.model.lifecycle import TRANSITIONS, VERBS, reachable
from foliot.model.workflow import SIGNAL_KIND
from support.flows import Drawing
from support.stores import World

pytestmark = pytest.mark.anyio

# What only a step can be.
OF_STEPS = {JobState.WAITING, JobState.SKIPPED}


class Subject:
    """One job, the session that has or last had it, and what that session knows of it. A step has a workflow, with a
    parent and with another step that may fail."""

    def __init__(
        self, world: World, id: JobId, session: SessionId, flow: Drawing | None = None
    ) -> None:
        self.world = world
        self.id = id
        self.session = session
        self.flow = flow

    async def outcome(self, end: End) -> None:
        """With the current fence: where it is refused, the state alone is the reason."""
        fence = (await self.world.get(self.id)).fence
        reason = "unknown_kind" if end is End.HOLD else None
        await self.world.finish(
            self.session,
            Outcome(
                self.id,
                fence,
                end,
                delay=5000,
                reason=reason,
                flow=None if self.flow is None else self.flow.id,
            ),
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

    async def run_other(self, name: str, end: End, *, pause: bool = False) -> None:
        """Another step of its workflow, if it can still be run."""
        assert self.flow is not None
        if name in await self.flow.claim(queues=[f"{name}-{self.flow.id}"]):
            if pause:
                await self.pause()
            await self.flow.end(name, end)

    async def fail_other(self) -> None:
        assert self.flow is not None
        await self.run_other("bomb", End.BURY)
        while (await self.flow.advance())[0].more:
            continue

    async def retry_workflow(self) -> None:
        assert self.flow is not None
        await self.flow.store.retry(self.world.partition, self.flow.id)

    async def pause(self) -> None:
        assert self.flow is not None
        await self.flow.store.pause(self.world.partition, self.flow.id, note=None, by="me")

    async def signal(self) -> None:
        assert self.flow is not None
        await self.flow.store.signal(self.world.partition, self.flow.id, "go", b"1")


Do = Callable[[Subject], Awaitable[object]]


class Act(msgspec.Struct, frozen=True):
    """What is done to a job, or to a step, from any state or from some."""

    do: Do
    to_step: bool = False
    only: frozenset[JobState] = frozenset(JobState)


async def _flagged(subject: Subject, act: Do) -> None:
    await subject.flag()
    await act(subject)


JOBS: dict[str, dict[str, Do]] = {
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
WAITING = frozenset({JobState.WAITING})
STEPS: dict[str, dict[str, Act]] = {
    "admit": {
        "its parent ends": Act(lambda s: s.run_other("parent", End.SUCCEED), True, WAITING),
        "its parent ends in a pause": Act(
            lambda s: s.run_other("parent", End.SUCCEED, pause=True), True, WAITING
        ),
    },
    "hold": {"its workflow is paused": Act(lambda s: s.pause(), True)},
    "skip": {"another step fails": Act(lambda s: s.fail_other(), True)},
    "signal": {"signal": Act(lambda s: s.signal(), True)},
    "retry": {"with its workflow": Act(lambda s: s.retry_workflow(), True)},
}
ACTS: dict[str, dict[str, Act]] = {
    verb: {
        **{name: Act(do) for name, do in JOBS.get(verb, {}).items()},
        **STEPS.get(verb, {}),
    }
    for verb in sorted({*JOBS, *STEPS})
}
# What has an effect only on some of the jobs in a state.
WITHOUT_EFFECT = {
    ("waiting", "admit", "admit"),  # it waits for its parent, not for a time
    ("scheduled", "hold", "nobody knows its kind"),  # that is seen when it is ready
    ("held", "hold", "nobody knows its kind"),  # it is held for that already
    ("cancelled", "retry", "retry"),  # only what is dead
    ("skipped", "retry", "retry"),
}
# Only a retry with a backoff would lead there from reaping; the store sends what it takes back to ready.
# A retry leads to held where the job has an ordering key or its queue is served round robin: test_dead.py.
# Where jobs wait for a turn or for an earlier one, test_order.py and test_turns.py show it.
_TRIED = ("dead", "cancelled", "skipped")
NOT_TAKEN = {
    ("running", "reap", "scheduled"),
    ("scheduled", "admit", "held"),
    ("held", "admit", "scheduled"),
    # Where a step that is tried again has to wait once more: test_workflows_retried.py.
    *((state, "retry", to) for state in _TRIED for to in ("waiting", "held", "scheduled")),
    # A step with a delay: test_workflows.py.
    ("waiting", "admit", "scheduled"),
}


_ENDS = {
    JobState.HELD: End.HOLD,
    JobState.READY: End.RELEASE,
    JobState.SUCCEEDED: End.SUCCEED,
    JobState.DEAD: End.BURY,
    JobState.CANCELLED: End.CANCEL,
}


async def _bring(world: World, state: JobState) -> Subject:
    """A job in this state, by real calls; its session has claimed it once, wherever that is possible."""
    session = await world.open_session()
    if state is JobState.SCHEDULED:
        return Subject(world, await world.submit(run_at=world.after(5000)), session)
    job: ClaimedJob = await world.run(session, timeout=100)
    end = _ENDS.get(state)
    if end is not None:
        await world.end(session, job, end, reason="unknown_kind" if end is End.HOLD else None)
    assert await world.state(job.id) is state
    return Subject(world, job.id, session)


async def _bring_step(world: World, state: JobState, verb: str) -> Subject:
    flow = Drawing(world, await world.open_session())
    signal = "go" if state is JobState.HELD and verb == "signal" else None
    await flow.submit(
        flow.step("parent", queue=f"parent-{flow.id}"),
        flow.step("bomb", queue=f"bomb-{flow.id}"),
        flow.step(
            "it",
            "parent",
            timeout=100,
            delay=5000 if state is JobState.SCHEDULED else None,
            signal=signal,
            kind="echo" if signal is None else SIGNAL_KIND,
        ),
    )
    subject = Subject(world, flow.ids["it"], flow.session, flow)
    if state is not JobState.WAITING:
        await subject.run_other("parent", End.SUCCEED)
    if state is JobState.SKIPPED:
        await subject.fail_other()
    elif state not in (JobState.WAITING, JobState.SCHEDULED) and signal is None:
        assert await flow.claim() == {"it"}
        if state is not JobState.RUNNING:
            await subject.outcome(_ENDS[state])
    assert await world.state(subject.id) is state
    return subject


def _pairs() -> list[tuple[JobState, str]]:
    return [(state, verb) for state in JobState for verb in ACTS]


@pytest.mark.parametrize(("state", "verb"), _pairs(), ids=str)
async def test_a_verb_leads_where_the_table_says_and_nowhere_else(
    world: World, state: JobState, verb: str
) -> None:
    allowed = reachable(state, verb)
    reached = set()
    for name, act in ACTS[verb].items():
        if state not in act.only:
            continue
        step = act.to_step or state in OF_STEPS
        subject = await (_bring_step(world, state, verb) if step else _bring(world, state))
        before = await world.get(subject.id)
        await act.do(subject)
        after = await world.get(subject.id)
        if allowed and (state, verb, name) not in WITHOUT_EFFECT:
            assert after.state in allowed, f"{verb} ({name}) led from {state} to {after.state}"
            reached.add(after.state)
        else:
            if verb in ("cancel", "skip"):  # a running job is asked to end, and goes on
                after = msgspec.structs.replace(after, cancel_requested=before.cancel_requested)
            assert after == before, f"{verb} ({name}) changed a job that is {state}"
        await _clear(world, subject, after)
    missed = {to for to in allowed - reached if (state, verb, to) not in NOT_TAKEN}
    assert not missed, f"{verb} never led from {state} to {missed}"


async def _clear(world: World, subject: Subject, job: Job) -> None:
    """Out of the way of the next one, and never to be claimed in its place."""
    await world.cancel(job.id)
    if subject.flow is not None:
        await subject.flow.store.cancel(world.partition, subject.flow.id)


def test_the_walk_covers_the_whole_table() -> None:
    assert set(ACTS) == VERBS
    assert set(TRANSITIONS) <= set(_pairs())


def test_a_state_that_is_final_is_left_only_by_retry() -> None:
    for state in JobState:
        verbs = {verb for verb in VERBS if reachable(state, verb)}
        if state.final:
            assert verbs <= {"retry"}
        else:
            assert "cancel" in verbs or state is JobState.RUNNING


def test_every_state_is_reached_by_some_verb() -> None:
    assert set(JobState) == {state for states in TRANSITIONS.values() for state in states}

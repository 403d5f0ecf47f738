"""Workflows as tests of stores draw them: steps by their names, run by one session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from foliot.ids import JobId, SessionId
from foliot.model.job import ClaimedJob, End, Extras, JobState, More, Outcome
from foliot.model.workflow import Advance, NewStep, NewWorkflow, Rule, Step, Workflow
from foliot.store.port import Cycle
from support.stores import World


class Drawing:
    """One workflow in a store, and a session that runs its steps."""

    def __init__(self, world: World, session: SessionId) -> None:
        self.world = world
        self.session = session
        self.id = world.new_job().id
        self.ids: dict[str, JobId] = {}  # by name
        self.claimed: dict[str, ClaimedJob] = {}

    @property
    def store(self) -> Any:
        return self.world.store.workflows

    def step(
        self,
        name: str,
        *after: str,
        rule: Rule = Rule.ALL_SUCCEEDED,
        signal: str | None = None,
        into: Sequence[str] | None = (),
        added_by: str | None = None,
        mapped: str | None = None,
        more: More | None = None,
        **fields: Any,
    ) -> NewStep:
        """Parents and steps to go before are named; what is not a name is an id."""
        more = msgspec.structs.replace(
            more or More(),
            workflow=self.id,
            extras=Extras(step=name, parents=bool(after)),
        )
        job = self.world.new_job(more=more, **fields)
        self.ids[name] = job.id
        return NewStep(
            name=name,
            job=job,
            rule=rule,
            parents=tuple(self.ids[each] for each in after),
            into=None if into is None else tuple(self.ids[each] for each in into),
            signal=signal,
            mapped=None if mapped is None else self.ids[mapped],
            added_by=None if added_by is None else self.ids[added_by],
        )

    def workflow(self, *steps: NewStep, **fields: Any) -> NewWorkflow:
        return NewWorkflow(id=self.id, steps=steps, **{"name": "etl", **fields})

    async def submit(self, *steps: NewStep, **fields: Any) -> Drawing:
        workflow = self.workflow(*steps, **fields)
        assert await self.store.submit(self.world.partition, workflow)
        return self

    async def get(self) -> Workflow:
        found = await self.store.get(self.id)
        assert found is not None
        return found  # type: ignore[no-any-return]

    async def steps(self) -> dict[str, Step]:
        return {step.name: step for step in await self.store.steps(self.id)}

    async def states(self) -> dict[str, str]:
        """Of the steps, as those are told and as the jobs are: the same, always."""
        told = {name: step.state for name, step in (await self.steps()).items()}
        for name, id in self.ids.items():
            if name in told:
                assert await self.world.state(id) is told[name], name
        return {name: state.value for name, state in told.items()}

    async def claim(self, **fields: Any) -> set[str]:
        """The names of the steps that could be."""
        found = await self.world.claim(self.session, **fields)
        names = {id: name for name, id in self.ids.items()}
        self.claimed |= {names[job.id]: job for job in found}
        return {names[job.id] for job in found}

    def outcome(self, name: str, end: End, **fields: Any) -> Outcome:
        job = self.claimed[name]
        return Outcome(job.id, job.fence, end, **{"flow": job.flow, "order": job.order, **fields})

    async def end(self, name: str, end: End = End.SUCCEED, **fields: Any) -> Cycle:
        """Of a claimed one; must be accepted."""
        cycle = await self.world.store.jobs.finish_and_claim(
            self.world.partition, self.session, outcomes=[self.outcome(name, end, **fields)]
        )
        assert cycle.refused == []
        return cycle

    async def run(self, *names: str, end: End = End.SUCCEED, **fields: Any) -> None:
        """Claim what there is, which must be these, and end them so."""
        assert await self.claim() == set(names)
        for name in names:
            await self.end(name, end, **fields)

    async def advance(self, times: int = 1) -> list[Advance]:
        return [await self.store.advance(self.world.partition, [self.id]) for _ in range(times)]

    async def stuck(self) -> bool:
        found, _ = await self.store.find_stuck(self.world.partition, limit=10)
        assert set(found) <= {self.id}
        return bool(found)

    async def settle(self) -> None:
        """Carry on until nothing is left: as whoever ends steps does, or the duty after them."""
        while await self.stuck():
            await self.advance()


async def follow_apart(world: World) -> None:
    """A job after two others, of which the second has a slot that is far from theirs."""
    job, chain = world.new_job(), world.new_job()
    near, far = await world.submit(), world.ids.job(0)
    await world.submit(world.new_job(), msgspec.structs.replace(world.new_job(), id=far))
    await world.store.workflows.follow(
        world.partition,
        NewStep(name=job.id, job=job, parents=(near, far)),
        NewWorkflow(id=chain.id, name="chain", steps=(), policy="continue", chain=True),
    )


async def draw(world: World) -> Drawing:
    return Drawing(world, await world.open_session())


def ready(count: int, lane: int) -> tuple[tuple[int, JobState], ...]:
    return ((lane, JobState.READY),) * count

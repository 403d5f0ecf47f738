"""A schedule, and the duties that fire it, by hand."""

from __future__ import annotations

from typing import Any, cast

from foliot import schedule_commands as commands
from foliot.ids import JobId, SessionId
from foliot.model.job import NewJob
from foliot.model.lane import lane_of
from foliot.model.schedule import Answer
from foliot.schedule_commands import Draft
from foliot.scheduler.catch_up import CatchingUp
from foliot.scheduler.duty import Office
from foliot.scheduler.fire import Fire
from foliot.scheduler.partitions import AllPartitions
from support.stores import World

MINUTE = 60


class Times:
    """A schedule of every minute, and the duties that fire it, by hand."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = world.store
        self.steps = 0
        partitions = AllPartitions(
            world.store, SessionId("s"), clock=world.clock, ids=world.ids, term=5
        )
        office = Office(world.store, partitions, world.clock, world.ids)
        self._fire, self._catch_up = Fire(office), CatchingUp(office)

    async def make(
        self, name: str = "n", expression: str | None = "* * * * *", **options: Any
    ) -> None:
        job = NewJob(JobId(""), "report", b"{}", lane_of("default", ()).number)
        said = cast(Any, {"overlap": "allow", **options})
        await commands.create(self.store, [Draft(name, job, expression, said)])

    async def fire(self) -> None:
        """All that is due."""
        self._fire.see(await self.store.jobs.peek())
        await self._fire.tick()

    async def catch_up(self) -> None:
        while (peek := await self.store.jobs.peek()).missed:
            self._catch_up.see(peek)
            await self._catch_up.tick()
            self.steps += 1

    async def catch_up_once(self) -> None:
        self._catch_up.see(await self.store.jobs.peek())
        await self._catch_up.tick()

    async def pass_minutes(self, count: int) -> None:
        """Each fired at its time."""
        for _ in range(count):
            self.world.clock.advance(MINUTE)
            await self.fire()

    async def fires(self, name: str = "n", **wanted: Any) -> list[Answer]:
        return await commands.fires(self.store, name, **wanted)

    async def reasons(self, name: str = "n", **wanted: Any) -> list[str]:
        """Of each: J for a job, or why there is none."""
        answers = await self.fires(name, **wanted)
        return ["J" if one.job else str(one.reason or one.note) for one in answers]

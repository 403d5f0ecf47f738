"""Scheduler: which duties there are, started together; nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from foliot.clock import Clock
from foliot.config import Settings
from foliot.ids import Ids, SessionId
from foliot.loop import Loop
from foliot.scheduler.admit import Admit
from foliot.scheduler.breakers import Breakers
from foliot.scheduler.catch_up import CatchingUp
from foliot.scheduler.deliver import Deliver
from foliot.scheduler.duty import Office
from foliot.scheduler.fire import Fire
from foliot.scheduler.flow import Flow
from foliot.scheduler.hooks import Hooks
from foliot.scheduler.kinds import Kinds
from foliot.scheduler.limits import Limits
from foliot.scheduler.order import Orders
from foliot.scheduler.partitions import AllPartitions, Partitions
from foliot.scheduler.prune import Prune
from foliot.scheduler.reap import Reap
from foliot.scheduler.sweep import Sweep
from foliot.store.port import Peek, Store, Wake


class Scheduler:
    def __init__(
        self,
        store: Store,
        session: SessionId,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        announce: Callable[[Wake], None],
        look: Callable[[], None],
        alone: bool = False,
    ) -> None:
        kind = AllPartitions if alone else Partitions
        self.partitions = kind(store, session, clock=clock, ids=ids, term=settings.scheduler.term)
        office = Office(store, self.partitions, clock, ids, settings, announce, look)
        self.fire = Fire(office)
        self.catching_up = CatchingUp(office)
        self.admit = Admit(office)
        self.orders = Orders(office)
        self.limits = Limits(office)
        self.breakers = Breakers(office, let_go_on=self.limits.wake)
        self.flow = Flow(office)
        self.deliver = Deliver(office)
        self.hooks = Hooks(office)
        self.kinds = Kinds(office)
        self.reap = Reap(office)
        self.prune = Prune(office)
        self.sweep = Sweep(office)

    def see(self, peek: Peek) -> None:
        self.fire.see(peek)
        self.catching_up.see(peek)
        self.admit.see(peek)
        self.orders.see(peek)
        self.limits.see(peek)
        self.deliver.see(peek)
        self.flow.see(peek)
        self.breakers.see(peek)

    async def run(self) -> None:
        """Until cancelled."""
        await self.partitions.tick_safely()
        async with asyncio.TaskGroup() as group:
            for loop in self._loops():
                group.create_task(loop.run())

    async def tick(self) -> None:
        """By hand: every duty once."""
        self.limits.wake()  # it looks at all who wait
        for loop in self._loops():
            await loop.tick()

    def _loops(self) -> tuple[Loop, ...]:
        return (
            self.partitions,
            self.fire,
            self.catching_up,
            self.admit,
            self.orders,
            self.breakers,
            self.limits,
            self.flow,
            self.deliver,
            self.hooks,
            self.kinds,
            self.reap,
            self.prune,
            self.sweep,
        )

    async def stop(self) -> None:
        """Hand the partitions over at once instead of letting the leases run out."""
        await self.partitions.give_up()

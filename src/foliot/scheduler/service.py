"""Scheduler: which duties there are, started together; nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from foliot.clock import Clock
from foliot.config import Settings
from foliot.ids import Ids, SessionId
from foliot.loop import Loop
from foliot.scheduler.admit import Admit
from foliot.scheduler.catch_up import CatchingUp
from foliot.scheduler.fire import Fire
from foliot.scheduler.kinds import Kinds
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
        own = settings.scheduler
        kind = AllPartitions if alone else Partitions
        self.partitions = kind(store, session, clock=clock, ids=ids, term=own.term)
        self.admit = Admit(
            store,
            self.partitions,
            clock=clock,
            ids=ids,
            batch=own.batch,
            announce=announce,
            look=look,
        )
        self.fire = Fire(store, self.partitions, clock=clock, ids=ids, announce=announce, look=look)
        self.catching_up = CatchingUp(
            store, self.partitions, clock=clock, ids=ids, announce=announce
        )
        self.orders = Orders(
            store, self.partitions, clock=clock, ids=ids, batch=own.batch, announce=announce
        )
        self.kinds = Kinds(
            store, self.partitions, settings, clock=clock, ids=ids, announce=announce
        )
        self.reap = Reap(store, self.partitions, settings, clock=clock, ids=ids, announce=announce)
        self.prune = Prune(store, self.partitions, settings, clock=clock, ids=ids)
        self.sweep = Sweep(store, self.partitions, clock=clock, ids=ids)

    def see(self, peek: Peek) -> None:
        self.fire.see(peek)
        self.catching_up.see(peek)
        self.admit.see(peek)
        self.orders.see(peek)

    async def run(self) -> None:
        """Until cancelled."""
        await self.partitions.tick_safely()
        async with asyncio.TaskGroup() as group:
            for loop in self._loops():
                group.create_task(loop.run())

    async def tick(self) -> None:
        """By hand: every duty once."""
        for loop in self._loops():
            await loop.tick()

    def _loops(self) -> tuple[Loop, ...]:
        return (
            self.partitions,
            self.fire,
            self.catching_up,
            self.admit,
            self.orders,
            self.kinds,
            self.reap,
            self.prune,
            self.sweep,
        )

    async def stop(self) -> None:
        """Hand the partitions over at once instead of letting the leases run out."""
        await self.partitions.give_up()

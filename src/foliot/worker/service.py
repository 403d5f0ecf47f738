"""Worker: what one session claims, runs and finishes; and how it stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import msgspec

from foliot.clock import Clock
from foliot.config import Settings
from foliot.errors import StoreUnavailable
from foliot.ids import Ids, JobId, SessionId
from foliot.registry import Registry
from foliot.store.port import Peek, Store, Wake
from foliot.worker.cycle import Cycle
from foliot.worker.slots import DEFAULT_STAGE, Slots, Stage

log = logging.getLogger("foliot.worker")
_RECONCILE_EVERY = 60.0
_WEAR = 5.0  # seconds that everything must be stuck: what is only a little late comes back
_RECONCILE_AGAIN = 5.0  # a transaction whose reply was lost may still commit after the first look


class Host(msgspec.Struct, frozen=True):
    """What a worker asks of the process that it lives in."""

    trusted: Callable[[], bool]  # whether its lease still counts
    look: Callable[[], None]
    announce: Callable[[Wake], None]
    wear_out: Callable[[], None]  # jobs that never end have taken all there is to run jobs with
    stage: Stage = DEFAULT_STAGE


class Worker:
    """1. hears where there is work; 2. cycles; 3. runs jobs in its slots; 4. passes on requests to cancel;
    5. stops: claims no more, gives back what has not started, waits for the rest."""

    def __init__(
        self,
        store: Store,
        session: SessionId,
        registry: Registry,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        target: str | None,
        host: Host,
    ) -> None:
        self._store = store
        self._session = session
        self._clock = clock
        self._host = host
        self._worn_at: float | None = None
        self._cycle = Cycle(
            store,
            session,
            settings,
            clock=clock,
            ids=ids,
            trusted=host.trusted,
            look=host.look,
            announce=host.announce,
        )
        self._slots = Slots(
            registry,
            settings,
            clock=clock,
            ids=ids,
            target=target,
            trusted=host.trusted,
            on_done=self._cycle.done,
            stage=host.stage,
        )
        self._cycle.serve(self._slots)
        self._cancels = asyncio.Event()
        self._reconcile_at = clock.monotonic() + _RECONCILE_EVERY

    def executing(self) -> list[JobId]:
        """Called by the heartbeat's thread."""
        return list(self._slots.executing)

    def hear(self, wake: Wake) -> None:
        self._cycle.hear(wake)
        if wake.cancel and self._slots.holds_any:
            self._cancels.set()

    def see(self, peek: Peek) -> None:
        self._cycle.see(peek)

    def beat(self) -> None:
        """With every heartbeat: the hint to cancel may have been lost."""
        if self._slots.holds_any:
            self._cancels.set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cycle.run())
            group.create_task(self._attend())

    async def step(self) -> bool:
        """By hand: one trip or, where there is none to make, a wait for what runs. False: nothing does."""
        self._slots.look_at_the_clock()
        if await self._cycle.step():
            return True
        if not self._slots.executing:
            return False
        await self._cycle.wait()
        return True

    def look_at_the_clock(self) -> None:
        self._slots.look_at_the_clock()

    def claim_no_more(self) -> None:
        self._cycle.stop_claiming()

    async def stop(self, grace: float) -> None:
        """Leave nothing behind: what runs gets `grace` seconds to finish."""
        self._cycle.stop_claiming()
        self._slots.start_no_more()
        count = len(self._slots.executing)
        log.info("stopping: %d running jobs have %g s to finish", count, grace)
        until = self._clock.monotonic() + grace
        while self._slots.executing and self._clock.monotonic() < until:
            await self._clock.sleep(0.02)
        if self._slots.executing:
            log.warning(
                "%d jobs did not finish within the grace period", len(self._slots.executing)
            )
            self._slots.interrupt_all()
            for _ in range(50):
                if not self._slots.executing:
                    break
                await self._clock.sleep(0.02)
            self._slots.leave_behind()
        await self._cycle.flush()

    async def close(self) -> None:
        await self._slots.close()

    def abandon(self) -> None:
        """The session is lost: what it runs belongs to others. Stop it; nothing it says counts."""
        self._cycle.stop_claiming()
        self._slots.start_no_more()
        self._slots.interrupt_all()

    async def _attend(self) -> None:
        """Cancels at once, reconciliation once a minute and after a claim whose reply was lost."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._cancels.wait(), 1.0)
            try:
                await self._attend_once()
            except StoreUnavailable as error:
                log.debug("looked for nothing: %s", error)
            except Exception:
                log.exception("the worker could not look after its jobs")
                await self._clock.sleep(1.0)

    async def _attend_once(self) -> None:
        self._slots.tend()
        self._look_for_wear()
        if self._cancels.is_set():
            self._cancels.clear()
            rows = await self._store.jobs.running(self._session)
            self._slots.cancel({row.id for row in rows if row.cancel_requested})
        now = self._clock.monotonic()
        if self._cycle.uncertain or now >= self._reconcile_at:
            await self._cycle.reconcile()
            again = _RECONCILE_AGAIN if self._cycle.uncertain else _RECONCILE_EVERY
            self._cycle.uncertain = False
            self._reconcile_at = now + again

    def _look_for_wear(self) -> None:
        now = self._clock.monotonic()
        if not self._slots.worn_out:
            self._worn_at = None
        elif self._worn_at is None:
            self._worn_at = now + _WEAR
        elif now >= self._worn_at:
            self._worn_at = float("inf")  # once is enough
            self._host.wear_out()

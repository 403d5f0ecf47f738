"""The cycle of a worker: finish what is done, claim what there is room for, in one round trip; again and again.

A few round trips are under way at once. As soon as one returns, the next carries whatever has finished meanwhile
and asks for as much as there is room for: load makes the batches, an idle system answers at once. See pumps.py.

Where to claim is known from hints and looks: see lanes.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.config import Settings
from foliot.errors import StoreUnavailable
from foliot.ids import Ids, JobId, SessionId, partition_of
from foliot.model.job import ClaimedJob, End, JobState, Outcome
from foliot.model.lane import weights_of
from foliot.store.admission import Admitted
from foliot.store.port import Cycle as Landed
from foliot.store.port import Peek, Share, Store, Wake
from foliot.worker.awaited import Awaited
from foliot.worker.doubts import Doubt, Doubts
from foliot.worker.lanes import Lanes
from foliot.worker.links import Links, told
from foliot.worker.pumps import Pumps
from foliot.worker.slots import Slots
from foliot.worker.steps import Steps
from foliot.worker.tallies import Tallies
from foliot.worker.trip import Trip, Waiting, apart, fitting

log = logging.getLogger("foliot.worker")

_SUCCEED: Final = End.SUCCEED
_BATCH: Final = 500  # jobs in one claim; more only makes neighbours wait
_AHEAD: Final = 0.05  # seconds of work to have waiting here, at the rate of the last moments
_MOST_AHEAD: Final = 2000
_CHEAP: Final = 0.005  # seconds of a claim by kind that may be repeated at once
_REST: Final = 10  # times what it took before a dearer one is repeated
_LONGEST_REST: Final = 2.0  # seconds


class Cycle:
    def __init__(
        self,
        store: Store,
        session: SessionId,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        trusted: Callable[[], bool],
        look: Callable[[], None],
        announce: Callable[[Wake], None],
        kinds: Sequence[str] | None = None,  # None: any
    ) -> None:
        self._store = store
        self._session = session
        self._clock = clock
        self._ids = ids
        self._trusted = trusted
        self._look = look
        self._announce = announce
        self._poll = settings.worker.poll
        self.lanes = Lanes(weights_of(settings.worker.queues), settings.worker.capabilities, kinds)
        self._links = Links()
        self._steps = Steps(store, self._pass_on, announce)
        self._partitions = store.partitions
        self._slots: Slots | None = None
        self._outcomes: dict[int, list[Outcome]] = {}
        self._doubts = Doubts()
        self._awaited = Awaited(clock)
        self.tallies = Tallies(clock, ids)
        self._turn = self._flying = 0
        self._waiting = Waiting()
        self._claiming, self._paused = True, False
        self._settled: set[JobId] = set()  # by their own transactions, while we were paused
        self._unasked: set[JobId] = set()  # sent, and it could not be asked what became of them
        self.uncertain = False  # a claim's reply was lost: reconcile
        self._pumps = Pumps(
            settings.worker.in_flight,
            self._next_trip,
            lambda: self._next_trip(plain=True),
            self._next_doubt,
            self._make,
            clock=clock,
            ids=ids,
        )
        self._something, self._landed = self._pumps.something, asyncio.Event()
        self._asked_for = self._taken = self._prefetch = self._finished = 0
        self._measured_at = clock.monotonic()

    def serve(self, slots: Slots) -> None:
        self._slots = slots

    def done(self, outcome: Outcome) -> None:
        """An attempt has ended: its outcome goes with the next trip, unless the store knows it already."""
        link = self._links.pop(outcome.id, None) if self._links else None
        if outcome.settled:
            self._finished += 1
            self.tallies.count([outcome])
            if self._paused:
                self._settled.add(outcome.id)
            self._something.set()
            if self._awaited and (ended := self._awaited.ended([outcome])):
                self._announce(Wake(ended=ended))
            return
        if link is not None:
            outcome = told(outcome, link)
        partition = 0 if self._partitions == 1 else partition_of(outcome.id, self._partitions)
        self._outcomes.setdefault(partition, []).append(outcome)
        if link is not None and link.gates:  # who waits for them may follow in the same trip
            self.lanes.heat(partition, link.lane)
        self._something.set()

    def hear(self, wake: Wake) -> None:
        for partition, number in wake.ready:
            if not self.lanes.hear(partition, number):
                self._look()
        if wake.ready:
            self._something.set()
        if wake.awaited:
            self._awaited.add(wake.awaited)

    def see(self, peek: Peek) -> None:
        for partition, lane in peek.ready:
            self.lanes.see(partition, lane)
        if self.lanes:
            self._something.set()

    async def run(self) -> None:
        """Until cancelled."""
        await self._pumps.run()

    async def step(self) -> bool:
        """The next trip, for who drives a worker by hand. False: there was nothing to take along or to bring back."""
        self._something.clear()
        trip, taken = self._next_doubt() or self._next_trip(), self._taken
        if trip is not None:
            await self._make(trip)
        return trip is not None and bool(trip.outcomes or self._taken > taken or self.lanes)

    async def wait(self) -> None:
        """By hand as well: until something has ended, or there is news."""
        await self._something.wait()

    def stop_claiming(self) -> None:
        self._claiming = False

    async def flush(self) -> None:
        """Until every outcome that is known now has been taken by the store."""
        while self._outcomes or self._doubts or self._flying:
            self._landed.clear()
            self._something.set()
            await self._landed.wait()

    async def reconcile(self) -> None:
        """Release running rows that the store thinks are ours and we do not hold: a claim's reply was lost."""
        self._paused = True
        try:
            while self._flying:
                self._landed.clear()
                await self._landed.wait()
            rows = await self._store.jobs.running(self._session)
            # Asked afterwards: what has ended meanwhile is no longer in its slot, but its outcome is here.
            ours = {outcome.id for some in self._outcomes.values() for outcome in some}
            ours.update(self._doubts, self._settled)
            ours |= self._slots.ids() if self._slots is not None else set()
            for row in rows:
                if row.id not in ours:
                    log.warning("job %s was claimed by a lost reply: released", row.id)
                    self.done(Outcome(row.id, row.fence, End.RELEASE))
        finally:
            self._paused = False
            self._settled.clear()
            self._something.set()
            self._pumps.called.set()

    def _next_trip(self, *, plain: bool = False) -> Trip | None:
        """The next partition in turn that has outcomes to send, `plain` ones alone, or ready jobs to claim."""
        if self._paused or not (self._outcomes or self.lanes):
            return None
        room = self._room()
        self.lanes.rouse(self._clock.monotonic())
        for step in range(self._partitions):
            partition = (self._turn + step) % self._partitions
            outcomes, left = self._outcomes.pop(partition, []), list[Outcome]()
            if plain:
                outcomes, left = apart(outcomes)
            if (count := fitting(outcomes)) < len(outcomes):
                outcomes, left = outcomes[:count], outcomes[count:] + left
            if left:
                self._outcomes[partition] = left
            # What is finished here has left its slot already; what it frees is in the room.
            shares = self.lanes.shares(partition, room) if room > 0 else []
            if outcomes or shares:
                self._turn = partition + 1
                return self._trip(partition, outcomes, shares, room if shares else 0)
        return None

    def _next_doubt(self) -> Trip | None:
        if self._paused or not self._doubts:
            return None
        doubt = self._doubts.next()
        return self._trip(doubt.partition, [doubt.outcome], [], 0, doubt)

    def _trip(
        self,
        partition: int,
        outcomes: list[Outcome],
        shares: list[Share],
        room: int,
        doubt: Doubt | None = None,
    ) -> Trip:
        at = self._clock.monotonic()
        return Trip(partition, outcomes, shares, room, self.lanes.news, at, doubt)

    def _room(self) -> int:
        if not self._claiming or self._slots is None or not self._trusted():
            return 0
        self._measure()
        return min(_BATCH, self._slots.room(self._prefetch) - self._asked_for)

    async def _make(self, trip: Trip) -> bool:
        self._flying += 1
        self._asked_for += trip.room
        try:
            cycle = await self._store.jobs.finish_and_claim(
                trip.partition,
                self._session,
                outcomes=trip.outcomes,
                shares=trip.shares,
                room=trip.room,
            )
        except Exception as error:  # noqa: BLE001 - it is told of there
            await self._put_back(trip, error)
            return False
        else:
            self.tallies.count(trip.outcomes, cycle.refused)
            if self._unasked:
                cycle = await self._ask_again(trip, cycle)
            cycle, is_known = await self._look_up(trip, cycle)
        finally:
            self._flying -= 1
            self._asked_for -= trip.room
            self._landed.set()
        self._land(trip, cycle)
        if cycle.advance.more:
            await self._steps.carry_on(trip.partition, cycle.advance)
        return is_known

    async def _ask_again(self, trip: Trip, cycle: Landed) -> Landed:
        """What is refused may be what had taken effect when its reply was lost."""
        doubted = [outcome for outcome in trip.outcomes if outcome.id in self._unasked]
        self._unasked.difference_update(outcome.id for outcome in doubted)
        refused = [outcome for outcome in doubted if outcome.id in cycle.refused]
        if not refused:
            return cycle
        left = await self._unsettled(trip.partition, refused)
        if again := [outcome for outcome in left if outcome.id in self._unasked]:
            self._outcomes.setdefault(trip.partition, []).extend(again)
        late = {one.id for one in left if one.id not in self._unasked}
        known = {one.id for one in refused} - late
        return msgspec.structs.replace(cycle, refused=[i for i in cycle.refused if i not in known])

    async def _look_up(self, trip: Trip, cycle: Landed) -> tuple[Landed, bool]:
        """What steps of workflows need before they start; and what was refused because it has become one. Whether that
        is known: else what was claimed is given back, and what was refused goes again."""
        if not cycle.refused and not any(job.linked for job in cycle.claimed):
            return cycle, True
        try:
            claimed = await self._steps.with_parents(trip.partition, cycle.claimed)
            again = await self._steps.linked(trip.partition, trip.outcomes, cycle.refused)
        except Exception as error:  # noqa: BLE001 - it is told of there
            self.uncertain = True  # what is not held here is released
            left = [one for one in trip.outcomes if one.id in cycle.refused]
            await self._put_back(msgspec.structs.replace(trip, outcomes=left), error)
            return msgspec.structs.replace(cycle, claimed=[], refused=[]), False
        if again:
            self._outcomes.setdefault(trip.partition, []).extend(again)
        known = {outcome.id for outcome in again}
        refused = [id for id in cycle.refused if id not in known]
        return msgspec.structs.replace(cycle, claimed=claimed, refused=refused), True

    def _land(self, trip: Trip, cycle: Landed) -> None:
        self._finished += len(trip.outcomes)
        for id in cycle.refused:
            log.warning("job %s was not finished here: it belongs to another attempt by now", id)
        if trip.room:
            room = trip.room if cycle.room is None else cycle.room
            claimed = [job.lane for job in cycle.claimed]
            self.lanes.settle(
                trip.partition, trip.shares, room, claimed, cycle.held, began=trip.began
            )
            self._rest(trip, claimed + cycle.held)
        lanes = [Admitted(lane, state) for lane, state in cycle.advance.lanes]
        if cycle.admitted or lanes:
            self._pass_on(trip.partition, [*cycle.admitted, *lanes], claimed=bool(trip.room))
        if cycle.claimed:
            self._take(cycle.claimed, since=trip.at)
        unusual = [outcome for outcome in trip.outcomes if outcome.end is not _SUCCEED]
        waiting = cycle.rated and self._waiting.is_news(trip.partition, trip.at)
        if waiting or any(self._concerns_others(outcome) for outcome in unusual):
            self._announce(Wake(due=True))
        if self._awaited and (ended := self._awaited.ended(trip.outcomes)):
            self._announce(Wake(ended=ended))

    def _rest(self, trip: Trip, found: Sequence[int]) -> None:
        now = self._clock.monotonic()
        took = now - trip.at
        if took < _CHEAP or len(found) >= trip.room:
            return
        pause = min(_LONGEST_REST, took * _REST)
        if self.lanes.rest(trip.partition, trip.shares, found, until=now + pause):
            # A little later, so that it is over for sure.
            asyncio.get_running_loop().call_later(pause + _CHEAP, self._something.set)

    def _take(self, jobs: Sequence[ClaimedJob], *, since: float) -> None:
        # After the local deadline these are not started but released: the store is giving them to others.
        if self._slots is None:
            return
        self._taken += len(jobs)
        for job in jobs:
            if job.linked or job.gates:
                self._links.add(job)
        if strange := self.lanes.sort_out(jobs):
            log.info("%d jobs are of kinds that only others know: released", len(strange))
            for job in strange:
                self.done(Outcome(job.id, job.fence, End.RELEASE))
            left = {job.id for job in strange}
            jobs = [job for job in jobs if job.id not in left]
        try:
            self._slots.add(jobs, since=since)
        except Exception:
            log.exception("what was claimed could not all be started")

    def _pass_on(self, partition: int, admitted: Sequence[Admitted], *, claimed: bool) -> None:
        """What may run now that others have ended: here, if it was not claimed in the same trip, or elsewhere."""
        lanes = {one.lane for one in admitted if one.state is JobState.READY}
        for number in lanes:
            if self.lanes.knows(number):
                self.lanes.heat(partition, number)
        self._something.set()
        if lanes and (not claimed or not all(self.lanes.knows(number) for number in lanes)):
            self._announce(Wake(tuple((partition, number) for number in lanes)))
        if any(one.state is not JobState.READY for one in admitted):
            self._announce(Wake(due=True))

    def _concerns_others(self, outcome: Outcome) -> bool:
        """What is put off longer is found in time by those who poll."""
        if outcome.end is End.RETRY:
            return outcome.delay < 2 * self._poll
        return outcome.end in (End.RELEASE, End.HOLD)

    async def _put_back(self, trip: Trip, error: Exception) -> None:
        """What has not taken effect goes again: after an error that may be its own fault, each by itself."""
        away = error if isinstance(error, StoreUnavailable) else None
        outcomes, unknown = trip.outcomes, away is None or away.unknown
        level, trace = (logging.ERROR, error) if away is None else (logging.WARNING, None)
        log.log(level, "a trip failed, trying again: %s", error, exc_info=trace)
        if unknown and outcomes:
            outcomes = list(await self._unsettled(trip.partition, outcomes))
        if unknown and trip.room:
            self.uncertain = True
        if not outcomes:
            return
        if trip.doubt is not None and away is None:
            self._doubts.refuse(trip.doubt, error)
        elif trip.doubt is not None:
            self._doubts.put_back(trip.doubt)
        elif away is None:
            self._doubts.add(trip.partition, outcomes)
        else:
            self._outcomes.setdefault(trip.partition, [])[:0] = outcomes
        if self._doubts:
            self._pumps.called.set()

    async def _unsettled(self, partition: int, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """Those that have not taken effect, and all of them if the store does not say. The others are counted."""
        try:
            settled = await self._store.jobs.settled(partition, outcomes)
        except Exception as error:  # noqa: BLE001 - a second finish is refused, not counted twice
            log.debug("not known what has taken effect: %s", error)
            if isinstance(error, StoreUnavailable):  # what else fails would fail again
                self._unasked.update(outcome.id for outcome in outcomes)
            return outcomes
        self.tallies.count([outcome for outcome in outcomes if outcome.id in settled])
        return [outcome for outcome in outcomes if outcome.id not in settled]

    def _measure(self) -> None:
        now = self._clock.monotonic()
        elapsed = now - self._measured_at
        if elapsed >= _AHEAD:
            self._prefetch = min(_MOST_AHEAD, int(self._finished / elapsed * _AHEAD))
            self._finished, self._measured_at = 0, now

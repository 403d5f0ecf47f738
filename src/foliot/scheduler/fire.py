"""Fire: at its time, the schedules of a trigger become jobs.

Sleeps until the next trigger is due. In every round the small triggers go first, many in one transaction, two chunks of
schedules at most; of one that has more schedules than fit a chunk, one chunk follows. Whatever becomes due meanwhile
waits for three chunks at most. Any number of processes may fire the same trigger; the store lets one of them do it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from foliot.ids import mark_of
from foliot.model.job import JobState
from foliot.model.schedule import FOREVER
from foliot.scheduler.duty import Duty, Office
from foliot.scheduler.timetables import Timetables
from foliot.shown import counted, first_of, shown
from foliot.store.port import Peek, Wake
from foliot.store.scheduling import GRACE, Due, Fired, Jump, Move
from foliot.when import count_between, last_until, tzdata_version

log = logging.getLogger("foliot.scheduler")

CHUNK: Final = 2_000  # schedules in one transaction: more fire no faster, and keep workers waiting
_TRIGGERS: Final = 1_000  # that are looked at in one round
_LONGEST: Final = 60.0
_AGAIN: Final = 0.01
_STRANGE: Final = 5.0  # where only triggers are left that this process cannot read
_DELAYED: Final = (
    100  # of those that count from the end of a run, in one round: each is a transaction
)
_MOST_COUNTED: Final = 10_000  # missed times


class Fire(Duty):
    name = "fire"

    def __init__(self, office: Office) -> None:
        super().__init__(office)
        self._timetables = Timetables(office.store, office.clock)
        self._due: dict[int, float] = {}  # partition -> when, on our monotonic clock

    def see(self, peek: Peek) -> None:
        now = self.clock.monotonic()
        self._due = {partition: now + seconds for partition, seconds in peek.fire_in.items()}
        self.wake()

    async def tick(self) -> float:
        now = self.clock.monotonic()
        held = self._partitions.held
        busy = [partition for partition, at in self._due.items() if at <= now and partition in held]
        moved: set[int] = set()
        while busy:  # a round of each in turn: a herd in one does not keep the others waiting
            again = [partition for partition in busy if await self._fire(partition)]
            moved.update(again)
            busy = [partition for partition in again if partition in self._partitions.held]
        for partition in moved:
            self._due.pop(partition, None)
        if moved:
            self._look()  # what comes next is not known until somebody has looked
        now = self.clock.monotonic()
        ahead = [at - now for partition, at in self._due.items() if partition in held and at > now]
        return min([*ahead, _LONGEST])

    async def _fire(self, partition: int) -> bool:
        """One round. Whether anything has moved."""
        found = await self._store.schedules.due(partition, limit=_TRIGGERS, chunk=CHUNK)
        await self._timetables.refresh(found)
        known = [due for due in found if self._timetables.knows(due)]
        if known and await self._round(partition, known):
            return True
        # It is due on our clock and not yet on the store's, or somebody else was faster.
        pause = _STRANGE if len(known) < len(found) else _AGAIN
        self._due[partition] = self.clock.monotonic() + pause
        return False

    async def _round(self, partition: int, found: Sequence[Due]) -> bool:
        tzdata = tzdata_version()
        moves: list[Move] = []
        jumps: list[Jump] = []
        moved = 0
        for due in found:
            if due.delay is not None:
                continue
            if (jump := self._jump(due)) is not None:
                jumps.append(jump)
            else:
                moves.append(self._move(due))
        if jumps:
            await self._warn(partition, jumps, found)
            moved += await self._store.schedules.jump(partition, jumps, tzdata=tzdata)
        for batch in batches(moves):
            fired = await self._store.schedules.fire(partition, batch, tzdata=tzdata)
            moved += self._tell(partition, fired)
        for due in [due for due in found if due.delay is not None][:_DELAYED]:
            fired = await self._store.schedules.fire_delayed(partition, due.id)
            moved += self._tell(partition, fired)
        return moved > 0

    def _move(self, due: Due) -> Move:
        whole = due.upper is None
        following = self._timetables.of(due).next_after(due.nominal) if whole else None
        return Move(
            due.id,
            due.stateful,
            due.nominal,
            due.cursor,
            due.upper,
            following,
            due.count if whole else CHUNK,
        )

    def _jump(self, due: Due) -> Jump | None:
        """Of a trigger that was missed, to the first time ahead; of one that is excluded, to the next time."""
        if due.cursor is not None:
            return None
        timetable = self._timetables.of(due)
        now = int(due.now)
        if due.now - due.nominal > GRACE:
            last = last_until(timetable, now, since=due.nominal - 1) or due.nominal
            count = count_between(timetable, due.nominal - 1, last, limit=_MOST_COUNTED)
            following = timetable.next_after(now)
            return Jump(due.id, due.nominal, last, count, "missed", following or FOREVER)
        if self._timetables.excludes(due, due.nominal):
            following = timetable.next_after(due.nominal)
            return Jump(due.id, due.nominal, due.nominal, 1, "excluded", following or FOREVER)
        return None

    async def _warn(self, partition: int, jumps: Sequence[Jump], found: Sequence[Due]) -> None:
        """Once for all: after an outage there are many."""
        counts = {due.id: due.count for due in found}
        missed = {
            jump.trigger: jump.count
            for jump in jumps
            if jump.reason == "missed" and counts[jump.trigger]
        }
        late = [due for due in found if due.id in missed]
        if not late:
            return
        first = min(late, key=lambda due: due.nominal)
        name = await self._store.schedules.first_of(partition, first.id) or first.expression
        more = sum(due.count for due in late) - 1
        seconds, times = first.now - first.nominal, counted(sum(missed.values()), "time")
        if more:
            log.warning(
                "%s are late, the first by %.0f s, and have missed %s of %s",
                *(first_of(name, more), seconds, times, counted(len(late), "trigger")),
            )
        else:
            log.warning("%s is late by %.0f s and has missed %s", shown(name), seconds, times)

    def _tell(self, partition: int, fired: Fired) -> int:
        tell(self._announce, partition, fired)
        return fired.moved


def batches(moves: Iterable[Move]) -> list[list[Move]]:
    """The small ones together, a chunk full at a time; then one chunk of the first that has more."""
    small = sorted((move for move in moves if move.upper is None), key=lambda move: move.count)
    large = [move for move in moves if move.upper is not None]
    made: list[list[Move]] = []
    room = 0
    for move in small:
        if move.count > room or not made:
            made.append([])
            room = CHUNK
        made[-1].append(move)
        room -= move.count
    return [*made, *([large[0]] for _ in large[:1])]


def tell(announce: Callable[[Wake], None], partition: int, fired: Fired) -> None:
    """Workers, of what is ready; those who wait, of what was ended."""
    lanes = [*fired.advance.lanes, *((lane, state) for lane, state, _ in fired.lanes)]
    ready = {(partition, lane) for lane, state in lanes if state is JobState.READY}
    later = any(state is not JobState.READY for _, state in lanes)
    if ready or later or fired.cancelled:
        left = {state for id, state in fired.cancelled.items() if id not in fired.ended}
        announce(
            Wake(
                tuple(ready),
                due=later,
                cancel=JobState.RUNNING in left,
                ended=tuple(map(mark_of, fired.ended)),
                flows=bool(left - {JobState.RUNNING} or fired.advance.more),
            )
        )

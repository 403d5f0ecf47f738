"""The part of a store's contract that is about breakers: what became of what workers saw.

A breaker that is not closed is a limit among the rules that claims go by (limiting.py), so whoever changes its gate
changes the rules: when a call returns, no claim goes by what was before. model/breaker.py decides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from foliot.ids import home_id, partition_of, slot_of_key
from foliot.model import breaker as model
from foliot.model.breaker import BY_HAND, Breaker, Options, Report, State, Tally, events_of
from foliot.model.event import NewEvent, told_time
from foliot.model.limit import BREAKER
from foliot.store.searching import Record


class Behind(msgspec.Struct, frozen=True):
    """Who stands behind a breaker, where that is asked for."""

    waits: bool = False  # somebody does who could go on
    tries: bool = False  # somebody does: it is half open


# Of a breaker, of the time, and of who stands behind it: what follows.
Decide = Callable[[Breaker, float, Behind], Breaker]


class Shift(msgspec.Struct, frozen=True):
    """What a breaker was, and what it is now."""

    before: Breaker
    after: Breaker

    @property
    def changed(self) -> bool:
        return self.before != self.after

    @property
    def moved(self) -> bool:
        """Whether jobs are let through otherwise than before."""
        return self.before.gate != self.after.gate

    @property
    def events(self) -> tuple[str, ...]:
        """What those who listen are told; written down by whoever saves it, in the same transaction."""
        return events_of(self.before, self.after)


def events_told(shift: Shift, partitions: int) -> tuple[int, list[NewEvent]]:
    """What those who listen are told of a change, and the partition that it is kept in."""
    one = shift.after
    home = home_id(slot_of_key(BREAKER, one.name))
    until = one.until if one.state is State.OPEN else None
    # One that closes keeps why it had opened for those who look at it, but that is not why it closes.
    why = one.reason if one.state is State.OPEN or one.reason == BY_HAND else None
    data = {
        "state": one.state.value,
        "until": None if until is None else told_time(until),
        "reason": why,
        "note": one.note,
        "by": one.by,
    }
    events = [NewEvent(name=n, home=home, subject=one.name, data=data) for n in shift.events]
    return partition_of(home, partitions), events


class Ticked(msgspec.Struct, frozen=True):
    """What time alone has changed."""

    shifts: list[Shift]
    wait: float | None  # seconds until the next change; None: there is none to come


class Found(msgspec.Struct, frozen=True):
    """A breaker, and how many wait for it."""

    breaker: Breaker
    waiting: int
    at_least: bool = False  # there are more


class Breakers(Protocol):
    async def declare(self, name: str, options: Options) -> bool:
        """Whether that changed anything. What it is now stays."""
        ...

    async def report(self, name: str, report: Report) -> Shift:
        """If the reply is lost it may count twice."""
        ...

    async def open(
        self,
        name: str,
        *,
        seconds: float | None,
        note: str | None,
        by: str | None,
        record: Record | None = None,
    ) -> Shift: ...

    async def close(
        self, name: str, *, note: str | None, by: str | None, record: Record | None = None
    ) -> Shift | None:
        """None: nobody knows it."""
        ...

    async def tick(self) -> Ticked:
        """Only reads where nothing is due."""
        ...

    async def all(self, *, most: int) -> list[Found]:
        """By name; those who wait are counted up to `most`. Only reads."""
        ...


class Changing(ABC):
    """What both stores do in the same words: each change is one short transaction around a decision of the model."""

    @abstractmethod
    async def _read(self) -> tuple[float, Sequence[Breaker]]:
        """What time it is, and all there are."""

    @abstractmethod
    async def _change(
        self,
        name: str,
        decide: Decide,
        *,
        record: Record | None = None,
        make: bool = True,
        look: bool = False,
    ) -> Shift | None:
        """None: it is not there, and was not to be made. `look`: who stands behind it is asked for."""

    async def declare(self, name: str, options: Options) -> bool:
        if any(one.name == name and one.options == options for one in (await self._read())[1]):
            return False
        shift = await self._change(
            name, lambda one, *_: msgspec.structs.replace(one, options=options)
        )
        return shift is not None and shift.changed

    async def report(self, name: str, report: Report) -> Shift:
        shift = await self._change(name, lambda one, now, _: model.report(one, report, now))
        assert shift is not None
        return shift

    async def open(
        self,
        name: str,
        *,
        seconds: float | None,
        note: str | None,
        by: str | None,
        record: Record | None = None,
    ) -> Shift:
        shift = await self._change(
            name,
            lambda one, now, _: model.open_by_hand(one, now, seconds=seconds, note=note, by=by),
            record=record,
        )
        assert shift is not None
        return shift

    async def close(
        self, name: str, *, note: str | None, by: str | None, record: Record | None = None
    ) -> Shift | None:
        shift = await self._change(
            name,
            lambda one, now, _: model.close_by_hand(one, now, note=note, by=by),
            record=record,
            make=False,
        )
        if shift is None or not shift.changed:
            return shift
        # Where nobody waits it is over at once: the duty looks seldom, and meanwhile it would throttle those to come.
        ended = await self._pass_time(name)
        return shift if ended is None else Shift(shift.before, ended.after)

    async def tick(self) -> Ticked:
        now, found = await self._read()
        shifts = [await self._pass_time(one.name) for one in found if due(one, now)]
        if shifts:
            now, found = await self._read()
        moved = [shift for shift in shifts if shift is not None and shift.changed]
        return Ticked(moved, next_look(found, now))

    async def _pass_time(self, name: str) -> Shift | None:
        return await self._change(
            name,
            lambda one, now, behind: model.pass_time(
                one, now, waiting=behind.waits, trying=behind.tries
            ),
            make=False,
            look=True,
        )


class Memory(msgspec.Struct, frozen=True, array_like=True):
    """What nobody but model/breaker.py asks for; stored as JSON."""

    openings: int = 0
    successes: int = 0
    tallies: tuple[Tally, ...] = ()


_decode_memory: Final = msgspec.json.Decoder(Memory).decode
_decode_options: Final = msgspec.json.Decoder(Options).decode


def values_of(breaker: Breaker) -> dict[str, Any]:
    """What write_breaker writes: the breaker, and the limit that it is."""
    gate = breaker.gate
    memory = Memory(breaker.openings, breaker.successes, breaker.tallies)
    return {
        "name": breaker.name,
        "state": str(breaker.state),
        "since": breaker.since,
        "until": breaker.until,
        "reason": breaker.reason,
        "note": breaker.note,
        "by": breaker.by,
        "concurrency": None if gate is None else gate.concurrency,
        "rate": breaker.rate,
        "burst": 1 if gate is None else gate.burst,
        "memory": msgspec.json.encode(memory).decode(),
        "options": msgspec.json.encode(breaker.options).decode(),
    }


def breaker_of(row: Sequence[Any]) -> Breaker:
    """Of a row of read_breaker or list_breakers."""
    name, state, since, until, reason, note, by, rate, memory, options = row
    kept = _decode_memory(memory)
    return Breaker(
        name=name,
        state=State(state),
        since=since,
        until=until,
        reason=reason,
        note=note,
        by=by,
        rate=rate,
        openings=kept.openings,
        successes=kept.successes,
        tallies=kept.tallies,
        options=_decode_options(options),
    )


def tries_since(breaker: Breaker) -> float | None:
    """Since when what was claimed tries: who runs is somebody only to one that is half open."""
    return breaker.since if breaker.state is State.HALF_OPEN else None


def due(breaker: Breaker, now: float) -> bool:
    """Whether it is worth a look: while it recovers, whether anybody still waits is asked again and again."""
    timed = breaker.until is not None and breaker.until <= now
    timed |= model.is_ahead(breaker, now)
    return breaker.state is State.RECOVERING or (breaker.state is not State.CLOSED and timed)


def next_look(breakers: Sequence[Breaker], now: float) -> float | None:
    waits = [b.until - now for b in breakers if b.state is not State.CLOSED and b.until is not None]
    waits += [1.0 for b in breakers if b.state is State.RECOVERING]
    return max(0.0, min(waits)) if waits else None

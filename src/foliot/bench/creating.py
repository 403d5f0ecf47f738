"""Creating: the population, put into the store as people do it; one that was left half done is gone on with."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from foliot import schedule_commands as commands
from foliot.bench.jobs import note_fire
from foliot.bench.population import Item, Population
from foliot.bench.probe_schedules import ScheduleProbe
from foliot.bench.stage import Stage
from foliot.errors import FoliotError, UnknownSchedule
from foliot.model.schedule import Schedule
from foliot.schedule_draft import Draft
from foliot.store.open import open_store
from foliot.store.port import Store

BATCH: Final = 5_000
_TOLD: Final = 10.0  # seconds from one word about it to the next
_SAMPLES: Final = 20
T = TypeVar("T")


class Hands:
    """What people do with schedules, one thing after the other. Open while the block runs."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._runner = asyncio.Runner()
        self._store: Store | None = None

    def __enter__(self) -> Self:
        self._runner.__enter__()
        settings = self._stage.settings.store
        opening = open_store(settings, clock=self._stage.clock, ids=self._stage.ids)
        self._store = self._runner.run(opening)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._store is not None:
            self._runner.run(self._store.close())
        self._runner.__exit__(kind, error, at)

    def create(self, items: Iterable[Item]) -> None:
        drafts = [_draft(item) for item in items]
        self._run(commands.create(self._open, drafts))

    def pause(self, names: Sequence[str]) -> None:
        if names:
            self._run(commands.pause(self._open, names, note="bench"))

    def delete(self, names: Sequence[str]) -> None:
        for start in range(0, len(names), BATCH):
            self._run(commands.delete(self._open, names[start : start + BATCH]))

    def find(self, name: str) -> Schedule | None:
        try:
            return self._run(commands.get(self._open, name))
        except UnknownSchedule:
            return None

    @property
    def _open(self) -> Store:
        assert self._store is not None
        return self._store

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)


def populate(
    stage: Stage, hands: Hands, probe: ScheduleProbe, population: Population
) -> dict[str, object]:
    """All that are missing, in the order of their numbers."""
    start = _find_start(hands, population)
    if start:
        stage.say(f"{start:,} schedules are there already")
    clock, began = stage.clock.monotonic, stage.clock.monotonic()
    pausing, told = 0.0, began
    for first in range(start, population.count, BATCH):
        numbers = range(first, min(population.count, first + BATCH))
        hands.create(population.item(number) for number in numbers)
        before = clock()
        hands.pause([f"bench-{n}" for n in numbers if population.is_paused(n)])
        pausing += clock() - before
        if clock() - told > _TOLD:
            told = clock()
            rate = (numbers.stop - start) / (told - began)
            stage.say(f"{numbers.stop:,} schedules, {rate:,.0f} a second")
    made, seconds = population.count - start, clock() - began
    schedules, triggers = probe.count()
    size = probe.bytes()
    return {
        "created_per_second": round(made / seconds, 1) if made else None,
        "create": {
            "created": made,
            "seconds": round(seconds, 3),
            "pausing_seconds": round(pausing, 3),
            "schedules": schedules,
            "triggers": triggers,
            "bytes": size,
            "bytes_per_schedule": round(size / max(1, schedules)),
        },
    }


def _find_start(hands: Hands, population: Population) -> int:
    """The first number that there is none of yet, on the edge of a batch: the last one may not be whole."""
    low, high = 0, population.count
    while low < high:
        middle = (low + high) // 2
        if hands.find(f"bench-{middle}") is None:
            high = middle
        else:
            low = middle + 1
    step = max(1, low // _SAMPLES)
    for number in range(0, low, step):
        _check_same(hands, population.item(number))
    if low == population.count:
        return low
    return low - low % BATCH


def _check_same(hands: Hands, item: Item) -> None:
    found = hands.find(item.name)
    if found is None:
        raise FoliotError(f"there are schedules of a bench, and {item.name} is not among them")
    if (found.rules.expression, found.rules.timezone) != (item.expression, item.timezone):
        raise FoliotError(
            f"the schedules in this store are those of another bench: {item.name} has "
            f"{found.rules.expression!r} in {found.rules.timezone}, not {item.expression!r} in {item.timezone}",
            hint="give the --count and --own-triggers that they were made with, or use an empty store",
        )


def _draft(item: Item) -> Draft:
    prepared = note_fire.prepare(item.number)
    job = msgspec.structs.replace(prepared.template, payload=prepared.payload)
    # What becomes due while nobody fires is of no interest here.
    options = {"timezone": item.timezone, "overlap": item.overlap, "misfire": "skip"}
    return Draft(item.name, job, item.expression, options)  # type: ignore[arg-type]

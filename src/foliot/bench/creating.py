"""Creating: the population, put into the store as people do it; one that was left half done is gone on with."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from foliot import schedule_commands as commands
from foliot.bench.jobs import note_fire
from foliot.bench.population import NAMES, Item, Population
from foliot.bench.probe_schedules import ScheduleProbe
from foliot.bench.stage import Stage
from foliot.client.app import Foliot
from foliot.errors import FoliotError
from foliot.ids import schedule_id
from foliot.model.schedule import Schedule
from foliot.schedule_draft import Draft
from foliot.store.port import Store

_THREADS: Final = 2
BATCH: Final = 5_000
_TOLD: Final = 10.0  # seconds from one word about it to the next
_SAMPLES: Final = 20


class Hands:
    """What people do with schedules, from any thread."""

    def __init__(self, client: Foliot) -> None:
        self._client = client

    def create(self, items: Iterable[Item]) -> None:
        self._client.schedule_many([self._draft(item) for item in items])

    def pause(self, names: Sequence[str]) -> None:
        if names:
            self._call(partial(commands.pause, names=names, note="bench"))

    def delete(self, names: Sequence[str]) -> None:
        for start in range(0, len(names), BATCH):
            some = names[start : start + BATCH]
            self._call(partial(commands.delete, names=some))

    def find(self, name: str) -> Schedule | None:
        """Without a search for similar names where there is none."""

        async def get() -> Schedule | None:
            store = await self._client.portal.store()
            found = await store.schedules.get([schedule_id("default", name)])
            return found[0] if found else None

        return self._client.portal.call(get())

    def _draft(self, item: Item) -> Draft:
        # What becomes due while nobody fires is of no interest here.
        return self._client.draft(
            item.name,
            note_fire.prepare(item.number),
            item.expression,
            timezone=item.timezone,
            overlap=item.overlap,
            misfire="skip",
        )

    def _call(self, ask: Callable[[Store], Coroutine[Any, Any, object]]) -> None:
        async def act() -> None:
            await ask(await self._client.portal.store())

        self._client.portal.call(act())


def populate(
    stage: Stage, hands: Hands, probe: ScheduleProbe, population: Population
) -> dict[str, object]:
    """All that are missing, in the order of their numbers, from two threads: while the store is at work on one batch,
    the next is made ready."""
    start = _find_start(hands, population)
    if start:
        stage.say(f"{start:,} schedules are there already")
    clock, began = stage.clock.monotonic, stage.clock.monotonic()
    told, pausing = began, 0.0

    def make(first: int) -> float:
        numbers = range(first, min(population.count, first + BATCH))
        hands.create(population.item(number) for number in numbers)
        before = clock()
        hands.pause([f"{NAMES}{n}" for n in numbers if population.is_paused(n)])
        return clock() - before

    with ThreadPoolExecutor(_THREADS) as pool:
        under_way: deque[tuple[int, Future[float]]] = deque()
        for first in [*range(start, population.count, BATCH), *[None] * _THREADS]:
            if len(under_way) >= _THREADS or (first is None and under_way):
                done, future = under_way.popleft()
                pausing += future.result()
                if clock() - told > _TOLD:
                    told = clock()
                    rate = (done + BATCH - start) / (told - began)
                    stage.say(f"{done + BATCH:,} schedules, {rate:,.0f} a second")
            if first is not None:
                under_way.append((first, pool.submit(make, first)))
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
    """From where on there may be none, on the edge of a batch: the last ones may not be whole."""
    low, high = 0, population.count
    while low < high:
        middle = (low + high) // 2
        if hands.find(f"{NAMES}{middle}") is None:
            high = middle
        else:
            low = middle + 1
    step = max(1, low // _SAMPLES)
    for number in range(0, low, step):
        _check_same(hands, population.item(number))
    if low == population.count:
        return low
    return max(0, low - low % BATCH - _THREADS * BATCH)


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

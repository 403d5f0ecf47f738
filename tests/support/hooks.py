"""Hooks as tests of stores have them: who listens, what was written down, and what became of it."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec

from foliot.ids import JobId, home_id, partition_of, slot_of_key
from foliot.model.event import EVENTS, Event, Listener, Listens, Told
from foliot.model.job import Job, NewJob
from foliot.model.lane import lane_of
from foliot.model.limit import BREAKER
from support.stores import World

HOOKS = "hooks"


def listener(
    event: str,
    name: str = "hook",
    *,
    kinds: tuple[str, ...] = (),
    queues: tuple[str, ...] = (),
    origin: str = "shop",
) -> Listener:
    hook = f"on.{event}.{name}"
    template = NewJob(JobId(""), hook, b"", lane_of(HOOKS).number, queue=HOOKS)
    told = msgspec.json.encode(template).decode()
    return Listener(hook, Listens(event, kinds, queues), origin, told)


async def listen(world: World, *events: str, **choice: Any) -> None:
    """One hook for each of these events, or for all there are."""
    await world.store.events.listen([listener(event, **choice) for event in events or EVENTS])


async def listening(world: World) -> list[Listener]:
    """Who listens, whenever it began."""
    found = await world.store.events.listeners()
    return [msgspec.structs.replace(one, since=None) for one in found]


def breaker_here(world: World, name: str) -> str:
    """The first of this name, with a number, whose events are kept in the partition of the world."""
    names = (f"{name}{number}" for number in count())
    return next(name for name in names if _lives(name, world.store.partitions) == world.partition)


def _lives(breaker: str, partitions: int) -> int:
    return partition_of(home_id(slot_of_key(BREAKER, breaker)), partitions)


async def outbox(world: World) -> list[tuple[str, str]]:
    """What happened to whom, first first."""
    return [(row["event"], row["subject"]) for row in await outbox_rows(world)]


async def outbox_rows(world: World) -> list[dict[str, Any]]:
    found = await world.store.transfer.dump("outbox", after=None, limit=1000)
    assert {row["partition"] for row in found} <= {world.partition, 0}
    rows: list[dict[str, Any]] = [dict(row) for row in found]
    return [row | {"data": msgspec.json.decode(row["data"])} for row in rows]


async def told(world: World) -> list[Job]:
    """The jobs of hooks that wait to run, in the order of their ids."""
    records = await world.store.transfer.dump("jobs", after=None, limit=1000)
    ids: list[Any] = [one["id"] for one in records if str(one["kind"]).startswith("on.")]
    return [await world.get(id) for id in sorted(ids)]


def event_of(job: Job) -> Event:
    return msgspec.json.decode(job.payload, type=Told).event

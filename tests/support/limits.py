"""Limits as tests of stores use them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psycopg

from foliot.ids import JobId, SessionId
from foliot.limit_commands import limit_of, set_limit
from foliot.model.job import ClaimedJob, End, Extras, JobState, More
from foliot.model.lane import lane_of
from foliot.store.limiting import Standing
from foliot.store.port import Cycle, Share
from support.stores import World


async def limit(world: World, name: str, **fields: Any) -> bool:
    return await set_limit(world.store, limit_of(name, **fields), by="ops")


async def submit(world: World, key: str | None = None, **fields: Any) -> JobId:
    more = fields.pop("more", {})
    return await world.submit(more=More(extras=Extras(limit_key=key), **more), **fields)


async def submit_many(
    world: World, count: int, key: str | None = None, **fields: Any
) -> list[JobId]:
    return [await submit(world, key, **fields) for _ in range(count)]


async def trip(
    world: World,
    session: SessionId,
    *done: ClaimedJob,
    room: int = 100,
    end: End = End.SUCCEED,
    queues: Sequence[str] = ("default",),
    kinds: Sequence[str] | None = None,
) -> Cycle:
    """What a worker does: bring back what is done, and take along what there is room for."""
    given = None if kinds is None else tuple(kinds)
    return await world.store.jobs.finish_and_claim(
        world.partition,
        session,
        outcomes=[world.outcome(job, end) for job in done],
        shares=[Share(lane_of(queue), room, given) for queue in queues],
        room=room,
    )


async def tend(world: World, after: str = "") -> int:
    """How many go on."""
    return len((await world.store.limits.tend(world.partition, after, limit=100)).admitted)


async def standing(world: World, name: str) -> Standing:
    found = await world.store.limits.get(name, most=100)
    assert found is not None
    return found


async def use(world: World, name: str) -> tuple[int, int]:
    """How many run under it, which must be what is written of it, and how many wait for it."""
    found = await standing(world, name)
    assert _written(world, name) in (None, found.used)
    return found.used, found.waiting


def _written(world: World, name: str) -> int | None:
    """The counter that claims go by."""
    url = world.place.direct
    if world.place.engine == "sqlite":
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            row = file.execute("SELECT used FROM foliot_uses WHERE name = ?", (name,)).fetchone()
    else:
        with psycopg.connect(url) as link:
            found = link.execute("SELECT used FROM foliot.uses WHERE name = %s", (name,))
            row = found.fetchone()
    return None if row is None else int(row[0])


def is_counted(world: World, name: str) -> bool:
    """Whether claims go by a counter of it."""
    url = world.place.direct
    if world.place.engine == "sqlite":
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            asked = "SELECT counted FROM foliot_limits WHERE name = ?"
            return bool(file.execute(asked, (name,)).fetchone()[0])
    with psycopg.connect(url) as link:
        row = link.execute("SELECT counted FROM foliot.limits WHERE name = %s", (name,)).fetchone()
        return row is not None and bool(row[0])


async def waits_for(world: World, id: JobId) -> str | None:
    """The limit that a job is held for."""
    job = await world.get(id)
    assert job.state is not JobState.HELD or job.reason == "limit"
    return job.note if job.state is JobState.HELD else None


def ids(jobs: Sequence[ClaimedJob]) -> list[JobId]:
    return [job.id for job in jobs]

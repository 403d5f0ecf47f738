"""SQLite stores as their own tests use them: on a real clock, in a file of the test's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from foliot.clock import SystemClock
from foliot.config import StoreSettings
from foliot.ids import Ids, JobId
from foliot.model.job import NewJob
from foliot.model.lane import lane_of
from foliot.store.port import Share
from foliot.store.sqlite.store import SqliteStore, open_sqlite

IDS = Ids()
LANE = lane_of("default")
SHARES = [Share(LANE, 100)]


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


async def opened(url: str, *, create: bool = True, patience: float = 5.0) -> SqliteStore:
    settings = StoreSettings(url=url, connect_timeout=patience)
    return await open_sqlite(settings, clock=SystemClock(), ids=IDS, size=1, create=create)


@asynccontextmanager
async def a_store(url: str, *, patience: float = 5.0) -> AsyncIterator[SqliteStore]:
    store = await opened(url, patience=patience)
    try:
        yield store
    finally:
        await store.close()


def new_job(payload: bytes = b"{}") -> NewJob:
    return NewJob(IDS.job(), "echo", payload, LANE.number)


async def submit(store: SqliteStore, payload: bytes = b"{}") -> JobId:
    return (await store.jobs.submit(0, [new_job(payload)]))[0]

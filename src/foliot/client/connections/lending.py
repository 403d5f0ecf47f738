"""Submitting on a connection of the caller's: the job exists if and only if the caller's transaction commits."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from foliot import commands
from foliot.client.connections.driver import Driver, failed, has_failed
from foliot.client.connections.framework import Django, Sqlalchemy, session_of
from foliot.client.connections.plain import Asyncpg, AsyncPsycopg, Psycopg, Psycopg2, Sqlite
from foliot.client.portal import Portal
from foliot.errors import InvalidValue
from foliot.ids import JobId
from foliot.model.job import NewJob
from foliot.store.batches import MOST
from foliot.store.guest import Guest, GuestStore, Release, at_once
from foliot.store.port import Wake

_KNOWN: Final = (
    "psycopg, psycopg2, asyncpg, sqlite3, SQLAlchemy (a connection or a session) or Django"
)


class Lending:
    """For one app. Remembers which connections lead to its store."""

    def __init__(self, portal: Portal) -> None:
        self._portal = portal
        self._known: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def submit(self, connection: object, jobs: Sequence[NewJob]) -> list[JobId]:
        if _waits(connection):
            raise InvalidValue(
                "connection", connection, "is async", hint="await asubmit(…), or asubmit_many(…)"
            )
        guest = self._portal.call(self._portal.guest())
        return self._submit_at_once(guest, _driver(connection), jobs)

    async def asubmit(self, connection: object, jobs: Sequence[NewJob]) -> list[JobId]:
        if not _waits(connection):
            raise InvalidValue(
                "connection",
                connection,
                "is not async",
                hint="call submit(…), or submit_many(…): it runs on that connection, here and now",
            )
        guest = await self._portal.acall(self._portal.guest())
        if not _is_of(connection, "sqlalchemy"):
            return await self._submit(guest, _driver(connection), jobs, self._arelease)
        # SQLAlchemy's async connections lend out the blocking ones inside.
        own: Any = session_of(connection)

        def run(inside: object) -> list[JobId]:
            return self._submit_at_once(guest, Sqlalchemy(inside), jobs)

        return await own.run_sync(run)  # type: ignore[no-any-return] # it is what `run` returns

    def _submit_at_once(self, guest: Guest, driver: Driver, jobs: Sequence[NewJob]) -> list[JobId]:
        return at_once(self._submit(guest, driver, jobs, self._release))

    async def _submit(
        self, guest: Guest, driver: Driver, jobs: Sequence[NewJob], release: Release
    ) -> list[JobId]:
        if driver.engine != guest.engine:
            raise InvalidValue(
                "connection",
                driver.engine,
                f"is not the engine of the app's store, which is {guest.engine}",
            )
        driver.check()
        if len(jobs) > MOST and not driver.in_transaction:
            raise InvalidValue(
                "connection",
                problem=f"has no transaction, in which alone {len(jobs)} jobs are all stored or none",
                hint="begin one first",
            )
        try:
            store = await self._store(guest, driver, release)
            keep = self._portal.settings.retention.keys
            return await commands.submit(store, jobs, keep=keep)
        except Exception as error:
            if has_failed(error):
                raise failed() from error
            raise

    def _release(self, partition: int, jobs: Sequence[NewJob]) -> None:
        self._portal.call(self._release_keys(partition, jobs))

    async def _arelease(self, partition: int, jobs: Sequence[NewJob]) -> None:
        await self._portal.acall(self._release_keys(partition, jobs))

    async def _release_keys(self, partition: int, jobs: Sequence[NewJob]) -> None:
        await (await self._portal.store()).jobs.release_keys(partition, jobs)

    async def _store(self, guest: Guest, driver: Driver, release: Release) -> GuestStore:
        def wake(wake: Wake) -> None:
            driver.after_commit(lambda: self._portal.wake(wake))

        name = driver.known_as
        partitions = None if name is None else self._known.get(name)
        if partitions is None:
            partitions = await guest.recognise(driver.run)
            if name is not None:
                self._known[name] = partitions
        return GuestStore(guest.jobs(driver.run, partitions, release), partitions, wake)


def _driver(connection: object) -> Driver:
    for package, make in _DRIVERS.items():
        if _is_of(connection, package):
            return make(connection)
    raise _unknown(connection)


def _psycopg(connection: Any) -> Driver:
    return AsyncPsycopg(connection) if _waits(connection) else Psycopg(connection)


_DRIVERS: Final[dict[str, Callable[[Any], Driver]]] = {
    "sqlite3": Sqlite,
    "psycopg": _psycopg,
    "psycopg2": Psycopg2,
    "asyncpg": Asyncpg,
    "sqlalchemy": Sqlalchemy,
    "django": Django,
}
# What a connection of each has, and pools, engines and cursors have not.
_MARKS: Final = {
    "sqlite3": ("create_function",),
    "psycopg": ("info", "transaction"),
    "psycopg2": ("info", "cursor"),
    "asyncpg": ("fetch", "is_in_transaction"),
    "sqlalchemy": ("begin_nested",),
    "django": ("in_atomic_block",),
}


def _is_of(connection: object, package: str) -> bool:
    return any(kind.__module__.partition(".")[0] == package for kind in type(connection).__mro__)


def _waits(connection: object) -> bool:
    """Whether it is an async one. Raises for what is no connection that is known."""
    for package, marks in _MARKS.items():
        if _is_of(connection, package) and all(hasattr(connection, mark) for mark in marks):
            if package == "sqlalchemy":
                return any("asyncio" in kind.__module__ for kind in type(connection).__mro__)
            return package == "asyncpg" or hasattr(type(connection), "__aenter__")
    raise _unknown(connection)


def _unknown(connection: object) -> InvalidValue:
    kind = type(connection)
    return InvalidValue(
        "connection",
        f"{kind.__module__}.{kind.__qualname__}",
        f"is not a connection of {_KNOWN}",
        example="options(connection=conn), where conn is what you run your own statements on",
    )

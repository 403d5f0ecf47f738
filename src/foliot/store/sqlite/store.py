"""One open SQLite store: the adapters of each slice over one writer and one reader."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable

from foliot.clock import Clock
from foliot.config import Settings, StoreSettings
from foliot.errors import SchemaMissing
from foliot.ids import Ids
from foliot.store.migrate import check
from foliot.store.port import Wake
from foliot.store.sqlite.audit import SqliteAudit
from foliot.store.sqlite.breakers import SqliteBreakers
from foliot.store.sqlite.connection import Connections
from foliot.store.sqlite.dead import SqliteDead
from foliot.store.sqlite.definitions import SqliteDefinitions
from foliot.store.sqlite.events import SqliteEvents
from foliot.store.sqlite.file import File, explain
from foliot.store.sqlite.jobs import SqliteJobs
from foliot.store.sqlite.limits import SqliteLimits
from foliot.store.sqlite.listen import Ear, Listener
from foliot.store.sqlite.logs import SqliteLogs
from foliot.store.sqlite.memory import MemoryTransactions
from foliot.store.sqlite.migrations import MIGRATIONS, migrate, read_applied, read_partitions
from foliot.store.sqlite.order import SqliteAdmission
from foliot.store.sqlite.overview import SqliteOverview
from foliot.store.sqlite.rollups import SqliteRollups
from foliot.store.sqlite.schedules import SqliteCalendars, SqliteSchedules
from foliot.store.sqlite.search import SqliteSearch
from foliot.store.sqlite.sessions import SqliteLeases, SqliteSessions
from foliot.store.sqlite.transfer import SqliteTransfer
from foliot.store.sqlite.upkeep import SqliteQueues, SqliteUpkeep
from foliot.store.sqlite.workflows import SqliteWorkflows


class SqliteStore:
    def __init__(
        self, connections: Connections, clock: Clock, *, partitions: int, schema: int
    ) -> None:
        self.url = connections.file.url
        self.partitions = partitions
        self.jobs = SqliteJobs(connections, clock, partitions=partitions)
        self.admission = SqliteAdmission(connections, clock)
        self.search = SqliteSearch(connections, clock, partitions=partitions)
        self.dead = SqliteDead(connections, clock)
        self.audit = SqliteAudit(connections, clock)
        self.sessions = SqliteSessions(connections, clock, partitions=partitions)
        self.logs = SqliteLogs(connections, clock, partitions=partitions)
        self.leases = SqliteLeases(connections, clock)
        self.queues = SqliteQueues(connections, clock)
        self.definitions = SqliteDefinitions(connections, clock)
        self.schedules = SqliteSchedules(connections, clock, partitions=partitions)
        self.calendars = SqliteCalendars(connections, clock)
        self.limits = SqliteLimits(connections, clock, partitions=partitions)
        self.breakers = SqliteBreakers(connections, clock, partitions=partitions)
        self.workflows = SqliteWorkflows(connections, clock, partitions=partitions)
        self.events = SqliteEvents(connections, clock)
        self.upkeep = SqliteUpkeep(connections, clock, partitions=partitions, schema=schema)
        self.rollups = SqliteRollups(connections, clock)
        self.overview = SqliteOverview(connections, clock, partitions=partitions)
        self.transfer = SqliteTransfer(connections)
        self._connections = connections
        self._ears: list[Ear] = []
        self._listener: Listener | None = None

    @property
    def in_memory(self) -> bool:
        return self._connections.file.path is None

    def transactions(self, settings: Settings, clock: Clock) -> MemoryTransactions:
        """Of jobs, for a store in memory."""
        writer = self._connections.writer
        return MemoryTransactions(settings, writer, clock=clock, partitions=self.partitions)

    async def listen(self, hear: Callable[[Wake], None]) -> bool:
        self._ears.append(Ear(asyncio.get_running_loop(), hear))
        if self._listener is None and self._connections.file.path is not None:
            self._listener = Listener(self._connections, self._tell)
        self.upkeep.listening = True
        return True

    def wake(self, wake: Wake) -> None:
        self._tell(wake)

    async def close(self) -> None:
        if self._listener is not None:
            await asyncio.to_thread(self._listener.close)
            self._listener = None
        await self._connections.close()

    def _tell(self, wake: Wake) -> None:
        for ear in self._ears:
            ear.tell(wake)


async def open_sqlite(
    settings: StoreSettings,
    *,
    clock: Clock,
    ids: Ids,  # noqa: ARG001 - for PostgreSQL
    size: int,  # noqa: ARG001 - for PostgreSQL: here it is always one writer and one reader
    create: bool = True,
) -> SqliteStore:
    """Open the file; make or upgrade its tables first, unless `create` is off."""
    return await asyncio.to_thread(_open, settings, clock, create=create)


def _open(settings: StoreSettings, clock: Clock, *, create: bool) -> SqliteStore:
    file = File(settings.url)
    timeout = settings.connect_timeout
    create = create or file.path is None  # in memory there is never anything yet
    if not create and file.path is not None and not file.path.exists():
        raise SchemaMissing(f"there is no file {file.path}")
    connection = file.connect(timeout=timeout, create=create)
    try:
        if create:
            migrate(connection, file, timeout=timeout)
        schema = check(MIGRATIONS, read_applied(connection))
        partitions = read_partitions(connection)
        connections = Connections(file, connection, timeout=timeout)
    except sqlite3.Error as error:
        connection.close()
        raise explain(error, file) from error
    except BaseException:
        connection.close()
        raise
    return SqliteStore(connections, clock, partitions=partitions, schema=schema)

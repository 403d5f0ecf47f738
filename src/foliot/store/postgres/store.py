"""One open PostgreSQL store: the adapters of each slice over one pool."""

from __future__ import annotations

from collections.abc import Callable

from psycopg import AsyncConnection

from foliot.clock import Clock
from foliot.config import StoreSettings
from foliot.ids import Ids
from foliot.shown import redact
from foliot.store.migrate import check
from foliot.store.port import Wake
from foliot.store.postgres.audit import PostgresAudit
from foliot.store.postgres.breakers import PostgresBreakers
from foliot.store.postgres.connection import Connections
from foliot.store.postgres.dead import PostgresDead
from foliot.store.postgres.definitions import PostgresDefinitions
from foliot.store.postgres.events import PostgresEvents
from foliot.store.postgres.failures import translate
from foliot.store.postgres.jobs import PostgresJobs
from foliot.store.postgres.limits import PostgresLimits
from foliot.store.postgres.listen import Listener, Notifier
from foliot.store.postgres.logs import PostgresLogs
from foliot.store.postgres.migrations import MIGRATIONS, read_applied, read_partitions
from foliot.store.postgres.order import PostgresAdmission
from foliot.store.postgres.overview import PostgresOverview
from foliot.store.postgres.rollups import PostgresRollups
from foliot.store.postgres.schedules import PostgresCalendars, PostgresSchedules
from foliot.store.postgres.search import PostgresSearch
from foliot.store.postgres.sessions import PostgresLeases, PostgresSessions
from foliot.store.postgres.transfer import PostgresTransfer
from foliot.store.postgres.upkeep import PostgresQueues, PostgresUpkeep
from foliot.store.postgres.workflows import PostgresWorkflows


class PostgresStore:
    def __init__(
        self,
        connections: Connections,
        settings: StoreSettings,
        clock: Clock,
        ids: Ids,
        *,
        partitions: int,
        schema: int,
        key_wait: float | None = None,
    ) -> None:
        self.url = redact(settings.url)
        self.partitions = partitions
        self.jobs = PostgresJobs(connections, clock, partitions=partitions, key_wait=key_wait)
        self.admission = PostgresAdmission(connections, clock)
        self.search = PostgresSearch(connections, clock, partitions=partitions)
        self.dead = PostgresDead(connections, clock)
        self.audit = PostgresAudit(connections, clock)
        self.sessions = PostgresSessions(connections, clock, partitions=partitions)
        self.logs = PostgresLogs(connections, clock, partitions=partitions)
        self.leases = PostgresLeases(connections, clock)
        self.queues = PostgresQueues(connections, clock)
        self.definitions = PostgresDefinitions(connections, clock)
        self.schedules = PostgresSchedules(connections, clock, partitions=partitions)
        self.calendars = PostgresCalendars(connections, clock)
        self.limits = PostgresLimits(connections, clock, partitions=partitions)
        self.breakers = PostgresBreakers(connections, clock, partitions=partitions)
        self.workflows = PostgresWorkflows(connections, clock, partitions=partitions)
        self.events = PostgresEvents(connections, clock)
        self.upkeep = PostgresUpkeep(connections, clock, partitions=partitions, schema=schema)
        self.rollups = PostgresRollups(connections, clock)
        self.overview = PostgresOverview(connections, clock, partitions=partitions)
        self.transfer = PostgresTransfer(connections)
        self._connections = connections
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._notifier = Notifier(connections, clock)
        self._listener: Listener | None = None

    async def listen(self, hear: Callable[[Wake], None]) -> bool:
        # LISTEN belongs to a session, so through a pooler there is nobody to hear it: polling does.
        direct = self._settings.listen_url
        if self._connections.pooled and direct is None:
            return False
        conninfo = direct or self._connections.conninfo
        self._listener = Listener(conninfo, self._clock, self._ids, self._listening)
        await self._listener.start(hear)
        return True

    def wake(self, wake: Wake) -> None:
        self._notifier.add(wake)

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.close()
        await self._notifier.close()
        await self._connections.close()

    def _listening(self, *, connected: bool) -> None:
        self.upkeep.listening = connected


async def open_postgres(
    settings: StoreSettings, *, clock: Clock, ids: Ids, size: int, key_wait: float | None = None
) -> PostgresStore:
    connections = Connections(
        settings.url, size=size, timeout=settings.connect_timeout, clock=clock, ids=ids
    )
    with translate(connections.conninfo):
        async with await AsyncConnection.connect(
            connections.conninfo, autocommit=True, prepare_threshold=None
        ) as connection:
            schema = check(MIGRATIONS, await read_applied(connection))
            partitions = await read_partitions(connection)
    await connections.open(pooler=settings.pooler)
    return PostgresStore(
        connections,
        settings,
        clock,
        ids,
        partitions=partitions,
        schema=schema,
        key_wait=key_wait,
    )

"""Opening a store by its URL. The one place that knows the adapters."""

from __future__ import annotations

from foliot.clock import Clock
from foliot.config import Settings, StoreSettings
from foliot.errors import InvalidValue
from foliot.ids import Ids
from foliot.store.guest import Guest
from foliot.store.migrate import Migration, Schema
from foliot.store.port import Store
from foliot.store.transaction import Transactions


async def open_store(
    settings: StoreSettings,
    *,
    clock: Clock,
    ids: Ids,
    size: int | None = None,
    create: bool = True,
    key_wait: float | None = None,
) -> Store:
    """`size` is the number of connections, by default what the settings say. A store in a file that is not there
    is made, unless `create` is off. A key that a transaction of others holds is waited for `key_wait` seconds, then
    submitting raises KeyHeld; without it, until that ends."""
    count = settings.pool if size is None else size
    if _is_sqlite(settings.url):
        from foliot.store.sqlite.store import open_sqlite

        return await open_sqlite(settings, clock=clock, ids=ids, size=count, create=create)
    from foliot.store.postgres.store import open_postgres

    return await open_postgres(settings, clock=clock, ids=ids, size=count, key_wait=key_wait)


async def open_guest(settings: StoreSettings, *, clock: Clock) -> Guest:
    """The store as it is found behind connections of others."""
    if _is_sqlite(settings.url):
        from foliot.store.sqlite.guest import SqliteGuest

        return SqliteGuest(settings, clock)
    from foliot.store.postgres.guest import open_guest as open_postgres_guest

    return await open_postgres_guest(settings, clock=clock)


def make_transactions(
    settings: Settings, *, clock: Clock, store: Store | None = None
) -> Transactions:
    """For jobs' functions in this process. Nothing is connected before the first of them begins. A store in memory is
    found only through itself."""
    if _is_sqlite(settings.store.url):
        from foliot.store.sqlite.store import SqliteStore
        from foliot.store.sqlite.transaction import SqliteTransactions

        if isinstance(store, SqliteStore) and store.in_memory:
            return store.transactions(settings, clock)
        return SqliteTransactions(settings, clock=clock)
    from foliot.store.postgres.transaction import PostgresTransactions

    return PostgresTransactions(settings, clock=clock)


async def upgrade_store(settings: StoreSettings, *, partitions: int = 1) -> list[Migration]:
    """Make or upgrade the schema. Returns what was applied; safe to run twice at once."""
    if _is_sqlite(settings.url):
        from foliot.store.sqlite.migrations import upgrade as upgrade_sqlite

        return await upgrade_sqlite(settings.url, partitions=partitions)
    from foliot.store.postgres.migrations import upgrade as upgrade_postgres

    return await upgrade_postgres(
        settings.url, partitions=partitions, timeout=settings.connect_timeout
    )


async def read_schema(settings: StoreSettings) -> Schema:
    """What the store has, without touching it."""
    if _is_sqlite(settings.url):
        from foliot.store.sqlite.migrations import read_schema as read_sqlite

        return await read_sqlite(settings.url)
    from foliot.store.postgres.migrations import read_schema as read_postgres

    return await read_postgres(settings.url, timeout=settings.connect_timeout)


async def schema_script(settings: StoreSettings) -> str:
    """The SQL that `upgrade_store` would run."""
    if _is_sqlite(settings.url):
        from foliot.store.sqlite.migrations import read_script as script_sqlite

        return await script_sqlite(settings.url)
    from foliot.store.postgres.migrations import read_script as script_postgres

    return await script_postgres(settings.url, timeout=settings.connect_timeout)


def _is_sqlite(url: str) -> bool:
    scheme = url.partition(":")[0]
    if scheme not in ("sqlite", "postgresql", "postgres"):
        raise InvalidValue(
            "url",
            url,
            "is neither SQLite nor PostgreSQL",
            example="postgresql://user:secret@host/db",
        )
    return scheme == "sqlite"

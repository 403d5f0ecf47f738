"""Making and upgrading the schema in PostgreSQL: one transaction under a lock, to be killed or run twice at will."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from typing import Any, Final

from psycopg import AsyncConnection

from foliot.errors import InvalidValue
from foliot.store.migrate import Migration, Schema, load_migrations, pending, read
from foliot.store.postgres.connection import to_conninfo
from foliot.store.postgres.failures import translate
from foliot.store.postgres.upkeep import ahead, attach_day

MIGRATIONS: Final = load_migrations("foliot.store.postgres")
_LOCK: Final = 0x666F6C696F74  # "foliot"
_SCHEMA: Final = "CREATE SCHEMA IF NOT EXISTS foliot;"
_LEDGER: Final = """
CREATE TABLE IF NOT EXISTS foliot.migrations (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
"""
_ABOUT: Final = """
-- A new store has one partition. For more, say 32, write instead of the last INSERT, before anything is submitted:
--   INSERT INTO foliot.leases (partition) SELECT generate_series(0, 31);
-- The days of foliot.history are made by workers and schedulers as they run, a week ahead; until then what has ended
-- is kept in foliot.history_default. They need CREATE on the schema foliot and must own foliot.history.
"""


async def upgrade(url: str, *, partitions: int = 1, timeout: float = 5) -> list[Migration]:
    """Apply what is missing; a new schema gets `partitions`. Returns what was applied."""
    async with _connect(url, timeout) as connection:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise InvalidValue(
                "store.url",
                url,
                f"is a database whose encoding is {encoding} and not UTF8",
                example="CREATE DATABASE foliot TEMPLATE template0 ENCODING 'UTF8'",
            )
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        applied = await read_applied(connection)
        if not applied:
            await _prepare(connection)
        missing = pending(MIGRATIONS, applied)
        for migration in missing:
            await connection.execute(migration.text)
            await connection.execute(
                "INSERT INTO foliot.migrations (number, name, checksum) VALUES (%s, %s, %s)",
                [migration.number, migration.name, migration.checksum],
            )
        if not applied:
            await _furnish(connection, partitions)
        return missing


async def read_applied(connection: AsyncConnection[Any]) -> dict[int, str]:
    """Number and checksum of what has been applied; nothing where there is no schema."""
    row = await (await connection.execute("SELECT to_regclass('foliot.migrations')")).fetchone()
    if row is None or row[0] is None:
        return {}
    found = await connection.execute(
        "SELECT number, checksum FROM foliot.migrations ORDER BY number"
    )
    return dict(await found.fetchall())


async def read_partitions(connection: AsyncConnection[Any]) -> int:
    row = await (await connection.execute("SELECT count(*) FROM foliot.leases")).fetchone()
    return int(row[0]) if row else 0


async def read_schema(url: str, *, timeout: float) -> Schema:
    async with _connect(url, timeout) as connection:
        applied = await read_applied(connection)
        partitions = await read_partitions(connection) if applied else None
        return read(MIGRATIONS, applied, partitions)


async def read_script(url: str, *, timeout: float) -> str:
    async with _connect(url, timeout) as connection:
        return script(await read_applied(connection))


@asynccontextmanager
async def _connect(url: str, timeout: float) -> AsyncIterator[AsyncConnection[Any]]:
    conninfo = to_conninfo(url, timeout=timeout)
    with translate(conninfo):
        async with await AsyncConnection.connect(conninfo, prepare_threshold=None) as connection:
            yield connection


def script(applied: dict[int, str]) -> str:
    """What `upgrade` would run, for those who apply SQL by other means."""
    parts = [f"{_SCHEMA}\n{_LEDGER.strip()}"]
    for migration in pending(MIGRATIONS, applied):
        parts.append(f"-- {migration.number:04} {migration.name}\n{migration.text.strip()}")
        parts.append(
            "INSERT INTO foliot.migrations (number, name, checksum)\n"
            f"VALUES ({migration.number}, '{migration.name}', '{migration.checksum}');"
        )
    if not applied:
        parts.append("INSERT INTO foliot.leases (partition) VALUES (0);")
    about = "" if applied else _ABOUT.lstrip()
    return f"{about}BEGIN;\n\n" + "\n\n".join(parts) + "\n\nCOMMIT;\n"


async def _prepare(connection: AsyncConnection[Any]) -> None:
    # Even where there is one, to make it "if not exists" takes a right on the whole database.
    row = await (await connection.execute("SELECT to_regnamespace('foliot')")).fetchone()
    if row is None or row[0] is None:
        await connection.execute(_SCHEMA)
    await connection.execute(_LEDGER)


async def _furnish(connection: AsyncConnection[Any], partitions: int) -> None:
    await connection.execute(
        "INSERT INTO foliot.leases (partition) SELECT generate_series(0, %s - 1)", [partitions]
    )
    row = await (await connection.execute("SELECT now()")).fetchone()
    assert row is not None
    for day in ahead(row[0].astimezone(UTC).date()):
        for statement in attach_day(day):
            await connection.execute(statement)

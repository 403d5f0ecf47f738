"""Making and upgrading the schema in SQLite: one transaction, while nobody else writes, to be killed or run twice."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from sqlite3 import Connection
from typing import Final

from foliot.store.migrate import Migration, Schema, load_migrations, pending, read
from foliot.store.sqlite.file import File, begin, explain, impatient, roll_back

MIGRATIONS: Final = load_migrations("foliot.store.sqlite")
_LEDGER: Final = """
CREATE TABLE IF NOT EXISTS foliot_migrations (
    number     INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    checksum   TEXT NOT NULL,
    applied_at INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000)
);
"""
_ABOUT: Final = """
-- A new store has one partition. For more, insert their numbers as well, before anything is submitted:
--   INSERT INTO foliot_leases (partition) VALUES (0), (1), (2), (3);
"""


async def upgrade(url: str, *, partitions: int = 1, timeout: float = 5) -> list[Migration]:
    """Apply what is missing; a new schema gets `partitions`. Returns what was applied."""

    def run() -> list[Migration]:
        file = File(url)
        connection = file.connect(timeout=timeout, create=True)
        try:
            return migrate(connection, file, partitions=partitions, timeout=timeout)
        finally:
            connection.close()

    return await asyncio.to_thread(run)


def migrate(
    connection: Connection, file: File, *, partitions: int = 1, timeout: float = 5
) -> list[Migration]:
    """The same on an open connection."""
    try:
        if not pending(MIGRATIONS, read_applied(connection)):
            return []
        begin(impatient(connection), timeout)
        try:
            missing = _apply(connection, partitions)
            connection.execute("COMMIT")
        except BaseException:
            roll_back(connection)
            raise
    except sqlite3.Error as error:
        raise explain(error, file) from error
    return missing


def read_applied(connection: Connection) -> dict[int, str]:
    """Number and checksum of what has been applied; nothing where there is no schema."""
    ledger = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'foliot_migrations'"
    )
    if ledger.fetchone() is None:
        return {}
    found = connection.execute("SELECT number, checksum FROM foliot_migrations ORDER BY number")
    return dict(found.fetchall())


def read_partitions(connection: Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM foliot_leases").fetchone()[0])


async def read_schema(url: str) -> Schema:
    applied, partitions = await asyncio.to_thread(_read, File(url))
    return read(MIGRATIONS, applied, partitions)


async def read_script(url: str) -> str:
    applied, _ = await asyncio.to_thread(_read, File(url))
    return script(applied)


def script(applied: dict[int, str]) -> str:
    """What `upgrade` would run, for those who apply SQL by other means."""
    parts = [_LEDGER.strip()]
    for migration in pending(MIGRATIONS, applied):
        parts.append(f"-- {migration.number:04} {migration.name}\n{migration.text.strip()}")
        parts.append(
            "INSERT INTO foliot_migrations (number, name, checksum)\n"
            f"VALUES ({migration.number}, '{migration.name}', '{migration.checksum}');"
        )
    if not applied:
        parts.append("INSERT INTO foliot_leases (partition) VALUES (0);")
    about = "" if applied else _ABOUT.lstrip()
    return f"{about}BEGIN IMMEDIATE;\n\n" + "\n\n".join(parts) + "\n\nCOMMIT;\n"


def _read(file: File) -> tuple[dict[int, str], int | None]:
    """What has been applied, and how many partitions there are, without touching the file or making one."""
    if file.path is None or not file.path.exists():
        return {}, None
    try:
        connection = file.connect_to_read()
        try:
            applied = read_applied(connection)
            return applied, read_partitions(connection) if applied else None
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise explain(error, file) from error


def _apply(connection: Connection, partitions: int) -> list[Migration]:
    connection.execute(_LEDGER)
    # Again, now that nobody else can write: another process may have been faster.
    applied = read_applied(connection)
    missing = pending(MIGRATIONS, applied)
    for migration in missing:
        for statement in _statements(migration.text):
            connection.execute(statement)
        connection.execute(
            "INSERT INTO foliot_migrations (number, name, checksum) VALUES (?, ?, ?)",
            [migration.number, migration.name, migration.checksum],
        )
    if not applied:
        connection.executemany(
            "INSERT INTO foliot_leases (partition) VALUES (?)", [[p] for p in range(partitions)]
        )
    return missing


def _statements(text: str) -> Iterator[str]:
    """One by one: the driver's own way to run a script commits first."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement

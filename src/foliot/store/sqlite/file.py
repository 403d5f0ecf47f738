"""The file of a store: its URL, its connections, and what its errors mean.

A file that is deleted or replaced while it is open stays writable, but nobody will ever read what is written:
`File.check` notices.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path
from typing import Final
from urllib.parse import quote

from foliot.errors import FoliotError, InvalidValue, SchemaMissing, StoreUnavailable
from foliot.ids import fire_id, fire_jitter

OLDEST: Final = (3, 35, 0)
_EXAMPLE: Final = "sqlite:///foliot.db, or sqlite:////var/lib/foliot/foliot.db for a full path"
_SLICE: Final = 0.002  # seconds that one try to write waits for others
_PRAGMAS: Final = (
    "synchronous = FULL",
    "fullfsync = 1",  # where the system has a weaker default
    "temp_store = MEMORY",
    "cache_size = -32768",
    "wal_autocheckpoint = 4000",
    "journal_size_limit = 67108864",
)
_UNAVAILABLE: Final = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
}


class File:
    """Where a store is kept; no path: in memory, for one process."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.path = parse_url(url)
        self._identity: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return ":memory:" if self.path is None else str(self.path)

    def connect(self, *, timeout: float, create: bool = False) -> sqlite3.Connection:
        """A connection that waits up to `timeout` for others. One at a time may use it, from any thread."""
        check_version()
        try:
            connection = self._connect(create=create)
        except sqlite3.Error as error:
            raise explain(error, self) from error
        try:
            connection.execute(f"PRAGMA busy_timeout = {max(1, round(timeout * 1000))}")
            connection.execute("SELECT json_array()")
            self._use_wal(connection, timeout)
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            connection.create_function("fire_id", 2, fire_id, deterministic=True)
            connection.create_function("fire_jitter", 3, fire_jitter, deterministic=True)
            self._identify()
        except sqlite3.Error as error:
            connection.close()
            raise explain(error, self) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def connect_to_read(self) -> sqlite3.Connection:
        """Changes nothing, not even the kind of journal."""
        check_version()
        return sqlite3.connect(f"file:{quote(self.name)}?mode=ro", uri=True)

    def check(self, *, unknown: bool = False) -> None:
        """Refuse to go on with a file that is no longer the one that was opened."""
        if self.path is None:
            return
        try:
            status = os.stat(self.path)  # noqa: PTH116 - a third of the price, on every call
        except OSError as error:
            raise StoreUnavailable(
                f"SQLite: the file {self.path} was opened and is gone: {error.strerror}",
                unknown=unknown,
                hint="put it back, or restart to begin with a new one",
            ) from error
        if (status.st_dev, status.st_ino) != self._identity:
            raise StoreUnavailable(
                f"SQLite: the file {self.path} was replaced while it was open",
                unknown=unknown,
                hint="restart to use the new one; what was written to the old one is only there",
            )

    def _connect(self, *, create: bool) -> sqlite3.Connection:
        if self.path is None:
            return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        if create:
            self._check_place(self.path)
        mode = "rwc" if create else "rw"
        return sqlite3.connect(
            f"file:{quote(str(self.path))}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )

    def _check_place(self, path: Path) -> None:
        folder = path.parent
        if not folder.is_dir():
            problem = f"is in a directory that does not exist: {folder}"
            hint = f"create it with: mkdir -p {folder}"
            raise InvalidValue("store.url", self.url, problem, example=_EXAMPLE, hint=hint)
        if path.is_dir():
            problem = "is a directory, not a file"
            raise InvalidValue("store.url", self.url, problem, example=_EXAMPLE)
        # The directory as well: the journal is a file of its own next to this one.
        for place in (folder, path):
            if place.exists() and not os.access(place, os.R_OK | os.W_OK):
                problem = f"cannot be used: this process may not write to {place}"
                raise InvalidValue("store.url", self.url, problem, example=_EXAMPLE)

    def _use_wal(self, connection: sqlite3.Connection, timeout: float) -> None:
        """Several processes may open a new file at once, and this one step does not wait by itself."""
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        tries = _tries(timeout)
        while mode not in ("wal", "memory"):
            try:
                mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                break
            except sqlite3.OperationalError as error:
                tries -= 1
                if not is_busy(error) or tries <= 0:
                    raise
                threading.Event().wait(_SLICE)
        if mode not in ("wal", "memory"):
            problem = f"is on a file system without shared memory: journal mode {mode}, not wal"
            raise InvalidValue("store.url", self.url, problem, hint="use a local disk")

    def _identify(self) -> None:
        if self.path is None:
            return
        if self._identity is None:
            status = self.path.stat()
            self._identity = (status.st_dev, status.st_ino)
        self.check()


def parse_url(url: str) -> Path | None:
    """The full path of the file; None for a store in memory."""
    scheme, _, rest = url.partition("://")
    if scheme != "sqlite":
        raise InvalidValue("store.url", url, "does not begin with sqlite://", example=_EXAMPLE)
    if rest in (":memory:", "/:memory:"):
        return None
    if not rest.startswith("/"):
        problem = "has no path: the file comes after three slashes"
        raise InvalidValue("store.url", url, problem, example=_EXAMPLE)
    if rest == "/" or rest.endswith("/") or "\0" in rest:
        raise InvalidValue("store.url", url, "does not name a file", example=_EXAMPLE)
    if "?" in rest or "#" in rest:
        raise InvalidValue("store.url", url, "has options, and there are none", example=_EXAMPLE)
    return Path(rest[1:]).absolute()


def check_version() -> None:
    if sqlite3.sqlite_version_info < OLDEST:
        raise InvalidValue(
            "store.url",
            f"SQLite {sqlite3.sqlite_version}",
            "is older than version 3.35, the oldest supported",
            hint="use a newer Python, or PostgreSQL",
        )


def begin(connection: sqlite3.Connection, timeout: float) -> None:
    """Begin to write. SQLite itself waits longer and longer between its looks, and starves behind a busy process."""
    for left in range(_tries(timeout), 0, -1):
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or left == 1:
                raise


def impatient(connection: sqlite3.Connection) -> sqlite3.Connection:
    """For `begin`, which does the waiting itself, in slices."""
    connection.execute(f"PRAGMA busy_timeout = {round(_SLICE * 1000)}")
    return connection


def roll_back(connection: sqlite3.Connection) -> None:
    """Whatever has happened, the connection is fit for the next transaction."""
    if connection.in_transaction:
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            # SQLite has rolled back by itself; there is nothing left to do.
            return


def is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def explain(error: sqlite3.Error, file: File, *, unknown: bool = False) -> Exception:
    """The error that callers know; an error of our own making stays what it is."""
    code = _code(error)
    if is_busy(error):
        return StoreUnavailable(
            f"SQLite: {file.name} is locked: another process has been writing to it for too long",
            unknown=unknown,
        )
    if code in _UNAVAILABLE:
        return StoreUnavailable(f"SQLite: {file.name}: {error}", unknown=unknown)
    if code == sqlite3.SQLITE_NOTADB:
        return InvalidValue(
            "store.url", file.url, "is a file, but not an SQLite database", example=_EXAMPLE
        )
    if code == sqlite3.SQLITE_CORRUPT:
        return FoliotError(
            f"the file {file.name} is damaged: {error}",
            hint="stop every process that uses it and restore a backup, or save what is left "
            f"with: sqlite3 {file.name} .recover",
        )
    if str(error).startswith("no such table: foliot_"):
        return SchemaMissing()
    if str(error).startswith("no such function: json"):
        return InvalidValue(
            "store.url",
            file.url,
            "needs an SQLite with JSON",
            hint="use a newer Python, or PostgreSQL",
        )
    return error


def _code(error: sqlite3.Error) -> int:
    """The kind of an error, without its variety. Errors of the driver itself have none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _tries(timeout: float) -> int:
    return max(1, round(timeout / _SLICE))

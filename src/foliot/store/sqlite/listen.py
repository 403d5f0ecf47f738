"""Wake-ups. Within a process hints go straight to who listens; across processes, a thread looks whether the file has
changed. They are hints: polling is the truth."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from sqlite3 import Connection
from typing import Final

from foliot.errors import FoliotError
from foliot.store.port import Wake, together
from foliot.store.sqlite.connection import Connections, Request

_PAUSE: Final = 0.002  # seconds between two looks at the file
_RECONNECT: Final = 1.0  # seconds before another try, when looking has failed
_CHANGED: Final = Wake(
    due=True, cancel=True, changed=True
)  # what a change of the file says: look for yourself

log = logging.getLogger("foliot.store")


class Ear:
    """One who listens. What is said faster than it hears is said together."""

    def __init__(self, loop: asyncio.AbstractEventLoop, hear: Callable[[Wake], None]) -> None:
        self._loop = loop
        self._hear = hear
        self._lock = threading.Lock()
        self._pending: Wake | None = None

    def tell(self, wake: Wake) -> None:
        with self._lock:
            first = self._pending is None
            self._pending = wake if self._pending is None else together(self._pending, wake)
        if first:
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                log.debug("a wake-up came after its event loop was closed")

    def _deliver(self) -> None:
        with self._lock:
            wake, self._pending = self._pending, None
        if wake is not None:
            self._hear(wake)


class Listener:
    """Looks at the file for changes by other processes.

    `PRAGMA data_version` on a connection changes with every commit of another connection, be it of this process. So
    a look of the listener's own connection says that something was committed, and one of the writer's, which its own
    commits do not change, says that it was somebody else.
    """

    def __init__(self, connections: Connections, tell: Callable[[Wake], None]) -> None:
        self._connections = connections
        self._tell = tell
        self._known: int | None = None  # the version as the writer's connection last saw it
        self._stop = threading.Lock()
        self._stop.acquire()
        self._thread = threading.Thread(target=self._watch, name="foliot-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.release()
        self._thread.join()

    def _watch(self) -> None:
        pause = 0.0
        while not self._stop.acquire(timeout=pause):
            try:
                connection = self._connections.file.connect(timeout=self._connections.timeout)
                try:
                    self._watch_file(connection)
                    return
                finally:
                    connection.close()
            except (FoliotError, sqlite3.Error, OSError) as error:
                log.info(
                    "looking for changes of the store failed and will be tried again: %s", error
                )
                pause = _RECONNECT

    def _watch_file(self, connection: Connection) -> None:
        seen: int | None = None
        while True:
            version = _version(connection)
            if version != seen:
                seen = version
                self._ask_writer()
            if self._stop.acquire(timeout=_PAUSE):
                return

    def _ask_writer(self) -> None:
        future: Future[bool] = Future()
        future.add_done_callback(self._answered)
        self._connections.writer.put(Request(self._compare, look=self._compare, future=future))

    def _compare(self, connection: Connection) -> bool:
        """On the writer's connection: whether somebody else has committed since the last time."""
        known, self._known = self._known, _version(connection)
        return self._known != known

    def _answered(self, future: Future[bool]) -> None:
        if future.exception() is not None or future.result():
            self._tell(_CHANGED)


def _version(connection: Connection) -> int:
    return int(connection.execute("PRAGMA data_version").fetchone()[0])

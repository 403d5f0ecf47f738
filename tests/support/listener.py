"""A port of this machine, served by an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, Self, TypeVar
from urllib.parse import quote

T = TypeVar("T")


class Listener(ABC):
    """A port of 127.0.0.1, served by an event loop in a thread of its own.

    The target is a host, or the directory of a unix socket.
    """

    def __init__(self, target_host: str, target_port: int, *, user: str = "postgres") -> None:
        self.target = (target_host, target_port)
        self.user = user
        # Bound and never listening: connections are refused when nothing else listens, and nobody
        # else can take the port meanwhile.
        self._reservation = _bound(0)
        self.port: int = self._reservation.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._reservation.close()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{self.user}@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def refuse(self, refused: bool) -> None:
        """Refuse new connections, or accept them again. Those that are open stay."""
        self._call(self._close_listening() if refused else self._listen())

    @abstractmethod
    async def _serve(self, listening: socket.socket) -> asyncio.Server: ...

    @abstractmethod
    def _drop_connections(self) -> int: ...

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await self._serve(_bound(self.port))

    async def _close_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _finish(self) -> None:
        await self._close_listening()
        # What was accepted last becomes a connection: the loop's own task for it would leave its socket open if it were
        # cancelled.
        await asyncio.sleep(0.01)
        self._drop_connections()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


def _bound(port: int) -> socket.socket:
    result = socket.socket()
    result.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    result.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    result.bind(("127.0.0.1", port))
    return result

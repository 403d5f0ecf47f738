"""Relay: stands between a worker and PostgreSQL and counts the statements that pass. It changes nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

_PORT = 5432
_RUNS = b"QE"  # the messages that run a statement: Query, and Execute of a prepared one


class StatementCount:
    """Reads one client's side of the protocol, however it is cut into pieces."""

    def __init__(self) -> None:
        self.statements = 0
        self._unread = b""
        self._started = False

    def read(self, data: bytes) -> None:
        self._unread += data
        while True:
            # The first message has no type: its length comes first.
            head = 1 if self._started else 0
            if len(self._unread) < head + 4:
                return
            length = head + int.from_bytes(self._unread[head : head + 4], "big")
            if len(self._unread) < length:
                return
            if self._started and self._unread[0] in _RUNS:
                self.statements += 1
            self._started = True
            self._unread = self._unread[length:]


class Relay:
    """Runs while the block runs. `url` leads through it."""

    def __init__(self, url: str, directory: Path) -> None:
        with psycopg.connect(url) as connection:
            self._host, self._port = connection.info.host, connection.info.port
        given = {**conninfo_to_dict(url), "host": str(directory), "port": _PORT}
        given |= {"sslmode": "disable", "gssencmode": "disable"}
        given.pop("hostaddr", None)
        self.url = "postgresql:///?" + urlencode(given, quote_via=quote)
        self._path = directory / f".s.PGSQL.{_PORT}"
        self._counts: list[StatementCount] = []
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def statements(self) -> int:
        return sum(count.statements for count in self._counts)

    def __enter__(self) -> Self:
        listener = socket.socket(socket.AF_UNIX)
        self._sockets.append(listener)
        listener.bind(str(self._path))
        listener.listen()
        self._start(self._accept, listener)
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # whoever waits for it is woken
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server, count = self._connect(), StatementCount()
            self._sockets += (client, server)
            self._counts.append(count)
            self._start(_pass, client, server, count)
            self._start(_pass, server, client, None)

    def _connect(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return server

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()


def _pass(source: socket.socket, sink: socket.socket, count: StatementCount | None) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            if count is not None:
                count.read(data)
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)

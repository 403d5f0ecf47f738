"""A small pooler in transaction mode, meaner than the real ones: no session state survives."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from collections import deque
from typing import cast

from support.listener import Listener
from support.wire import GSS_REQUEST, SSL_REQUEST, Exchange, take_messages, take_startup

PROTOCOL = 3 << 16


class RotatingPooler(Listener):
    """Lends a client a server connection for one transaction, each time another one.

    `backends` are kept for each user and database, and never reset. Like real poolers in this mode
    it knows no prepared statements, no LISTEN and no start-up options, and tells clients a made-up
    process id. Unlike them it ignores requests to cancel.
    """

    def __init__(
        self, target_host: str, target_port: int, *, backends: int = 3, user: str = "postgres"
    ) -> None:
        super().__init__(target_host, target_port, user=user)
        self.backends = backends
        self.transactions = 0
        self.most_open = 0  # server connections of one pool at once
        self.clients: set[_Client] = set()
        self._pools: dict[tuple[str, str], _Pool] = {}
        self._pids = itertools.count(1_000_000_007)

    async def _serve(self, listening: socket.socket) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: _Client(self), sock=listening)

    def _drop_connections(self) -> int:
        dropped = list(self.clients)
        for client in dropped:
            client.transport.abort()
        for pool in self._pools.values():
            pool.close()
        return len(dropped)

    def pool(self, user: str, database: str) -> _Pool:
        if (user, database) not in self._pools:
            self._pools[user, database] = _Pool(self, user, database)
        return self._pools[user, database]

    def new_pid(self) -> int:
        return next(self._pids)


class _Pool:
    """The server connections of one user to one database."""

    def __init__(self, pooler: RotatingPooler, user: str, database: str) -> None:
        self.pooler = pooler
        self.user = user
        self.database = database
        self.parameters: bytes | None = None  # what a server said at the last login
        self._all: set[_Backend] = set()
        self._free: deque[_Backend] = deque()
        self._waiting: deque[_Client] = deque()  # for a backend
        self._arriving: list[_Client] = []  # for the first login
        self._opening = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def lend(self, client: _Client) -> None:
        """Link the client to a server connection, now or as soon as there is one."""
        others = [backend for backend in self._free if backend is not client.last]
        if len(self._all) + self._opening < self.pooler.backends:
            self._open(client)
        elif self._free:
            backend = (others or self._free)[0]
            self._free.remove(backend)
            client.link(backend)
        else:
            self._waiting.append(client)

    def give_back(self, backend: _Backend) -> None:
        if not self._waiting:
            self._free.append(backend)
            return
        others = [client for client in self._waiting if client.last is not backend]
        client = (others or self._waiting)[0]
        self._waiting.remove(client)
        client.link(backend)

    def greet(self, client: _Client) -> None:
        """Answer a login, after one of our own if there was none yet."""
        if self.parameters is not None:
            client.greet(self.parameters)
            return
        self._arriving.append(client)
        if len(self._arriving) == 1:
            self._open(None)

    def _open(self, borrower: _Client | None) -> None:
        self._opening += 1
        task = asyncio.ensure_future(self._finish_opening(borrower))
        self._tasks.add(task)  # the loop itself keeps no hold of it
        task.add_done_callback(self._tasks.discard)

    async def _finish_opening(self, borrower: _Client | None) -> None:
        arriving: list[_Client] = self._arriving if borrower is None else []
        try:
            backend = await self._login()
        except (OSError, _Refused) as error:
            self._opening -= 1
            reason = error.message if isinstance(error, _Refused) else _fatal("08006", error)
            for client in [borrower] if borrower else arriving:
                client.refuse(reason)
            arriving.clear()
            self._serve_next()
            return
        self._opening -= 1
        self._all.add(backend)
        self.pooler.most_open = max(self.pooler.most_open, len(self._all))
        self.parameters = backend.parameters
        for client in arriving:
            client.greet(self.parameters)
        arriving.clear()
        if borrower is None or borrower.gone:
            self.give_back(backend)
        else:
            borrower.link(backend)

    async def _login(self) -> _Backend:
        host, port = self.pooler.target
        loop = asyncio.get_running_loop()
        backend = _Backend(self)
        if host.startswith("/"):
            await loop.create_unix_connection(lambda: backend, f"{host}/.s.PGSQL.{port}")
        else:
            await loop.create_connection(lambda: backend, host, port)
        await backend.ready
        return backend

    def lost(self, backend: _Backend) -> None:
        self._all.discard(backend)
        if backend in self._free:
            self._free.remove(backend)
        self._serve_next()

    def _serve_next(self) -> None:
        if self._waiting:
            self.lend(self._waiting.popleft())

    def left(self, client: _Client) -> None:
        if client in self._waiting:
            self._waiting.remove(client)

    def close(self) -> None:
        for backend in self._all:
            backend.transport.abort()


class _Client(asyncio.Protocol):
    """A client of the pooler."""

    transport: asyncio.Transport

    def __init__(self, pooler: RotatingPooler) -> None:
        self.greeted = False
        self.gone = False
        self.exchange = Exchange()
        self.last: _Backend | None = None  # the connection of its last transaction
        self._pooler = pooler
        self._pool: _Pool | None = None
        self._backend: _Backend | None = None
        self._buffer = bytearray()
        self._unsent: list[bytes] = []  # asked, and no backend yet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._pooler.clients.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.gone = True
        self._pooler.clients.discard(self)
        if self._pool is not None:
            self._pool.left(self)
        if self._backend is not None:
            self._backend.transport.abort()  # in the middle of a transaction: nobody may have it

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self.greeted:
            self._ask()
        elif self._pool is None:
            self._start()

    def greet(self, parameters: bytes) -> None:
        self.greeted = True
        key = struct.pack("!II", self._pooler.new_pid(), 0)
        ready = _message(b"Z", b"I")
        self.transport.write(_message(b"R", b"\0\0\0\0") + parameters + _message(b"K", key) + ready)

    def refuse(self, message: bytes) -> None:
        self.transport.write(message)
        self.transport.close()

    def link(self, backend: _Backend) -> None:
        self._backend, backend.client = backend, self
        backend.transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def unlink(self) -> None:
        self.last, self._backend = self._backend, None
        self.transport.resume_reading()

    def _start(self) -> None:
        first = take_startup(self._buffer)
        if first is None:
            return
        code, message = first
        if code in (SSL_REQUEST, GSS_REQUEST):
            self.transport.write(b"N")
            self._start()
            return
        if code >> 16 != PROTOCOL >> 16:  # a request to cancel
            self.transport.close()
            return
        words = message[8:].decode().split("\0")
        parameters = dict(zip(words[::2], words[1::2], strict=False))
        if "options" in parameters:
            self.refuse(_fatal("08P01", "unsupported startup parameter: options"))
            return
        if code != PROTOCOL:
            self.transport.write(_message(b"v", struct.pack("!II", PROTOCOL, 0)))
        user = parameters["user"]
        self._pool = self._pooler.pool(user, parameters.get("database", user))
        self._pool.greet(self)

    def _ask(self) -> None:
        messages = take_messages(self._buffer)
        if not messages or self._pool is None:
            return
        if messages[-1][0] == "X":
            messages.pop()
            self.transport.close()
        needs_backend = self._backend is None and not self._unsent
        for kind, message in messages:
            self.exchange.asks(kind, message)
        requests = [message for _, message in messages]
        if self._backend is not None:
            self._backend.transport.write(b"".join(requests))
            return
        self._unsent += requests
        if needs_backend and requests:
            self._pool.lend(self)

    def pause_writing(self) -> None:
        if self._backend is not None:
            self._backend.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._backend is not None:
            self._backend.transport.resume_reading()


class _Backend(asyncio.Protocol):
    """A server connection of the pooler."""

    transport: asyncio.Transport

    def __init__(self, pool: _Pool) -> None:
        self.client: _Client | None = None
        self.parameters = b""
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pool = pool
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        words = ["user", self._pool.user, "database", self._pool.database, "", ""]
        body = struct.pack("!I", PROTOCOL) + "\0".join(words).encode()
        self.transport.write(struct.pack("!I", len(body) + 4) + body)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(ConnectionError("the server closed the connection"))
        self._pool.lost(self)
        if self.client is not None:
            self.client.transport.close()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        messages = take_messages(self._buffer)
        if not self.ready.done():
            self._login(messages)
        elif self.client is not None and messages:
            self._answer(self.client, messages)
        # Else nobody's transaction is open: notifications, and errors as the server goes away.

    def _login(self, messages: list[tuple[str, bytes]]) -> None:
        for kind, message in messages:
            if kind == "S":
                self.parameters += message
            elif kind == "E" or (kind == "R" and any(message[5:9])):
                refusal = message if kind == "E" else _fatal("28000", "only `trust` is supported")
                self.ready.set_exception(_Refused(refusal))
                self.transport.abort()
                return
            elif kind == "Z":
                self.ready.set_result(None)

    def _answer(self, client: _Client, messages: list[tuple[str, bytes]]) -> None:
        for kind, message in messages:
            client.exchange.answers(kind, message)
        client.transport.write(b"".join(message for _, message in messages))
        if client.exchange.idle:
            self._pool.pooler.transactions += 1
            client.unlink()
            self.client = None
            self.transport.resume_reading()
            self._pool.give_back(self)

    def pause_writing(self) -> None:
        if self.client is not None:
            self.client.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.client is not None:
            self.client.transport.resume_reading()


class _Refused(Exception):
    def __init__(self, message: bytes) -> None:
        super().__init__(message)
        self.message = message


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def _fatal(code: str, text: object) -> bytes:
    fields = f"SFATAL\0VFATAL\0C{code}\0M{text}\0\0"
    return _message(b"E", fields.encode())

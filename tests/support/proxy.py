"""A proxy that loses PostgreSQL connections on command, at the worst moment above all."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

from support.listener import Listener
from support.pooler import RotatingPooler
from support.wire import GSS_REQUEST, SSL_REQUEST, Exchange, take_messages

__all__ = ["CuttingProxy", "RotatingPooler"]

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class CuttingProxy(Listener):
    """Forwards between clients and the server until told otherwise.

    `cuts` counts the connections it has cut, and `cut` is set at each of them (clear it yourself).
    """

    def __init__(self, target_host: str, target_port: int, *, user: str = "postgres") -> None:
        super().__init__(target_host, target_port, user=user)
        self.cuts = 0
        self.cut = threading.Event()
        self._links: set[_Link] = set()
        self.latency = 0.0
        self.flowing = asyncio.Event()
        self.flowing.set()
        self._commits_to_cut = 0
        self._containing = ""

    @property
    def connections(self) -> int:
        return len(self._links)

    def cut_all(self) -> int:
        """Reset every connection, on both sides, now; how many there were."""

        async def work() -> int:
            return self._drop_connections()

        return self._call(work())

    def stall(self, stalled: bool) -> None:
        """Forward nothing in either direction, closes neither: a half-open connection."""
        self._loop.call_soon_threadsafe(self.flowing.clear if stalled else self.flowing.set)

    def delay(self, seconds: float) -> None:
        """Forward everything that arrives from now on this much later; a round trip pays twice."""
        self.latency = seconds

    def cut_after_commit(self, n: int = 1, *, containing: str = "") -> None:
        """Cut the next n connections that commit, after the commit and before its reply.

        A commit is the statement COMMIT, in whatever form it is sent. With `containing`, only
        transactions count in which a statement with these words succeeded, and those count even if
        they are a single statement that commits by itself.
        """
        self.cut.clear()
        self._containing = containing
        self._commits_to_cut = n

    async def _serve(self, listening: socket.socket) -> asyncio.Server:
        return await asyncio.start_server(self._accept, sock=listening)

    def _drop_connections(self) -> int:
        links = list(self._links)
        for link in links:
            link.reset()
        self._count(len(links))
        return len(links)

    def _count(self, cuts: int) -> None:
        self.cuts += cuts
        if cuts:
            self.cut.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self.target
        with suppress(OSError, asyncio.IncompleteReadError):
            startup = await _read_startup(reader, writer)
            if host.startswith("/"):
                server = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
            else:
                server = await asyncio.open_connection(host, port)
            link = _Link(self, (reader, writer), server)
            self._links.add(link)
            try:
                server[1].write(startup)
                await link.run()
            finally:
                self._links.discard(link)
                writer.close()
        writer.close()

    def commit_is_to_be_cut(self, exchange: Exchange, kind: str, message: bytes) -> bool:
        """Called with each of the server's answers, before the exchange takes notice of it."""
        if not self._commits_to_cut:
            return False
        explicit = kind == "C" and message[5:-1] == b"COMMIT"
        if self._containing:
            alone = kind == "Z" and message[5:6] == b"I" and not exchange.failed
            words = self._containing.lower()
            if not (explicit or alone) or not any(words in text.lower() for text in exchange.ran):
                return False
        elif not explicit:
            return False
        self._commits_to_cut -= 1
        self._count(1)
        return True


class _Link:
    """One client of the CuttingProxy and its server connection."""

    def __init__(self, proxy: CuttingProxy, client: Streams, server: Streams) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._exchange = Exchange()
        self._from_client = bytearray()
        self._from_server = bytearray()

    async def run(self) -> None:
        client, server = self._client, self._server
        pumps = [
            asyncio.ensure_future(self._pump(client[0], server[1], self._see_requests)),
            asyncio.ensure_future(self._pump(server[0], client[1], self._see_answers)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:  # also when the proxy ends before its clients
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            server[1].close()

    def reset(self) -> None:
        for _, writer in (self._client, self._server):
            with suppress(OSError):
                linger = struct.pack("ii", 1, 0)  # to be closed by RST, not in an orderly way
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, linger
                )
            writer.transport.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        see: Callable[[bytes], bytes | None],
    ) -> None:
        arrived: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        reading = asyncio.ensure_future(self._read(reader, arrived))
        try:
            with suppress(OSError):
                while True:
                    due, data = await arrived.get()
                    await asyncio.sleep(due - asyncio.get_running_loop().time())
                    await self._proxy.flowing.wait()
                    passed = see(data)
                    if not data or passed is None:
                        return
                    writer.write(passed)
                    await writer.drain()
        finally:
            reading.cancel()

    async def _read(
        self, reader: asyncio.StreamReader, arrived: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        data = b"?"
        while data:
            try:
                data = await reader.read(65536)
            except OSError:
                data = b""
            due = asyncio.get_running_loop().time() + self._proxy.latency
            arrived.put_nowait((due, data))

    def _see_requests(self, data: bytes) -> bytes:
        self._from_client += data
        for kind, each in take_messages(self._from_client):
            self._exchange.asks(kind, each)
        return data

    def _see_answers(self, data: bytes) -> bytes | None:
        self._from_server += data
        for kind, each in take_messages(self._from_server):
            if self._proxy.commit_is_to_be_cut(self._exchange, kind, each):
                self.reset()
                return None
            self._exchange.answers(kind, each)
        return data


async def _read_startup(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    while True:
        size = await reader.readexactly(4)
        body = await reader.readexactly(int.from_bytes(size) - 4)
        if int.from_bytes(body[:4]) not in (SSL_REQUEST, GSS_REQUEST):
            return size + body
        writer.write(b"N")

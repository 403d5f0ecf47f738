"""Wake-ups by LISTEN and NOTIFY. They are hints: throttled, outside every transaction, and never needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, Protocol

import msgspec
import psycopg
from psycopg import AsyncConnection

from foliot.clock import Clock
from foliot.errors import FoliotError
from foliot.ids import MARK, Ids, Mark
from foliot.store.port import Wake, together
from foliot.store.postgres.connection import Connections
from foliot.store.postgres.failures import text_of
from foliot.store.sql import parse_statement

CHANNEL: Final = "foliot"
_NOTIFY: Final = parse_statement("notify", "SELECT pg_notify(:channel, :payload)")
_NOTHING: Final = Wake()
_QUIET: Final = 0.002  # seconds between two notifications of one process
_LONGEST: Final = 64  # lanes named in one notification; more are found by looking
_MARKS: Final = 600  # jobs named in one; more go with the next, for 8000 bytes is all it may have
_CHECK: Final = 15.0  # seconds of silence before the listener makes sure that it is still connected

log = logging.getLogger("foliot.store")


class OnChange(Protocol):
    def __call__(self, *, connected: bool) -> None: ...


class Notifier:
    """Sends hints. The first goes at once, those that follow closely are sent together. That awaited jobs have ended is
    told as soon as the last hint is on its way."""

    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock
        self._wake = Wake()
        # In order, each once; as many as fit go with one notification.
        self._awaited: dict[Mark, None] = {}
        self._ended: dict[Mark, None] = {}
        self._sending: asyncio.Task[None] | None = None
        self._pause: asyncio.Task[None] | None = None

    def add(self, wake: Wake) -> None:
        self._wake = together(self._wake, msgspec.structs.replace(wake, awaited=(), ended=()))
        self._awaited.update(dict.fromkeys(wake.awaited))
        self._ended.update(dict.fromkeys(wake.ended))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())
        elif wake.ended and self._pause is not None:
            self._pause.cancel()  # somebody waits for it

    async def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        if self._sending is not None:
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send(self) -> None:
        while self._wake != _NOTHING or self._awaited or self._ended:
            ended = _take(self._ended, _MARKS)
            awaited = _take(self._awaited, _MARKS - len(ended))
            payload = encode(msgspec.structs.replace(self._wake, awaited=awaited, ended=ended))
            self._wake = _NOTHING
            try:
                await self._connections.read(_NOTIFY, {"channel": CHANNEL, "payload": payload})
            except (FoliotError, psycopg.Error) as error:
                log.debug("a wake-up was not sent, polling will do: %s", error)
            if not self._ended:
                self._pause = asyncio.create_task(self._clock.sleep(_QUIET))
                await asyncio.wait([self._pause])
                self._pause = None


class Listener:
    """Hears hints on a connection of its own, and connects again whenever it is lost."""

    def __init__(self, conninfo: str, clock: Clock, ids: Ids, on_change: OnChange) -> None:
        self._conninfo = conninfo
        self._clock = clock
        self._ids = ids
        self._on_change = on_change
        self._task: asyncio.Task[None] | None = None

    async def start(self, hear: Callable[[Wake], None]) -> None:
        connected = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._listen(hear, connected))
        # Whoever asks to be woken should not miss what happens right after; but it need not wait for ever.
        try:
            await asyncio.wait_for(connected.wait(), 2)
        except TimeoutError:
            log.warning("not listening yet: the store polls until the connection is made")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self, hear: Callable[[Wake], None], connected: asyncio.Event) -> None:
        wait = 0.1
        lost = False
        while True:
            try:
                async with await AsyncConnection.connect(
                    self._conninfo, autocommit=True
                ) as connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    self._on_change(connected=True)
                    connected.set()
                    wait, lost = 0.1, False
                    hear(Wake(due=True, cancel=True, changed=True))  # whatever was said meanwhile
                    await self._hear(connection, hear)
            except (psycopg.Error, OSError) as error:
                self._on_change(connected=False)
                # An outage is told by those who ask; this is of interest once.
                level = logging.DEBUG if lost else logging.INFO
                log.log(
                    level, "the listener lost its connection, making a new one: %s", text_of(error)
                )
                lost = True
            await self._clock.sleep(self._ids.jitter(wait, 0.5))
            wait = min(wait * 2, 5)

    async def _hear(self, connection: AsyncConnection[Any], hear: Callable[[Wake], None]) -> None:
        while True:
            async for notification in connection.notifies(timeout=_CHECK):
                hear(decode(notification.payload))
            # A peer that vanished says nothing: ask.
            async with asyncio.timeout(_CHECK):
                await connection.execute("SELECT 1")


def encode(wake: Wake) -> str:
    lanes = sorted(set(wake.ready))
    words = [f"{partition}:{lane}" for partition, lane in lanes[:_LONGEST]]
    if wake.due or len(lanes) > _LONGEST:
        words.append("due")
    if wake.cancel:
        words.append("cancel")
    if wake.changed:
        words.append("changed")
    if wake.flows:
        words.append("flows")
    if wake.awaited:
        words.append("awaited=" + "".join(wake.awaited))
    if wake.ended:
        words.append("ended=" + "".join(wake.ended))
    return " ".join(words)


def decode(payload: str) -> Wake:
    """Anything that is not understood is read as: look for yourself."""
    ready: list[tuple[int, int]] = []
    flags = dict.fromkeys(("due", "cancel", "changed", "flows"), False)
    marks: dict[str, tuple[Mark, ...]] = {"awaited": (), "ended": ()}
    for word in payload.split():
        partition, colon, lane = word.partition(":")
        name, equals, some = word.partition("=")
        if colon and partition.isdigit() and lane.lstrip("-").isdigit():
            ready.append((int(partition), int(lane)))
        elif equals and name in marks:
            marks[name] = tuple(Mark(some[at : at + MARK]) for at in range(0, len(some), MARK))
        else:
            flags[word if word in flags else "due"] = True
    return Wake(
        tuple(ready),
        flags["due"],
        flags["cancel"],
        flags["changed"],
        marks["awaited"],
        marks["ended"],
        flags["flows"],
    )


def _take(marks: dict[Mark, None], most: int) -> tuple[Mark, ...]:
    """The first of them, which they then no longer hold."""
    taken = tuple(islice(marks, most))
    for mark in taken:
        del marks[mark]
    return taken

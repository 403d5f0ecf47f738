"""`foliot top`: what is going on, live."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter
from rich.console import Group
from rich.live import Live
from rich.text import Text

from foliot.checks import check_seconds
from foliot.cli.ask import ask
from foliot.cli.frame import frame
from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import print_json
from foliot.cli.terminal import Screen
from foliot.clock import Clock, SystemClock
from foliot.errors import StoreUnavailable
from foliot.glance import Glance, Rates, look, rates
from foliot.store.port import Store

_WINDOW: Final = 5.0  # seconds over which rates are taken


def top(
    *,
    once: Annotated[bool, Parameter(negative="")] = False,
    every: float = 1.0,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Watch queues, workers, running jobs and failures. q or Ctrl-C ends.

    Parameters
    ----------
    once
        Print what there is, all of it, and end; so it does where there is no terminal.
    every
        Seconds between two looks.
    """
    check_seconds("every", every, least=0.1, most=3600, example="--every 2")
    screen = Screen()
    if once or options.json or not screen.is_terminal:
        ask(options, lambda store: _show_once(store, screen, options))
    else:
        ask(options, lambda store: _Top(store, screen, every).run())


async def _show_once(store: Store, screen: Screen, options: Options) -> None:
    """Two looks a second apart: how fast things go is a difference."""
    clock = SystemClock()
    paces = _Paces(clock)
    paces.add(await look(store))
    await clock.sleep(1.0)
    glance = await look(store)
    paces.add(glance)
    if options.json:
        print_json(_object(glance, paces.now()))
        return
    width = screen.width if screen.is_terminal else None
    for line in frame(glance, paces.now(), url=store.url, width=width, height=None):
        screen.say(line)


def _object(glance: Glance, pace: Rates | None) -> dict[str, object]:
    return {
        "states": {state.value: count for state, count in glance.states.items()},
        "at_least": sorted(state.value for state in glance.at_least),
        "rates": pace,
        "queues": [
            {**(msgspec.to_builtins(queue) or {}), **msgspec.to_builtins(load)}
            for load, queue in glance.by_queue
        ],
        "workers": glance.sessions,
        "running": glance.running,
        "failures": glance.failures,
    }


class _Paces:
    """Rates over the last seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, Glance]] = deque()

    def add(self, glance: Glance) -> None:
        now = self._clock.monotonic()
        self._seen.append((now, glance))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _WINDOW:
            self._seen.popleft()

    def now(self) -> Rates | None:
        if len(self._seen) < 2:
            return None
        (start, first), (end, last) = self._seen[0], self._seen[-1]
        return rates(first, last, end - start)


class _Top:
    """Until told to end. A store that is away is waited for."""

    def __init__(self, store: Store, screen: Screen, every: float) -> None:
        self._store = store
        self._screen = screen
        self._every = every
        self._paces = _Paces(SystemClock())
        self._end = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._end.set)
        with (
            _keys(),
            Live(console=self._screen, screen=True, auto_refresh=False) as live,
        ):
            if sys.stdin.isatty():
                loop.add_reader(sys.stdin.fileno(), self._press)
            while not self._end.is_set():
                live.update(Group(*await self._lines()), refresh=True)
                try:
                    await asyncio.wait_for(self._end.wait(), self._every)
                except TimeoutError:
                    continue
        loop.remove_reader(sys.stdin.fileno())

    async def _lines(self) -> list[Text]:
        size = self._screen.size
        try:
            glance = await look(self._store)
        except StoreUnavailable as error:
            return [Text("foliot top", "bold"), Text(f"the store is away: {error}", "red")]
        self._paces.add(glance)
        return frame(
            glance,
            self._paces.now(),
            url=self._store.url,
            width=size.width,
            height=size.height,
        )

    def _press(self) -> None:
        keys = os.read(sys.stdin.fileno(), 64)
        if not keys or b"q" in keys.lower():
            self._end.set()


@contextmanager
def _keys() -> Iterator[None]:
    """Keys come one by one, unseen, until the end."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

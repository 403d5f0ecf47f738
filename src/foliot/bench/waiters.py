"""Waiters: many handles wait for their results. What does it cost the store, and how soon do they return?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from foliot.bench.jobs import rest
from foliot.bench.relay import Relay
from foliot.bench.report import percentiles, surroundings, worker_settings
from foliot.bench.sheet import Moments
from foliot.bench.stage import BATCH, Say, Stage, at_url, open_stage, pause
from foliot.client.app import Foliot
from foliot.client.handle import Handle
from foliot.config import Settings
from foliot.errors import FoliotError

_SETTLE = 3.0  # seconds in which all jobs are started, and all have begun to wait
_PATIENCE = 120.0
_STACK = 256 * 1024  # bytes for each thread that waits


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    handles: int = 1000
    kind: str = "async"  # tasks that wait, or threads
    seconds: float = 10.0  # of waiting before the first job ends
    gap: float = 0.01  # seconds between two ends
    force: bool = False


def waiters(settings: Settings, plan: Plan, say: Say) -> dict[str, object]:
    with open_stage(settings, force=plan.force, say=say) as stage:
        moments = Moments(stage.new_path("moments"), plan.handles)
        workers = stage.workers(processes=1, concurrency=plan.handles)
        with _client(stage) as (client, relay), workers:
            handles = _submit(stage, client, moments, plan)
            crowd = Crowd(stage, handles, plan.kind)
            pause(_SETTLE)
            before, started = _sent(client, relay), stage.clock.monotonic()
            pause(plan.seconds)
            seconds = stage.clock.monotonic() - started
            sent = _sent(client, relay) - before
            workers.check()
            returned = crowd.join()
        late = [returned[n] - moments.at(n) for n in range(plan.handles)]
        return {
            "bench": "waiters",
            "statements_per_second": round(sent / seconds, 2),
            "latency_ms": {**percentiles(late), "max": round(max(late) * 1000, 3)},
            "settings": {**msgspec.structs.asdict(plan), **worker_settings(settings.worker)},
            **surroundings(stage.probe),
        }


class Crowd:
    """All who wait, and when each has returned."""

    def __init__(self, stage: Stage, handles: Sequence[Handle[Any]], kind: str) -> None:
        self._clock = stage.clock
        self._returned: dict[int, float] = {}
        self._wrong: list[str] = []
        self._count = len(handles)
        threading.stack_size(_STACK)
        if kind == "sync":
            self._threads = [
                threading.Thread(target=self._wait, args=(n, handle), daemon=True)
                for n, handle in enumerate(handles)
            ]
        else:
            wait = threading.Thread(target=asyncio.run, args=(self._wait_all(handles),))
            self._threads = [wait]
        for thread in self._threads:
            thread.start()
        threading.stack_size(0)

    def join(self) -> dict[int, float]:
        for thread in self._threads:
            thread.join()
        if self._wrong or len(self._returned) < self._count:
            missing = self._count - len(self._returned)
            raise FoliotError(f"{missing} of {self._count} did not return: {self._wrong[:3]}")
        return self._returned

    def _wait(self, n: int, handle: Handle[Any]) -> None:
        try:
            self._note(n, handle.result(timeout=_PATIENCE))
        except FoliotError as error:
            self._wrong.append(str(error))

    async def _wait_all(self, handles: Sequence[Handle[Any]]) -> None:
        await asyncio.gather(*(self._await(n, handle) for n, handle in enumerate(handles)))

    async def _await(self, n: int, handle: Handle[Any]) -> None:
        try:
            self._note(n, await handle.aresult(timeout=_PATIENCE))
        except FoliotError as error:
            self._wrong.append(str(error))

    def _note(self, n: int, result: object) -> None:
        if result == n:
            self._returned[n] = self._clock.monotonic()
        else:
            self._wrong.append(f"number {n} has the result {result!r}")


def _submit(stage: Stage, client: Foliot, moments: Moments, plan: Plan) -> list[Handle[Any]]:
    """In chance order, so that whoever waited first is not served first."""
    start, gap = _SETTLE + plan.seconds, plan.gap
    turns = sorted(range(plan.handles), key=lambda _: stage.ids.up_to(1.0))
    seconds = [start + stage.ids.jitter(turn * gap, 1 / (turn + 1)) for turn in turns]
    calls = [rest.prepare(n, seconds[n], str(moments.path)) for n in range(plan.handles)]
    found: list[Handle[Any]] = []
    for at in range(0, len(calls), BATCH):
        found += client.submit_many(calls[at : at + BATCH])
    return found


def _sent(client: Foliot, relay: Relay | None) -> int:
    """By the relay that stands in between; of SQLite, as the waiter counts."""
    return relay.statements if relay is not None else client.statements_waiting


@contextmanager
def _client(stage: Stage) -> Iterator[tuple[Foliot, Relay | None]]:
    if stage.url.startswith("sqlite:"):
        with Foliot(settings=stage.settings) as client:
            yield client, None
        return
    with (
        Relay(stage.url, stage.directory) as relay,
        Foliot(settings=at_url(stage.settings, relay.url)) as client,
    ):
        yield client, relay

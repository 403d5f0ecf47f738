"""Roll-ups in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.model.rollup import Histogram, Rollup, Sum, merge
from foliot.store import rows
from foliot.store.postgres.arrays import numbers, texts
from foliot.store.postgres.connection import Ask, Connections, Step, Values
from foliot.store.rollups import TOGETHER, WRITERS_LAST
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "rollups.sql")


class PostgresRollups:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def write(self, writer: str, batch: int, rollups: Sequence[Rollup]) -> None:
        now = self._clock.now_for_store()

        async def talk(ask: Ask) -> None:
            noted = {"writer": writer, "batch": batch, "now": now}
            if await ask(Step(SQL["note_rollups"], noted)):
                await ask(_adding(writer, rollups))

        await self._connections.converse(talk)

    async def read(
        self,
        since: int,
        until: int,
        *,
        namespace: str | None = None,
        queue: str | None = None,
        kind: str | None = None,
    ) -> list[Rollup]:
        asked: Values = {
            "since": since,
            "until": until,
            "namespace": namespace,
            "queue": queue,
            "kind": kind,
        }
        found = await self._connections.read(SQL["list_rollups"], asked)
        return [rows.rollup(row) for row in found]

    async def sums(self, since: int, until: int, *, queue: str) -> list[Sum]:
        asked: Values = {"since": since, "until": until, "queue": queue}
        found = await self._connections.read(SQL["sum_rollups"], asked)
        return [rows.rollup_sum(row) for row in found]

    async def compact(self, *, age: float, limit: int) -> int:
        async def talk(ask: Ask) -> int:
            asked = {"age": age, "limit": limit, "now": self._clock.now_for_store()}
            taken = await ask(Step(SQL["take_rollups"], asked))
            if taken:
                await ask(_adding(TOGETHER, merge(rows.rollup(row) for row in taken)))
            return len(taken)

        taken, count = 0, limit
        while count == limit:
            count = await self._connections.converse(talk)
            taken += count
        return taken

    async def prune(self, *, keep: float | None, limit: int) -> int:
        now = self._clock.now_for_store()
        silent: Values = {"keep": WRITERS_LAST, "now": now}
        await self._connections.transact([Step(SQL["prune_rollup_writers"], silent)])
        if keep is None:
            return 0
        pruned, count = 0, limit
        while count == limit:
            asked: Values = {"keep": keep, "limit": limit, "now": now}
            [[(count,)]] = await self._connections.transact([Step(SQL["prune_rollups"], asked)])
            pruned += count
        return pruned


def _adding(writer: str, rollups: Sequence[Rollup]) -> Step:
    values: Values = {
        "writer": writer,
        "minutes": numbers(one.minute for one in rollups),
        "namespaces": texts(one.key.namespace for one in rollups),
        "queues": texts(one.key.queue for one in rollups),
        "kinds": texts(one.key.kind for one in rollups),
        "outcomes": texts(one.key.outcome for one in rollups),
        "counts": numbers(one.count for one in rollups),
        "seconds": numbers(one.seconds for one in rollups),
        "waits": _histograms(one.waits for one in rollups),
        "runs": _histograms(one.runs for one in rollups),
    }
    return Step(SQL["add_rollups"], values)


def _histograms(histograms: Iterable[Histogram]) -> str:
    return texts(msgspec.json.encode(one).decode() for one in histograms)

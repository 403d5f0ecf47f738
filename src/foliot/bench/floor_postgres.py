"""The floor on PostgreSQL: begin, finish the last batch, claim the next, commit; one round trip."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.pq.abc import PGresult

from foliot.bench.jobs import QUEUE
from foliot.clock import SystemClock
from foliot.loop import loop_factory
from foliot.model.lane import lane_of
from foliot.store.sql import JOB_FILES, Statement, load_statements

SQL: Final = load_statements("foliot.store.postgres", *JOB_FILES)
Held = list[tuple[str, str]]  # id and fence


def drain_postgres(url: str, session: str, batch: int, connections: int, begin: float) -> int:
    """Claim and finish until nothing is left. Returns how many. Runs in a process of its own."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_drain(url, session, batch, connections, begin))


async def _drain(url: str, session: str, batch: int, connections: int, begin: float) -> int:
    opened = [
        await AsyncConnection.connect(url, autocommit=True, prepare_threshold=0)
        for _ in range(connections)
    ]
    for connection in opened:
        # The first executions would else be planned for their batch: for a large one, sometimes badly.
        await connection.execute("SET plan_cache_mode = force_generic_plan")
    clock = SystemClock()
    await clock.sleep(max(0.0, begin - clock.monotonic()))
    counts = await asyncio.gather(*[_drive(one, session, batch) for one in opened])
    for connection in opened:
        await connection.close()
    return sum(counts)


async def _drive(connection: AsyncConnection[Any], session: str, batch: int) -> int:
    finished = 0
    held: Held = []
    while True:
        claimed = await _cycle(connection, session, batch, held)
        finished += len(held)
        held = claimed
        if not held:
            return finished


async def _cycle(connection: AsyncConnection[Any], session: str, batch: int, held: Held) -> Held:
    finish, claim = AsyncRawCursor(connection), AsyncRawCursor(connection)
    async with connection.pipeline():
        await connection.execute("BEGIN")
        if held:
            await _execute(finish, SQL["finish_jobs"], _finishing(session, held))
        await _execute(claim, SQL["claim_jobs"], _claiming(session, batch))
        await connection.execute("COMMIT")
    assert claim.pgresult is not None
    return _read(claim.pgresult)


async def _execute(
    cursor: AsyncRawCursor[Any], statement: Statement, values: dict[str, object]
) -> None:
    await cursor.execute(statement.numbered, statement.bind(values), binary=True)


def _finishing(session: str, held: Held) -> dict[str, object]:
    count = len(held)
    return {
        "partition": 0,
        "session": session,
        "now": None,
        "ids": "{" + ",".join([id for id, _ in held]) + "}",
        "fences": "{" + ",".join([fence for _, fence in held]) + "}",
        "states": "{" + ",".join(["succeeded"] * count) + "}",
        "reasons": "{" + ",".join(["NULL"] * count) + "}",
        "results": "{" + ",".join(["NULL"] * count) + "}",
        "flows": "{}",
    }


def _claiming(session: str, batch: int) -> dict[str, object]:
    lane = lane_of(QUEUE)
    return {
        "partition": 0,
        "session": session,
        "now": None,
        "grace": 10.0,
        "room": batch,
        "lanes": f"{{{lane.number}}}",
        "queues": f"{{{lane.queue}}}",
        "quotas": f"{{{batch}}}",
        "choosy": "{f}",
        "kinds": "{}",
        "version": None,
    }


def _read(result: PGresult) -> Held:
    """Only what is needed to finish: everything else is left where it is."""
    value = result.get_value
    return [
        (str(value(row, 0), "ascii"), str(int.from_bytes(value(row, 1) or b"", "big")))  # type: ignore[arg-type]
        for row in range(result.ntuples)
    ]

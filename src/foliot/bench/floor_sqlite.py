"""The floor on SQLite: begin, finish the last batch, claim the next, commit."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, Final

import msgspec

from foliot.bench.jobs import QUEUE
from foliot.bench.probe_sqlite import path_of
from foliot.clock import SystemClock
from foliot.model.lane import lane_of
from foliot.store.sql import JOB_FILES, load_statements

SQL: Final = {
    name: statement.text.split(";")
    for name, statement in load_statements("foliot.store.sqlite", *JOB_FILES).items()
}
_MILLION: Final = 1_000_000
_decode = msgspec.json.Decoder(list[list[Any]]).decode
Held = list[list[Any]]


def drain_sqlite(url: str, session: str, batch: int, connections: int, begin: float) -> int:
    """Claim and finish until nothing is left. Returns how many. Runs in a process of its own."""
    Event().wait(max(0.0, begin - SystemClock().monotonic()))
    with ThreadPoolExecutor(connections) as pool:
        futures = [pool.submit(_drive, url, session, batch) for _ in range(connections)]
        return sum(future.result() for future in futures)


def _drive(url: str, session: str, batch: int) -> int:
    connection = sqlite3.connect(path_of(url), isolation_level=None)
    # As the store does; the short timeout is for looking again soon, SQLite itself waits ever longer.
    for pragma in ("synchronous = FULL", "cache_size = -32768", "wal_autocheckpoint = 4000"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("PRAGMA busy_timeout = 2")
    finished = 0
    held: Held = []
    try:
        while True:
            claimed = _cycle(connection, session, batch, held)
            finished += len(held)
            held = claimed
            if not held:
                return finished
    finally:
        connection.close()


def _cycle(connection: sqlite3.Connection, session: str, batch: int, held: Held) -> Held:
    lane = lane_of(QUEUE)
    values: dict[str, object] = {
        "partition": 0,
        "session": session,
        "now": int(SystemClock().now().timestamp() * _MILLION),
        "grace": 10.0,
        "small": 4096,
        "lane": lane.number,
        "queue": lane.queue,
        "kinds": None,
        "quota": batch,
        "outcomes": msgspec.json.encode(
            [(id, fence, "succeeded", None, None, None) for id, fence, *_ in held]
        ).decode(),
        "blob": b"",
    }
    _begin(connection)
    if held:
        for part in SQL["finish_jobs"]:
            connection.execute(part, values)
    select, update = SQL["claim_jobs"]
    found = connection.execute(select, values).fetchone()[0]
    connection.execute(update, values)
    connection.execute("COMMIT")
    return _decode(found)


def _begin(connection: sqlite3.Connection) -> None:
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise

"""Stories that need a PostgreSQL server: two transactions at once, a strange plan, two clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import psycopg
from psycopg import AsyncConnection, RawCursor, sql
from psycopg.conninfo import conninfo_to_dict

from foliot.clock import SystemClock
from foliot.ids import Ids, SessionId
from foliot.model.job import Outcome
from foliot.model.lane import lane_of
from foliot.store import port, rows
from foliot.store.open import open_store
from foliot.store.port import Share
from foliot.store.postgres.connection import Step
from foliot.store.postgres.gates import claim_values
from foliot.store.postgres.jobs import SQL
from foliot.store.postgres.trips import Ending
from machine.scenarios import Scene

_PLANNER: Final = ("hashjoin", "mergejoin", "material", "hashagg", "sort")


class Held(msgspec.Struct, frozen=True):
    """A transaction that has done its work and not committed."""

    connection: psycopg.Connection[Any]
    answer: list[tuple[Any, ...]]

    def commit(self) -> None:
        """Lets nobody else go on before it can be written down."""
        self.connection.commit()


@contextmanager
def held_open(scene: Scene, step: Step) -> Iterator[Held]:
    with psycopg.connect(scene.stage.place.direct) as connection:
        cursor = RawCursor(connection)
        statement = step.statement
        cursor.execute(statement.numbered, statement.bind(step.values), binary=True)
        yield Held(connection, cursor.fetchall())


async def blocked_or_done(scene: Scene, task: asyncio.Task[Any]) -> None:
    """Until it waits for a lock, or needs none."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with await AsyncConnection.connect(
        scene.stage.place.direct, autocommit=True
    ) as connection:
        while not task.done():
            if await (await connection.execute(waiting)).fetchone():
                return
            await asyncio.sleep(0.002)


def claiming(scene: Scene, session: SessionId, shares: Sequence[Share]) -> Step:
    values = claim_values(0, session, shares, 1, scene.lab.now())
    return Step(SQL["claim_jobs"], {**values, "version": None})


def finishing(scene: Scene, session: SessionId, outcomes: Sequence[Outcome]) -> Step:
    return Ending(0, session, outcomes, scene.lab.now()).steps[0]


async def two_claim_at_once(scene: Scene) -> None:
    """The first has claimed and not committed when the second comes."""
    lab = scene.lab
    await lab.submit(scene.new_job())
    first, second = await lab.open(), await lab.open()
    shares = [Share(lane_of("default"), 1)]
    began = lab.begin()
    with held_open(scene, claiming(scene, first, shares)) as held:
        waiting = asyncio.create_task(lab.claim(second, 1))
        await blocked_or_done(scene, waiting)
        held.commit()
        lab.record_cycle(
            began, first, (), shares, 1, port.Cycle(rows.claimed_jobs(held.answer), [])
        )
        await waiting


async def a_claim_asks_for_three(scene: Scene) -> None:
    """Of twenty, under a planner that does what it seldom does."""
    lab, stage = scene.lab, scene.stage
    database = sql.Identifier(str(conninfo_to_dict(stage.place.direct)["dbname"]))
    await lab.submit(*(scene.new_job() for _ in range(20)))
    session = await lab.open()
    with psycopg.connect(stage.place.direct, autocommit=True) as admin:
        for name in _PLANNER:
            setting = sql.Identifier(f"enable_{name}")
            admin.execute(sql.SQL("ALTER DATABASE {} SET {} = off").format(database, setting))
        try:
            lab.store = await open_store(stage.place.settings, clock=stage.clock, ids=stage.ids)
            await lab.claim(session, 3)
            await lab.store.close()
        finally:
            admin.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(database))


async def a_job_ends_while_it_is_sent_again(scene: Scene) -> None:
    """The finish has not committed when the second submission comes."""
    lab = scene.lab
    job = scene.new_job()
    await lab.submit(job, reply=False)
    session = await lab.open()
    for claimed in await lab.claim(session):
        outcomes = [Outcome(claimed.id, claimed.fence)]
        began = lab.begin()
        with held_open(scene, finishing(scene, session, outcomes)) as held:
            waiting = asyncio.create_task(lab.submit(job, resend=True))
            await blocked_or_done(scene, waiting)
            held.commit()
            lab.record_cycle(began, session, outcomes, (), 0, port.Cycle([], []))
            await waiting


class FastClock(SystemClock):
    """An hour ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(hours=1)


async def one_clock_is_fast(scene: Scene) -> None:
    """Real time: the database's clock is right, that of one host is not."""
    stage, lab = scene.stage, scene.lab
    slow, fast = [
        await open_store(stage.place.settings, clock=clock, ids=Ids(clock=clock, seed=2), size=1)
        for clock in (SystemClock(), FastClock())
    ]
    admin = psycopg.connect(stage.place.direct, autocommit=True)
    lab.now = lambda: admin.execute("SELECT clock_timestamp()").fetchone()[0]  # type: ignore[index]
    try:
        lab.store = slow
        await lab.submit(lab.new_job())
        later = lab.now() + timedelta(minutes=30)
        await lab.submit(lab.new_job(run_at=later, queue="mail"))
        await lab.claim(await lab.open())
        lab.store = fast
        session = await lab.open()
        await lab.find_and_reap()
        await lab.admit()
        await lab.claim(session, queues=("default", "mail"))
    finally:
        admin.close()
        await slow.close()
        await fast.close()

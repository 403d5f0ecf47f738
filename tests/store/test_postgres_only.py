"""What is PostgreSQL's own: several writers at once, and a clock that is not ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import psycopg
import pytest

from foliot.clock import SystemClock
from foliot.config import Settings, StoreSettings
from foliot.errors import InvalidValue, StoreUnavailable
from foliot.ids import Ids, home_id
from foliot.model.event import NewEvent
from foliot.model.job import End, More, Outcome
from foliot.model.lane import lane_of
from foliot.store import batches
from foliot.store.events import Delivered, event_rows
from foliot.store.following import Moved
from foliot.store.open import open_store
from foliot.store.port import Share
from foliot.store.postgres import connection as postgres_connection
from foliot.store.postgres import gates
from foliot.store.postgres.connection import Ask, Connections, Step
from foliot.store.postgres.events import SQL
from foliot.store.postgres.submit import Submissions
from foliot.store.postgres.transaction import PostgresTransactions
from foliot.store.reply import Reply, Rows
from foliot.store.sql import parse_statement
from foliot.testing.clock import ManualClock
from support.flows import draw
from support.hooks import listen, outbox
from support.proxy import CuttingProxy
from support.stores import Databases, Place, World

pytestmark = pytest.mark.anyio


@pytest.fixture
async def real(databases: Databases) -> AsyncIterator[World]:
    """A store that goes by the database's own clock."""
    async with databases.borrow(1) as name:
        settings = StoreSettings(url=databases.server.url(name))
        store = await open_store(settings, clock=SystemClock(), ids=Ids())
        world = World(Place("postgres", settings, settings.url), store, ManualClock(), Ids())
        yield world
        await world.close()


async def test_a_claim_has_the_time_of_its_own_statement(real: World) -> None:
    """Its transaction began earlier, and what it finished first was held up by a lock."""
    session = await real.open_session()
    first = await real.run(session)
    with psycopg.connect(real.place.direct) as holding:
        holding.execute("SELECT 1 FROM foliot.jobs FOR UPDATE")
        shares = [Share(lane_of("default"), 5)]
        cycling = asyncio.create_task(
            real.store.jobs.finish_and_claim(
                0, session, outcomes=[Outcome(first.id, first.fence)], shares=shares, room=5
            )
        )
        for _ in range(500):
            if _waits_for_a_lock(real):
                break
            await asyncio.sleep(0.01)
        later = await real.submit()
        holding.rollback()
    [job] = (await cycling).claimed
    assert job.id == later
    seen = await real.get(later)
    assert seen.started_at is not None and seen.started_at >= seen.run_at


def _waits_for_a_lock(world: World) -> bool:
    with psycopg.connect(world.place.direct) as connection:
        asked = "SELECT 1 FROM pg_locks WHERE NOT granted"
        return connection.execute(asked).fetchone() is not None


async def test_a_job_claimed_while_a_slow_beat_was_under_way_counts_as_executing(
    real: World, databases: Databases
) -> None:
    """The beat cannot name what was claimed after its list was made, so it must not vouch for it either."""
    server = databases.server
    with CuttingProxy(str(server.directory), server.port) as proxy:
        name = psycopg.conninfo.conninfo_to_dict(real.place.direct)["dbname"]
        far = await open_store(
            StoreSettings(url=proxy.url(str(name))), clock=SystemClock(), ids=Ids()
        )
        session = await real.open_session(lease=5)
        heart = far.sessions.heart(session, lease=0.5)
        assert heart.extend([])
        proxy.delay(0.1)
        beat = asyncio.create_task(asyncio.to_thread(heart.extend, []))
        await asyncio.sleep(0.05)
        await real.run(session)
        assert await beat
        heart.close()
        await far.close()
    for _ in range(100):
        if await real.store.jobs.find_lost():
            break
        await asyncio.sleep(0.05)
    reaped = await real.reap(session)
    assert (reaped.lost, reaped.returned) == (1, 0)


def _statements_sent(patch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of those in each transaction from now on."""
    sent: list[list[str]] = []
    transact = Connections.transact

    async def listen(self: Connections, steps: Sequence[Step]) -> list[Rows]:
        sent.append([step.statement.name for step in steps])
        return await transact(self, steps)

    patch.setattr(Connections, "transact", listen)
    return sent


async def test_many_bytes_are_sent_in_several_statements_of_one_transaction(
    real: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As hexadecimal text in one value, they could be more than the server takes."""
    sent = _statements_sent(monkeypatch)
    monkeypatch.setattr(batches, "LARGEST", 1000)
    await real.submit_many(4, payload=b"1" * 600)
    session = await real.open_session()
    jobs = await real.claim(session)
    await real.finish(session, *[Outcome(j.id, j.fence, result=b"1" * 400) for j in jobs])
    assert sent[0] == ["submit_jobs"] * 4
    assert sent[-1] == ["lock_jobs"] + ["finish_jobs"] * 2


async def test_a_worker_that_only_finishes_pays_for_no_lock(
    real: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await real.submit_many(3)
    session = await real.open_session()
    jobs = await real.claim(session)
    sent = _statements_sent(monkeypatch)
    await real.finish(session, *[Outcome(j.id, j.fence) for j in jobs])
    assert sent == [["finish_jobs"]]


async def test_many_dead_rows_are_freed_by_a_sweep(
    real: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await real.open_session()
    for _ in range(5):
        await real.end(session, await real.run(session))
    monkeypatch.setattr("foliot.store.postgres.upkeep._MANY_DEAD", 0)
    assert await real.store.upkeep.sweep() is True
    with psycopg.connect(real.place.direct, autocommit=True) as connection:
        count = "SELECT vacuum_count FROM pg_stat_user_tables WHERE relname = 'jobs'"
        row = connection.execute(count).fetchone()
    assert row is not None and row[0] >= 1


async def test_a_submission_is_not_planned_anew_every_time(real: World) -> None:
    """Planning it costs several times what doing it does."""
    connections = Connections(real.place.direct, size=1, timeout=5, clock=SystemClock(), ids=Ids())
    await connections.open(pooler="no")
    submissions = Submissions(connections, SystemClock())
    for more in (None, More(tags=("a",))):
        for _ in range(10):
            await submissions.submit(0, [real.new_job(more=more)], resend=False)
    asked = parse_statement(
        "plans",
        """SELECT generic_plans FROM pg_prepared_statements
           WHERE statement LIKE 'INSERT INTO foliot.jobs %'""",
    )
    [(generic,)] = await connections.read(asked, {})
    await connections.close()
    assert generic == 15  # the first five are tried by themselves


async def test_a_refusal_in_the_middle_of_a_conversation_costs_no_connection(
    real: World, caplog: pytest.LogCaptureFixture
) -> None:
    flow = await draw(real)
    await flow.submit(flow.step("a"))
    for _ in range(3):
        with pytest.raises(InvalidValue):
            await flow.store.add(real.partition, flow.id, [flow.step("a")])
    assert [record.message for record in caplog.records] == []
    assert (await flow.get()).total == 1


async def test_a_step_that_somebody_is_about_to_start_is_asked_to_end_as_well(real: World) -> None:
    """Seen as ready, and locked when it runs: it was neither skipped nor asked, and never ended."""
    flow = await draw(real)
    await flow.submit(flow.step("bad"), flow.step("slow", queue="elsewhere"))
    await flow.claim()
    with psycopg.connect(real.place.direct) as claiming:
        claiming.execute(
            "UPDATE foliot.jobs SET state = 'running', session = %s, fence = 1, attempt = 1 WHERE id = %s",
            [flow.session, flow.ids["slow"]],
        )
        await flow.end("bad", End.BURY)
        stopping = asyncio.create_task(flow.settle())
        for _ in range(500):
            if _waits_for_a_lock(real):
                break
            await asyncio.sleep(0.01)
        claiming.commit()
    await stopping
    [running] = await real.store.jobs.running(flow.session)
    assert (running.id, running.cancel_requested) == (flow.ids["slow"], True)


async def test_a_conversation_that_is_to_be_begun_again_costs_no_connection(
    real: World, caplog: pytest.LogCaptureFixture
) -> None:
    """As one is that has found other chains than those which it has locked."""
    connections = real.store.jobs._connections  # type: ignore[attr-defined]
    read = Step(gates.SQL["read_version"], {})

    async def talk(ask: Ask) -> None:
        ask.say(read)
        await ask(read)
        ask.say(read)
        raise Moved

    for _ in range(3):
        with pytest.raises(Moved):
            await connections.converse(talk)
    assert [record.message for record in caplog.records] == []


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_conversation_that_fails_anywhere_is_begun_again_with_what_was_not_prepared(
    real: World, place: int
) -> None:
    """What was said after a deadlock has not reached the server, and is said for the first time once more."""
    connections = real.store.jobs._connections  # type: ignore[attr-defined]
    failing = "DO $$ BEGIN RAISE EXCEPTION 'so' USING ERRCODE = '40P01'; END $$"
    deadlock = Step(parse_statement("deadlock", failing), {})
    tries = 0

    async def talk(ask: Ask) -> list[Reply]:
        nonlocal tries
        tries += 1
        said = []
        for number in range(4):
            if number == place and tries < 3:
                ask.say(deadlock)
            step = Step(parse_statement("new", f"SELECT {place}{number} + :n::integer"), {"n": 1})
            said.append(ask.say(step))
            if number == 1:
                await ask.hear()
        return said

    replies = await connections.converse(talk)
    assert tries == 3
    assert [reply.rows for reply in replies] == [[(10 * place + n + 1,)] for n in range(4)]


async def test_who_is_stopped_between_two_questions_keeps_others_waiting_for_seconds_only(
    real: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after several statements in one round trip."""
    begin = ("BEGIN", "SET LOCAL idle_in_transaction_session_timeout = '100ms'")
    monkeypatch.setattr(postgres_connection, "_BEGIN", begin)
    connections = real.store.jobs._connections  # type: ignore[attr-defined]
    read = Step(gates.SQL["read_version"], {})

    async def talk(ask: Ask) -> None:
        ask.say(Step(gates.SQL["change_rules"], {"space": gates.RULES}))
        await ask(read)
        await asyncio.sleep(1)
        await ask(read)

    with pytest.raises(StoreUnavailable):
        await connections.converse(talk)


async def test_a_question_larger_than_what_the_socket_takes_at_once_is_sent_to_its_end(
    real: World,
) -> None:
    """The driver hands over what fits, and then waits for a server that waits for the rest."""
    connections = real.store.jobs._connections  # type: ignore[attr-defined]
    measure = parse_statement("measure", "SELECT length(:given::text)")
    large = "x" * 20_000_000

    async def talk(ask: Ask) -> list[int]:
        first = ask.say(Step(measure, {"given": large}))
        [[second]] = await ask(Step(measure, {"given": large}))
        return [first.rows[0][0], second]

    async with asyncio.timeout(20):
        assert await connections.converse(talk) == [len(large), len(large)]


async def test_a_hook_is_told_what_ends_in_a_transaction_that_began_before_it_listened(
    real: World,
) -> None:
    """An event bears the time at which its transaction began."""
    session = await real.open_session()
    job = await real.run(session)
    settings = Settings(store=real.place.settings)
    transactions = PostgresTransactions(settings, clock=SystemClock())
    work = await transactions.begin(waits=True)
    await listen(real, "job.succeeded")
    outcomes = [Outcome(job.id, job.fence)]
    await work.ask(lambda jobs: jobs.finish_and_claim(0, session, outcomes=outcomes))
    await work.commit()
    await transactions.close()
    assert await real.store.events.deliver(0, limit=10) == Delivered(1, 1)


async def test_what_happens_to_a_breaker_has_the_time_at_which_it_was_locked(real: World) -> None:
    """However long the transaction waited for that: who was first must be told of first."""
    await listen(real, "breaker.opened", "breaker.closed")
    with psycopg.connect(real.place.direct) as late:
        late.execute("SELECT 1")
        await real.store.breakers.open("stripe", seconds=None, note=None, by=None)
        _emit(late, "breaker.closed")
    assert await outbox(real) == [("breaker.opened", "stripe"), ("breaker.closed", "stripe")]


def _emit(connection: psycopg.Connection, *names: str) -> None:
    """As whoever changes a breaker."""
    home = home_id(0)
    rows = event_rows([NewEvent(name=name, home=home, subject="stripe") for name in names])
    statement = SQL["emit_events"]
    with psycopg.RawCursor(connection) as cursor:
        cursor.execute(
            statement.numbered, statement.bind({"partition": 0, "now": None, "rows": rows})
        )

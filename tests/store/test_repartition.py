"""Another number of partitions: every row is where its id or key says, and every job goes on from where it was."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from foliot import Foliot, JobFailed
from foliot.config import StoreSettings
from foliot.errors import FoliotError, SchemaChanged
from foliot.ids import JobId, partition_of
from foliot.model.job import End, JobState, More
from foliot.store.open import upgrade_store
from foliot.store.operator import Repartitioned
from foliot.store.scheduling import CatchUp
from foliot.store.tables import PARTED
from foliot.testing.clock import ManualClock
from support.flows import Drawing, draw, follow_apart
from support.records import dump, fill
from support.schedules import Spread, Table
from support.stores import Databases, Place, World, open_world

pytestmark = pytest.mark.anyio
NUMBERS = itertools.count(1)


@pytest.fixture(params=["sqlite", "postgres", "pooled"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A store to itself, that forbids nothing: here one transaction touches all partitions."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'foliot.db'}"
        yield Place("sqlite", StoreSettings(url=url), url)
        return
    databases: Databases = request.getfixturevalue("databases")
    name = f"repartition_{next(NUMBERS)}"
    direct = databases.server.create_database(name)
    pooled = request.param == "pooled"
    url = request.getfixturevalue("pooled").url(name) if pooled else direct
    yield Place("postgres", StoreSettings(url=url), direct)
    databases.server.drop_database(name)


@pytest.fixture
async def world(place: Place, clock: ManualClock) -> AsyncIterator[World]:
    """With one partition."""
    await upgrade_store(place.settings)
    async with open_world(place, clock) as world:
        yield world


async def repartition(world: World, partitions: int) -> Repartitioned:
    return await world.store.upkeep.repartition(partitions, say=lambda _t, _n: None)


async def test_every_row_goes_where_its_id_or_key_says_and_back(
    world: World, place: Place, clock: ManualClock
) -> None:
    await fill(world, rows=6)
    before = await dump(world)
    done = await repartition(world, 8)
    assert (done.before, set(done.moved)) == (1, set(PARTED))
    async with open_world(place, clock) as wide:
        assert wide.store.partitions == 8
        there = await dump(wide)
        for name, table in PARTED.items():
            assert all(
                table.partition_of(row, 8) in (None, row["partition"]) for row in there[name]
            )
            assert done.moved[name] or not table.home
        assert {row["partition"] for row in there["jobs"]} != {0}
        # What is known of a fair key is known wherever its jobs may be.
        assert {row["partition"] for row in there["fair"]} == set(range(8))
        for partitions in (5, 1024, 1):
            await repartition(wide, partitions)
    async with open_world(place, clock) as narrow:
        assert narrow.store.partitions == 1
        assert await dump(narrow) == before


async def test_running_it_again_changes_nothing(world: World) -> None:
    await fill(world)
    await repartition(world, 8)
    done = await repartition(world, 8)
    assert done.before == 8
    assert not any(done.moved.values())


async def test_it_is_refused_while_a_session_lives_and_names_it(world: World) -> None:
    id = await world.submit()
    await world.open_session()
    with pytest.raises(FoliotError, match="1 process works on the store: pid 1 on here") as caught:
        await repartition(world, 8)
    assert "foliot workers drain --all" in str(caught.value)
    assert await world.state(id) is JobState.READY
    world.expire()
    assert (await repartition(world, 8)).before == 1


async def test_a_process_that_has_the_old_number_gets_no_session(world: World) -> None:
    await repartition(world, 8)
    with pytest.raises(SchemaChanged, match="number of partitions is no longer 1"):
        await world.open_session()
    assert await world.store.sessions.all() == []


async def test_what_was_submitted_with_the_old_number_is_put_right_by_running_it_again(
    world: World, place: Place, clock: ManualClock
) -> None:
    late = world.new_job()
    await repartition(world, 8)
    await world.store.jobs.submit(0, [late])
    await repartition(world, 8)
    async with open_world(place, clock) as wide:
        wide.partition = partition_of(late.id, 8)
        assert wide.partition > 0
        session = await wide.open_session()
        [job] = await wide.claim(session)
        await wide.end(session, job)
        assert await wide.state(late.id) is JobState.SUCCEEDED


async def test_keys_that_would_part_are_refused_and_nothing_is_changed(world: World) -> None:
    """A job lives with its ordering key: nobody would see there that its unique key is taken."""
    jobs = [world.new_job(key=f"k{n}", more=More(ordering_key=f"o{n}")) for n in range(20)]
    await world.submit(*jobs)
    with pytest.raises(FoliotError, match="would not be in one partition with their ordering key"):
        await repartition(world, 8)
    assert {row["partition"] for row in (await dump(world))["jobs"]} == {0}


async def test_jobs_that_follow_others_and_would_part_are_refused(world: World) -> None:
    """Nobody would hear of their ends: the job after them would wait for ever."""
    await follow_apart(world)
    with pytest.raises(FoliotError, match="1 jobs that others were submitted after would not"):
        await repartition(world, 8)
    rows = await dump(world)
    assert {row["partition"] for name in ("jobs", "steps") for row in rows[name]} == {0}
    for row in rows["jobs"]:
        await world.cancel(JobId(str(row["id"])))
    await repartition(world, 8)
    rows = await dump(world)
    assert {row["partition"] for row in rows["steps"]} == {7}  # with their workflow, that has ended


async def test_a_key_that_was_taken_with_both_numbers_is_told_and_nothing_is_changed(
    world: World, place: Place, clock: ManualClock
) -> None:
    late = world.new_job(key="k")
    await repartition(world, 8)
    async with open_world(place, clock) as wide:
        early = wide.new_job(partition=partition_of(late.id, 8), key="k")
        await wide.store.jobs.submit(partition_of(early.id, 8), [early])
        await world.store.jobs.submit(0, [late])
        with pytest.raises(FoliotError, match=r"two live jobs have one key.*cancel one of them"):
            await repartition(wide, 8)
        assert {row["partition"] for row in (await dump(wide))["jobs"]} == {0, 7}
        await wide.store.jobs.cancel(7, [early.id])
        assert (await repartition(wide, 8)).moved["jobs"] == 1


# In SQLite, whoever writes keeps all others from it, and has always said so.
@pytest.mark.parametrize("place", ["postgres"], indirect=True)
async def test_an_open_transaction_on_the_tables_is_not_waited_for_long(
    world: World, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foliot.store.postgres.repartition._PATIENCE", 100)
    id = await world.submit()
    with psycopg.connect(place.direct) as other:
        other.execute("SELECT 1 FROM foliot.jobs LIMIT 1")
        with pytest.raises(FoliotError, match="somebody has a transaction open on the tables"):
            await repartition(world, 8)
        assert await world.state(id) is JobState.READY
    assert (await repartition(world, 8)).before == 1


async def test_a_job_that_was_lost_with_its_worker_is_taken_back_where_it_is_now(
    world: World, place: Place, clock: ManualClock
) -> None:
    session = await world.open_session()
    job = await world.run(session)
    world.expire()
    await repartition(world, 8)
    async with open_world(place, clock) as wide:
        wide.ids, wide.partition = world.ids, partition_of(job.id, 8)
        assert await wide.store.jobs.find_lost() == {wide.partition: [session]}
        assert (await wide.reap(session)).total == 1
        [again] = await wide.claim(await wide.open_session())
        assert again.id == job.id
        assert await wide.finish(session, wide.outcome(job, End.SUCCEED)) == [job.id]


async def test_a_workflow_that_runs_goes_on_with_the_new_number(
    world: World, place: Place, clock: ManualClock
) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("s", "a", signal="go"), flow.step("b", "a", "s"))
    await flow.run("a")
    await world.store.sessions.close(flow.session)
    await repartition(world, 8)
    async with open_world(place, clock) as wide:
        wide.ids, wide.partition = world.ids, partition_of(flow.id, 8)
        moved = Drawing(wide, await wide.open_session())
        moved.id, moved.ids = flow.id, flow.ids
        assert await moved.states() == {"a": "succeeded", "s": "held", "b": "waiting"}
        await wide.store.workflows.signal(wide.partition, moved.id, "go", b"2")
        await moved.run("b")
        assert (await moved.get()).state.value == "succeeded"


async def test_jobs_of_every_kind_and_state_go_on_with_the_new_number(place: Place) -> None:
    await upgrade_store(place.settings)
    app = Foliot(place.settings.url)
    ran: list[int] = []

    @app.job(max_attempts=1)
    async def note(number: int, fail: bool = False) -> int:
        ran.append(number)
        if fail:
            raise ValueError("on purpose")
        return number

    app.queue("fair", strategy="round_robin")
    async with app:
        async with app.worker():
            done = await note.asubmit(1)
            assert await done.aresult(timeout=20) == 1
            dead = await note.asubmit(2, fail=True)
            with pytest.raises(JobFailed):
                await dead.aresult(timeout=20)
        cancelled = await note.asubmit(3)
        await cancelled.acancel()
        waiting = [await note.asubmit(n) for n in range(10, 30)]
        waiting += [await note.options(delay=0.1).asubmit(n) for n in range(30, 35)]
        waiting += [await note.options(key=f"k{n}").asubmit(n) for n in range(35, 40)]
        ways = [note.options(ordering_key=f"o{n % 3}") for n in range(9)]
        ways += [note.options(fair_key=f"f{n % 3}", queue="fair") for n in range(9)]
        ways += [note.options(idempotency_key=f"i{n}") for n in range(9)]
        waiting += [await way.asubmit(number) for number, way in enumerate(ways, 40)]

    clock = ManualClock(datetime.now(UTC))
    async with open_world(place, clock) as world:
        assert any((await repartition(world, 8)).moved.values())

    async with app:
        assert (await note.options(key="k35").asubmit(35)).id == waiting[25].id
        assert (await note.options(idempotency_key="i8").asubmit(66)).id == waiting[-1].id
        assert {partition_of(handle.id, 8) for handle in waiting} > {0}
        async with app.worker():
            for number, handle in enumerate(waiting, 10):
                assert await app.get(handle.id).aresult(timeout=20) == number
            await app.get(dead.id).aretry({"number": 2, "fail": False})
            assert await app.get(dead.id).aresult(timeout=20) == 2
        assert await app.get(done.id).aresult(timeout=0) == 1
        assert await app.get(cancelled.id).astatus() == "cancelled"
    assert sorted(ran) == sorted([1, 2, 2, *range(10, 67)])
    for key in range(3):
        assert [n for n in ran if n in range(40 + key, 49, 3)] == [*range(40 + key, 49, 3)]


async def test_killed_in_the_middle_it_has_changed_nothing(
    world: World, place: Place, clock: ManualClock
) -> None:
    await fill(world)
    id = await world.submit()
    before = await dump(world)
    endless(place)
    await asyncio.to_thread(interrupt, place)
    await asyncio.to_thread(ended, place)
    async with open_world(place, clock) as same:
        assert same.store.partitions == 1
        assert await dump(same) == before
        session = await same.open_session()
        [job] = [job for job in await same.claim(session) if job.id == id]
        await same.end(session, job)
        await same.store.sessions.close(session)
        assert (await repartition(same, 8)).moved["jobs"]


def interrupt(place: Place) -> None:
    """Begin, and kill it when all tables but the last one are done."""
    command = [sys.executable, "-m", "foliot", "db", "repartition", "8", "--url", place.direct]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("keys:"):
                break
        process.kill()
    assert process.returncode == -signal.SIGKILL


# To move a job takes for ever.
POSTGRES_ENDLESS = """
CREATE FUNCTION public.endless() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(3600); RETURN NEW; END $$;
CREATE TRIGGER endless BEFORE UPDATE ON foliot.jobs FOR EACH ROW EXECUTE FUNCTION public.endless();
"""
SQLITE_ENDLESS = """
CREATE VIEW endless AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n;
CREATE TRIGGER endless BEFORE UPDATE ON foliot_jobs BEGIN SELECT count(*) FROM endless; END;
"""


def endless(place: Place) -> None:
    if place.engine == "postgres":
        with psycopg.connect(place.direct) as server:
            server.execute(POSTGRES_ENDLESS)
        return
    with closing(sqlite3.connect(place.direct.removeprefix("sqlite:///"))) as file:
        file.executescript(SQLITE_ENDLESS)


def ended(place: Place) -> None:
    """As the server would in time, where the connection is gone."""
    if place.engine == "postgres":
        with psycopg.connect(place.direct, autocommit=True) as server:
            server.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event = 'PgSleep'"
            )
            server.execute("DROP TRIGGER endless ON foliot.jobs")
        return
    with closing(sqlite3.connect(place.direct.removeprefix("sqlite:///"))) as file:
        file.executescript("DROP TRIGGER endless; DROP VIEW endless;")


async def _times(world: World) -> Counter[tuple[object, object]]:
    """How many runs each schedule had of each nominal time."""
    rows = await world.store.transfer.dump("history", after=None, limit=10_000)
    extras = [json.loads(str(row["extras"])) for row in rows]
    return Counter((one["schedule"], one["nominal"]) for one in extras)


@pytest.mark.parametrize("rules", [{}, {"max_runs": 100}], ids=["plain", "stateful"])
async def test_schedules_fire_on_each_time_once(
    world: World, place: Place, clock: ManualClock, rules: dict[str, int]
) -> None:
    spread = Spread(world)
    await spread.create(30, **rules)
    clock.advance(60)
    await spread.parts[0].fire(chunk=12)  # in the middle of it
    await spread.end_jobs()
    await repartition(world, 8)
    async with open_world(place, clock) as wide:
        spread = Spread(wide, spread.noon)
        assert await spread.fire() == 18
        clock.advance(60)
        assert await spread.fire() == 30
        groups, triggers = await wide.store.schedules.forecast(limit=10)
        assert (sum(group.size for group in groups), triggers) == (30, 8)
        clock.advance(60)
        first = await spread.fire(parts=4)  # the others have not come so far
        assert 0 < first < 30
        await repartition(wide, 1)
    async with open_world(place, clock) as narrow:
        spread = Spread(narrow, spread.noon)
        assert await spread.fire() == 30 - first
        clock.advance(60)
        assert await spread.fire() == 30
        runs = await _times(narrow)
        assert len(runs) == 4 * 30
        assert set(runs.values()) == {1}


async def test_what_is_known_of_schedules_goes_with_them(
    world: World, place: Place, clock: ManualClock
) -> None:
    [id, *_] = await Spread(world).create(10)
    await world.store.schedules.pause(0, [id], by="ann")
    ledger = await world.store.schedules.ledger(id, start=0, to=2**40)
    await world.store.calendars.put("days", "[]")
    await repartition(world, 8)
    async with open_world(place, clock) as wide:
        [found] = await wide.store.schedules.get([id])
        assert (found.state, found.paused_by) == ("paused", "ann")
        assert await wide.store.schedules.ledger(id, start=0, to=2**40) == ledger
        assert len(await wide.store.calendars.all()) == 1


async def test_it_is_refused_while_missed_times_are_not_caught_up_with(
    world: World, clock: ManualClock
) -> None:
    table = Table(world)
    await table.create()
    clock.advance(300)
    await table.jump(4, next=6)
    with pytest.raises(FoliotError, match="1 times at which triggers were missed"):
        await repartition(world, 8)
    await table.catch_up(CatchUp((await table.gap()).gap, nominal=table.at(4)))
    assert (await repartition(world, 8)).moved["gaps"] == 8


@pytest.mark.parametrize("job", [{"key": "k"}, {"more": More(ordering_key="k")}])
async def test_a_schedule_whose_jobs_have_a_key_needs_one_partition(
    world: World, job: dict[str, object]
) -> None:
    table = Table(world)
    new = table.new("nightly", **job)
    await world.store.schedules.create(0, [new])
    with pytest.raises(FoliotError, match="only works with one partition: nightly"):
        await repartition(world, 8)
    await world.store.schedules.delete(0, [new.id])
    assert (await repartition(world, 8)).before == 1

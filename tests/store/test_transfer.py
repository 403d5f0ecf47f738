"""Copying a store: every row and column of every table, between engines and numbers of partitions."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest

from foliot.copying import Copied, copy_store
from foliot.errors import FoliotError
from foliot.ids import partition_of
from foliot.model.job import End, JobState, More
from foliot.model.workflow import Rule, WorkflowState
from foliot.store.operator import Record
from foliot.store.tables import TABLES
from foliot.testing.clock import ManualClock
from support.flows import draw, follow_apart
from support.hooks import event_of, listen, told
from support.records import dump, fill
from support.schedules import Spread, Table
from support.stores import Databases, World, open_world, postgres_place, sqlite_place

pytestmark = pytest.mark.anyio
STAYS = {"sessions", "leases", "rollup_writers", "migrations", "uses", "rules"}


class Stores:
    """As many as a test asks for."""

    def __init__(
        self, stack: AsyncExitStack, folder: Path, databases: Databases, clock: ManualClock
    ) -> None:
        self._stack = stack
        self._folder = folder
        self._databases = databases
        self._clock = clock
        self._count = 0

    async def open(self, engine: str, partitions: int = 1) -> World:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        place = await self._stack.enter_async_context(
            sqlite_place(folder, partitions=partitions)
            if engine == "sqlite"
            else postgres_place(self._databases, partitions=partitions)
        )
        return await self._stack.enter_async_context(open_world(place, self._clock))


@pytest.fixture
async def stores(tmp_path: Path, databases: Databases, clock: ManualClock) -> AsyncIterator[Stores]:
    async with AsyncExitStack() as stack:
        yield Stores(stack, tmp_path, databases, clock)


async def copy(source: World, target: World, *, force: bool = False) -> dict[str, Copied]:
    copied = await copy_store(source.store, target.store, say=lambda _t, _n: None, force=force)
    return {each.table: each for each in copied}


async def test_every_row_survives_the_way_to_the_other_engine_and_back(stores: Stores) -> None:
    first, there, back = (
        await stores.open("sqlite"),
        await stores.open("postgres"),
        await stores.open("sqlite"),
    )
    await fill(first)
    before = await dump(first)
    assert all(len(rows) == 5 for rows in before.values())
    assert all(each.complete for each in (await copy(first, there)).values())
    assert await dump(there) == before
    assert all(each.complete for each in (await copy(there, back)).values())
    assert await dump(back) == before


@pytest.mark.parametrize(("source", "target"), [("sqlite", "postgres"), ("postgres", "sqlite")])
async def test_with_other_partitions_a_row_goes_where_its_job_is(
    stores: Stores, source: str, target: str
) -> None:
    few, many = await stores.open(source), await stores.open(target, partitions=8)
    await fill(few, rows=6)
    assert all(each.complete for each in (await copy(few, many)).values())
    for name, rows in (await dump(many)).items():
        for row in rows:
            home = TABLES[name].partition_of(row, 8)
            assert home is None or row["partition"] == home
    # What is known of a fair key is known wherever its jobs may be.
    assert {row["partition"] for row in (await dump(many))["fair"]} == set(range(8))
    again = await stores.open(source)
    assert all(each.complete for each in (await copy(many, again)).values())
    assert await dump(again) == await dump(few)


async def test_ids_fences_and_pasts_go_on_in_the_new_store(stores: Stores) -> None:
    old, new = await stores.open("sqlite"), await stores.open("postgres", partitions=8)
    session = await old.open_session()
    done = await old.run(session, payload=b'{"a":1}')
    await old.end(session, done, result=b'"x"')
    dead = await old.run(session)
    await old.end(session, dead, End.BURY, error="for good", traceback="Traceback")
    later = await old.submit(delay=3600, key="k")
    await old.store.queues.pause("mail", by="me", note="why")
    await old.store.sessions.close(session)

    await copy(old, new)
    for id in (done.id, dead.id, later):
        assert await new.get(id) == await old.get(id)
    assert await new.attempts(dead.id) == await old.attempts(dead.id)
    assert await new.store.queues.all() == await old.store.queues.all()
    new.partition = partition_of(later, 8)
    assert await new.count() == await old.count()


async def test_a_running_job_arrives_as_ready_and_its_old_worker_is_refused(stores: Stores) -> None:
    old, new = await stores.open("postgres"), await stores.open("sqlite")
    session = await old.open_session()
    job = await old.run(session)
    asked = await old.run(session)
    await old.cancel(asked.id)
    with pytest.raises(FoliotError, match="processes work on"):
        await copy(old, new)
    await copy(old, new, force=True)

    found = await new.get(job.id)
    assert (found.state, found.attempt, found.losses, found.session) == (JobState.READY, 0, 0, None)
    assert (await new.get(asked.id)).state is JobState.CANCELLED
    other = await new.open_session()
    [again] = await new.claim(other)
    assert (again.id, again.attempt) == (job.id, 1)
    assert again.fence > job.fence
    assert await new.finish(other, new.outcome(job, End.SUCCEED)) == [job.id]


async def test_a_workflow_goes_on_where_it_was(stores: Stores) -> None:
    """One step has ended, one runs, one was asked to end, two wait."""
    old, new = await stores.open("sqlite"), await stores.open("postgres", partitions=8)
    flow = await draw(old)
    await flow.submit(
        flow.step("a"),
        flow.step("b", "a"),
        flow.step("c", "a"),
        flow.step("d", "b", "c", rule=Rule.ALL_DONE),
        policy="continue",
    )
    await flow.run("a")
    assert await flow.claim() == {"b", "c"}
    await old.cancel(flow.ids["c"])
    await copy(old, new, force=True)
    new.partition = partition_of(flow.id, 8)
    assert await new.store.workflows.steps(flow.id) != []
    flow.world, flow.session = new, await new.open_session()
    await flow.run("b")
    await flow.run("d")
    assert await flow.states() == {
        "a": "succeeded",
        "b": "succeeded",
        "c": "cancelled",
        "d": "succeeded",
    }
    assert (await flow.get()).state is WorkflowState.FAILED


async def test_jobs_that_follow_others_and_would_part_are_refused(stores: Stores) -> None:
    old, new = await stores.open("sqlite"), await stores.open("postgres", partitions=8)
    await follow_apart(old)
    with pytest.raises(FoliotError, match="1 jobs that others were submitted after would not"):
        await copy(old, new)
    assert not any((await dump(new)).values())
    same = await stores.open("postgres")
    assert (await copy(old, same))["steps"].arrived == 3


async def test_a_store_with_anything_in_it_is_no_target(stores: Stores) -> None:
    old, new = await stores.open("sqlite"), await stores.open("sqlite")
    await new.store.queues.pause("mail")
    with pytest.raises(FoliotError, match="is not empty: it has rows in queues"):
        await copy(old, new)


async def test_keys_that_would_part_are_refused_before_anything_is_copied(stores: Stores) -> None:
    """A job lives with its ordering key: nobody would see there that its unique key is taken."""
    old, new = await stores.open("postgres"), await stores.open("sqlite", partitions=8)
    jobs = [old.new_job(key=f"k{n}", more=More(ordering_key=f"o{n}")) for n in range(20)]
    await old.submit(*jobs)
    with pytest.raises(FoliotError, match="would not be in one partition with their ordering key"):
        await copy(old, new)
    assert not any((await dump(new)).values())
    same = await stores.open("sqlite")
    assert (await copy(old, same))["jobs"].arrived == 20


async def test_what_is_submitted_meanwhile_is_missed_and_told(stores: Stores) -> None:
    old, new = await stores.open("sqlite"), await stores.open("sqlite")
    await old.submit()
    submitted: list[str] = []

    async def late() -> None:
        submitted.append(await old.submit())

    dumping = old.store.transfer.dump

    async def dump_then_submit(table: str, *, after: Record | None, limit: int) -> list[Record]:
        rows = await dumping(table, after=after, limit=limit)
        if table == "jobs" and not rows and not submitted:
            await late()
        return rows

    old.store.transfer.dump = dump_then_submit  # type: ignore[method-assign]  # a submission in between
    jobs = (await copy(old, new))["jobs"]
    assert (jobs.rows, jobs.arrived, jobs.complete) == (2, 1, False)


@pytest.mark.parametrize(("source", "target"), [("sqlite", "postgres"), ("postgres", "sqlite")])
async def test_schedules_fire_on_in_the_new_store_each_time_once(
    stores: Stores, clock: ManualClock, source: str, target: str
) -> None:
    few, many = await stores.open(source), await stores.open(target, partitions=8)
    spread = Spread(few)
    await spread.create(30)
    clock.advance(60)
    await spread.parts[0].fire(chunk=12)  # in the middle of it
    await spread.end_jobs()
    assert all(each.complete for each in (await copy(few, many)).values())
    spread = Spread(many, spread.noon)
    assert await spread.fire() == 18
    clock.advance(60)
    first = await spread.fire(parts=4)  # the others have not come so far
    again = await stores.open(source)
    assert all(each.complete for each in (await copy(many, again)).values())
    groups, triggers = await again.store.schedules.forecast(limit=10)
    assert (sum(group.size for group in groups), triggers) == (30, 1)
    assert await Spread(again, spread.noon).fire() == 30 - first


async def test_with_the_same_partitions_a_trigger_goes_on_where_it_was(
    stores: Stores, clock: ManualClock
) -> None:
    old, new = await stores.open("sqlite"), await stores.open("postgres")
    table = Table(old)
    await table.create_many(10)
    clock.advance(60)
    await table.fire(chunk=4)
    await copy(old, new)
    there = Table(new)
    assert (await there.due())[0].count == 6
    assert (await there.fire()).jobs == 6


async def test_missed_times_are_caught_up_with_before_partitions_change(
    stores: Stores, clock: ManualClock
) -> None:
    old, new = await stores.open("sqlite"), await stores.open("postgres", partitions=8)
    table = Table(old)
    await table.create(name="nightly")
    clock.advance(300)
    await table.jump(4, next=6)
    with pytest.raises(FoliotError, match="1 times at which triggers were missed"):
        await copy(old, new)
    assert not any((await dump(new)).values())
    same = await stores.open("postgres")
    await copy(old, same)
    assert (await Table(same).gap()).gap.count == 4


async def test_every_table_and_column_is_copied_or_named_as_staying(stores: Stores) -> None:
    """A migration that adds one must say here what becomes of it."""
    sqlite, postgres = await stores.open("sqlite"), await stores.open("postgres")
    known = {name: set(table.columns) for name, table in TABLES.items()}
    with sqlite3.connect(sqlite.place.direct.removeprefix("sqlite:///")) as file:
        names = [
            row[0].removeprefix("foliot_")
            for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if row[0].startswith("foliot_")
        ]
        found = {
            name: {row[1] for row in file.execute(f"PRAGMA table_info(foliot_{name})")}
            for name in names
            if name not in STAYS
        }
    file.close()
    assert found == known
    with psycopg.connect(postgres.place.direct) as connection:
        rows = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = 'foliot' AND table_name NOT LIKE 'history\\_%'"
        ).fetchall()
    assert {(t, c) for t, c in rows if t not in STAYS} == {(t, c) for t in known for c in known[t]}


@pytest.mark.parametrize(("before", "now"), [(1, 8), (8, 1), (8, 3)])
async def test_what_hooks_are_still_to_be_told_is_told_in_the_new_store(
    stores: Stores, before: int, now: int
) -> None:
    source, target = await stores.open("sqlite", before), await stores.open("postgres", now)
    await listen(source, "job.succeeded")
    session = await source.open_session()
    job = await source.run(session)
    await source.end(session, job)
    await source.store.sessions.close(session)
    await copy(source, target)
    home = partition_of(job.id, now)
    assert (await target.store.jobs.peek()).events == {home}
    assert (await target.store.events.deliver(home, limit=10)).jobs == 1
    [made] = await told(target)
    assert (event_of(made).subject, partition_of(made.id, now)) == (job.id, home)

"""What a worker counts: what the store has taken, once, under the right names, in the right minute."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foliot import Cancel, Fixed, Foliot, Handle, current_job
from foliot.config import Settings, StoreSettings, WorkerSettings
from foliot.errors import StoreUnavailable
from foliot.ids import Ids
from foliot.model.job import End, JobState, Outcome
from foliot.model.rollup import Ended, Key, Rollup, bucket_of, merge
from foliot.model.workflow import WORKFLOW_KIND
from foliot.testing.clock import ManualClock
from foliot.worker import tallies as tallies_module
from foliot.worker.tallies import Tallies, WriteTallies
from support.proxy import CuttingProxy
from support.stores import Databases, Place, World, open_world
from worker.conftest import MakeShop
from worker.test_cycle import Rig
from worker.test_notes import run_sql

pytestmark = pytest.mark.anyio

LANE = 7
FINAL = [state for state in JobState if state.final]
_REFUSE = {
    "sqlite": """
CREATE TRIGGER refuse BEFORE INSERT ON foliot_rollups WHEN NEW.namespace = 'bad'
BEGIN SELECT RAISE(ABORT, 'not this'); END;
""",
    "postgres": """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'not this'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON foliot.rollups FOR EACH ROW WHEN (NEW.namespace = 'bad')
    EXECUTE FUNCTION public.refuse();
""",
}
_ALLOW = {"sqlite": "DROP TRIGGER refuse", "postgres": "DROP FUNCTION public.refuse CASCADE"}


class Abacus:
    """Tallies on a clock that stands still, and attempts of the queue `mail` for them."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.ids = Ids(clock=clock, seed=1)
        self.tallies = Tallies(clock, self.ids)
        self.tallies.queues[LANE] = "mail"

    def end(
        self,
        end: End = End.SUCCEED,
        reason: str | None = None,
        *,
        waited: float = 0,
        ran: float = 0,
        kind: str = "send",
        **more: Any,
    ) -> Outcome:
        """Of an attempt that is over."""
        id = self.ids.job()
        self.clock.advance(waited)
        began = self.clock.monotonic()
        self.clock.advance(ran)
        facts = msgspec.json.encode(more).decode() if more else None
        span = (id, LANE, kind, facts, began, self.clock.monotonic())
        return Outcome(id, 1, end, reason=reason, span=span)

    def run(self, end: End = End.SUCCEED, reason: str | None = None, **how: Any) -> None:
        """One whose outcome the store has taken."""
        self.tallies.count([self.end(end, reason, **how)])

    def take(self) -> list[Rollup]:
        found = []
        while (batch := self.tallies.take()) is not None:
            self.tallies.written(batch)
            found += batch.rollups
        return found

    def counts(self) -> dict[tuple[str, str, str, str], int]:
        return {
            (one.key.namespace, one.key.queue, one.key.kind, one.key.outcome): one.count
            for one in self.take()
        }


@pytest.fixture
def counted(clock: ManualClock) -> Abacus:
    clock.advance(1)
    return Abacus(clock)


def test_a_plain_job_waited_since_it_was_submitted(counted: Abacus) -> None:
    counted.run(waited=2.0, ran=0.3)
    now = int(counted.clock.now().timestamp())
    assert counted.take() == [
        Rollup(
            now // 60 * 60,
            Key("default", "mail", "send", Ended.SUCCEEDED),
            1,
            1 << now % 60,
            {bucket_of(2.0): 1},
            {bucket_of(0.3): 1},
        )
    ]
    assert counted.take() == []


def test_a_job_with_a_time_of_its_own_waited_since_then(counted: Abacus) -> None:
    due = round((counted.clock.now().timestamp() + 30) * 1e6)
    counted.run(waited=34.0, run_at=due, namespace="shop")
    [one] = counted.take()
    assert (one.waits, one.key.namespace) == ({bucket_of(4.0): 1}, "shop")


def test_a_job_that_stands_for_a_workflow_did_not_wait_while_that_ran(counted: Abacus) -> None:
    counted.run(waited=3600.0, kind=WORKFLOW_KIND)
    [one] = counted.take()
    assert (one.count, one.waits) == (1, {})


def test_a_clock_that_is_behind_makes_no_negative_wait(counted: Abacus) -> None:
    counted.run(run_at=round((counted.clock.now().timestamp() + 5) * 1e6), namespace="shop")
    assert [one.waits for one in counted.take()] == [{0: 1}]


@pytest.mark.parametrize(
    ("end", "reason", "word"),
    [
        (End.SUCCEED, None, Ended.SUCCEEDED),
        (End.RETRY, "failed", Ended.FAILED),
        (End.RETRY, "timed_out", Ended.FAILED),
        (End.RETRY, "worker_lost", Ended.FAILED),
        (End.RETRY, "killed", Ended.CANCELLED),
        (End.RETRY, "interrupted", Ended.INTERRUPTED),
        (End.BURY, "not_retried", Ended.DEAD),
        (End.CANCEL, "handler", Ended.CANCELLED),
        (End.RELEASE, None, None),
        (End.HOLD, "unfitting_payload", None),
    ],
)
def test_every_end_has_its_word(
    counted: Abacus, end: End, reason: str | None, word: Ended | None
) -> None:
    counted.run(end, reason)
    assert [one.key.outcome for one in counted.take()] == ([] if word is None else [word])


def test_what_the_store_refuses_is_not_counted(counted: Abacus) -> None:
    outcomes = [counted.end() for _ in range(3)]
    counted.tallies.count(outcomes, [outcomes[1].id])
    assert [one.count for one in counted.take()] == [2]


def test_what_has_no_attempt_is_not_counted(counted: Abacus) -> None:
    counted.tallies.count([Outcome(counted.ids.job(), 1, end) for end in End])
    assert counted.take() == []


@given(
    trip=st.lists(
        st.tuples(
            st.sampled_from(["send", "fetch"]),
            st.sampled_from([{}, {}, {}, {"namespace": "shop"}]),
            st.sampled_from([End.SUCCEED, End.SUCCEED, End.RETRY, End.HOLD]),
            st.sampled_from([0, 0.001, 0.5]),
        ),
        max_size=60,
    ),
    waited=st.sampled_from([0, 1000]),
)
def test_many_in_one_trip_are_counted_as_one_by_one(
    trip: list[tuple[str, dict[str, str], End, float]], waited: float
) -> None:
    together, apart = Abacus(ManualClock()), Abacus(ManualClock())
    outcomes = [
        together.end(end, waited=waited, ran=ran, kind=kind, **more)
        for kind, more, end, ran in trip
    ]
    apart.clock.advance(together.clock.monotonic())
    together.tallies.count(outcomes)
    for outcome in outcomes:
        apart.tallies.count([outcome])
    assert merge(together.take()) == merge(apart.take())


def test_those_that_were_submitted_and_taken_together_are_all_counted(counted: Abacus) -> None:
    ids = [counted.ids.job() for _ in range(50)]
    counted.clock.advance(100)
    began = counted.clock.monotonic()
    spans = [(id, LANE, "send", None, began, began + 0.001 * n) for n, id in enumerate(ids)]
    counted.tallies.count([Outcome(span[0], 1, span=span) for span in spans])
    [one] = counted.take()
    assert (one.count, one.waits) == (50, {bucket_of(100): 50})
    assert one.runs == Counter(bucket_of(span[5] - began) for span in spans)


def test_each_minute_and_name_is_counted_apart(counted: Abacus) -> None:
    counted.run()
    counted.run(kind="fetch")
    counted.run(namespace="shop")
    counted.run(End.BURY)
    counted.run()
    assert counted.counts() == {
        ("default", "mail", "send", "succeeded"): 2,
        ("default", "mail", "fetch", "succeeded"): 1,
        ("shop", "mail", "send", "succeeded"): 1,
        ("default", "mail", "send", "dead"): 1,
    }
    counted.run()
    counted.clock.advance(60)
    counted.run()
    assert [one.count for one in counted.take()] == [1, 1]


def test_the_seconds_in_which_something_ended_are_known(counted: Abacus) -> None:
    start = int(counted.clock.now().timestamp()) % 60
    for wait in (0, 0, 3, 0.5, 0.5):
        counted.clock.advance(wait)
        counted.run()
    [one] = counted.take()
    assert one.seconds == 1 << start | 1 << start + 3 | 1 << start + 4
    assert one.count == 5


def test_what_is_sent_stays_until_it_is_written(counted: Abacus) -> None:
    counted.run()
    first = counted.tallies.take()
    assert first is not None
    counted.run()
    assert counted.tallies.take() is first
    counted.tallies.written(first)
    second = counted.tallies.take()
    assert second is not None
    assert (first.number, second.number) == (1, 2)
    assert [one.count for one in second.rollups] == [1]
    counted.tallies.written(first)
    assert counted.tallies.take() is second, "that was another one"


def test_it_does_not_grow_without_bound(
    counted: Abacus, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tallies_module, "_MOST_WAITING", 5)
    monkeypatch.setattr(tallies_module, "_MOST_AT_ONCE", 2)
    for number in range(8):
        counted.run(namespace=f"tenant-{number}")
    assert len(counted.take()) == 5
    assert "3 kinds of ends in ten seconds were too many to count" in caplog.text
    counted.run(namespace="tenant-9")
    assert len(counted.take()) == 1


@pytest.fixture
async def world(place: Place, clock: ManualClock) -> AsyncIterator[World]:
    async with open_world(place, clock) as world:
        yield world


async def test_a_store_that_is_away_delays_what_is_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Abacus(world.clock)
    loop = WriteTallies(world.store, counted.tallies, clock=world.clock, ids=world.ids)
    write = world.store.rollups.write

    async def away(*_: Any) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(world.store.rollups, "write", away)
    for _ in range(3):
        counted.run()
        with pytest.raises(StoreUnavailable):
            await loop.tick()
        world.clock.advance(60)
    monkeypatch.setattr(world.store.rollups, "write", write)
    await loop.tick()
    found = await world.store.rollups.read(0, 1 << 40)
    assert [one.count for one in found] == [1, 1, 1]
    assert len({one.minute for one in found}) == 3


class _OtherHost(ManualClock):
    """Whose clock differs from the store's, which is this test's."""

    def __init__(self, store: ManualClock, ahead: float) -> None:
        super().__init__(store.now())
        self._store = store
        self._difference = timedelta(seconds=ahead)

    def now(self) -> datetime:
        return self._store.now() + self._difference


@pytest.mark.parametrize("ahead", [-30, 30])
async def test_times_are_those_of_the_store_whatever_the_clock_of_the_host_says(
    world: World, ahead: float
) -> None:
    counted = Abacus(_OtherHost(world.clock, ahead))
    loop = WriteTallies(world.store, counted.tallies, clock=counted.clock, ids=world.ids)
    await loop.tick()
    due = round(world.clock.now().timestamp() * 1e6)
    counted.run(waited=2.2, run_at=due - 2_200_000)
    await loop.tick()
    [one] = await world.store.rollups.read(0, 1 << 40)
    assert one.waits == {bucket_of(2.2): 1}
    now = int(world.clock.now().timestamp())
    assert (one.minute, one.seconds) == (now - now % 10, 1 << now % 60)


async def test_an_idle_process_asks_for_the_time_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Abacus(world.clock)
    loop = WriteTallies(world.store, counted.tallies, clock=world.clock, ids=world.ids)
    ask, asked = world.store.schedules.now, 0

    async def count() -> datetime:
        nonlocal asked
        asked += 1
        return await ask()

    monkeypatch.setattr(world.store.schedules, "now", count)
    for _ in range(3):
        await loop.tick()
    assert asked == 1
    counted.run()
    await loop.tick()
    assert asked == 2


async def test_what_is_counted_while_it_is_written_waits_for_the_next_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Abacus(world.clock)
    loop = WriteTallies(world.store, counted.tallies, clock=world.clock, ids=world.ids)
    monkeypatch.setattr(tallies_module, "_MOST_AT_ONCE", 2)
    write, writes = world.store.rollups.write, 0

    async def busy(*args: Any) -> None:
        nonlocal writes
        writes += 1
        assert writes < 10, "it does not come to an end"
        await write(*args)
        counted.run(kind="meanwhile")

    monkeypatch.setattr(world.store.rollups, "write", busy)
    for number in range(3):
        counted.run(kind=f"before-{number}")
    await loop.tick()
    assert writes == 2
    found = {one.key.kind for one in await world.store.rollups.read(0, 1 << 40)}
    assert found >= {"before-0", "before-1", "before-2"}


async def test_what_the_store_will_not_have_keeps_nothing_else_back(world: World) -> None:
    counted = Abacus(world.clock)
    loop = WriteTallies(world.store, counted.tallies, clock=world.clock, ids=world.ids)
    engine = world.place.engine
    run_sql(engine, world.place.direct, _REFUSE[engine])
    try:
        counted.run(namespace="bad")
        assert await loop.tick_safely() < 1, "a short pause, as after any error"
        counted.run(namespace="good")
        await loop.tick()
    finally:
        run_sql(engine, world.place.direct, _ALLOW[engine])
    await loop.tick()
    found = await world.store.rollups.read(0, 1 << 40)
    assert [(one.key.namespace, one.count) for one in found] == [("good", 1)]


async def test_a_reply_that_is_lost_counts_nothing_twice(
    databases: Databases, clock: ManualClock
) -> None:
    server = databases.server
    async with databases.borrow(1) as name:
        with CuttingProxy(str(server.directory), server.port) as proxy:
            place = Place("postgres", StoreSettings(url=proxy.url(name)), server.url(name))
            async with open_world(place, clock) as world:
                counted = Abacus(clock)
                loop = WriteTallies(world.store, counted.tallies, clock=clock, ids=world.ids)
                for _ in range(4):
                    counted.run()
                    proxy.cut_after_commit(containing="insert into foliot.rollups")
                    with pytest.raises(StoreUnavailable):
                        await loop.tick()
                    assert proxy.cut.is_set()
                await loop.tick()
                found = merge(await world.store.rollups.read(0, 1 << 40))
                assert sum(one.count for one in found) == 4


async def three(world: World, *, stale: bool = False) -> Rig:
    """A cycle with the outcomes of three attempts, the first perhaps of a claim that is not its own any more."""
    session = await world.open_session(lease=1e6)
    await world.submit_many(3)
    rig = Rig(world, session)
    for number, job in enumerate(await world.claim(session, 3)):
        span = (job.id, job.lane, job.kind, job.more, 0.0, 0.1)
        rig.cycle.done(Outcome(job.id, job.fence - (stale and number == 0), span=span))
    return rig


def sum_of(rig: Rig) -> int:
    batch = rig.cycle.tallies.take()
    return 0 if batch is None else sum(one.count for one in batch.rollups)


async def test_an_outcome_that_came_too_late_is_not_counted(world: World) -> None:
    rig = await three(world, stale=True)
    await rig.flush()
    assert sum_of(rig) == 2


async def test_outcomes_that_took_effect_unseen_are_counted_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = await three(world)
    finish, trips = world.store.jobs.finish_and_claim, 0

    async def unseen(*args: Any, **rest: Any) -> Any:
        nonlocal trips
        trips += 1
        told = await finish(*args, **rest)
        if trips == 1:
            raise StoreUnavailable("the reply was lost", unknown=True)
        return told

    monkeypatch.setattr(world.store.jobs, "finish_and_claim", unseen)
    await rig.flush()
    assert (trips, sum_of(rig)) == (1, 3)


@pytest.mark.parametrize("silences", [1, 2, 3])
async def test_outcomes_are_counted_although_it_cannot_be_asked_at_once_what_took_effect(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    silences: int,
) -> None:
    rig = await three(world, stale=True)
    finish, settled = world.store.jobs.finish_and_claim, world.store.jobs.settled
    trips = asked = 0

    async def unseen(*args: Any, **rest: Any) -> Any:
        nonlocal trips
        trips += 1
        told = await finish(*args, **rest)
        if trips == 1:
            raise StoreUnavailable("the reply was lost", unknown=True)
        return told

    async def silent(*args: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked <= silences:
            raise StoreUnavailable("still away")
        return await settled(*args)

    monkeypatch.setattr(world.store.jobs, "finish_and_claim", unseen)
    monkeypatch.setattr(world.store.jobs, "settled", silent)
    await rig.flush()
    assert (sum_of(rig), asked) == (2, silences + 1)
    assert caplog.text.count("belongs to another attempt") == 1, "of that which came too late"


@pytest.fixture
async def app(place: Place) -> AsyncIterator[Foliot]:
    app = Foliot(
        settings=Settings(
            store=place.settings, worker=WorkerSettings(poll=0.05, threads=4, grace=0.2)
        )
    )
    yield app
    await app.aclose()


async def _send(number: int) -> int:
    return number


async def _doze(seconds: float) -> None:
    await asyncio.sleep(seconds)


def _pack(number: int) -> int:
    return number


def _fail() -> None:
    raise ValueError("broken")


def _give_up() -> None:
    raise Cancel("enough")


def _settle() -> None:
    with current_job().transaction() as tx:
        tx.execute("SELECT 1")


async def _hang() -> None:
    await asyncio.sleep(60)


async def reached(handle: Handle[Any], *states: JobState) -> None:
    while await handle.astatus() not in states:  # noqa: ASYNC110 - the worker brings it there
        await asyncio.sleep(0.01)


async def test_a_worker_counts_what_became_of_its_jobs(app: Foliot) -> None:
    """As the jobs themselves know it, wherever they run and however they end."""

    send, pack = app.job(queue="mail")(_send), app.job(queue="mail", namespace="shop")(_pack)
    fail = app.job(queue="odd", max_attempts=2, retry=Fixed(0.01))(_fail)
    give_up, settle, hang = (app.job(queue="odd")(one) for one in (_give_up, _settle, _hang))
    calls = [send.prepare(n) for n in range(20)] + [pack.prepare(n) for n in range(5)]
    calls += [one.prepare() for one in (fail, give_up, settle)]
    async with app.worker():
        handles = await app.asubmit_many(calls)
        hanging = await hang.asubmit()
        await reached(hanging, JobState.RUNNING)
        await hanging.acancel()
        for handle in (*handles, hanging):
            await reached(handle, *FINAL)
    found = await app.astats(by=("namespace", "queue", "kind", "outcome"))
    assert {row.name: row.ended for row in found.rows} == {
        ("default", "mail", "_send", "succeeded"): 20,
        ("shop", "mail", "_pack", "succeeded"): 5,
        ("default", "odd", "_fail", "failed"): 1,
        ("default", "odd", "_fail", "dead"): 1,
        ("default", "odd", "_give_up", "cancelled"): 1,
        ("default", "odd", "_settle", "succeeded"): 1,
        ("default", "odd", "_hang", "cancelled"): 1,
    }
    for row in found.rows:
        assert row.wait_p50 is not None and 0 <= row.wait_p50 < 30
        assert row.run_p50 is not None and 0 <= row.run_p50 < 30


async def test_jobs_that_run_together_are_all_counted_and_those_that_run_apart_are_timed_apart(
    app: Foliot,
) -> None:
    doze = app.job()(_doze)
    async with app.worker():
        calls = [doze.prepare(0.0) for _ in range(40)] + [doze.prepare(0.3) for _ in range(5)]
        for handle in await app.asubmit_many(calls):
            await reached(handle, *FINAL)
    [row] = (await app.astats(by="kind")).rows
    assert row.ended == 45
    assert row.run_p50 is not None and row.run_p50 < 0.2
    assert row.run_p95 is not None and row.run_p95 > 0.2


def test_what_runs_in_a_child_process_is_counted_too(make_shop: MakeShop) -> None:
    shop = make_shop()
    shop.jobs.who.submit().result(timeout=30)
    shop.close()
    found = shop.jobs.app.stats(by=("kind", "outcome"))
    assert [(row.name, row.ended) for row in found.rows] == [(("who", "succeeded"), 1)]
    run = found.rows[0].run_p95
    assert run is not None and run < 5, "the process's own start does not count"

"""Outages: PostgreSQL goes away in every way, comes back, and the same store goes on as if nothing had been."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from foliot.clock import SystemClock
from foliot.config import LimitSettings, StoreSettings
from foliot.errors import StoreUnavailable
from foliot.ids import Ids
from foliot.model.job import End, JobState, Outcome
from foliot.model.lane import lane_of
from foliot.model.workflow import Rule
from foliot.store.open import open_store, upgrade_store
from foliot.store.port import Share, Wake
from foliot.testing.clock import ManualClock
from foliot.testing.postgres import TemporaryPostgres
from foliot.workflow_commands import follow
from support.proxy import CuttingProxy
from support.stores import Databases, Place, World, open_world

pytestmark = pytest.mark.anyio

NAME = "outages"


@pytest.fixture(scope="module")
def server() -> Iterator[TemporaryPostgres]:
    """One of its own, to be stopped and started."""
    with TemporaryPostgres() as server:
        yield server


@pytest.fixture
async def away(server: TemporaryPostgres, clock: ManualClock) -> AsyncIterator[World]:
    """A store whose server the test may take away."""
    server.start()
    settings = StoreSettings(url=server.create_database(NAME), connect_timeout=2)
    await upgrade_store(settings)
    async with open_world(Place("postgres", settings, settings.url), clock) as world:
        yield world
    server.start()
    server.set_read_only(False)
    server.drop_database(NAME)


@pytest.fixture
def proxy(databases: Databases) -> Iterator[CuttingProxy]:
    with CuttingProxy(str(databases.server.directory), databases.server.port) as proxy:
        yield proxy


@pytest.fixture
async def cut(
    databases: Databases, proxy: CuttingProxy, clock: ManualClock
) -> AsyncIterator[World]:
    """A store behind a proxy that loses connections."""
    async with databases.borrow(8) as name:
        settings = StoreSettings(url=proxy.url(name), connect_timeout=2)
        place = Place("postgres", settings, databases.server.url(name))
        async with open_world(place, clock) as world:
            yield world


async def _until_it_works(act: Callable[[], Awaitable[object]], *, tries: int = 20) -> int:
    """How often it failed before it worked; any other error than StoreUnavailable is a bug."""
    for failures in range(tries):
        try:
            await act()
        except StoreUnavailable:
            continue
        return failures
    raise AssertionError(f"still failing after {tries} tries")


class TestAReplyThatIsLost:
    """The connection is cut after the commit and before its reply."""

    @pytest.mark.parametrize("count", [1, 2500])
    @pytest.mark.parametrize("key", [None, "k"])
    async def test_of_a_submit_is_unknown_and_sending_again_makes_no_second_job(
        self, cut: World, proxy: CuttingProxy, count: int, key: str | None
    ) -> None:
        jobs = [cut.new_job(key=key and f"{key}{n}") for n in range(count)]
        await cut.submit()
        proxy.cut_after_commit(containing="INSERT INTO foliot.jobs")
        with pytest.raises(StoreUnavailable) as caught:
            await cut.submit(*jobs)
        assert caught.value.unknown
        assert proxy.cuts == 1
        ids = await cut.store.jobs.submit(cut.partition, jobs, resend=True)
        assert ids == [job.id for job in jobs]
        assert await cut.count() == {JobState.READY: count + 1}

    async def test_of_a_submit_whose_job_has_run_meanwhile_makes_no_second_job(
        self, cut: World, proxy: CuttingProxy, databases: Databases
    ) -> None:
        session = await cut.open_session()
        job = cut.new_job()
        proxy.cut_after_commit(containing="INSERT INTO foliot.jobs")
        with pytest.raises(StoreUnavailable):
            await cut.submit(job)
        [claimed] = await cut.claim(session)
        await cut.end(session, claimed)
        await cut.store.jobs.submit(cut.partition, [job], resend=True)
        assert await cut.count() == {JobState.SUCCEEDED: 1}

    async def test_of_a_job_that_comes_after_another_is_not_noticed(
        self, cut: World, proxy: CuttingProxy
    ) -> None:
        first = await cut.submit()
        job, limits = cut.new_job(), LimitSettings()
        proxy.cut_after_commit(containing="INSERT INTO foliot.steps")
        id = await follow(
            cut.store, job, [first], rule=Rule.ALL_SUCCEEDED, ids=cut.ids, limits=limits
        )
        assert proxy.cuts == 1
        assert await cut.count() == {JobState.READY: 1, JobState.WAITING: 1}
        assert await cut.state(id) is JobState.WAITING

    @pytest.mark.parametrize("end", [End.SUCCEED, End.CANCEL, End.RETRY, End.BURY])
    async def test_of_a_finish_is_unknown_and_the_store_knows_that_it_took_effect(
        self, cut: World, proxy: CuttingProxy, end: End
    ) -> None:
        session = await cut.open_session()
        job = await cut.run(session)
        waiting = await cut.submit()
        outcome = cut.outcome(job, end)
        proxy.cut_after_commit(containing="foliot.jobs")
        with pytest.raises(StoreUnavailable) as caught:
            await cut.store.jobs.finish_and_claim(
                cut.partition,
                session,
                outcomes=[outcome],
                shares=[Share(lane_of("default"), 5)],
                room=5,
            )
        assert caught.value.unknown
        assert await cut.store.jobs.settled(cut.partition, [outcome]) == {job.id}
        assert await cut.finish(session, outcome) == [job.id]
        # What was claimed by the lost reply is found, and can be given back.
        [lost] = await cut.store.jobs.running(session)
        assert lost.id == waiting
        assert await cut.finish(session, Outcome(lost.id, lost.fence, End.RELEASE)) == []
        assert await cut.state(waiting) is JobState.READY

    async def test_of_a_cancel_is_unknown_and_cancelling_again_is_harmless(
        self, cut: World, proxy: CuttingProxy
    ) -> None:
        id = await cut.submit()
        proxy.cut_after_commit(containing="foliot.jobs")
        with pytest.raises(StoreUnavailable) as caught:
            await cut.cancel(id)
        assert caught.value.unknown
        assert await cut.cancel(id) == {}
        assert await cut.state(id) is JobState.CANCELLED

    async def test_of_a_heartbeat_is_no_end_of_the_session(
        self, cut: World, proxy: CuttingProxy
    ) -> None:
        session = await cut.open_session()
        heart = cut.store.sessions.heart(session, lease=30)
        assert heart.extend([])
        cut.clock.advance(20)
        proxy.cut_after_commit(containing="UPDATE foliot.sessions")
        with pytest.raises(StoreUnavailable) as caught:
            heart.extend([])
        assert caught.value.unknown
        cut.clock.advance(20)  # beyond the first lease: the lost beat has counted
        assert heart.extend([])
        heart.close()


async def test_a_transaction_that_never_reached_the_server_has_done_nothing(
    cut: World, proxy: CuttingProxy
) -> None:
    await cut.submit()  # so that it is connected
    proxy.refuse(True)
    proxy.cut_all()
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await cut.submit()
    proxy.refuse(False)
    assert await _until_it_works(cut.submit) <= 4
    assert await cut.count() == {JobState.READY: 2}


async def test_connections_cut_again_and_again_lose_and_double_nothing(
    cut: World, proxy: CuttingProxy
) -> None:
    """Several writers, each sending again until it is told, while every connection is cut twenty times."""
    jobs = [cut.new_job() for _ in range(200)]
    finished = asyncio.Event()

    async def submit(some: list[int]) -> None:
        for number in some:
            resend = False
            while True:
                try:
                    await cut.store.jobs.submit(cut.partition, [jobs[number]], resend=resend)
                except StoreUnavailable:
                    resend = True
                    continue
                break

    async def keep_cutting() -> None:
        for _ in range(20):
            proxy.cut_all()
            try:
                await asyncio.wait_for(finished.wait(), 0.02)
            except TimeoutError:
                continue
            return

    cutting = asyncio.create_task(keep_cutting())
    await asyncio.gather(*(submit(list(range(start, 200, 4))) for start in range(4)))
    finished.set()
    await cutting
    assert await _count_patiently(cut) == {JobState.READY: 200}


async def _count_patiently(world: World) -> dict[JobState, int]:
    """The pool may still hold connections that were cut; each is found by using it."""
    for _ in range(20):
        try:
            return await world.count()
        except StoreUnavailable:
            continue
    return await world.count()


async def _terminate(server: TemporaryPostgres) -> None:
    assert await asyncio.to_thread(server.terminate_backends) > 0


async def _restart(server: TemporaryPostgres) -> None:
    await asyncio.to_thread(server.restart)


async def _crash(server: TemporaryPostgres) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


@pytest.mark.parametrize("disturb", [_terminate, _restart, _crash])
async def test_the_same_store_goes_on_after_every_connection_was_lost(
    away: World,
    server: TemporaryPostgres,
    disturb: Callable[[TemporaryPostgres], Awaitable[None]],
) -> None:
    session = await away.open_session(lease=1000)
    heart = away.store.sessions.heart(session, lease=1000)
    assert heart.extend([])
    job = await away.run(session)
    await asyncio.gather(*(away.store.jobs.peek() for _ in range(4)))  # so that there are several
    await disturb(server)
    failures = await _until_it_works(away.store.jobs.peek)
    assert failures <= 5  # at most one for each connection that was lost
    for _ in range(4):
        await _until_it_works(away.store.jobs.peek)
    await away.end(session, job, result=b"1")
    try:
        assert heart.extend([])
    except StoreUnavailable:
        assert heart.extend([])
    heart.close()
    assert (await away.get(job.id)).result == b"1"


async def test_a_read_finds_another_connection_where_idle_ones_were_cut(
    away: World, server: TemporaryPostgres
) -> None:
    id = await away.submit()
    await asyncio.gather(*(away.store.jobs.peek() for _ in range(4)))  # so that there are several
    await _terminate(server)
    assert await away.state(id) is JobState.READY


async def test_while_the_server_is_down_calls_fail_within_their_time_and_say_so(
    away: World, server: TemporaryPostgres
) -> None:
    job = away.new_job()
    await asyncio.to_thread(server.stop)
    loop = asyncio.get_running_loop()
    for _ in range(3):
        began = loop.time()
        with pytest.raises(StoreUnavailable) as caught:
            await away.submit(job)
        assert loop.time() - began < 4
        assert "PostgreSQL" in str(caught.value)
    await asyncio.to_thread(server.start)
    assert await _until_it_works(lambda: away.submit(job)) <= 4
    assert await away.count() == {JobState.READY: 1}


async def test_a_call_that_waits_for_the_server_is_served_as_soon_as_it_is_back(
    away: World, server: TemporaryPostgres
) -> None:
    await asyncio.to_thread(server.stop)
    with pytest.raises(StoreUnavailable):
        await away.store.jobs.peek()
    waiting = asyncio.create_task(away.store.jobs.peek())
    await asyncio.sleep(0.1)
    await asyncio.to_thread(server.start)
    await waiting


async def test_a_server_that_became_read_only_is_unavailable_until_it_is_not(
    away: World, server: TemporaryPostgres
) -> None:
    session = await away.open_session(lease=1000)
    job = await away.run(session)
    await asyncio.to_thread(server.set_read_only, True)
    refusals = 0
    for _ in range(8):
        with pytest.raises(StoreUnavailable) as caught:
            await away.submit()
        refusals += "read-only" in str(caught.value)
        if "read-only" in str(caught.value):
            assert not caught.value.unknown  # the server said so: nothing was done
    assert refusals >= 3
    with pytest.raises(StoreUnavailable):
        away.beat(session)
    assert await away.state(job.id) is JobState.RUNNING  # reading works
    await asyncio.to_thread(server.set_read_only, False)
    await _until_it_works(away.submit)
    await away.end(session, job)
    assert (await away.count())[JobState.READY] >= 1


async def test_a_caller_who_gives_up_leaves_no_half_used_connection_behind(
    cut: World, proxy: CuttingProxy
) -> None:
    await cut.submit()
    for _ in range(5):
        proxy.stall(True)
        call = asyncio.create_task(cut.store.jobs.peek())
        await asyncio.sleep(0.05)
        call.cancel()
        moving = asyncio.get_running_loop().call_later(0.05, proxy.stall, False)
        with pytest.raises(asyncio.CancelledError):
            await call
        moving.cancel()  # it may have come before: the next one is to be stalled
    proxy.stall(False)
    await _until_it_works(cut.store.jobs.peek)
    assert await cut.count() == {JobState.READY: 1}


async def test_more_callers_than_connections_wait_their_turn(cut: World) -> None:
    batches = [[cut.new_job()] for _ in range(100)]
    found = await asyncio.gather(*(cut.store.jobs.submit(cut.partition, b) for b in batches))
    assert len({id for [id] in found}) == 100
    assert await cut.count() == {JobState.READY: 100}


async def test_callers_who_wait_too_long_for_a_connection_are_told(
    cut: World, databases: Databases
) -> None:
    """Four connections, all of them held up by a lock."""
    id = await cut.submit()
    with psycopg.connect(cut.place.direct) as connection:
        connection.execute("LOCK foliot.jobs IN ACCESS EXCLUSIVE MODE")
        held = [asyncio.create_task(cut.cancel(id)) for _ in range(4)]
        await asyncio.sleep(0.2)
        with pytest.raises(StoreUnavailable) as caught:
            await cut.store.jobs.peek()
        assert not caught.value.unknown
        connection.rollback()
    await asyncio.gather(*held)
    assert await cut.state(id) is JobState.CANCELLED


async def test_a_server_with_no_connection_to_spare_is_unavailable(
    databases: Databases, clock: ManualClock
) -> None:
    async with databases.borrow(1) as name:
        url = databases.server.url(name)
        with psycopg.connect(databases.server.url(), autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 0")
            connection.execute("CREATE ROLE plain LOGIN")
            connection.execute("GRANT ALL ON DATABASE " + name + " TO plain")
            settings = StoreSettings(url=url.replace("postgres@", "plain@"), connect_timeout=1)
            try:
                with pytest.raises(StoreUnavailable, match="too many connections"):
                    await open_store(settings, clock=clock, ids=Ids())
            finally:
                connection.execute(f"ALTER DATABASE {name} CONNECTION LIMIT -1")
                connection.execute("DROP OWNED BY plain")
                connection.execute(f"REVOKE ALL ON DATABASE {name} FROM plain")
                connection.execute("DROP ROLE plain")


async def test_a_listener_hears_again_after_its_connection_was_lost(
    away: World, server: TemporaryPostgres
) -> None:
    real = await away.another_store(SystemClock())
    heard: asyncio.Queue[Wake] = asyncio.Queue()
    await real.listen(heard.put_nowait)
    assert (await _hear(heard)).due  # whatever was said before it listened
    await _restart(server)
    assert (await _hear(heard)).due  # and meanwhile
    await _until_it_works(away.store.jobs.peek)
    wanted = Wake(((0, -7),))
    for _ in range(20):  # hints may be lost
        away.store.wake(wanted)
        if await _hear(heard) == wanted:
            return
    raise AssertionError("the hint was never heard")


async def _hear(heard: asyncio.Queue[Wake]) -> Wake:
    async with asyncio.timeout(20):
        return await heard.get()


async def test_nothing_is_lost_in_the_log_but_warnings(
    away: World, server: TemporaryPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    """No traceback of a background task frightens whoever reads the log."""
    with caplog.at_level(logging.DEBUG):
        await _restart(server)
        await _until_it_works(away.store.jobs.peek)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_an_outage_is_told_once_and_once_that_it_is_over(
    away: World, server: TemporaryPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    """Not with a line for each attempt and each connection."""
    caplog.set_level(logging.INFO)
    await away.store.listen(lambda _: None)
    await asyncio.gather(*(away.store.jobs.peek() for _ in range(4)))
    await asyncio.to_thread(server.stop)
    for _ in range(2):
        asking = (away.store.jobs.peek() for _ in range(4))
        answers = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    await asyncio.to_thread(server.start)
    await _until_it_works(away.store.jobs.peek)
    said = [record.getMessage() for record in caplog.records]
    assert [one.split(":")[0].split(",")[0] for one in said if "the store is" in one] == [
        "the store is away",
        "the store is back",
    ]
    assert len([one for one in said if "listener" in one]) <= 1
    assert not [one for one in caplog.records if one.name.startswith("psycopg")]
    assert not [one for one in said if "\n" in one]


async def test_what_psycopg_says_of_connections_of_others_is_theirs(
    away: World, server: TemporaryPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(PoolTimeout):
        async with AsyncConnectionPool(
            "host=/nowhere", min_size=1, open=False, name="shop"
        ) as theirs:
            await theirs.wait(0.5)
    assert "error connecting in 'shop'" in caplog.text


async def test_who_asks_psycopg_hears_it(
    away: World, server: TemporaryPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "psycopg.pool")
    await asyncio.to_thread(server.stop)
    with pytest.raises(StoreUnavailable):
        await away.submit()
    assert [one for one in caplog.records if one.name == "psycopg.pool"]

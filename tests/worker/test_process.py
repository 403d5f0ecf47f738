"""A whole process: who is told of what, and how it ends when something in it breaks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from foliot import Event, Fixed, Foliot
from foliot.config import SchedulerSettings, Settings, StoreSettings, WorkerSettings
from foliot.hook_sync import let_absent_go, sync_hooks
from foliot.life import Role
from foliot.model.job import End
from foliot.model.session import NewSession
from foliot.process import Process
from foliot.scheduler.duty import Office
from foliot.scheduler.kinds import Kinds
from foliot.scheduler.partitions import Partitions
from foliot.scheduler.reap import Reap
from foliot.store.port import Wake
from foliot.store.sqlite.sessions import SqliteSessions
from foliot.testing.clock import ManualClock
from foliot.worker.service import Worker
from support.stores import LEASE, World, open_world, sqlite_place

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(tmp_path: Path, clock: ManualClock) -> AsyncIterator[World]:
    async with sqlite_place(tmp_path, partitions=1) as place, open_world(place, clock) as world:
        yield world


@pytest.fixture
def app(tmp_path: Path) -> Foliot:
    """One that would notice nothing for an hour unless it is told."""
    return Foliot(
        settings=Settings(
            store=StoreSettings(url=f"sqlite:///{tmp_path}/foliot.db"),
            worker=WorkerSettings(poll=3600),
            scheduler=SchedulerSettings(reap_every=3600),
        )
    )


async def test_a_worker_that_starts_says_which_of_its_kinds_another_app_has_too(
    app: Foliot, caplog: pytest.LogCaptureFixture
) -> None:
    other = Foliot(settings=app.settings)
    for each, module in ((app, "shop"), (other, "till")):

        def extract(day: str) -> None: ...

        extract.__module__ = module
        each.job(kind="extract")(extract)
    async with app.worker():
        async with app.worker():
            assert "extract" not in caplog.text
        async with other.worker():
            [told] = [one for one in caplog.messages if "extract" in one]
    assert told.startswith("extract is defined by shop (") and "by till (" in told


async def test_a_retry_does_not_wait_for_the_poll(app: Foliot) -> None:
    @app.job(retry=Fixed(0.01))
    def fail_twice(seen: str) -> int:
        count = len(Path(seen).read_text())
        Path(seen).write_text("x" * (count + 1))
        if count < 2:
            raise ValueError
        return count

    seen = Path(app.settings.store.url.removeprefix("sqlite:///")).with_name("seen")
    seen.touch()
    process = Process(Role(app.registry), app.settings, clock=app.clock, ids=app.ids)
    running = asyncio.create_task(process.run())
    try:
        handle = await fail_twice.asubmit(str(seen))
        assert await handle.aresult(timeout=30) == 2
    finally:
        process.stop()
        await running
        app.close()


async def test_work_that_breaks_while_the_process_stops_does_not_keep_it(
    app: Foliot, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stopping = asyncio.Event()

    async def run(_: Worker) -> None:
        await stopping.wait()
        raise RuntimeError("the pump broke")

    async def stop(_: Worker, grace: float, hurry: asyncio.Event) -> None:
        stopping.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Worker, "run", run)
    monkeypatch.setattr(Worker, "stop", stop)
    live = asyncio.Event()
    process = Process(
        Role(app.registry), app.settings, clock=app.clock, ids=app.ids, on_live=live.set
    )
    running = asyncio.create_task(process.run())
    await live.wait()
    process.stop()
    await running
    assert "did not stop in good order" in caplog.text
    app.close()


async def test_older_code_that_starts_meanwhile_does_not_take_away_a_hook(
    world: World, app: Foliot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although no live worker could run the hook: the session of this one is only being opened."""
    older = Foliot(inline=True)

    def work() -> None: ...

    for each in (older, app):
        each.job(work)

    @app.on("job.dead")
    def page(event: Event) -> None: ...

    opening = SqliteSessions.open

    async def open_late(sessions: SqliteSessions, session: NewSession, *, lease: float) -> None:
        await sync_hooks(world.store, older.registry)
        assert await let_absent_go(world.store) == []
        await opening(sessions, session, lease=lease)

    monkeypatch.setattr(SqliteSessions, "open", open_late)
    live = asyncio.Event()
    process = Process(
        Role(app.registry), app.settings, clock=app.clock, ids=app.ids, on_live=live.set
    )
    running = asyncio.create_task(process.run())
    await live.wait()
    assert [one.hook for one in await world.store.events.listeners()] == ["on.job.dead.page"]
    process.stop()
    await running
    app.close()


@pytest.mark.parametrize("supervised", [True, False])
async def test_a_worn_out_process_stops_only_where_another_is_started(
    app: Foliot, supervised: bool, caplog: pytest.LogCaptureFixture
) -> None:
    live = asyncio.Event()
    process = Process(
        Role(app.registry),
        app.settings,
        clock=app.clock,
        ids=app.ids,
        on_live=live.set,
        supervised=supervised,
    )
    running = asyncio.create_task(process.run())
    await live.wait()
    with caplog.at_level(logging.ERROR):
        process._wear_out()
    assert "taken all threads" in caplog.text
    if not supervised:
        await asyncio.sleep(0)
        assert not running.done()
        process.stop()
    await running
    app.close()


async def test_others_are_told_of_what_was_reaped(world: World) -> None:
    gone = await world.open_session()
    await world.run(gone)
    world.expire()
    wakes: list[Wake] = []
    session = await world.open_session(duties=True, lease=LEASE)
    partitions = Partitions(world.store, session, clock=world.clock, ids=world.ids, term=5)
    await partitions.tick()
    reap = Reap(Office(world.store, partitions, world.clock, world.ids, announce=wakes.append))
    await reap.tick()
    await reap.tick()
    assert wakes == [Wake(due=True)]


async def test_what_was_reaped_is_logged_with_its_worker_and_the_first_of_its_jobs(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    gone = await world.open_session()
    ids = await world.submit_many(5)
    await world.claim(gone)
    world.clock.advance(1)
    world.beat(gone, *ids[:4])
    world.expire()
    session = await world.open_session(duties=True, lease=LEASE)
    partitions = Partitions(world.store, session, clock=world.clock, ids=world.ids, term=5)
    await partitions.tick()
    with caplog.at_level(logging.WARNING):
        await Reap(Office(world.store, partitions, world.clock, world.ids)).tick()
    [said] = [one.message for one in caplog.records if one.name == "foliot.scheduler"]
    told, _, named = said.partition("; among them ")
    assert told == (
        "partition 0: taken back from here:1 (lost): "
        "4 executing, to run alone from now on, 1 not started"
    )
    assert len(named.split(", ")) == 3
    assert set(named.split(", ")) < set(ids)


async def test_others_are_told_of_jobs_whose_kind_is_known_by_now(world: World) -> None:
    session = await world.open_session(duties=True)
    job = await world.run(session)
    await world.finish(session, world.outcome(job, End.HOLD))
    wakes: list[Wake] = []
    partitions = Partitions(world.store, session, clock=world.clock, ids=world.ids, term=5)
    await partitions.tick()
    kinds = Kinds(Office(world.store, partitions, world.clock, world.ids, announce=wakes.append))
    await kinds.tick()
    assert wakes == [Wake(((0, job.lane),))]


async def test_what_nobody_knows_is_logged_by_its_kind(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    session = await world.open_session(duties=True)
    ids = [await world.submit(kind=kind) for kind in ("publish", "render", "publish")]
    partitions = Partitions(world.store, session, clock=world.clock, ids=world.ids, term=5)
    await partitions.tick()
    with caplog.at_level(logging.WARNING):
        await Kinds(Office(world.store, partitions, world.clock, world.ids)).tick()
    [said] = [one.message for one in caplog.records if one.name == "foliot.scheduler"]
    told = f"publish: {ids[0]}, {ids[2]}; render: {ids[1]}"
    assert said == f"held because no worker knows their kinds: {told}"


async def test_a_worker_whose_file_was_deleted_says_so_once_and_leaves_what_is_put_there_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be a copy that somebody is putting back, and not all of it is there yet."""
    store = StoreSettings(url=f"sqlite:///{tmp_path}/foliot.db")
    app = Foliot(
        settings=Settings(store=store, worker=WorkerSettings(lease=2, beat=0.2, poll=0.05))
    )

    def told(part: str) -> int:
        said = [one.message for one in caplog.records if one.name == "foliot.process"]
        return len([one for one in said if part in one])

    async def until_told(part: str) -> None:
        async with asyncio.timeout(30):
            while not told(part):  # noqa: ASYNC110 - a log has no event
                await asyncio.sleep(0.05)
        await asyncio.sleep(2.5)  # two more tries
        assert told(part) == 1

    async with app.worker():
        _delete(tmp_path)
        await until_told("is gone")
        (tmp_path / "foliot.db").touch()
        await until_told("was replaced")
        assert _sizes(tmp_path) == {"foliot.db": 0}
    await app.aclose()


def _delete(folder: Path) -> None:
    for path in folder.glob("foliot.db*"):
        path.unlink()


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.glob("foliot.db*")}

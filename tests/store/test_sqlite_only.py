"""What is SQLite's own: one writer with group commit, several processes on one file, wake-ups, a store in memory."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foliot.errors import StoreUnavailable
from foliot.ids import JobId
from foliot.model.job import JobState, Outcome
from foliot.model.session import NewSession
from foliot.store.port import Wake
from foliot.store.sqlite.migrations import read_schema
from foliot.store.sqlite.store import SqliteStore
from support.sqlite import IDS, SHARES, a_store, new_job, submit, url_of
from support.stores import NEWEST

pytestmark = pytest.mark.anyio

# Submits batches of ten until it is killed, and says which are acknowledged.
SUBMIT_FOR_EVER = """
import asyncio, sys
from foliot.clock import SystemClock
from foliot.config import StoreSettings
from foliot.ids import Ids
from foliot.model.job import NewJob
from foliot.model.lane import lane_of
from foliot.store.sqlite.store import open_sqlite

async def main():
    ids = Ids()
    store = await open_sqlite(StoreSettings(url=sys.argv[1]), clock=SystemClock(), ids=ids, size=1)
    async def submit():
        while True:
            jobs = [NewJob(ids.job(), "echo", b"x" * 2000, lane_of("default").number) for _ in range(10)]
            print(*await store.jobs.submit(0, jobs), flush=True)
    await asyncio.gather(submit(), submit(), submit())

asyncio.run(main())
"""

# Claims and finishes until nothing is left, and says how many it has run.
DRAIN = """
import asyncio, sys
from foliot.clock import SystemClock
from foliot.config import StoreSettings
from foliot.ids import Ids
from foliot.model.job import Outcome
from foliot.model.lane import lane_of
from foliot.store.port import Share
from foliot.store.sqlite.store import open_sqlite

async def main():
    ids = Ids()
    store = await open_sqlite(StoreSettings(url=sys.argv[1]), clock=SystemClock(), ids=ids, size=1)
    print("open", flush=True)
    sys.stdin.readline()
    session, done, outcomes = ids.session(), 0, []
    while True:
        cycle = await store.jobs.finish_and_claim(
            0, session, outcomes=outcomes, shares=[Share(lane_of("default"), 7)], room=7
        )
        assert not cycle.refused
        done += len(outcomes)
        outcomes = [Outcome(job.id, job.fence) for job in cycle.claimed]
        if not outcomes:
            break
    await store.close()
    print(done, flush=True)

asyncio.run(main())
"""


def process(program: str, url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def trace(store: SqliteStore) -> list[str]:
    """Every statement that the writer runs from now on."""
    said: list[str] = []
    await store._connections.writer.ask(
        lambda c: c.set_trace_callback(said.append),
        look=lambda c: c.set_trace_callback(said.append),
    )
    said.clear()
    return said


@asynccontextmanager
async def a_busy_writer(store: SqliteStore) -> AsyncIterator[None]:
    """What is asked for inside waits, all of it, until the end of the block."""
    busy, free = threading.Event(), threading.Event()

    def wait(_: sqlite3.Connection) -> bool:
        busy.set()
        return free.wait()

    waiting = asyncio.create_task(store._connections.writer.ask(wait, look=wait))
    await asyncio.to_thread(busy.wait)
    try:
        yield
    finally:
        await asyncio.sleep(0)  # so that tasks made inside have asked
        free.set()
        await waiting


# The writer


async def test_calls_that_wait_together_share_one_commit(tmp_path: Path) -> None:
    async with a_store(url_of(tmp_path / "f.db")) as store:
        said = await trace(store)
        async with a_busy_writer(store):
            calls = [asyncio.create_task(submit(store)) for _ in range(20)]
        ids = await asyncio.gather(*calls)
        assert said.count("COMMIT") == 1
        assert all([await store.jobs.get(id) for id in ids])


async def test_a_failing_call_leaves_the_others_of_its_commit_alone(tmp_path: Path) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM foliot_jobs")
        raise ZeroDivisionError

    async with a_store(url_of(tmp_path / "f.db")) as store:
        said = await trace(store)
        async with a_busy_writer(store):
            before = asyncio.create_task(submit(store))
            failing = asyncio.create_task(store._connections.transact(fail))
            after = asyncio.create_task(submit(store))
        with pytest.raises(ZeroDivisionError):
            await failing
        assert said.count("COMMIT") == 1
        assert await store.jobs.get(await before)
        assert await store.jobs.get(await after)


async def test_a_call_that_was_given_up_before_its_turn_does_nothing(tmp_path: Path) -> None:
    async with a_store(url_of(tmp_path / "f.db")) as store:
        async with a_busy_writer(store):
            call = asyncio.create_task(submit(store))
            await asyncio.sleep(0)
            call.cancel()
        assert (await store.jobs.peek()).ready == []


async def test_who_finds_nothing_to_do_does_not_begin_to_write(tmp_path: Path) -> None:
    async with a_store(url_of(tmp_path / "f.db")) as store:
        session = IDS.session()
        said = await trace(store)
        await store.jobs.finish_and_claim(0, session, shares=SHARES, room=10)
        await store.jobs.admit(0, limit=10)
        await store.jobs.admit_kinds(0, ["echo"])
        await store.jobs.reap(0, [session], limit=10, loss_limit=3)
        await store.sessions.prune()
        await store.upkeep.prune(keep=1, limit=10)
        await store.upkeep.grade()
        assert said
        assert not [statement for statement in said if statement.startswith("BEGIN")]


async def test_a_writer_that_never_lets_go_makes_the_store_unavailable(tmp_path: Path) -> None:
    async with a_store(url_of(tmp_path / "f.db"), patience=0.05) as store:
        other = sqlite3.connect(tmp_path / "f.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked") as refused:
            await submit(store)
        assert not refused.value.unknown
        assert (await store.jobs.peek()).ready == []  # reading goes on
        other.close()
        await submit(store)


async def test_a_commit_that_fails_is_unknown_and_the_next_one_works(tmp_path: Path) -> None:
    async with a_store(url_of(tmp_path / "f.db")) as store:
        kept = await submit(store)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
        try:
            with pytest.raises(StoreUnavailable) as failed:
                await submit(store, b"x" * (4 << 20))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert failed.value.unknown
        more = await submit(store)
        assert (await store.jobs.count())[JobState.READY] == 2
        assert await store.jobs.get(kept)
        assert await store.jobs.get(more)


async def test_payloads_and_results_come_back_whole(tmp_path: Path) -> None:
    payloads = [b"", b"{}", b"\x00\xff", b"x" * 4096, b"y" * 4097, b"z" * (20 << 20), b"1"]
    async with a_store(url_of(tmp_path / "f.db")) as store:
        await store.jobs.submit(0, [new_job(payload) for payload in payloads])
        session = IDS.session()
        cycle = await store.jobs.finish_and_claim(0, session, shares=SHARES, room=100)
        assert [job.payload for job in cycle.claimed] == payloads
        outcomes = [Outcome(job.id, job.fence, result=job.payload) for job in cycle.claimed]
        assert not (await store.jobs.finish_and_claim(0, session, outcomes=outcomes)).refused
        ended = {job.id: job for job in await store.jobs.ended([o.id for o in outcomes])}
        assert [ended[o.id].payload for o in outcomes] == payloads
        assert [ended[o.id].result for o in outcomes] == payloads


# Several processes


async def test_processes_that_open_a_new_file_at_once_make_it_once(tmp_path: Path) -> None:
    url = url_of(tmp_path / "f.db")
    processes = [process(DRAIN, url) for _ in range(4)]
    for one in processes:
        answer, _ = await asyncio.to_thread(one.communicate, "go\n")
        assert answer.split() == ["open", "0"]
    assert (await read_schema(url)).version == NEWEST


async def test_two_processes_run_every_job_once(tmp_path: Path) -> None:
    url = url_of(tmp_path / "f.db")
    async with a_store(url) as store:
        await store.jobs.submit(0, [new_job() for _ in range(2000)])
        processes = [process(DRAIN, url) for _ in range(2)]
        for one in processes:
            assert one.stdout is not None
            await asyncio.to_thread(one.stdout.readline)
        answers = [asyncio.to_thread(one.communicate, "go\n") for one in processes]
        assert sum(int(answer) for answer, _ in await asyncio.gather(*answers)) == 2000
        assert (await store.jobs.count())[JobState.SUCCEEDED] == 2000


async def test_nothing_acknowledged_is_lost_when_a_process_is_killed_while_it_writes(
    tmp_path: Path,
) -> None:
    url = url_of(tmp_path / "f.db")
    writer = process(SUBMIT_FOR_EVER, url)
    assert writer.stdout is not None
    lines = [await asyncio.to_thread(writer.stdout.readline) for _ in range(30)]
    writer.kill()
    # It reads past what had been read ahead for the lines above, so it may begin within one.
    rest, _ = await asyncio.to_thread(writer.communicate)
    acknowledged = "".join([*lines, rest[rest.find("\n") + 1 : rest.rfind("\n") + 1]]).split()
    assert len(acknowledged) >= 300
    async with a_store(url) as store:
        live = (await store.jobs.count())[JobState.READY]
        assert live >= len(acknowledged)
        assert live % 10 == 0  # a batch is there wholly or not at all
        assert all([await store.jobs.get(JobId(id)) for id in acknowledged])
        checked = await store._connections.read(lambda c: c.execute("PRAGMA integrity_check"))
        assert checked.fetchall() == [("ok",)]


# Wake-ups


class Hearing:
    """Counts what is heard."""

    def __init__(self) -> None:
        self.wakes: list[Wake] = []
        self._new = asyncio.Event()

    def __call__(self, wake: Wake) -> None:
        self.wakes.append(wake)
        self._new.set()

    async def next(self) -> Wake:
        async with asyncio.timeout(10):
            await self._new.wait()
        self._new.clear()
        return self.wakes[-1]


async def test_a_hint_reaches_the_same_process_at_once(tmp_path: Path) -> None:
    async with a_store("sqlite://:memory:") as store:
        hearing = Hearing()
        await store.listen(hearing)
        store.wake(Wake(ready=((0, 1),)))
        store.wake(Wake(ready=((0, 2),), cancel=True))
        assert await hearing.next() == Wake(ready=((0, 1), (0, 2)), cancel=True)
        assert len(hearing.wakes) == 1


async def test_every_commit_of_another_is_heard_whatever_is_written_here(tmp_path: Path) -> None:
    url = url_of(tmp_path / "f.db")
    async with a_store(url) as here, a_store(url) as there:
        hearing = Hearing()
        await here.listen(hearing)
        await hearing.next()
        for _ in range(50):
            await submit(here)
            await asyncio.gather(submit(here), submit(there), submit(here))
            assert (await hearing.next()).due
            await submit(there)
            assert (await hearing.next()).cancel


async def test_what_is_written_here_wakes_nobody_here(tmp_path: Path) -> None:
    url = url_of(tmp_path / "f.db")
    async with a_store(url) as here, a_store(url) as there:
        hearing = Hearing()
        await here.listen(hearing)
        await hearing.next()
        for _ in range(200):
            await submit(here)
        await submit(there)
        await hearing.next()
        assert len(hearing.wakes) == 2


# In memory


async def test_a_store_in_memory_lives_a_whole_life() -> None:
    async with a_store("sqlite://:memory:") as store, a_store("sqlite:///:memory:") as other:
        session = IDS.session()
        await store.sessions.open(
            NewSession(id=session, host="h", pid=1, version="0", queues=(), kinds=(), duties=True),
            lease=30,
        )
        assert store.sessions.heart(session, lease=30).extend([])
        id = await submit(store)
        assert await store.jobs.get(IDS.job()) is None
        cycle = await store.jobs.finish_and_claim(0, session, shares=SHARES, room=1)
        outcomes = [Outcome(job.id, job.fence) for job in cycle.claimed]
        await store.jobs.finish_and_claim(0, session, outcomes=outcomes)
        job = await store.jobs.get(id)
        assert job is not None
        assert job.state is JobState.SUCCEEDED
        grade = await store.upkeep.grade()
        assert not grade.durable
        assert grade.durability.startswith("none")
        assert await other.jobs.get(id) is None


async def test_a_store_in_a_file_is_durable(tmp_path: Path) -> None:
    async with a_store(url_of(tmp_path / "f.db")) as store:
        grade = await store.upkeep.grade()
        assert grade.durable
        assert "flushed at every commit" in grade.durability

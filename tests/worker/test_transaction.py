"""A job's own statements and its end commit together: the block by itself, on every store."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import msgspec
import psycopg
import pytest

from foliot.config import Settings, WorkerSettings
from foliot.errors import FoliotError, SessionLost, StoreUnavailable, TransactionTooLong
from foliot.ids import JobId, SessionId
from foliot.model.job import ClaimedJob, End, JobState, More, NewJob
from foliot.model.workflow import NewStep, NewWorkflow, Rule
from foliot.options import NO_CHOICES, Choices
from foliot.store.port import Wake
from foliot.worker.transaction import Block, Desk, Phase
from support.callers import path_of
from support.flows import draw
from support.hooks import listen, outbox
from support.stores import World

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("place", ["sqlite-1", "postgres-1", "pooled-1"], indirect=True),
]
T = TypeVar("T")


class Office:
    """A session with a desk, a job of it that runs, and a table of the job's own."""

    def __init__(self, world: World, session: SessionId, job: ClaimedJob, **worker: Any) -> None:
        self.world = world
        self.session = session
        self.job = job
        self.told: list[Wake] = []
        given = {"transaction_limit": 3600.0, **worker}
        settings = Settings(store=world.place.settings, worker=WorkerSettings(**given))
        self.desk = Desk(settings, session, clock=world.clock, ids=world.ids, tell=self.told.append)

    def block(self) -> Block:
        return Block(self.desk, self.job)

    async def notes(self) -> list[str]:
        return await asyncio.to_thread(
            lambda: [row[0] for row in self.outside("SELECT * FROM notes")]
        )

    def outside(self, statement: str) -> list[Any]:
        """On a connection of its own, committed."""
        url = self.world.place.direct
        if self.world.place.engine == "sqlite":
            file = sqlite3.connect(path_of(url))
            try:
                with file:
                    return file.execute(statement).fetchall()
            finally:
                file.close()
        with psycopg.connect(url, options="-c lock_timeout=5s") as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    async def state(self) -> JobState:
        return await self.world.state(self.job.id)


@pytest.fixture
async def office(world: World) -> AsyncIterator[Office]:
    session = await world.open_session()
    office = Office(world, session, await world.run(session))
    await asyncio.to_thread(office.outside, "CREATE TABLE notes (text text)")
    yield office
    await office.desk.close()
    await asyncio.to_thread(office.outside, "DROP TABLE notes")


class Prepared(msgspec.Struct):
    template: NewJob
    payload: bytes = b"{}"
    choices: Choices = NO_CHOICES


INSERT = "INSERT INTO notes VALUES ('here')"


async def in_thread(function: Callable[[], T]) -> T:
    return await asyncio.to_thread(function)


async def test_statements_and_end_commit_together(office: Office) -> None:
    block = office.block()
    async with block as tx:
        await tx.execute(INSERT)
        assert await tx.execute("SELECT text FROM notes") == [("here",)]
        assert await office.notes() == []
        assert await office.state() is JobState.RUNNING
        tx.result = {"rows": 1}
    assert block.phase is Phase.COMMITTED
    job = await office.world.get(office.job.id)
    assert (job.state, job.result, job.fence) == (JobState.SUCCEEDED, b'{"rows":1}', 1)
    assert await office.notes() == ["here"]


async def test_the_same_in_a_function_that_blocks(office: Office) -> None:
    def function() -> None:
        with office.block() as tx:
            tx.execute(INSERT)
            tx.connection.execute(INSERT)
            tx.result = 2

    await in_thread(function)
    job = await office.world.get(office.job.id)
    assert (job.state, job.result) == (JobState.SUCCEEDED, b"2")
    assert await office.notes() == ["here", "here"]


async def test_the_next_of_an_ordering_key_may_run_when_it_has_committed(world: World) -> None:
    ordered = More(ordering_key="account-7")
    first, second = [await world.submit(more=ordered) for _ in range(2)]
    await world.look()
    session = await world.open_session()
    [job] = await world.claim(session)
    assert job.id == first
    office = Office(world, session, job)
    async with office.block():
        assert await world.state(second) is JobState.HELD
    await office.desk.close()
    assert await world.state(second) is JobState.READY
    assert office.told == [Wake(ready=((world.partition, job.lane),))]


async def test_a_job_that_was_followed_while_it_ran_commits_as_a_step(office: Office) -> None:
    world, block = office.world, office.block()
    child, chain = world.new_job(), world.new_job()
    async with block as tx:
        if world.place.engine == "sqlite":  # whose file is locked by the first statement
            await follow(world, office.job.id, child=child, chain=chain.id)
        await tx.execute(INSERT)
        if world.place.engine == "postgres":
            await follow(world, office.job.id, child=child, chain=chain.id)
    assert block.phase is Phase.COMMITTED
    assert await office.notes() == ["here"]
    assert await office.state() is JobState.SUCCEEDED
    assert await world.state(child.id) is JobState.READY


async def test_one_whose_chain_has_become_part_of_another_does_not_wait_crosswise(
    world: World,
) -> None:
    """Who found both chains before they became one takes the locks of both, in the order of their ids."""
    if world.place.engine == "sqlite":  # there is one writer
        return
    (a, b), session = [await world.submit() for _ in range(2)], await world.open_session()
    c, d = [await follow_anew(world, one) for one in (a, b)]
    held = {job.id: job for job in await world.claim(session)}
    await follow_anew(world, c, d)
    first, second = sorted([held[a], held[b]], key=lambda job: str(job.flow))
    office = Office(world, session, second)
    async with await psycopg.AsyncConnection.connect(world.place.direct) as other:
        lock = "SELECT 1 FROM foliot.workflows WHERE id = %s FOR UPDATE"
        await other.execute(lock, [first.flow])
        ending = asyncio.ensure_future(use(office))
        await until_somebody_waits(world, other)
        await other.execute(lock, [second.flow])
        await other.commit()
    await ending
    await office.desk.close()
    assert await office.state() is JobState.SUCCEEDED


async def test_one_that_becomes_a_step_meanwhile_does_not_wait_crosswise(world: World) -> None:
    """Whoever follows it next has the lock of its workflow, and wants the row."""
    if world.place.engine == "sqlite":
        return
    session = await world.open_session()
    job, other = await world.run(session), await world.submit(delay=60)
    await follow_anew(world, other)
    chain = (await world.get(other)).workflow
    office = Office(world, session, job)
    url = world.place.direct
    async with (
        await psycopg.AsyncConnection.connect(url) as one,
        await psycopg.AsyncConnection.connect(url) as next_,
    ):
        lock = "SELECT 1 FROM foliot.workflows WHERE id = %s FOR UPDATE"
        await next_.execute(lock, [chain])
        await one.execute("UPDATE foliot.jobs SET workflow = %s WHERE id = %s", [chain, job.id])
        ending = asyncio.ensure_future(use(office))
        await until_somebody_waits(world, one)
        await one.commit()
        await until_somebody_waits(world, next_)
        await next_.execute("SELECT 1 FROM foliot.jobs WHERE id = %s FOR UPDATE", [job.id])
        await next_.commit()
    await ending
    await office.desk.close()
    assert await office.state() is JobState.SUCCEEDED


async def use(office: Office) -> None:
    async with office.block() as tx:
        await tx.execute("SELECT 1")


async def until_somebody_waits(world: World, holder: psycopg.AsyncConnection[Any]) -> None:
    """For what this connection has locked."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    pid = holder.info.backend_pid
    url = world.place.direct
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as watcher:
        async with asyncio.timeout(30):
            while not await (await watcher.execute(waiting, [pid])).fetchone():  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def follow_anew(world: World, *parents: JobId) -> JobId:
    child = world.new_job()
    await follow(world, *parents, child=child, chain=world.new_job().id)
    return child.id


async def follow(world: World, *parents: JobId, child: NewJob, chain: JobId) -> None:
    step = NewStep(name=child.id, job=child, parents=parents)
    workflow = NewWorkflow(id=chain, name="chain", steps=(), policy="continue", chain=True)
    await world.store.workflows.follow(world.partition, step, workflow)


async def test_what_its_end_leads_to_is_carried_on_by_the_duty(world: World) -> None:
    flow = await draw(world)
    steps = [flow.step("0"), flow.step("1", "0", rule=Rule.ANY_FAILED)]
    steps += [flow.step(str(number), str(number - 1)) for number in range(2, 60)]
    await flow.submit(*steps)
    [job] = await world.claim(flow.session)
    office = Office(world, flow.session, job)
    await use(office)
    await office.desk.close()
    assert office.told == [Wake(flows=True)]
    assert await flow.stuck()


async def test_an_exception_rolls_both_back(office: Office) -> None:
    def function() -> None:
        with office.block() as tx:
            tx.execute(INSERT)
            raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        await in_thread(function)
    block = office.block()
    with pytest.raises(KeyError):
        async with block as tx:
            await tx.execute(INSERT)
            raise KeyError
    assert block.phase is Phase.ROLLED_BACK
    assert await office.notes() == []
    assert await office.state() is JobState.RUNNING
    await office.world.end(office.session, office.job)


async def test_a_result_that_cannot_be_stored_rolls_both_back(office: Office) -> None:
    with pytest.raises(TypeError):
        async with office.block() as tx:
            await tx.execute(INSERT)
            tx.result = object()
    assert await office.notes() == []
    assert await office.state() is JobState.RUNNING


async def test_a_lost_session_rolls_both_back(office: Office) -> None:
    world = office.world
    block = office.block()
    with pytest.raises(SessionLost, match="belongs to another attempt"):
        async with block as tx:
            if world.place.engine == "postgres":
                await tx.execute(INSERT)
            world.expire()
            await world.reap(office.session)
            await tx.execute(INSERT)
    assert block.phase is Phase.ROLLED_BACK
    assert await office.notes() == []
    assert await office.state() is JobState.READY


async def test_an_old_fence_rolls_both_back(office: Office) -> None:
    world = office.world
    await world.end(office.session, office.job, End.RELEASE)
    [again] = await world.claim(office.session, 1)
    assert again.id == office.job.id

    def function() -> None:
        with office.block() as tx:
            tx.execute(INSERT)

    with pytest.raises(SessionLost):
        await in_thread(function)
    assert await office.notes() == []
    assert await office.state() is JobState.RUNNING


async def test_a_job_submitted_in_it_exists_if_and_only_if_it_commits(office: Office) -> None:
    world = office.world
    call = Prepared(world.new_job())
    ids: list[JobId] = []
    with pytest.raises(KeyError):
        async with office.block() as tx:
            ids.append(await tx.submit(call))
            raise KeyError
    assert await world.store.jobs.get(ids[0]) is None
    assert not office.told
    async with office.block() as tx:
        second = await tx.submit(call)
    assert await world.state(second) is JobState.READY
    assert [wake.ready for wake in office.told] == [((0, call.template.lane),)]


async def test_of_a_key_that_is_taken_the_job_that_has_it_is_returned(office: Office) -> None:
    taken = await office.world.submit(key="taken")

    def function() -> str:
        with office.block() as tx:
            return tx.submit(Prepared(office.world.new_job(key="taken")))

    assert await in_thread(function) == taken


async def test_what_is_no_prepared_call_is_refused(office: Office) -> None:
    wrong: Any = "echo"
    with pytest.raises(FoliotError, match="is not a prepared call"):
        async with office.block() as tx:
            await tx.submit(wrong)


@pytest.mark.parametrize("choices", [{"connection": object()}, {"after": (JobId("one"),)}])
async def test_what_the_transaction_itself_decides_is_no_option_in_it(
    office: Office, choices: dict[str, Any]
) -> None:
    call = Prepared(office.world.new_job(), choices=Choices(**choices))
    [option] = choices
    with pytest.raises(FoliotError, match=f"{option} cannot be given inside of a transaction"):
        async with office.block() as tx:
            await tx.submit(call)


async def test_the_block_alone_ends_the_transaction(office: Office) -> None:
    def function(statement: str) -> None:
        with office.block() as tx:
            tx.execute(INSERT)
            if statement:
                tx.connection.execute(statement)
            else:
                tx.connection.commit()

    for statement in (
        ("", "ROLLBACK") if office.world.place.engine == "postgres" else ("", "COMMIT")
    ):
        with pytest.raises((FoliotError, sqlite3.DatabaseError, psycopg.Error)):
            await in_thread(lambda statement=statement: function(statement))  # type: ignore[misc]
        assert await office.notes() == []
    assert await office.state() is JobState.RUNNING


async def test_a_commit_inside_is_noticed_and_the_job_goes_on(office: Office) -> None:
    if office.world.place.engine == "sqlite":
        return  # where it is refused at once
    with pytest.raises(FoliotError, match="ended inside its block"):
        async with office.block() as tx:
            await tx.execute("COMMIT")
    assert await office.state() is JobState.RUNNING


async def test_settings_of_the_function_do_not_outlast_its_transaction(office: Office) -> None:
    pooled = office.world.place.direct != office.world.place.settings.url

    def function() -> None:
        with office.block() as tx:
            if office.world.place.engine == "sqlite":
                tx.connection.row_factory = lambda cursor, row: {"row": row}
                tx.connection.text_factory = bytes
            else:
                tx.connection.row_factory = psycopg.rows.dict_row
                if not pooled:  # there it would be the next client's
                    tx.execute("SET search_path = nowhere")

    await in_thread(function)
    assert await office.state() is JobState.SUCCEEDED
    office.job = await office.world.run(office.session)

    def second() -> list[Any]:
        with office.block() as tx:
            return tx.execute("SELECT count(*) FROM notes")

    assert await in_thread(second) == [(0,)]


async def test_it_can_be_used_once(office: Office) -> None:
    block = office.block()
    async with block:
        pass
    with pytest.raises(FoliotError, match="has been used"):
        async with block:
            pass


async def test_a_blocking_transaction_is_refused_on_the_event_loop(office: Office) -> None:
    with pytest.raises(FoliotError, match="async with"), office.block():
        pass


async def test_a_cancelled_function_rolls_back(office: Office) -> None:
    inside = asyncio.Event()

    async def function() -> None:
        async with office.block() as tx:
            await tx.execute(INSERT)
            inside.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(function())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await office.notes() == []
    assert await office.state() is JobState.RUNNING
    await office.world.end(office.session, office.job)


async def test_one_that_takes_too_long_is_rolled_back_while_its_function_goes_on(
    office: Office,
) -> None:
    office = Office(office.world, office.session, office.job, transaction_limit=0.2)

    def function() -> None:
        with office.block() as tx:
            tx.execute(INSERT)
            waited = threading.Event().wait(0.6)
            office.world.clock.advance(0.6)
            assert not waited
            tx.connection.execute(INSERT)

    with pytest.raises(TransactionTooLong, match=r"longer than 0\.2 s"):
        await in_thread(function)
    assert await office.notes() == []
    assert await office.state() is JobState.RUNNING
    # Nobody is kept waiting for it.
    await office.world.end(office.session, office.job)


async def test_a_statement_that_takes_too_long_is_ended(office: Office) -> None:
    office = Office(office.world, office.session, office.job, transaction_limit=0.2)
    endless = (
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        if office.world.place.engine == "sqlite"
        else "SELECT pg_sleep(60)"
    )

    def function() -> None:
        with office.block() as tx:
            try:
                tx.execute(endless)
            finally:
                office.world.clock.advance(0.6)

    with pytest.raises(TransactionTooLong):
        await in_thread(function)
    assert await office.state() is JobState.RUNNING


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("waits", [True, False])
async def test_a_commit_that_was_lost_from_sight_is_looked_up(
    office: Office, monkeypatch: pytest.MonkeyPatch, committed: bool, waits: bool
) -> None:
    block = office.block()

    def lose(work: Any) -> None:
        commit = work.commit

        async def lost() -> None:
            if committed:
                await commit()
            else:
                await work.roll_back()
            raise StoreUnavailable("the reply did not come", unknown=True)

        monkeypatch.setattr(work, "commit", lost)

    def function() -> None:
        with block as tx:
            tx.execute(INSERT)
            lose(block.work)

    async def async_function() -> None:
        async with block as tx:
            await tx.execute(INSERT)
            lose(block.work)

    work = async_function() if waits else in_thread(function)
    if committed:
        await work
        assert block.phase is Phase.COMMITTED
        assert (await office.state(), await office.notes()) == (JobState.SUCCEEDED, ["here"])
        return
    with pytest.raises(StoreUnavailable, match="reply did not come"):
        await work
    assert block.phase is Phase.ROLLED_BACK
    assert (await office.state(), await office.notes()) == (JobState.RUNNING, [])


async def test_connections_are_taken_in_turns_and_replaced_when_they_are_lost(
    office: Office,
) -> None:
    if office.world.place.engine == "sqlite":
        return  # each has one to itself
    office = Office(office.world, office.session, office.job, transactions=1)
    jobs = [office.job, *[await office.world.run(office.session) for _ in range(3)]]

    async def function(job: ClaimedJob) -> None:
        async with Block(office.desk, job) as tx:
            await tx.execute(INSERT)

    await asyncio.gather(*(function(job) for job in jobs[:2]))
    await in_thread(
        lambda: office.outside(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    )
    for job in jobs[2:]:
        await function(job)
    assert len(await office.notes()) == 4
    await office.desk.close()


async def test_many_at_once_wait_for_each_other(office: Office) -> None:
    jobs = [office.job, *[await office.world.run(office.session) for _ in range(29)]]

    async def function(job: ClaimedJob) -> None:
        async with Block(office.desk, job) as tx:
            await tx.execute(INSERT)
            await tx.execute(INSERT)

    def blocking(job: ClaimedJob) -> None:
        with Block(office.desk, job) as tx:
            tx.execute(INSERT)
            tx.execute(INSERT)

    async with asyncio.timeout(10):
        await asyncio.gather(
            *(function(job) for job in jobs[:20]),
            *(in_thread(lambda job=job: blocking(job)) for job in jobs[20:]),  # type: ignore[misc]
        )
    assert await office.world.count() == {JobState.SUCCEEDED: 30}
    assert len(await office.notes()) == 60


async def test_who_stops_waiting_for_its_turn_keeps_nobody_waiting(office: Office) -> None:
    if office.world.place.engine == "postgres":
        return  # there they take no turns
    second = await office.world.run(office.session)
    async with office.block() as tx:
        await tx.execute(INSERT)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5), Block(office.desk, second) as other:
                await asyncio.wait_for(other.execute(INSERT), 0.1)
    assert await office.notes() == ["here"]
    await office.world.end(office.session, second)


async def test_its_end_is_told_together_with_it_or_not_at_all(office: Office) -> None:
    world = office.world
    await listen(world, "job.succeeded")
    with pytest.raises(ValueError, match="not today"):
        async with office.block() as tx:
            await tx.execute(INSERT)
            raise ValueError("not today")
    assert await outbox(world) == []
    async with office.block() as tx:
        await tx.execute(INSERT)
        assert await outbox(world) == []
    assert await outbox(world) == [("job.succeeded", office.job.id)]

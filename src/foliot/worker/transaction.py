"""`current_job().transaction()`: a function's own statements and the end of its job commit together, or not at all.

    new → open ──→ committed        the job has ended; whatever the function does then cannot change that
             └───→ rolled back      by an exception, a lost lease, a limit: the attempt goes on, or fails as usual

The job's end is the last statement before the commit, with session and fence: if the job belongs to another attempt by
now it changes nothing, and everything is rolled back. A commit whose reply was lost is looked up, never repeated.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, Final, Protocol, TypeVar

import msgspec

from foliot import commands
from foliot.clock import Clock
from foliot.config import Settings
from foliot.errors import FoliotError, InvalidValue, SessionLost, StoreUnavailable
from foliot.ids import Ids, JobId, SessionId, partition_of
from foliot.model.job import ClaimedJob, JobState, NewJob, Outcome
from foliot.options import Choices, fill
from foliot.store.guest import GuestStore, at_once
from foliot.store.open import make_transactions, open_store
from foliot.store.port import Cycle, Jobs, Store, Wake, together
from foliot.store.transaction import Parameters, Transactions, Work
from foliot.worker.success import success
from foliot.workflow_refs import Unresolved

log = logging.getLogger("foliot.worker")
T = TypeVar("T")
_LOOKS: Final = 20  # for a commit that was lost from sight; then the attempt's failure is told, and refused if need be
_PAUSE: Final = 0.25  # seconds between them


class Submittable(Protocol):
    """A call that has been checked: what a job function's `prepare` makes."""

    @property
    def template(self) -> NewJob: ...

    @property
    def payload(self) -> bytes: ...

    @property
    def choices(self) -> Choices: ...


class Phase(Enum):
    NEW = "new"
    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


class Desk:
    """Where the functions of one session get their transactions, in whichever process they run."""

    def __init__(
        self,
        settings: Settings,
        session: SessionId,
        *,
        clock: Clock,
        ids: Ids,
        tell: Callable[[Wake], None],
        store: Store | None = None,
    ) -> None:
        """`tell` is called, in any thread, with what a commit has made ready. `store` is that of this process, if it
        has one."""
        self._store = store
        self.settings = settings
        self.session = session
        self.ids = ids
        self.tell = tell
        self._clock = clock
        self._lock = threading.Lock()
        self._transactions: Transactions | None = None
        self._loop = None if store is None else asyncio.get_running_loop()  # that of the store

    async def ask(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Have the store asked; for async functions."""
        if self._store is not None and asyncio.get_running_loop() is self._loop:
            return await work(self._store)
        store = await open_store(self.settings.store, clock=self._clock, ids=self.ids, size=1)
        try:
            return await work(store)
        finally:
            await store.close()

    def ask_and_wait(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """The same for functions in a thread, or in a process of their own: there, with a connection of their own."""
        if _on_event_loop():
            raise FoliotError(
                "this would keep the event loop waiting", hint="await the a-prefixed twin: aadd"
            )
        if self._loop is not None and self._loop.is_running():
            assert self._store is not None

            async def ask() -> T:
                return await self.ask(work)

            return asyncio.run_coroutine_threadsafe(ask(), self._loop).result()
        if self._store is not None and self.settings.store.url.endswith(":memory:"):
            store = self._store  # it answers to any event loop, and there is no other way to it

            async def borrow() -> T:
                return await work(store)

            return asyncio.run(borrow())
        return asyncio.run(self.ask(work))

    @property
    def transactions(self) -> Transactions:
        """Made by their first use: most workers never see one."""
        with self._lock:
            if self._transactions is None:
                self._transactions = make_transactions(
                    self.settings, clock=self._clock, store=self._store
                )
            return self._transactions

    async def close(self) -> None:
        if self._transactions is not None:
            await self._transactions.close()


class Block:
    """What `with` and `async with` take."""

    def __init__(self, desk: Desk, job: ClaimedJob) -> None:
        self._desk = desk
        self._job = job
        self._work: Work | None = None
        self._waits = False
        self._news = Wake()
        self.phase = Phase.NEW
        self.result: Any = None

    def __enter__(self) -> Transaction:
        if _on_event_loop():
            raise FoliotError(
                "a blocking transaction has no place on the event loop",
                hint="async with current_job().transaction() as tx",
            )
        at_once(self._begin(waits=False))
        return Transaction(self)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        at_once(self._end(error))

    async def __aenter__(self) -> AsyncTransaction:
        await self._begin(waits=True)
        return AsyncTransaction(self)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # Once it is decided, it is carried through: a function that is cancelled just then waits for it.
        ending = asyncio.ensure_future(self._end(error))
        try:
            await asyncio.shield(ending)
        except BaseException:
            if ending.done():
                raise
            await asyncio.wait([ending])
            if not ending.cancelled() and (failed := ending.exception()) is not None:
                log.warning("job %s: its transaction ended with: %s", self._job.id, failed)
            raise

    @property
    def work(self) -> Work:
        if self._work is None or self.phase is not Phase.OPEN:
            raise FoliotError(f"this transaction is not open: it is {self.phase.value}")
        return self._work

    async def submit(self, prepared: Submittable) -> JobId:
        if not hasattr(prepared, "template") or not hasattr(prepared, "payload"):
            raise InvalidValue(
                "tx.submit()", prepared, "is not a prepared call", example="add.prepare(1, 2)"
            )
        if isinstance(prepared.payload, Unresolved):
            raise InvalidValue("tx.submit()", prepared, "refers to the result of a step")
        for option in ("after", "connection"):
            if getattr(prepared.choices, option) is not None:
                raise InvalidValue(option, problem="cannot be given inside of a transaction")
        job, work = fill(prepared.template, prepared.payload, self._desk.ids), self.work

        async def submit(jobs: Jobs) -> list[JobId]:
            return await commands.submit(GuestStore(jobs, work.partitions, self._hear), [job])

        if job.key is not None and job.key_mode != "keep":
            await work.stand_ready(self._job.id, job)
        [id] = await work.ask(submit)
        return id

    def _hear(self, wake: Wake) -> None:
        self._news = together(self._news, wake)

    async def _begin(self, *, waits: bool) -> None:
        if self.phase is not Phase.NEW:
            raise FoliotError("this transaction has been used: ask the job for another one")
        self._waits = waits
        self._work = await self._desk.transactions.begin(waits=waits)
        self.phase = Phase.OPEN

    async def _end(self, error: BaseException | None) -> None:
        work = self.work
        try:
            if error is not None:
                self._explain(work, error)
            else:
                await self._commit(work)
        finally:
            if self.phase is not Phase.COMMITTED:
                self.phase = Phase.ROLLED_BACK
                await work.roll_back()
        if self.phase is Phase.COMMITTED and self._news != Wake():
            self._desk.tell(self._news)

    def _explain(self, work: Work, error: BaseException) -> None:
        """What the function raised goes on, unless it came of something that can be said more clearly."""
        if isinstance(error, Exception):
            try:
                work.check()
            except FoliotError as why:
                raise why from error

    async def _commit(self, work: Work) -> None:
        limit = self._desk.settings.limits.result
        outcome = success(self._job, self.result, limit=limit)
        job = self._job
        outcome = msgspec.structs.replace(outcome, order=job.order, flow=job.flow, gates=job.gates)
        partition = partition_of(self._job.id, work.partitions)
        work.check()
        outcome, ended = await self._finish(work, partition, outcome)
        lanes = [(one.lane, one.state) for one in ended.admitted]
        for lane, state in (*lanes, *ended.advance.lanes):
            ready = state is JobState.READY
            self._hear(Wake(((partition, lane),)) if ready else Wake(due=True))
        self._hear(Wake(flows=bool(ended.advance.more)))
        try:
            await work.commit()
        except StoreUnavailable as error:
            if not error.unknown or not await self._has_settled(partition, outcome, error):
                raise
        self.phase = Phase.COMMITTED

    async def _finish(self, work: Work, partition: int, outcome: Outcome) -> tuple[Outcome, Cycle]:
        async def finish(jobs: Jobs) -> Cycle:
            return await jobs.finish_and_claim(partition, self._desk.session, outcomes=[outcome])

        async def home(jobs: Jobs) -> JobId | None:
            found = await jobs.get(outcome.id)
            return outcome.flow if found is None else found.workflow

        while (ended := await work.end(finish)).refused:
            if (flow := await work.ask(home)) == outcome.flow:
                raise SessionLost(
                    "the job belongs to another attempt by now: this one's transaction was rolled back"
                )
            # Somebody has submitted a job after it: it has become a step, or its chain a part of another.
            outcome = msgspec.structs.replace(outcome, flow=flow)
        return outcome, ended

    async def _has_settled(self, partition: int, outcome: Outcome, error: FoliotError) -> bool:
        log.warning("job %s: it is not known whether it was committed: %s", self._job.id, error)
        for _ in range(_LOOKS):
            try:
                return await self._desk.transactions.settled(partition, outcome, waits=self._waits)
            except StoreUnavailable as away:
                log.debug("job %s: not yet: %s", self._job.id, away)
            await self._pause()
        # If it was committed, the store will refuse the failure of this attempt.
        raise error

    async def _pause(self) -> None:
        if self._waits:
            await asyncio.sleep(_PAUSE)
        else:
            threading.Event().wait(_PAUSE)


class _Inside:
    """What both kinds of block have."""

    def __init__(self, block: Block) -> None:
        self._block = block

    @property
    def connection(self) -> Any:
        """A `psycopg.Connection` or a `sqlite3.Connection`; in an `async with` block a `psycopg.AsyncConnection`, and
        none for SQLite: see `run`. The block commits and rolls back, not you."""
        return self._block.work.connection

    @property
    def result(self) -> Any:
        return self._block.result

    @result.setter
    def result(self, value: Any) -> None:
        self._block.result = value


class Transaction(_Inside):
    """In a `with` block. `result` is what the job results in."""

    def execute(self, statement: str, parameters: Parameters = None) -> list[Any]:
        """Run a statement, with parameters as the driver takes them. Returns its rows, if it has any."""
        return at_once(self._block.work.execute(statement, parameters))

    def submit(self, prepared: Submittable) -> JobId:
        """Submit a job that exists if and only if this transaction commits. Returns the id that stands for it."""
        return at_once(self._block.submit(prepared))


class AsyncTransaction(_Inside):
    """In an `async with` block. `result` is what the job results in."""

    async def execute(self, statement: str, parameters: Parameters = None) -> list[Any]:
        return await self._block.work.execute(statement, parameters)

    async def run(self, function: Callable[[Any], T]) -> T:
        """SQLite: what the function does with the `sqlite3.Connection`, in a thread."""
        return await self._block.work.run(function)

    async def submit(self, prepared: Submittable) -> JobId:
        return await self._block.submit(prepared)


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True

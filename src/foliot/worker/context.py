"""What a job's function may know of its job, and say about it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec

from foliot.clock import Clock
from foliot.config import Settings
from foliot.errors import FoliotError, InvalidValue
from foliot.ids import Ids, JobId, SessionId, milliseconds_of
from foliot.model.job import ClaimedJob, Parent
from foliot.store.port import Store
from foliot.worker.flow import CurrentFlow, gather_maps
from foliot.worker.notes import Notes
from foliot.worker.transaction import Block, Desk, Phase

T = TypeVar("T")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LEVELS: Final = ("debug", "info", "warning", "error", "critical")


class State:
    """Whatever start-up functions put into it: one for each process that runs jobs."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no start-up function has set state.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class Place(msgspec.Struct, frozen=True):
    """Where jobs run: the same for all jobs of a process."""

    session: SessionId
    clock: Clock
    notes: Notes
    queues: dict[int, str]  # of lanes, by their numbers
    state: State
    desk: Desk | None = None  # none: there is no store behind it
    counts: bool = False  # whether what becomes of them is counted


class CurrentJob:
    """The job that is running here. `cancelled` turns true when somebody asked for its end, `timed_out` when its soft
    timeout is over."""

    # On the class: what most jobs never change costs none of them anything.
    cancelled = False
    timed_out = False
    lines = 0  # log lines so far
    transacts = False  # whether it has asked for a transaction of its own
    _began = 0.0
    _block: Block | None = None
    _flow: CurrentFlow | None = None

    def __init__(self, job: ClaimedJob, place: Place) -> None:
        self._job = job
        self._place = place

    @property
    def id(self) -> JobId:
        return self._job.id

    @property
    def kind(self) -> str:
        return self._job.kind

    @property
    def queue(self) -> str:
        return self._place.queues.get(self._job.lane, "default")

    @property
    def namespace(self) -> str:
        return self._job.facts.namespace

    @property
    def key(self) -> str | None:
        return self._job.facts.key

    @property
    def ordering_key(self) -> str | None:
        return self._job.facts.ordering_key

    @property
    def fair_key(self) -> str | None:
        return self._job.facts.fair_key

    @property
    def tags(self) -> tuple[str, ...]:
        return self._job.facts.tags

    @property
    def priority(self) -> int:
        return self._job.priority

    @property
    def attempt(self) -> int:
        """1 for the first."""
        return self._job.attempt

    @property
    def max_attempts(self) -> int:
        return self._job.max_attempts

    @property
    def fence(self) -> int:
        """Rises with every claim of this job. Give it to what you write to, and let that refuse lower ones."""
        return self._job.fence

    @property
    def created_at(self) -> datetime:
        """When it was submitted, to the millisecond, by the clock of whoever submitted it; of a run of a schedule, the
        time that the schedule named."""
        return datetime.fromtimestamp(milliseconds_of(self._job.id) / 1000, UTC)

    @property
    def run_at(self) -> datetime:
        """When this attempt was due: `run_at` or the end of the delay, and of the wait since the attempt before."""
        due = self._job.facts.run_at
        return self.created_at if due is None else _EPOCH + timedelta(microseconds=due)

    @property
    def schedule(self) -> str | None:
        """The name of the schedule that it is a run of."""
        return self._job.facts.extras.schedule

    @property
    def nominal_at(self) -> datetime | None:
        """The time that the schedule named for this run, whenever it was started; None if it was run by hand."""
        nominal = self._job.facts.extras.nominal
        return None if nominal is None else _EPOCH + timedelta(seconds=nominal)

    @property
    def last_result(self) -> Any:
        """What the last run of its schedule that succeeded returned, if the schedule says `carry_result=True`."""
        last = self._job.facts.last_result
        return None if last is None else msgspec.json.decode(last)

    @property
    def step(self) -> str | None:
        """Its name in its workflow."""
        return self._job.facts.extras.step

    @property
    def workflow(self) -> JobId | None:
        """The id of the workflow that it is a step of."""
        return self._job.facts.workflow

    @property
    def parents(self) -> tuple[Parent, ...]:
        """The steps that it came after, each with `name`, `state` and `result`. That of a map step is the list of its
        elements' results, None for one that did not succeed."""
        return gather_maps(self._job.parents)

    @property
    def flow(self) -> CurrentFlow:
        """The workflow that it is a step of, to add steps to: `current_job().flow.add(…)`."""
        if self._flow is None:
            self._flow = CurrentFlow(self._job, self._place.desk)
        return self._flow

    @property
    def settings(self) -> Settings:
        return self._reach().settings

    @property
    def ids(self) -> Ids:
        return self._reach().ids

    async def ask(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """For kinds of Foliot's own: have the store asked."""
        return await self._reach().ask(work)

    def _reach(self) -> Desk:
        if self._place.desk is None:
            raise FoliotError("there is no store behind this job")
        return self._place.desk

    @property
    def session(self) -> SessionId:
        """Which life of which worker process runs it: one of `foliot workers list`."""
        return self._place.session

    @property
    def state(self) -> Any:
        """What the start-up functions of this process have put there: a database pool, a model."""
        return self._place.state

    @property
    def timeout(self) -> float | None:
        """Seconds that this attempt may take."""
        return self._job.timeout

    def remaining(self) -> float | None:
        """Seconds until the timeout ends this attempt; None without one."""
        if self._job.timeout is None:
            return None
        return max(0.0, self._began + self._job.timeout - self._place.clock.monotonic())

    @property
    def deadline(self) -> datetime | None:
        """When the timeout ends this attempt, by the clock of this machine; None without one."""
        left = self.remaining()
        return None if left is None else self._place.clock.now() + timedelta(seconds=left)

    def transaction(self) -> Block:
        """A transaction in the store's database that commits together with this job's end, or not at all:
        `with current_job().transaction() as tx:`, in async functions `async with`."""
        phase = Phase.NEW if self._block is None else self._block.phase
        if phase in (Phase.OPEN, Phase.COMMITTED):
            raise FoliotError(
                f"a job has one transaction, and that of this one is {phase.value} already",
                hint="take savepoints for parts of it",
            )
        if self._place.desk is None:
            raise FoliotError(
                "this job has no transaction: there is no store behind it",
                hint="in a test, have a worker run it on a store in a file",
            )
        self._block, self.transacts = Block(self._place.desk, self._job), True
        return self._block

    @property
    def settled(self) -> bool:
        """Whether its transaction has been committed: then the job has ended, whatever its function goes on to do."""
        return self._block is not None and self._block.phase is Phase.COMMITTED

    def progress(self, fraction: float, message: str | None = None) -> None:
        """Say how far it is, from 0 to 1. Shown to whoever asks for the job."""
        number = isinstance(fraction, int | float) and not isinstance(fraction, bool)
        if not number or not 0 <= fraction <= 1:
            raise InvalidValue(
                "fraction", fraction, "is not between 0 and 1", example='progress(0.4, "rows")'
            )
        text = None if message is None else str(message)
        self._place.notes.add_progress(self._job, float(fraction), text)

    def log(self, message: object, level: str = "info") -> None:
        """Add a line to the job's log, as `logging` inside a job does."""
        if level not in _LEVELS:
            raise InvalidValue("level", level, f"is not one of {', '.join(_LEVELS)}")
        self.add_line(getattr(logging, level.upper()), "job", str(message))

    def add_line(self, level: int, logger: str, message: str) -> None:
        if level >= self._place.notes.level:
            self.lines += 1
            self._place.notes.add_line(self._job, self.lines, level, logger, message)

    def begin(self) -> None:
        """The timeout counts from here."""
        self._began = self._place.clock.monotonic()


CURRENT: Final[ContextVar[CurrentJob]] = ContextVar("foliot_current_job")


def current_job() -> CurrentJob:
    try:
        return CURRENT.get()
    except LookupError:
        raise FoliotError(
            "current_job() was called outside a job",
            hint="in a test, call the function within foliot.testing.as_job()",
        ) from None

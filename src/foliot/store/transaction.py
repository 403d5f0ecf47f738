"""Transactions of jobs: a function's own statements and the end of its job, in one commit.

Each has a connection to itself, apart from those of the worker, so that a long one keeps nobody waiting. Like guests
(`guest.py`) they are written once, as async functions, and run at once where a function blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from foliot.ids import JobId
from foliot.model.job import NewJob, Outcome
from foliot.store.port import Cycle, Jobs

T = TypeVar("T")
Parameters = Any  # whatever the driver takes: a sequence, or a mapping of names


class Work(Protocol):
    """One transaction. After `commit` or `roll_back` it is over."""

    @property
    def partitions(self) -> int: ...

    @property
    def connection(self) -> Any:
        """The driver's, inside the transaction. Raises where it cannot be used from an event loop."""
        ...

    async def execute(self, statement: str, parameters: Parameters) -> list[Any]:
        """Its rows, if it has any."""
        ...

    async def run(self, act: Callable[[Any], T]) -> T:
        """What `act` does with a blocking connection; in a thread, if somebody waits for it."""
        ...

    async def ask(self, question: Callable[[Jobs], Coroutine[Any, Any, T]]) -> T:
        """Of the jobs as they are within this transaction."""
        ...

    async def stand_ready(self, id: JobId, job: NewJob) -> None:
        """Before it changes whoever has the key of this new job: if the job `id`, whose transaction it is, is a step,
        the lock of its workflow is taken now. The end needs it, and who has it wants rows of jobs: to have one of these
        and wait for it would be crosswise. Where nobody has the key, there is no such row."""
        ...

    async def end(self, finish: Callable[[Jobs], Coroutine[Any, Any, Cycle]]) -> Cycle:
        """Of the job. If it is refused, nothing has happened: what was locked for it is let go, as whoever tries again
        names another workflow, and locks of workflows are taken in order."""
        ...

    def check(self) -> None:
        """Raises TransactionTooLong, or if the transaction was ended by a statement."""
        ...

    async def commit(self) -> None:
        """Raises StoreUnavailable, with `unknown` if it may have been committed all the same."""
        ...

    async def roll_back(self) -> None:
        """Never fails: what cannot be rolled back is cut off."""
        ...


class Transactions(Protocol):
    """Where they come from; for one process."""

    @property
    def limit(self) -> float:
        """Seconds that one may take."""
        ...

    async def begin(self, *, waits: bool) -> Work:
        """`waits`: for an event loop. Otherwise nothing in it does, and it may only be run at once."""
        ...

    async def settled(self, partition: int, outcome: Outcome, *, waits: bool) -> bool:
        """Whether an outcome has taken effect whose commit was lost from sight; waits for that to be decided."""
        ...

    async def close(self) -> None:
        """Lets go of idle connections."""
        ...

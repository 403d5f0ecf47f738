"""Statements as guests: run on somebody else's connection, by its own driver, within its transaction.

What they say is written once, as async functions. On a connection that blocks, nothing in them ever waits, and
`at_once` runs them to their end.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from foliot.errors import InvalidValue
from foliot.model.job import NewJob
from foliot.store.port import Jobs, Wake
from foliot.store.sql import Statement

T = TypeVar("T")


class Answer(msgspec.Struct, frozen=True):
    """What a statement brought: its rows, if it has any, and how many it changed, where the driver says so."""

    rows: list[tuple[Any, ...]]
    rowcount: int = -1

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows


# Runs one statement with its values.
Run = Callable[[Statement, Mapping[str, object]], Answer | Awaitable[Answer]]


# Has running jobs of a partition give up their unique keys to these, on a connection of the app's own.
Release = Callable[[int, Sequence[NewJob]], Awaitable[None] | None]


class GuestStore(msgspec.Struct, frozen=True):
    """As much of a store as submitting needs, on one connection."""

    jobs: Jobs
    partitions: int
    wake: Callable[[Wake], None]


class Guest(Protocol):
    """The store of an app, as it is found behind connections of its users."""

    @property
    def engine(self) -> str: ...

    async def recognise(self, run: Run) -> int:
        """The number of partitions of the store that `run` leads to. Raises InvalidValue if that is another one."""
        ...

    def jobs(self, run: Run, partitions: int, release: Release) -> Jobs: ...


async def settle(value: T | Awaitable[T]) -> T:
    """The value, which may have to be waited for."""
    return await value if inspect.isawaitable(value) else value


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    work.close()
    raise AssertionError("it waits for something: it must not be run at once")


def first_row(answer: Answer) -> Sequence[Any]:
    return answer.rows[0] if answer.rows else ()


def elsewhere(problem: str, url: str) -> InvalidValue:
    return InvalidValue(
        "connection",
        problem=problem,
        hint=f"give one to the app's own store, {url}, or leave the option away",
    )

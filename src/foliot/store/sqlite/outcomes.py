"""How attempts end in SQLite: a worker's outcomes sorted into statements, and which of them were refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sqlite3 import Connection
from typing import Final

import msgspec

from foliot.ids import JobId, SessionId
from foliot.model.job import End, Outcome
from foliot.store.sql import JOB_FILES
from foliot.store.sqlite.batches import Values, endings, execute, load_parts, to_json

SQL: Final = load_parts(*JOB_FILES)
_FINISHED: Final[dict[str, str]] = {End.SUCCEED: "succeeded", End.CANCEL: "cancelled"}


class Step(msgspec.Struct, frozen=True):
    """One statement, what it reads, and how many outcomes that names."""

    name: str
    values: Values
    count: int


class Ending:
    """The outcomes of one cycle, ready to be applied in a transaction."""

    def __init__(self, partition: int, session: SessionId, outcomes: Sequence[Outcome]) -> None:
        # The same outcome twice would be in history twice: the first that was said counts.
        once: dict[tuple[JobId, int], Outcome] = {}
        for outcome in outcomes:
            once.setdefault((outcome.id, outcome.fence), outcome)
        outcomes = list(once.values())
        self._outcomes = outcomes
        self._common: Values = {"partition": partition, "session": session}
        finished = [o for o in outcomes if o.end in _FINISHED]
        self._steps = [
            Step("finish_jobs", values, count) for count, values in endings(finished, _FINISHED)
        ]
        if len(finished) < len(outcomes):
            self._add_unfinished()

    def apply(self, connection: Connection, now: int) -> list[JobId]:
        """Returns the refused."""
        refused: set[str] = set()
        accepted: set[str] = set()
        for step in self._steps:
            values = {**step.values, **self._common, "now": now}
            if step.name == "finish_jobs":
                refused |= _finish(connection, values, step.count)
            else:
                accepted.update(row[0] for row in execute(connection, SQL[step.name], values))
        return [
            o.id
            for o in self._outcomes
            if (o.id in refused if o.end in _FINISHED else o.id not in accepted)
        ]

    def _add_unfinished(self) -> None:
        retried = [o for o in self._outcomes if o.end is End.RETRY]
        buried = [o for o in self._outcomes if o.end is End.BURY]
        released = [o for o in self._outcomes if o.end in (End.RELEASE, End.HOLD)]
        self._add("record_attempts", retried + buried, _failure)
        self._add("retry_jobs", retried + buried, _failure)
        self._add("bury_jobs", buried, _failure)
        self._add("cancel_failed_jobs", retried + buried, _failure)
        self._add("release_jobs", released, _release)
        if released:
            ids: Values = {"ids": to_json([o.id for o in released])}
            self._steps.append(Step("cancel_jobs", ids, len(released)))

    def _add(
        self, name: str, outcomes: Sequence[Outcome], row: Callable[[Outcome], tuple[object, ...]]
    ) -> None:
        if outcomes:
            values: Values = {"outcomes": to_json([row(outcome) for outcome in outcomes])}
            self._steps.append(Step(name, values, len(outcomes)))


def traces(outcomes: Sequence[Outcome]) -> str:
    """What find_settled_jobs reads: the state that each leaves in history, or the attempt that it leaves."""
    failed = (End.RETRY, End.BURY)
    return to_json(
        [
            (o.id, o.fence, None, o.reason or "failed", o.error)
            if o.end in failed
            else (o.id, o.fence, _FINISHED.get(o.end, "cancelled"), None, None)
            for o in outcomes
        ]
    )


def _finish(connection: Connection, values: Values, count: int) -> set[str]:
    insert, tell, delete = SQL["finish_jobs"]
    refused: set[str] = set()
    if connection.execute(insert, values).rowcount != count:
        refused = {row[0] for row in execute(connection, SQL["find_refused_jobs"], values)}
    connection.execute(tell, values)
    connection.execute(delete, values)
    return refused


def _failure(outcome: Outcome) -> tuple[object, ...]:
    reason = outcome.reason or "failed"
    return (
        outcome.id,
        outcome.fence,
        reason,
        outcome.error,
        outcome.traceback,
        outcome.delay if outcome.end is End.RETRY else None,
    )


def _release(outcome: Outcome) -> tuple[object, ...]:
    if outcome.end is not End.HOLD:
        return (outcome.id, outcome.fence, None, None)
    return (outcome.id, outcome.fence, outcome.reason, outcome.error)

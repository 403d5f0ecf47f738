"""Jobs that end, where some of them are steps of workflows: in one transaction with what their ends lead to.

Nothing happens beside a transaction here, so it is enough to look which of them are steps before they end. Where no
workflow runs in the partition, that look is all.
"""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Final

import msgspec

from foliot.ids import JobId
from foliot.model.job import JobState, Outcome
from foliot.model.workflow import Advance
from foliot.store.flowing import end, lock
from foliot.store.guest import at_once
from foliot.store.sqlite.batches import Rows, Values, execute, load_parts, to_json
from foliot.store.sqlite.workflows import SqliteTalk

FLOWS: Final = load_parts("workflows.sql")
SQL: Final = load_parts("cancel.sql")
_NONE: Final = Advance()


def has_workflows(connection: Connection, partition: int) -> bool:
    """Whether any runs, and a job may be a step."""
    return bool(execute(connection, FLOWS["any_running_workflow"], {"partition": partition}))


def find_steps(connection: Connection, partition: int, ids: Sequence[str]) -> Rows:
    """Of live jobs those that are steps, and their workflows."""
    if not has_workflows(connection, partition):
        return []
    return execute(
        connection, FLOWS["find_links"], {"partition": partition, "ids": to_json(list(ids))}
    )


def tell_ends(connection: Connection, partition: int, now: int, steps: Rows) -> Advance:
    """These steps, rows of (job, workflow), have ended, or come back to be tried again."""
    if not steps:
        return _NONE
    flows = sorted({row[1] for row in steps})
    ids = sorted({row[0] for row in steps})

    async def tell(talk: SqliteTalk) -> Advance:
        locked = await lock(talk, flows)
        if any(flow.paused for flow in locked.values()):
            await talk.ask("hold_steps", ids=to_json(ids))
        return (await end(talk, flows, ids)).advance

    return at_once(tell(SqliteTalk(connection, partition, now)))


class StepEnds:
    """Outcomes of a worker, some of which may be of steps."""

    def __init__(self, partition: int, outcomes: Sequence[Outcome]) -> None:
        self._partition = partition
        self._ids = [outcome.id for outcome in outcomes]
        self._awaited = sorted((o.awaits, o.id) for o in outcomes if o.awaits is not None)

    def find(self, connection: Connection) -> Rows:
        """Before they end."""
        return find_steps(connection, self._partition, self._ids)

    def tell(self, connection: Connection, now: int, steps: Rows) -> Advance:
        """After that."""
        advance = tell_ends(connection, self._partition, now, steps)
        if not self._awaited:
            return advance
        place: Values = {"partition": self._partition}
        execute(connection, FLOWS["await_workflows"], {**place, "rows": to_json(self._awaited)})
        # What a job is held for may have ended before it was.
        named = to_json([flow for flow, _ in self._awaited])
        found = execute(connection, FLOWS["release_waiters"], {**place, "ids": named})
        lanes = tuple((lane, JobState(state)) for lane, state in found)
        # One may have been asked to end while it ran: so is its workflow.
        more = tuple(sorted({*advance.more, *(flow for flow, _ in self._awaited)}))
        return msgspec.structs.replace(advance, lanes=advance.lanes + lanes, more=more)


def cancel_jobs(
    connection: Connection, partition: int, ids: Sequence[str], now: int
) -> tuple[dict[JobId, JobState], frozenset[JobId], Advance]:
    """Asks for their end, and ends those that do not run. Returns those that lived with the states that they were in,
    those of them that have ended, and what that has led to."""
    values: Values = {"partition": partition, "ids": to_json(list(ids)), "now": now}
    steps = find_steps(connection, partition, ids)
    found = execute(connection, SQL["request_cancel"], values)
    ended = execute(connection, SQL["cancel_jobs"], values)
    advance = tell_ends(connection, partition, now, steps)
    states = {JobId(id): JobState(state) for id, state in found}
    return states, frozenset(JobId(row[0]) for row in ended), advance

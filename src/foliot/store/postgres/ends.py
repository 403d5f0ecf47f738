"""Jobs that end, where some of them are steps of workflows: in one transaction with what their ends lead to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from foliot.clock import Clock
from foliot.ids import JobId
from foliot.model.job import End, JobState, Outcome
from foliot.model.workflow import Advance
from foliot.store.flowing import Progress, end, lock, to_json
from foliot.store.following import Moved
from foliot.store.postgres.arrays import words
from foliot.store.postgres.audit import audit_steps
from foliot.store.postgres.connection import Ask, Step, Transacting, Values
from foliot.store.postgres.gates import Claim, decide, heard
from foliot.store.postgres.workflows import PostgresTalk
from foliot.store.reply import Reply, Rows
from foliot.store.searching import Record
from foliot.store.sql import load_statements

T = TypeVar("T")
SQL: Final = load_statements("foliot.store.postgres", "cancel.sql")
FLOWS: Final = load_statements("foliot.store.postgres", "workflows.sql")


def linked_flows(outcomes: Sequence[Outcome]) -> list[JobId]:
    """The workflows that these outcomes concern."""
    named = {o.flow for o in outcomes} | {o.awaits for o in outcomes}
    return sorted(flow for flow in named if flow is not None)


class Ends:
    """Outcomes of a worker, some of them of steps."""

    def __init__(
        self,
        partition: int,
        outcomes: Sequence[Outcome],
        flows: Sequence[JobId],
        now: datetime | None,
    ) -> None:
        self._partition = partition
        self._now = now
        self._flows = flows
        # Also of those that were to be held: one that was asked to end is cancelled instead. And of plain jobs: one may
        # have become a step of a workflow that is locked for another, and then it ends here as well.
        self._ended = [o.id for o in outcomes]
        self._back = [o.id for o in outcomes if o.end in (End.RETRY, End.RELEASE, End.HOLD)]
        self._awaited = sorted((o.awaits, o.id) for o in outcomes if o.awaits is not None)

    async def apply(
        self,
        connections: Transacting,
        steps: Sequence[Step],
        finishing: int,
        claim: Claim | None,
    ) -> tuple[list[Rows], list[Rows], Advance]:
        """These statements, of which the first so many end jobs; what follows from that before the others; and what
        their answers decide."""

        async def run(ask: Ask) -> tuple[list[Reply], list[Reply], Progress]:
            talk = PostgresTalk(ask, self._partition, self._now)
            talk.say("lock_workflows", ids=to_json(self._flows))
            results = [ask.say(step) for step in steps[:finishing]]
            if self._back:
                talk.say("hold_steps", ids=to_json(self._back))
            progress = await end(talk, self._flows, self._ended)
            if self._awaited:
                talk.say("await_workflows", rows=to_json(self._awaited))
                named = to_json([flow for flow, _ in self._awaited])
                progress.admit(talk.say("release_waiters", ids=named))
                # One may have been asked to end while it ran: so is its workflow.
                progress.more.update(flow for flow, _ in self._awaited)
            results += [ask.say(step) for step in steps[finishing:]]
            return results, await decide(ask, claim, results), progress

        results, second, progress = await connections.converse(run)
        return heard(results), heard(second), progress.advance


class Asked(msgspec.Struct, frozen=True):
    """What has come of asking jobs to end."""

    found: dict[JobId, JobState]  # those that lived, and their states then
    ended: frozenset[JobId]  # of these; the others run, or workflows do for them
    advance: Advance


class StepEnds:
    """Steps that a statement may end, together with others: rows of (job, workflow). Other steps of these workflows may
    be there by now; what the statement may end of those has to be told as well, or nobody would be."""

    def __init__(
        self, ask: Ask, partition: int, now: datetime | None, steps: Sequence[Sequence[str]]
    ) -> None:
        self._talk = PostgresTalk(ask, partition, now)
        self._ids = sorted({row[0] for row in steps})
        self._named = sorted({row[1] for row in steps})
        self._paused = False

    @property
    def steps(self) -> str:
        return words(self._ids)

    @property
    def flows(self) -> str:
        return words(self._named)

    async def lock(self) -> None:
        locked = await lock(self._talk, self._named)
        # One may have become part of a workflow that is not locked, since it was found: it is for the next time.
        found = await self._talk.ask("find_links", ids=to_json(self._ids)) if self._ids else []
        self._ids = sorted(row[0] for row in found if row[1] in locked)
        self._paused = any(flow.paused for flow in locked.values())

    async def tell(self, others: Sequence[str] = ()) -> Advance:
        if not self._named:
            return Advance()
        if self._paused:  # one that is taken back does not start meanwhile
            await self._talk.ask("hold_steps", ids=to_json(self._ids))
        progress = await end(self._talk, self._named, [*self._ids, *others])
        await self._talk.hear()
        return progress.advance


async def cancel_jobs(
    connections: Transacting,
    clock: Clock,
    partition: int,
    ids: Sequence[JobId],
    record: Record | None,
) -> dict[JobId, JobState]:
    """Asks for their end, and ends those that do not run."""

    async def talk(ask: Ask) -> dict[JobId, JobState]:
        asked = await ask_to_end(ask, partition, clock.now_for_store(), ids)
        if record is not None:
            for step in audit_steps(record(list(asked.found)), clock):
                await ask(step)
        return asked.found

    return await converse_again(connections, talk)


async def converse_again(connections: Transacting, talk: Callable[[Ask], Awaitable[T]]) -> T:
    """Until nobody has moved what it asks to end."""
    while True:
        try:
            return await connections.converse(talk)
        except Moved:
            continue


async def ask_to_end(ask: Ask, partition: int, now: datetime | None, ids: Sequence[str]) -> Asked:
    """In a transaction that has begun, and has locked no rows of jobs or workflows that others see. Moved: one has
    become a step, or one of another workflow, since the look, and the lock of that comes first."""
    values: Values = {"partition": partition, "ids": words(ids), "now": now}
    look = Step(FLOWS["find_links"], {"partition": partition, "ids": to_json(list(ids))})
    links = await ask(look)
    ends = StepEnds(ask, partition, now, links)
    await ends.lock()
    found = await ask(Step(SQL["request_cancel"], values))
    if not {*await ask(look)} <= {*links}:
        raise Moved
    ended = await ask(Step(SQL["cancel_jobs"], {**values, "flows": ends.flows}))
    return Asked(
        {JobId(id): JobState(state) for id, state in found},
        frozenset(JobId(row[0]) for row in ended),
        await ends.tell(ids),
    )

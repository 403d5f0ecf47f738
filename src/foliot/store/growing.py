"""How workflows come about and grow, as conversations with a store: see flowing.py."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from foliot.ids import JobId
from foliot.model.job import JobState, NewJob
from foliot.model.workflow import (
    Counts,
    NewStep,
    NewWorkflow,
    Rule,
    Verdict,
    count,
    counts_as,
    decide,
    is_spared,
)
from foliot.store.batches import chunks
from foliot.store.flowing import (
    Progress,
    Talk,
    hand_over,
    hold_of,
    tell,
    template_of,
    to_json,
)

_BATCH: Final = 2_000  # rows in one statement


async def submit(talk: Talk, workflow: NewWorkflow) -> bool:
    talk.expect(len(workflow.steps))
    if not await insert_workflow(talk, workflow):
        return False
    if workflow.waiter is not None:
        await talk.ask("note_began", id=workflow.id)
        await talk.ask("note_outer", id=workflow.id, waiter=workflow.waiter)
    # It is this transaction's own, so nobody else has to be kept from it.
    await insert_steps(talk, Place(workflow.id), workflow.steps)
    return True


async def insert_workflow(talk: Talk, workflow: NewWorkflow) -> bool:
    return bool(
        await talk.ask(
            "insert_workflow",
            id=workflow.id,
            chain=workflow.chain,
            deadline=workflow.deadline,
            policy=workflow.policy,
            namespace=workflow.namespace,
            name=workflow.name,
            waiter=workflow.waiter,
            fingerprint=workflow.fingerprint,
        )
    )


class Known(msgspec.Struct, frozen=True):
    """A step that is there already, as far as adding others needs it."""

    state: JobState | None = None  # None: it has not ended
    begun: bool = True
    name: str = ""
    added_by: JobId | None = None
    mapped: JobId | None = None
    rule: Rule = Rule.ALL_SUCCEEDED
    is_map: bool = False

    @property
    def waits(self) -> bool:
        return not self.begun and self.state is None


class Place(msgspec.Struct, frozen=True):
    """Where steps are added: a workflow, what is there already, and how it stands."""

    workflow: JobId
    known: dict[JobId, Known] = {}
    after: int = 0  # steps
    failing: bool = False
    paused: bool = False
    past: frozenset[JobId] = frozenset()  # parents that need not know of their children

    def state_of(self, parent: JobId, step: NewStep) -> JobState | None:
        """How it has ended, to this step; one that is new has not."""
        if (one := self.known.get(parent)) is None:
            return None
        return counts_as(one.state, step.rule, is_map=one.is_map)

    def spares(self, step: NewStep) -> bool:
        map_step = None if step.mapped is None else self.known.get(step.mapped)
        return is_spared(step.rule, None if map_step is None else map_step.rule)


async def insert_steps(talk: Talk, place: Place, steps: Sequence[NewStep]) -> Progress:
    """Steps whose parents are among them, before them, or known."""
    progress = Progress()
    family = family_of(steps)
    rows, jobs, waiting, skipped = [], [], [], []
    for number, step in enumerate(steps, place.after):
        id = step.job.id
        counts = count(place.state_of(parent, step) for parent in family.parents[id])
        failing = place.failing and not place.spares(step)
        verdict = decide(step.rule, counts, failing=failing)
        rows.append(_row(step, number, family, counts, verdict))
        hold = hold_of(step.job, step.signal, paused=place.paused)
        jobs.append(as_inserted(step.job, waits=verdict != "run", hold=hold))
        if verdict == "skip":
            skipped.append(id)
        elif verdict == "run" and step.signal is not None:
            waiting.append((id, place.workflow, step.signal))
    for some in chunks(rows, _weigh, most=_BATCH):
        await talk.ask("insert_steps", workflow=place.workflow, rows=to_json(some))
    await talk.insert(jobs)
    await link_steps(talk, place.workflow, family, past=place.past)
    number = len(steps)
    await talk.ask(
        "grow_workflow", workflow=place.workflow, number=number, live=number, edges=family.edges
    )
    if skipped:
        await talk.ask("skip_steps", ids=to_json(skipped), reason="parents")
    await hand_over(talk, waiting)
    await tell(talk, [place.workflow], progress)
    return progress


class Family(msgspec.Struct, frozen=True):
    """Who is whose parent: new steps among each other, and with those that were there before."""

    own: set[JobId]
    parents: dict[JobId, list[JobId]]
    children: dict[JobId, list[JobId]]
    grown: dict[JobId, list[JobId]]  # children of those that have added them

    @property
    def edges(self) -> int:
        return sum(map(len, self.parents.values()))


def family_of(steps: Sequence[NewStep]) -> Family:
    own = {step.job.id for step in steps}
    parents: dict[JobId, list[JobId]] = {step.job.id: [] for step in steps}
    children: dict[JobId, list[JobId]] = {}
    grown: dict[JobId, list[JobId]] = {}
    for step in steps:
        id = step.job.id
        for parent in step.parents:
            parents[id].append(parent)
            # Apart from those that were there before: these have to wait for what it adds later, and are few.
            added = parent == step.added_by and parent not in own
            (grown if added else children).setdefault(parent, []).append(id)
        for child in step.into or ():
            parents.setdefault(child, []).append(id)
            children.setdefault(id, []).append(child)
    return Family(own, parents, children, grown)


async def link_steps(
    talk: Talk, workflow: JobId, family: Family, *, past: Collection[JobId] = ()
) -> None:
    """What steps that were there before have to know of new ones; not these, which will not end again."""
    sides = {"parents": family.parents, "children": family.children, "grown": family.grown}
    known = {*family.own, *past}
    links = [
        (id, side, jobs) for side, of in sides.items() for id, jobs in of.items() if id not in known
    ]
    if links:
        talk.say("link_steps", workflow=workflow, rows=to_json(links))
        counts = {id: len(family.parents.get(id, ())) for id, _, _ in sorted(links)}
        await talk.ask("note_links", rows=to_json([*counts.items()]))


def _row(
    step: NewStep, number: int, family: Family, counts: Counts, verdict: Verdict
) -> tuple[object, ...]:
    """As insert_steps reads it."""
    id = step.job.id
    return (
        id,
        number,
        counts.pending,
        counts.succeeded,
        counts.failed,
        verdict == "run",
        "skipped" if verdict == "skip" else None,
        step.rule.value,
        step.name,
        step.signal,
        step.mapped,
        step.added_by,
        to_json(family.parents[id]),
        to_json(family.children.get(id, [])),
        template_of(step.job),
        step.job.payload.decode(),
        False,
        None,
        len(family.parents[id]),
    )


def _weigh(row: tuple[Any, ...]) -> int:
    """Its parents, children, template and payload: the others are small."""
    return sum(len(text) for text in row[12:16])


def as_inserted(job: NewJob, *, waits: bool, hold: str | None) -> NewJob:
    """A waiting step's delay and expiry are counted when it may run."""
    if job.more is None:
        return job
    more = msgspec.structs.replace(job.more, waits=waits, hold=None if waits else hold)
    if waits:
        more = msgspec.structs.replace(more, expires_in=None)
    return msgspec.structs.replace(job, more=more, delay=None if waits else job.delay)

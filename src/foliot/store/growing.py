"""How workflows come about and grow, as conversations with a store: see flowing.py."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

import msgspec

from foliot.config import LimitSettings
from foliot.errors import InvalidValue, NotRunning
from foliot.ids import JobId, SessionId
from foliot.model.job import Extras, JobState, More, NewJob
from foliot.model.workflow import (
    AddedStep,
    Advance,
    Counts,
    NewStep,
    NewWorkflow,
    Rule,
    Verdict,
    count,
    decide,
    is_spared,
)
from foliot.store.batches import chunks
from foliot.store.flowing import (
    Progress,
    Talk,
    decode_ids,
    flush,
    hand_over,
    hold_of,
    lock,
    tell,
    template_of,
    to_json,
)

_BATCH: Final = 2_000  # rows in one statement


async def submit(talk: Talk, workflow: NewWorkflow) -> bool:
    if not await insert_workflow(talk, workflow):
        return False
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
    parents: tuple[JobId, ...] = ()
    children: tuple[JobId, ...] = ()
    mapped: JobId | None = None
    rule: Rule = Rule.ALL_SUCCEEDED

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

    def spares(self, step: NewStep) -> bool:
        map_step = None if step.mapped is None else self.known.get(step.mapped)
        return is_spared(step.rule, None if map_step is None else map_step.rule)


async def insert_steps(talk: Talk, place: Place, steps: Sequence[NewStep]) -> Progress:
    """Steps whose parents are among them, before them, or known."""
    progress = Progress()
    family = _family(steps)
    rows, jobs, waiting, skipped = [], [], [], []
    for number, step in enumerate(steps, place.after):
        id = step.job.id
        counts = count(
            None if parent in family.own else place.known[parent].state
            for parent in family.parents[id]
        )
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
    if linked := [link for link in family.links if link[0] not in place.past]:
        await talk.ask("link_steps", rows=to_json(linked))
    await talk.ask("grow_workflow", workflow=place.workflow, number=len(steps), live=len(steps))
    if skipped:
        await talk.ask("skip_steps", ids=to_json(skipped), reason="parents")
    await hand_over(talk, waiting)
    await tell(talk, [place.workflow], progress)
    return progress


class _Family(msgspec.Struct, frozen=True):
    """Who is whose parent: new steps among each other, and with those that were there before."""

    own: set[JobId]
    parents: dict[JobId, list[JobId]]
    children: dict[JobId, list[JobId]]

    @property
    def links(self) -> list[tuple[JobId, list[JobId], list[JobId], int]]:
        """What steps that were there before have to know of new ones."""
        old = sorted(({*self.parents} | {*self.children}) - self.own)
        return [
            (id, above := self.parents.get(id, []), self.children.get(id, []), len(above))
            for id in old
        ]


def _family(steps: Sequence[NewStep]) -> _Family:
    parents: dict[JobId, list[JobId]] = {step.job.id: [] for step in steps}
    children: dict[JobId, list[JobId]] = {}
    pairs = [(parent, step.job.id) for step in steps for parent in step.parents]
    pairs += [(step.job.id, child) for step in steps for child in step.into or ()]
    for parent, child in pairs:
        parents.setdefault(child, []).append(parent)
        children.setdefault(parent, []).append(child)
    return _Family({step.job.id for step in steps}, parents, children)


def _row(
    step: NewStep, number: int, family: _Family, counts: Counts, verdict: Verdict
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


async def add(
    talk: Talk,
    id: JobId,
    steps: Sequence[NewStep],
    by: tuple[SessionId, JobId, int] | None,
    limits: LimitSettings | None,
) -> tuple[list[AddedStep], Advance]:
    flow = (await lock(talk, [id])).get(id)
    if flow is None or not flow.running:
        state = "unknown" if flow is None else "being cancelled" if flow.cancel_requested else None
        raise NotRunning(id, state or (flow.state if flow else "unknown"))
    if by is not None and not await talk.ask(
        "check_running", session=by[0], job=by[1], fence=by[2]
    ):
        raise NotRunning(id, "no longer changed by this attempt: it belongs to another")
    await flush(talk, id)
    known = {JobId(row[0]): _known(row) for row in await talk.ask("list_steps", id=id)}
    names = {step.name: job for job, step in known.items()}
    steps = [_named(step, names, known) for step in _placed(steps, known)]
    own = {step.job.id for step in steps}
    stands: dict[JobId, JobId] = {}
    for step in steps:
        _check_new(step, names, known, own, stands)
    fresh = [_renamed(step, stands) for step in steps if step.job.id not in stands]
    _check_cycle(fresh, known)
    added = [AddedStep(step.name, stands.get(step.job.id, step.job.id)) for step in steps]
    if not fresh:
        return added, Advance()
    if limits is not None:
        _check_growth(fresh, known, limits)
    place = Place(id, known, len(known), flow.failing, flow.paused)
    progress = await insert_steps(talk, place, fresh)
    return added, progress.advance


def _known(row: tuple[Any, ...]) -> Known:
    return Known(
        state=None if row[15] is None else JobState(row[15]),
        begun=bool(row[14]),
        name=row[2],
        added_by=row[9],
        parents=decode_ids(row[5]),
        children=decode_ids(row[6]),
        mapped=row[8],
        rule=Rule(row[3]),
    )


def _placed(steps: Sequence[NewStep], known: Mapping[JobId, Known]) -> list[NewStep]:
    """With the elements of the maps that they come after, and before what waits for the step that adds them: as it is
    under the lock. Who has looked before it may have seen less."""
    elements: dict[JobId, list[JobId]] = {}
    for id, one in known.items():
        if one.mapped is not None:
            elements.setdefault(one.mapped, []).append(id)
    below = {by: _waiting_for(by, known) for by in {step.added_by for step in steps}}
    found = []
    for step in steps:
        into, parents = step.into, step.parents
        if into is None:
            into = below[step.added_by]
        if step.mapped is None and not elements.keys().isdisjoint(parents):
            above = [one for id in parents for one in (id, *elements.get(id, ()))]
            parents = tuple(dict.fromkeys(above))
        found.append(msgspec.structs.replace(step, into=into, parents=parents))
    return found


def _waiting_for(id: JobId | None, known: Mapping[JobId, Known]) -> tuple[JobId, ...]:
    """Of what a step has added itself nothing need wait for what it adds later."""
    below = known[id].children if id is not None and id in known else ()
    return tuple(child for child in below if known[child].waits and known[child].added_by != id)


def _check_growth(
    steps: Sequence[NewStep], known: Mapping[JobId, Known], limits: LimitSettings
) -> None:
    """Under the lock as well: many that add one each do not know of each other."""
    edges = sum(len(step.parents) for step in known.values())
    edges += sum(len(step.parents) + len(step.into or ()) for step in steps)
    counted = {
        "steps": (len(known) + len(steps), limits.steps),
        "edges": (edges, limits.edges),
    }
    for what, (count_, most) in counted.items():
        if count_ > most:
            raise InvalidValue(what, problem=f"are {count_}, more than limits.{what}, {most}")


def _named(step: NewStep, names: Mapping[str, JobId], known: Mapping[JobId, Known]) -> NewStep:
    """Under the lock, so that no two choose the same. A name of a step that an earlier attempt of the same step has
    added stands for that."""
    if step.besides is None:
        return step
    for number in itertools.count(1):
        name = step.name if number == 1 else f"{step.name}-{number}"
        taken = names.get(name)
        mine = taken is not None and known[taken].added_by == step.added_by
        if name not in step.besides and (taken is None or mine):
            break
    if name == step.name:
        return step
    more = step.job.more or More()
    extras = msgspec.structs.replace(more.extras or Extras(), step=name)
    more = msgspec.structs.replace(more, extras=extras)
    return msgspec.structs.replace(
        step, name=name, job=msgspec.structs.replace(step.job, more=more)
    )


def _check_new(
    step: NewStep,
    names: dict[str, JobId],
    known: dict[JobId, Known],
    own: set[JobId],
    stands: dict[JobId, JobId],
) -> None:
    if (taken := names.get(step.name)) is not None:
        # An attempt that was lost after it had added its steps: the next one adds them again.
        mine = taken in known and known[taken].added_by == step.added_by
        if step.added_by is None or not mine:
            raise InvalidValue(
                "name", step.name, "is the name of another step", example=f'name="{step.name}-2"'
            )
        stands[step.job.id] = taken
        return
    names[step.name] = step.job.id
    for parent in step.parents:
        if parent not in known and parent not in own:
            raise InvalidValue("after", parent, "is no step of this workflow")
    for child in step.into or ():
        if child not in known and child not in own:
            raise InvalidValue("into", child, "is no step of this workflow")
        if child in known and not known[child].waits:
            raise InvalidValue(
                "into", known[child].name, "has begun already: it cannot wait for another step"
            )


def _check_cycle(steps: Sequence[NewStep], known: dict[JobId, Known]) -> None:
    """Steps that go before others may close one, and what is in it would wait forever."""
    if not any(step.into for step in steps):
        return
    names = {id: step.name for id, step in known.items()} | {s.job.id: s.name for s in steps}
    graph = {id: list(step.parents) for id, step in known.items()}
    for id, above in _family(steps).parents.items():
        graph.setdefault(id, []).extend(above)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = " → ".join(names[id] for id in error.args[1])
        raise InvalidValue(
            "into", problem=f"would make steps wait for themselves: {cycle}"
        ) from None


def _renamed(step: NewStep, stands: dict[JobId, JobId]) -> NewStep:
    if not stands:
        return step
    return msgspec.structs.replace(
        step,
        parents=tuple(stands.get(id, id) for id in step.parents),
        into=tuple(stands.get(id, id) for id in step.into or ()),
    )

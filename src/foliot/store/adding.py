"""Steps that are added to a workflow that runs, as a conversation with a store: see flowing.py and growing.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Final

import msgspec

from foliot.config import LimitSettings
from foliot.errors import InvalidValue, NotRunning
from foliot.ids import JobId, SessionId
from foliot.model.job import Extras, JobState, More
from foliot.model.workflow import AddedStep, Advance, NewStep, Rule, numbered
from foliot.store.flowing import Locked, Talk, decode_ids, flush, lock, to_json
from foliot.store.growing import Known, Place, family_of, insert_steps

_NAMES: Final = 10  # tried at once; then twice as many


async def add(
    talk: Talk,
    id: JobId,
    steps: Sequence[NewStep],
    by: tuple[SessionId, JobId, int] | None,
    limits: LimitSettings | None,
) -> tuple[list[AddedStep], Advance]:
    talk.expect(len(steps))
    flow = (await lock(talk, [id])).get(id)
    if flow is None or not flow.running:
        state = "unknown" if flow is None else "being cancelled" if flow.cancel_requested else None
        raise NotRunning(id, state or (flow.state if flow else "unknown"))
    if by is not None and not await talk.ask(
        "check_running", session=by[0], job=by[1], fence=by[2]
    ):
        raise NotRunning(id, "no longer changed by this attempt: it belongs to another")
    await flush(talk, id)
    known = await _around(talk, id, steps)
    names = {step.name: job for job, step in known.items()}
    waiting = await _waiting(talk, steps, known)
    risky = _may_close_a_cycle(steps, waiting)
    steps = await _placed(talk, id, steps, known, waiting)
    steps = [await _named(talk, id, step, names, known) for step in steps]
    own = {step.job.id for step in steps}
    stands: dict[JobId, JobId] = {}
    for step in steps:
        _check_new(step, names, known, own, stands)
    fresh = [_renamed(step, stands) for step in steps if step.job.id not in stands]
    added = [AddedStep(step.name, stands.get(step.job.id, step.job.id)) for step in steps]
    if not fresh:
        return added, Advance()
    if risky:
        _check_cycle(fresh, await _graph(talk, id))
    if limits is not None:
        _check_growth(fresh, flow, limits)
    place = Place(id, known, flow.total, flow.failing, flow.paused)
    progress = await insert_steps(talk, place, fresh)
    return added, progress.advance


async def _around(talk: Talk, id: JobId, steps: Sequence[NewStep]) -> dict[JobId, Known]:
    """Those that the new ones name: not all of them, or to add many one by one would take ever longer."""
    ids = {one for step in steps for one in (*step.parents, *(step.into or ()))}
    ids |= {one for step in steps for one in (step.mapped, step.added_by) if one is not None}
    names = {step.name for step in steps if step.besides is None}
    return await _find(talk, id, ids=ids, names=names)


async def _find(
    talk: Talk, id: JobId, *, ids: Iterable[JobId] = (), names: Iterable[str] = ()
) -> dict[JobId, Known]:
    asked = {"ids": to_json(sorted(ids)), "names": to_json(sorted(names))}
    found = await talk.ask("find_steps", id=id, **asked)
    return {JobId(job): _known(*told) for job, *told in found}


def _known(
    name: str,
    rule: str,
    state: str | None,
    begun: object,
    mapped: JobId | None,
    added_by: JobId | None,
    is_map: object,
) -> Known:
    return Known(
        state=None if state is None else JobState(state),
        begun=bool(begun),
        name=name,
        added_by=added_by,
        mapped=mapped,
        rule=Rule(rule),
        is_map=bool(is_map),
    )


async def _waiting(
    talk: Talk, steps: Sequence[NewStep], known: dict[JobId, Known]
) -> dict[JobId, dict[JobId, None]]:
    """What waits for the steps that add these; not what they have added before."""
    adding = sorted({step.added_by for step in steps if step.added_by and step.into != ()})
    waiting: dict[JobId, dict[JobId, None]] = {}
    if adding:
        found = await talk.ask("find_waiting_children", ids=to_json(adding))
        for parent, child, name in found:
            waiting.setdefault(parent, {})[JobId(child)] = None
            known.setdefault(JobId(child), Known(begun=False, name=name))
    return waiting


async def _placed(
    talk: Talk,
    id: JobId,
    steps: Sequence[NewStep],
    known: dict[JobId, Known],
    waiting: Mapping[JobId, Iterable[JobId]],
) -> list[NewStep]:
    """With the elements of the maps that they come after, and before what waits for the step that adds them: as it is
    under the lock. Who has looked before it may have seen less."""
    elements = await _elements_of(talk, id, steps, known)
    placed = []
    for step in steps:
        into, parents = step.into, step.parents
        if into is None:
            into = tuple(waiting.get(step.added_by, ())) if step.added_by else ()
        if step.mapped is None and not elements.keys().isdisjoint(parents):
            above = [one for id in parents for one in (id, *elements.get(id, ()))]
            parents = tuple(dict.fromkeys(above))
        placed.append(msgspec.structs.replace(step, into=into, parents=parents))
    return placed


async def _elements_of(
    talk: Talk, id: JobId, steps: Sequence[NewStep], known: dict[JobId, Known]
) -> dict[JobId, list[JobId]]:
    named = {one for step in steps if step.mapped is None for one in step.parents}
    maps = sorted(one for one in named if one in known and known[one].is_map)
    if not maps:
        return {}
    found = await talk.ask("find_elements", flows=to_json([id]), ids=to_json(maps))
    elements: dict[JobId, list[JobId]] = {}
    for job, map_step in found:
        elements.setdefault(JobId(map_step), []).append(JobId(job))
    known |= await _find(talk, id, ids=[JobId(row[0]) for row in found])
    return elements


def _check_growth(steps: Sequence[NewStep], flow: Locked, limits: LimitSettings) -> None:
    """Under the lock as well: many that add one each do not know of each other."""
    counted = {
        "steps": (flow.total + len(steps), limits.steps),
        "edges": (flow.edges + family_of(steps).edges, limits.edges),
    }
    for what, (count_, most) in counted.items():
        if count_ > most:
            raise InvalidValue(what, problem=f"are {count_}, more than limits.{what}, {most}")


async def _named(
    talk: Talk, id: JobId, step: NewStep, names: dict[str, JobId], known: dict[JobId, Known]
) -> NewStep:
    """Under the lock, so that no two choose the same. A name of a step that an earlier attempt of the same step has
    added stands for that."""
    if step.besides is None:
        return step
    name = await _free_name(talk, id, step, names, known)
    if name == step.name:
        return step
    more = step.job.more or More()
    extras = msgspec.structs.replace(more.extras or Extras(), step=name)
    more = msgspec.structs.replace(more, extras=extras)
    return msgspec.structs.replace(
        step, name=name, job=msgspec.structs.replace(step.job, more=more)
    )


async def _free_name(
    talk: Talk, id: JobId, step: NewStep, names: dict[str, JobId], known: dict[JobId, Known]
) -> str:
    number, most = step.since, _NAMES
    while True:
        tried = [numbered(step.name, one) for one in range(number, number + most)]
        found = await _find(talk, id, names=tried)
        known |= found
        names |= {one.name: job for job, one in found.items()}
        for name in tried:
            taken = names.get(name)
            mine = taken is not None and taken in known and known[taken].added_by == step.added_by
            if name not in (step.besides or ()) and (taken is None or mine):
                return name
        number, most = number + most, 2 * most


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
            raise InvalidValue("before", child, "is no step of this workflow")
        if child in known and not known[child].waits:
            raise InvalidValue(
                "before", known[child].name, "has begun already: it cannot wait for another step"
            )


def _may_close_a_cycle(
    steps: Sequence[NewStep], waiting: Mapping[JobId, Mapping[JobId, None]]
) -> bool:
    """Not if they come after the step that adds them, and before what waits for that, or some of it, as most do.
    Whether others do is seen from the whole graph: to add many of these one by one takes ever longer."""
    safe: set[JobId] = set()
    for step in steps:
        below = all(parent in safe or parent == step.added_by for parent in step.parents)
        above = waiting.get(step.added_by, {}) if step.added_by else {}
        if below and above.keys() >= {*(step.into or ())}:
            safe.add(step.job.id)
        elif step.into != ():
            return True
    return False


async def _graph(talk: Talk, id: JobId) -> dict[JobId, tuple[str, tuple[JobId, ...]]]:
    """All steps, with their names and parents."""
    found = await talk.ask("list_graph", id=id)
    return {JobId(job): (name, decode_ids(parents)) for job, name, parents in found}


def _check_cycle(
    steps: Sequence[NewStep], known: Mapping[JobId, tuple[str, tuple[JobId, ...]]]
) -> None:
    """Steps that go before others may close one, and what is in it would wait forever."""
    names = {id: name for id, (name, _) in known.items()} | {s.job.id: s.name for s in steps}
    graph = {id: list(parents) for id, (_, parents) in known.items()}
    for id, above in family_of(steps).parents.items():
        graph.setdefault(id, []).extend(above)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = " → ".join(names[id] for id in error.args[1])
        raise InvalidValue(
            "before", problem=f"would make steps wait for themselves: {cycle}"
        ) from None


def _renamed(step: NewStep, stands: dict[JobId, JobId]) -> NewStep:
    if not stands:
        return step
    return msgspec.structs.replace(
        step,
        parents=tuple(stands.get(id, id) for id in step.parents),
        into=tuple(stands.get(id, id) for id in step.into or ()),
    )

"""Jobs that are submitted after others, as conversations with a store: see flowing.py. They and those make a chain, a
workflow that nobody drew; or they join the one that those are in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from foliot.config import LimitSettings
from foliot.errors import InvalidValue, NotRunning
from foliot.ids import JobId
from foliot.model.job import Extras, JobState, More, NewJob
from foliot.model.workflow import Advance, NewStep, NewWorkflow, Rule
from foliot.store.flowing import Locked, Talk, flush, job_of, lock, template_of, to_json
from foliot.store.growing import Known, Place, insert_steps, insert_workflow


class Moved(Exception):
    """A job has become a step, or ended as one, between the look and the lock: to be asked again."""


async def follow(
    talk: Talk, child: NewStep, workflow: NewWorkflow, limits: LimitSettings | None
) -> tuple[JobId, Advance]:
    """See Workflows.follow. Whose workflow the parents are in is known only when their rows are locked, and its lock
    comes first: so look, lock the workflow, lock the parents, and look whether it is still so (Moved)."""
    homes, _ = await _homes(talk, [*child.parents, child.job.id])
    if (sent := homes.pop(child.job.id, None)) is not None:
        return sent, Advance()  # before: the answer was lost
    flow, homes = await _running(talk, child, homes)
    child, homes, maps = await _with_elements(talk, child, homes)
    named = to_json(sorted(child.parents))
    talk.say("lock_parents", ids=named)
    talk.say("lock_ended_parents", ids=named)
    # Once more: one that was dead may live again since we waited for it.
    live = {JobId(row[0]): row for row in await talk.ask("lock_parents", ids=named)}
    found = {JobId(row[0]): row for row in await talk.ask("find_parents", ids=named)}
    ended = {id: JobState(row[1]) for id, row in found.items() if id not in live}
    now, _ = await _homes(talk, [*child.parents, child.job.id])
    if (sent := now.pop(child.job.id, None)) is not None:
        return sent, Advance()  # by a transaction that had not ended when we looked
    if now != homes:
        raise Moved
    _check_parents(child, homes, live, ended)
    if flow is not None and not flow.chain:
        _check_outsiders(flow.id, homes, live)
    home = await _make_chain(talk, workflow) if flow is None else flow.id
    total = 0 if flow is None else flow.total
    joining = [
        _living(home, number, live[id]) if id in live else _past(number, found[id], child.job.id)
        for number, id in enumerate((id for id in child.parents if id not in homes), total)
    ]
    if limits is not None:
        _check_growth(child, flow, len(joining) + 1, limits)
    await _join(talk, home, joining)
    place = Place(
        home,
        known={id: Known(ended.get(id), is_map=id in maps) for id in child.parents},
        after=total + len(joining),
        failing=flow is not None and flow.failing,
        paused=flow is not None and flow.paused,
        # Steps of workflows that have ended, and jobs that ended by themselves: they will not end again here.
        past=frozenset(id for id in ended if homes.get(id) != home),
    )
    if left := sorted({homes[id] for id in place.past if id in homes} - {home}):
        await talk.ask("note_follower", workflow=home, ids=to_json(left))
    step = msgspec.structs.replace(child, job=_homed(child.job, home, parents=True))
    progress = await insert_steps(talk, place, [step])
    return home, progress.advance


async def _running(
    talk: Talk, child: NewStep, homes: dict[JobId, JobId]
) -> tuple[Locked | None, dict[JobId, JobId]]:
    """The workflow that the child joins: the one of its parents that has not ended. Several chains become one, so that
    it makes no difference which of them has. All are locked. Also the homes, as they are then."""
    for id, flow in (await lock(talk, homes.values())).items():
        if flow.state == "running":
            await flush(talk, id)  # which may be its end
    running = [one for one in (await lock(talk, homes.values())).values() if one.state == "running"]
    if (cancelled := next((one for one in running if one.cancel_requested), None)) is not None:
        raise NotRunning(cancelled.id, "being cancelled: submit it when it has ended")
    if len(running) > 1:
        return await _merged(talk, child, running, homes)
    return (running[0] if running else None), homes


async def _merged(
    talk: Talk, child: NewStep, running: Sequence[Locked], homes: dict[JobId, JobId]
) -> tuple[Locked, dict[JobId, JobId]]:
    if not all(flow.chain for flow in running):
        raise _apart(child)
    if len({flow.paused for flow in running}) > 1:
        problem = "are jobs of chains of which some are paused"
        raise InvalidValue("after", list(child.parents), problem, hint="resume these first")
    first, *others = sorted(running, key=lambda flow: flow.id)
    total = first.total
    for flow in others:
        # Steps that running ones have added, which find them again by these names.
        for (name,) in await talk.ask("find_namesakes", id=first.id, other=flow.id):
            raise InvalidValue(
                "after",
                list(child.parents),
                f"are jobs of chains that both have a step {name}",
                hint="submit it when one of them has ended",
            )
        await talk.ask("merge_chains", id=first.id, other=flow.id, after=total)
        total += flow.total
    merged = {flow.id for flow in others}
    homes = {job: first.id if home in merged else home for job, home in homes.items()}
    return (await lock(talk, [first.id]))[first.id], homes


def _check_parents(
    child: NewStep,
    homes: dict[JobId, JobId],
    live: dict[JobId, tuple[Any, ...]],
    ended: Collection[JobId],
) -> None:
    for parent in child.parents:
        if parent not in live and parent not in ended:
            raise InvalidValue("after", parent, "is no job", hint="was it pruned?")
        if parent in live and parent in homes and live[parent][1] is None:
            raise InvalidValue("after", parent, "was followed when it was dead, and lives again")


def _check_outsiders(flow: JobId, homes: dict[JobId, JobId], live: Collection[JobId]) -> None:
    """A job that was submitted by itself, made a step of what somebody has drawn, would fail it or be ended with it."""
    inside = min(id for id, home in homes.items() if home == flow)
    for id in sorted(live):
        if id not in homes:
            raise InvalidValue(
                "after",
                id,
                f"has not ended and is in no workflow, and {inside} is a step of workflow {flow}",
                hint=f"submit it when {id} has ended, or draw all of them: with app.workflow(…) as flow",
            )


async def _homes(talk: Talk, ids: Sequence[JobId]) -> tuple[dict[JobId, JobId], dict[JobId, JobId]]:
    """Of those that are or were steps, their workflows; and the same of the maps among them."""
    found = await talk.ask("find_homes", ids=to_json(sorted(ids)))
    homes = {JobId(job): JobId(flow) for job, flow, _ in found}
    return homes, {JobId(job): JobId(flow) for job, flow, is_map in found if is_map}


async def _with_elements(
    talk: Talk, child: NewStep, homes: dict[JobId, JobId]
) -> tuple[NewStep, dict[JobId, JobId], Collection[JobId]]:
    """What follows a map waits for its elements as well: those that it makes later find the child themselves. Also
    which of its parents are maps."""
    _, maps = await _homes(talk, child.parents)
    if not maps:
        return child, homes, maps
    flows, named = sorted({*maps.values()}), sorted(maps)
    found = await talk.ask("find_elements", flows=to_json(flows), ids=to_json(named))
    elements = {JobId(row[0]): maps[JobId(row[1])] for row in found}
    parents = tuple(dict.fromkeys((*child.parents, *elements)))
    return msgspec.structs.replace(child, parents=parents), {**homes, **elements}, maps


async def _make_chain(talk: Talk, workflow: NewWorkflow) -> JobId:
    chain = msgspec.structs.replace(workflow, chain=True, deadline=None, waiter=None)
    await insert_workflow(talk, chain)
    return chain.id


# What a step is that was submitted as a job, after its number: nothing is pending, it has begun.
_BEGUN: Final = (0, 0, 0, True)


def _living(home: JobId, number: int, row: tuple[Any, ...]) -> tuple[object, ...]:
    """A job that was submitted by itself, as a step. It may fail, and be tried again with its chain."""
    id, _, template, payload = row
    job = job_of(JobId(id), template, bytes(payload))
    return (
        *(id, number, *_BEGUN, None, Rule.ALL_SUCCEEDED.value, id, None, None, None),
        *("[]", "[]", template_of(_homed(job, home)), job.payload.decode(), False, None, 0),
    )


def _past(number: int, row: tuple[Any, ...], child: JobId) -> tuple[object, ...]:
    """One that has ended by itself: there is nobody left to tell, and nothing to try again."""
    id, state, _, result = row
    told = None if result is None else bytes(result).decode()
    return (
        *(id, number, *_BEGUN, state, Rule.ALL_SUCCEEDED.value, id, None, None, None),
        *("[]", to_json([child]), "{}", "{}", True, told, 0),
    )


async def _join(talk: Talk, home: JobId, rows: Sequence[tuple[object, ...]]) -> None:
    if not rows:
        return
    await talk.ask("insert_steps", workflow=home, rows=to_json(rows))
    await talk.ask("link_jobs", workflow=home, ids=to_json([row[0] for row in rows]))
    live = sum(row[6] is None for row in rows)
    await talk.ask("grow_workflow", workflow=home, number=len(rows), live=live, edges=0)


def _homed(job: NewJob, home: JobId, *, parents: bool = False) -> NewJob:
    more = msgspec.structs.replace(job.more or More(), workflow=home)
    if parents:
        extras = msgspec.structs.replace(more.extras or Extras(), parents=True)
        more = msgspec.structs.replace(more, extras=extras)
    return msgspec.structs.replace(job, more=more)


def _check_growth(child: NewStep, flow: Locked | None, more: int, limits: LimitSettings) -> None:
    """A job that is submitted after itself, again and again, would be one workflow that never ends."""
    steps, edges = (0, 0) if flow is None else (flow.total, flow.edges)
    counted = {
        "steps": (steps + more, limits.steps),
        "edges": (edges + len(child.parents), limits.edges),
    }
    for what, (count, most) in counted.items():
        if count > most:
            raise InvalidValue(
                "after",
                problem=f"would be a chain of {count} {what}, more than limits.{what}, {most}",
                hint="submit it without after, or let a schedule: a chain ends when all its jobs have",
            )


def _apart(child: NewStep) -> InvalidValue:
    return InvalidValue(
        "after",
        list(child.parents),
        "are jobs of different workflows",
        hint="draw them as one: with app.workflow(…) as flow",
    )

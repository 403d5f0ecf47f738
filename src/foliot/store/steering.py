"""What is done to whole workflows, as conversations with a store: see flowing.py."""

from __future__ import annotations

from collections.abc import Container, Sequence

from foliot.errors import InvalidValue
from foliot.ids import JobId
from foliot.model.workflow import (
    Advance,
    Rule,
    is_spared,
)
from foliot.shown import did_you_mean
from foliot.store.flowing import (
    Progress,
    Talk,
    lock,
    tell,
    to_json,
)
from foliot.store.reply import Rows


async def advance(talk: Talk, ids: Sequence[JobId]) -> Advance:
    # Of inner workflows that have ended: their locks and those of what is around them are taken together.
    around = await talk.ask("find_cancelled_waiters", ids=to_json(list(ids)))
    locked = await lock(talk, [*ids, *(flow for _, flow in around if flow is not None)])
    progress = Progress()
    named = sorted(locked)
    if not named:
        return progress.advance
    await _end_waiters(talk, ids, locked, progress)
    needs = {row[0]: row[1:] for row in await talk.ask("read_workflow_needs", ids=to_json(named))}
    for id in named:
        late, orphaned = needs.get(id, (False, False))
        if late or orphaned:
            await _cancel(talk, id, "deadline" if late else "requested", progress)
        elif locked[id].running and locked[id].failing and not locked[id].stopped:
            await _stop(talk, id, progress)
    await tell(talk, named, progress)
    return progress.advance


async def _end_waiters(
    talk: Talk, ids: Sequence[JobId], locked: Container[str], progress: Progress
) -> None:
    """Jobs that were asked to end with inner workflows, which have. If one of these has ended while the locks were
    waited for, that of what is around it may be missing: then it is for the next time."""
    found = await talk.ask("find_cancelled_waiters", ids=to_json(list(ids)))
    gone = [job for job, flow in found if flow is None or flow in locked]
    if len(gone) < len(found):
        progress.more.update(ids)
    if gone:
        flows = [flow for job, flow in found if flow is not None and job in gone]
        await talk.cancel(gone, flows)
        await talk.ask("mark_steps", ids=to_json(gone), flows=to_json(flows))
        progress.ended += ids


async def _stop(talk: Talk, id: JobId, progress: Progress) -> None:
    """A step has failed, and the policy is fail_fast: what does not run will not, what runs is asked to end."""
    await talk.ask("stop_workflow", id=id)
    live = await talk.ask("list_live_steps", id=id)
    others = [
        job
        for job, _, rule, map_rule in live
        if not is_spared(Rule(rule), None if map_rule is None else Rule(map_rule))
    ]
    await talk.ask("request_cancel_of_steps", ids=to_json(others), running=True)
    gone = [row[0] for row in await talk.ask("skip_steps", ids=to_json(others), reason="fail_fast")]
    await talk.ask("mark_steps", ids=to_json(gone), flows=to_json([id]))
    await _go_inside(talk, others, progress)


async def _cancel(talk: Talk, id: JobId, reason: str, progress: Progress) -> None:
    await talk.ask("cancel_workflow", id=id, reason=reason)
    live = [row[0] for row in await talk.ask("list_live_steps", id=id)]
    await talk.ask("request_cancel_of_steps", ids=to_json(live), running=False)
    await talk.cancel(live, [id])
    await talk.ask("mark_steps", ids=to_json(live), flows=to_json([id]))
    await _go_inside(talk, live, progress)


async def _go_inside(talk: Talk, jobs: Sequence[str], progress: Progress) -> None:
    """Workflows that run for these are asked to end, and the jobs end after them: in transactions of their own, for
    whoever ends an inner workflow has its lock before that of a job out here."""
    inner = await talk.ask("find_inner_workflows", ids=to_json(list(jobs)))
    progress.more.update(JobId(row[0]) for row in inner)


async def cancel(talk: Talk, id: JobId, reason: str) -> Advance | None:
    flow = (await lock(talk, [id])).get(id)
    if flow is None or flow.state != "running":
        return None
    progress = Progress()
    await _cancel(talk, id, reason, progress)
    await tell(talk, [id], progress)
    return progress.advance


async def signal(
    talk: Talk, id: JobId, name: str, payload: bytes, *, early: bool
) -> Advance | None:
    flow = (await lock(talk, [id])).get(id)
    if flow is None or not flow.running:
        return None
    waiting = [row[0] for row in await talk.ask("find_signalled", id=id, name=name)]
    if not waiting:
        if not early:
            _check_awaited(id, name, await talk.ask("list_signals", id=id))
        await talk.ask("keep_signal", id=id, name=name, payload=payload)
        return Advance()
    progress = Progress()
    rows = [(job, payload.decode()) for job in sorted(waiting)]
    await talk.ask("end_signalled", rows=to_json(rows))
    await talk.ask("mark_steps", ids=to_json(waiting), flows=to_json([id]))
    await tell(talk, [id], progress)
    return progress.advance


def _check_awaited(id: JobId, name: str, known: Rows) -> None:
    """What is kept for nobody would answer a retry of the step, whenever that is."""
    for signal, live, had, other in known:
        if signal == name and not live:
            again = f"foliot workflows retry {id}" + (f" --step {had}" if had else "")
            raise InvalidValue(
                "signal",
                name,
                "is waited for by no step any more: "
                + (f"{had} has had it" if had else f"{other} has ended"),
                hint=f"to have it asked for again: {again}",
            )
    if name not in (names := [row[0] for row in known]):
        raise _unknown_signal(name, names)


def _unknown_signal(name: str, known: Sequence[str]) -> InvalidValue:
    problem = "is waited for by no step of this workflow"
    if known:
        problem += f", which waits for {', '.join(known)}"
    later = "to keep it for a step that is added later: --early, early=True"
    return InvalidValue("signal", name, problem, hint=did_you_mean(name, known) or later)


async def pause(talk: Talk, id: JobId, note: str | None, by: str, within: JobId | None) -> bool:
    locked = await lock(talk, [id] if within is None else [id, within])
    flow, around = locked.get(id), None if within is None else locked.get(within)
    if flow is None or not flow.running or (around is not None and not around.paused):
        return False
    await talk.ask("pause_workflow", id=id, note=note, by=by)
    begun = [job for job, begun, *_ in await talk.ask("list_live_steps", id=id) if begun]
    await talk.ask("hold_steps", ids=to_json(begun))
    return True


async def resume(talk: Talk, id: JobId, within: JobId | None) -> Advance | None:
    locked = await lock(talk, [id] if within is None else [id, within])
    flow, around = locked.get(id), None if within is None else locked.get(within)
    if flow is None or flow.state != "running" or (around is not None and around.paused):
        return None
    await talk.ask("resume_workflow", id=id)
    begun = [job for job, begun, *_ in await talk.ask("list_live_steps", id=id) if begun]
    progress = Progress()
    progress.admit(talk.say("resume_steps", ids=to_json(begun)))
    await talk.hear()
    return progress.advance


def has_changed(told: object) -> bool:
    """Whether there was something to do: what a person did is written down."""
    if isinstance(told, tuple):
        alive, advance = told
        return bool(alive or advance.ended)
    return bool(told)

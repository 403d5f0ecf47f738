"""Everything a user may ask of workflows, once: the SDK and the command line both call these."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from foliot.author import Author, this_user
from foliot.checks import check_note, check_whole
from foliot.config import LimitSettings
from foliot.errors import InvalidValue, NotRunning, StoreUnavailable, UnknownWorkflow
from foliot.ids import Ids, JobId, SessionId, is_job_id, partition_of, slot_of
from foliot.model.job import JobState, NewJob
from foliot.model.workflow import (
    FAILED,
    AddedStep,
    Advance,
    NewStep,
    NewWorkflow,
    Rule,
    Step,
    Workflow,
    WorkflowState,
)
from foliot.payload import check_json
from foliot.search import LONGEST_PAGE
from foliot.shown import did_you_mean, named
from foliot.store.port import Store, Wake
from foliot.store.searching import Record
from foliot.workflow_draft import build, check_step_name, draft_of
from foliot.workflow_inside import each_inside, find_waiting_inside, meant_as_jobs, say_home

log = logging.getLogger("foliot.workflow")
T = TypeVar("T")
_ROUNDS: Final = 1_000  # of carrying on; what is left then is for the schedulers' duty
_LONGEST_TOLD: Final = 500  # characters of a signal's payload that the audit log keeps
_SENT: Final = 3  # times that a submission is sent whose reply was lost: its ids make that safe
_EXAMPLE: Final = "0192d5f0-5b7c-7a3b-8000-5c1f2e3d4c5b"


async def submit_workflow(store: Store, workflow: NewWorkflow) -> bool:
    """The whole graph or nothing. Of a key that is known with the same graph, the run that there is stands: False."""
    _check_homes(store, workflow.steps)
    partition = partition_of(workflow.id, store.partitions)
    is_new = await _send(lambda: store.workflows.submit(partition, workflow))
    if not is_new:
        known = await store.workflows.get(workflow.id)
        if known is not None and known.fingerprint != workflow.fingerprint:
            raise InvalidValue(
                "key",
                problem=f"belongs to a run of {known.name} with another graph, {known.id}",
                hint="give another key, or the same steps",
            )
    store.wake(news_of(partition, [step for step in workflow.steps if not step.parents]))
    return is_new


async def get_workflow(store: Store, id: str) -> Workflow:
    """Raises UnknownWorkflow."""
    known = check_workflow_id(id)
    found = await store.workflows.get(known)
    if found is None:
        job = await store.jobs.get(known)
        raise UnknownWorkflow(id, job=None if job is None else say_home(job))
    return found


async def workflow_steps(store: Store, id: str) -> list[Step]:
    """In the order of submission. Raises UnknownWorkflow."""
    found = await store.workflows.steps(check_workflow_id(id))
    if not found:
        await get_workflow(store, id)
    return found


async def list_workflows(
    store: Store,
    *,
    name: str | None = None,
    state: str | None = None,
    limit: int = 100,
    before: str | None = None,
) -> list[Workflow]:
    """Newest first; `before` is the id of the last one seen. Those that run may be asked for as far as they are
    paused."""
    check_whole("limit", limit, 1, LONGEST_PAGE, example="limit=100")
    known = [*WorkflowState, "paused"]
    if state is not None and state not in known:
        problem = f"is none of {', '.join(known)}"
        raise InvalidValue("state", state, problem, hint=did_you_mean(str(state), known))
    since = None if before is None else check_workflow_id(before)
    return await store.workflows.list(name=name, state=state, limit=limit, before=since)


async def cancel_workflow(store: Store, id: str, *, by: Author | None = None) -> Workflow:
    """Steps that have not begun are cancelled, running ones asked to end. One that is cancelled already is as it was
    asked for; raises NotRunning if it has ended otherwise."""
    known, partition = _home(store, id)
    record = None if by is None else by.each("cancel")
    advance = await store.workflows.cancel(partition, known, record=record)
    if advance is None:
        found = await get_workflow(store, id)
        if found.state is not WorkflowState.CANCELLED:
            raise NotRunning(known, found.state)
        return found
    store.wake(Wake(cancel=True, changed=True))
    await carry_on(store, partition, advance)
    return await get_workflow(store, id)


async def pause_workflow(
    store: Store, id: str, *, by: Author | None = None, note: str | None = None
) -> Workflow:
    """What runs goes on, nothing else starts; nor in workflows that run for its steps. Raises NotRunning if it has
    ended."""
    known, partition = _home(store, id)
    note = check_note(note, "until the outage is over")
    detail = {} if note is None else {"note": note}
    record = None if by is None else by.each("pause", **detail)
    who = this_user() if by is None else by.name
    if not await store.workflows.pause(partition, known, note=note, by=who, record=record):
        raise await _not_running(store, known, "paused")
    async for inner, around in each_inside(store, known):
        await store.workflows.pause(
            partition, inner, note=note, by=who, record=record, within=around
        )
    return await get_workflow(store, id)


async def resume_workflow(store: Store, id: str, *, by: Author | None = None) -> Workflow:
    """With the workflows that run for its steps, whoever has paused them. Raises NotRunning if it has ended."""
    known, partition = _home(store, id)
    record = None if by is None else by.each("resume")
    advance = await store.workflows.resume(partition, known, record=record)
    if advance is None:
        raise await _not_running(store, known, "resumed")
    await carry_on(store, partition, advance)
    async for inner, around in each_inside(store, known):
        await _resume_inner(store, inner, around, record)
    return await get_workflow(store, id)


async def pause_like(store: Store, id: JobId, outer: JobId) -> None:
    """One that was submitted for a step is paused if that workflow is: who paused it may not have found this one. Who
    resumes it finds it."""
    _, partition = _home(store, id)
    flow = await store.workflows.get(outer)
    if flow is None or flow.paused_at is None:
        return
    note, who = flow.note, flow.paused_by or this_user()
    await store.workflows.pause(partition, id, note=note, by=who, within=outer)
    async for inner, around in each_inside(store, id):
        await store.workflows.pause(partition, inner, note=note, by=who, within=around)


async def resume_inner(store: Store, id: JobId, outer: JobId) -> None:
    """One that runs for a step, and those that run for steps of it, unless that workflow is paused. No error, if it has
    ended."""
    await _resume_inner(store, id, outer, None)
    async for inner, around in each_inside(store, id):
        await _resume_inner(store, inner, around, None)


async def _resume_inner(store: Store, id: JobId, outer: JobId, record: Record | None) -> None:
    found = await store.workflows.get(id)
    if found is None or found.paused_at is None:
        return  # nothing is done to it that would be written down
    _, partition = _home(store, id)
    advance = await store.workflows.resume(partition, id, record=record, within=outer)
    if advance is not None:
        await carry_on(store, partition, advance)


async def retry_workflow(
    store: Store, id: str, *, by: Author | None = None, only: Sequence[str] = ()
) -> list[JobId]:
    """The steps that failed run again, or those with these names; skipped ones are decided anew. What succeeded is not
    run again unless it is named: then with all that came after it. Returns the steps that live again; none: nothing had
    failed. One that was late or cancelled, and whose steps succeeded all the same, has then succeeded too."""
    known, partition = _home(store, id)
    steps = await workflow_steps(store, id)
    chosen = _ended_ones(steps, only)
    record = None if by is None else by.each("retry", **({"only": list(only)} if only else {}))
    alive, advance = await store.workflows.retry(partition, known, only=chosen, record=record)
    again = [step for step in steps if step.job in set(alive)]
    lanes = {step.job_template.lane for step in again if step.job_template is not None}
    store.wake(Wake(tuple((partition, lane) for lane in sorted(lanes)), due=bool(again)))
    await carry_on(store, partition, advance)
    return alive


async def rerun_workflow(
    store: Store, id: str, *, by: Author | None = None, ids: Ids, limits: LimitSettings
) -> JobId:
    """The same graph once more, as it was first submitted, under a new id and without a key."""
    old = await get_workflow(store, id)
    draft = draft_of(old, await workflow_steps(store, id))
    made = build(draft, ids, limits=limits)
    await submit_workflow(store, made)
    if by is not None:
        await store.audit.write([by.deed("rerun", old.id, workflow=made.id)])
    return made.id


async def signal_workflow(
    store: Store,
    id: str,
    name: str,
    payload: Any = None,
    *,
    early: bool = False,
    by: Author | None = None,
    largest: int = 256 << 10,
) -> None:
    """Ends the steps that wait for it; kept for one that will, be it one that is added later, if it is `early`. Raises
    NotRunning if the workflow has ended."""
    check_step_name(name, field="signal", example='"approval"')
    known, partition = _home(store, id)
    encoded = _encode_signal(name, payload, largest)
    told = encoded.decode()
    told = told if len(told) <= _LONGEST_TOLD else f"{told[:_LONGEST_TOLD]}…"
    record = None if by is None else by.each("signal", signal=name, payload=told)
    try:
        advance = await store.workflows.signal(
            partition, known, name, encoded, early=early, record=record
        )
    except InvalidValue as error:
        inner = await find_waiting_inside(store, known, name)
        if inner is None:
            raise
        hint = f"{inner.name} within it does: foliot workflows signal {inner.id} {name}"
        raise InvalidValue(error.field, error.value, error.problem, hint=hint) from None
    if advance is None:
        raise await _not_running(store, known, "sent a signal")
    store.wake(Wake(changed=True))
    await carry_on(store, partition, advance)


async def add_steps(
    store: Store,
    id: JobId,
    steps: Sequence[NewStep],
    *,
    limits: LimitSettings,
    by: tuple[SessionId, JobId, int] | None = None,
) -> list[AddedStep]:
    """To a workflow that runs; `by` the running step of this session, job and fence. Returns what stands for the steps:
    of those that the same step had added before, the first."""
    _check_homes(store, steps)
    partition = partition_of(id, store.partitions)
    found, advance = await store.workflows.add(partition, id, steps, by=by, limits=limits)
    store.wake(news_of(partition, steps))
    await carry_on(store, partition, advance)
    return found


async def follow(
    store: Store,
    job: NewJob,
    after: Sequence[JobId],
    *,
    rule: Rule,
    ids: Ids,
    limits: LimitSettings,
) -> JobId:
    """Submit a job that waits for others: `options(after=[…])`. Its id is made here, for it lives where they do."""
    partitions = {partition_of(id, store.partitions) for id in after}
    if len(partitions) > 1:
        raise InvalidValue(
            "after",
            list(after),
            "are jobs of different partitions, and one job cannot wait for all of them",
            hint="make them steps of a workflow, submit one with after=[other], or both with one ordering_key",
        )
    slot = slot_of(after[0])
    child = msgspec.structs.replace(job, id=ids.job(slot))
    step = NewStep(name=child.id, job=child, rule=rule, parents=tuple(dict.fromkeys(after)))
    _check_homes(store, [step])
    # Nobody drew it as a whole, so the failure of one is no reason to stop the others.
    chain = NewWorkflow(id=ids.job(slot), name="chain", steps=(), policy="continue", chain=True)
    chain = msgspec.structs.replace(chain, namespace=job.namespace)
    [partition] = partitions
    async with meant_as_jobs(store, after):
        _, advance = await _send(
            lambda: store.workflows.follow(partition, step, chain, limits=limits)
        )
    store.wake(news_of(partition, [step]))
    await carry_on(store, partition, advance)
    return child.id


async def carry_on(store: Store, partition: int, advance: Advance) -> None:
    """Tell whoever waits what has come of something that has taken effect, and do what is left to do. If this is lost,
    a duty finds it: an error would say that all of it was."""
    for _ in range(_ROUNDS):
        ready = {(partition, lane) for lane, state in advance.lanes if state is JobState.READY}
        due = any(state is not JobState.READY for _, state in advance.lanes)
        if ready or due or advance.ended:
            store.wake(Wake(tuple(sorted(ready)), due=due, changed=bool(advance.ended)))
        if not advance.more:
            return
        try:
            advance = await store.workflows.advance(partition, advance.more)
        except StoreUnavailable as error:
            log.warning("a workflow is carried on later: %s", error)
            return
        store.wake(Wake(cancel=True))  # a failure may have stopped others


def news_of(partition: int, steps: Sequence[NewStep]) -> Wake:
    """A hint for steps that may run as soon as they are stored."""
    lanes = {step.job.lane for step in steps if step.signal is None}
    later = any(
        step.job.delay is not None or step.job.run_at is not None or step.job.more is not None
        for step in steps
    )
    return Wake(tuple((partition, lane) for lane in sorted(lanes)), due=later)


def check_workflow_id(id: object) -> JobId:
    if not isinstance(id, str) or not is_job_id(id):
        raise InvalidValue("id", id, "is not a workflow's id", example=_EXAMPLE)
    return JobId(id)


def _check_homes(store: Store, steps: Sequence[NewStep]) -> None:
    """The steps of a workflow live together; others with the same ordering key may live elsewhere, and none would wait
    for the other."""
    for step in steps if store.partitions > 1 else ():
        key = None if step.job.more is None else step.job.more.ordering_key
        if key is not None:
            raise InvalidValue(
                "ordering_key",
                key,
                f"of step {step.name} cannot be kept in a store with several partitions",
                hint="submit a job with this key from the step",
            )


async def _send(submit: Callable[[], Awaitable[T]]) -> T:
    for attempt in range(1, _SENT + 1):
        try:
            return await submit()
        except StoreUnavailable as error:
            if not error.unknown or attempt == _SENT:
                raise
    raise AssertionError("the last attempt returns or raises")


def _home(store: Store, id: str) -> tuple[JobId, int]:
    known = check_workflow_id(id)
    return known, partition_of(known, store.partitions)


async def _not_running(store: Store, id: JobId, done: str) -> NotRunning:
    """Raises UnknownWorkflow instead, if there is none."""
    found = await get_workflow(store, id)
    if not found.state.final:
        return NotRunning(id, "being cancelled", hint=f"it cannot be {done} any more")
    return NotRunning(id, found.state, hint=f"it has ended, and cannot be {done}")


def _ended_ones(steps: Sequence[Step], names: Sequence[str]) -> list[JobId]:
    by_name = {step.name: step for step in steps}
    chosen = []
    for name in names:
        step = by_name.get(name)
        if step is None:
            raise unknown_step(name, by_name)
        if step.state is JobState.SKIPPED:
            hint = "it is decided anew when one that it comes after is retried"
            raise InvalidValue("step", name, "was skipped: it has not failed", hint=hint)
        if step.state not in (*FAILED, JobState.SUCCEEDED):
            raise InvalidValue("step", name, f"has not ended: it is {step.state}")
        chosen.append(step.job)
    return chosen


def unknown_step(name: object, known: Iterable[str], *, field: str = "step") -> InvalidValue:
    names = list(known)
    problem = f"is no step of this workflow, which has {named(names)}"
    return InvalidValue(field, name, problem, hint=did_you_mean(str(name), names))


def _encode_signal(name: str, payload: Any, largest: int) -> bytes:
    try:
        encoded = msgspec.json.encode(payload)
        check_json(payload, encoded)
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"cannot be stored as JSON: {error}"
        raise InvalidValue(f"payload of {name}", payload, problem) from error
    if len(encoded) > largest:
        problem = f"has {len(encoded)} bytes, more than limits.payload, {largest}"
        raise InvalidValue(f"payload of {name}", problem=problem)
    return encoded

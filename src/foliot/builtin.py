"""Kinds that every worker knows: what workflows are made of besides the app's own jobs.

foliot.map        adds a step for each element of a list, then is done
foliot.sleep      does nothing: its delay is over when it runs
foliot.signal     never runs: the signal ends it
foliot.workflow   stands for a workflow, in a schedule or as a step of another: submits it, is held until that has
                  ended, runs again and results in what that did
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

import msgspec

from foliot.config import Settings
from foliot.errors import Cancel, FoliotError, InvalidValue, NotRunning, WorkflowFailed
from foliot.ids import Ids, JobId, SessionId, inner_id, partition_of
from foliot.model.definition import JobDefinition
from foliot.model.job import Job
from foliot.model.workflow import (
    MAP_KIND,
    SIGNAL_KIND,
    SLEEP_KIND,
    WORKFLOW_KIND,
    Workflow,
    WorkflowState,
)
from foliot.store.port import Store
from foliot.workflow_commands import (
    add_steps,
    carry_on,
    get_workflow,
    pause_like,
    resume_inner,
    submit_workflow,
)
from foliot.workflow_draft import build, from_json
from foliot.workflow_map import MapPayload, make_elements
from foliot.workflow_refs import element_name
from foliot.workflow_results import result_of

T = TypeVar("T")


class Host(Protocol):
    """The running job, as far as these need it."""

    @property
    def id(self) -> JobId: ...

    @property
    def fence(self) -> int: ...

    @property
    def session(self) -> SessionId: ...

    @property
    def step(self) -> str | None: ...

    @property
    def workflow(self) -> JobId | None: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def ids(self) -> Ids: ...

    async def ask(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Have the store asked."""
        ...


class Awaiting(Exception):
    """The job stands for a workflow, and goes on when that has ended. Not a failure."""

    def __init__(self, workflow: JobId) -> None:
        super().__init__(f"waits for workflow {workflow}")
        self.workflow = workflow


class MapFailed(FoliotError):
    """The list will be the same the next time: trying again is no use."""


class Nothing(msgspec.Struct, frozen=True):
    """No arguments."""


class WorkflowPayload(msgspec.Struct, frozen=True):
    """A graph as JSON: see workflow_draft.py."""

    draft: dict[str, Any]


class Builtin(msgspec.Struct, frozen=True):
    """How its jobs run, and that as a definition."""

    definition: JobDefinition
    run: Callable[[Host, Any], Awaitable[Any]]


async def run_map(host: Host, told: MapPayload) -> list[Any]:
    """An element that a lost attempt has added is not added twice: its name says which it is."""
    name, workflow = host.step, host.workflow
    if name is None or workflow is None:
        raise InvalidValue(MAP_KIND, problem="is a step of a workflow, and this job is in none")

    async def add(store: Store) -> None:
        limits = host.settings.limits
        # All are added together, so those that a lost attempt has added are counted already.
        there = await store.workflows.named(workflow, [element_name(name, 0)])
        room = limits.steps if there else limits.steps - (await get_workflow(store, workflow)).total
        try:
            made = make_elements(
                told,
                name=name,
                map_step=host.id,
                workflow=workflow,
                ids=host.ids,
                limit=room,
            )
        except FoliotError as error:
            raise MapFailed(str(error)) from error
        if made:
            by = (host.session, host.id, host.fence)
            await add_steps(store, workflow, made, by=by, limits=limits)

    if not told.expanded:
        await host.ask(add)
    return []


async def run_sleep(_: Host, told: Nothing) -> None:
    """Its delay was all there was to it."""


async def run_signal(_: Host, __: Nothing) -> None:
    raise FoliotError("a step that waits for a signal does not run")


async def run_workflow(host: Host, told: WorkflowPayload) -> dict[str, Any]:
    id = inner_id(host.id)

    async def go(store: Store) -> dict[str, Any]:
        known = await store.workflows.get(id)
        if known is None:
            limits = host.settings.limits
            made = build(from_json(told.draft), host.ids, limits=limits, id=id, waiter=host.id)
            await submit_workflow(store, made)
        elif known.state is WorkflowState.SUCCEEDED:
            return await result_of(store, id)
        elif known.state.final:
            await _try_again(store, known, host)
        if host.workflow is not None:
            await pause_like(store, id, host.workflow)
        raise Awaiting(id)

    return await host.ask(go)


async def _try_again(store: Store, known: Workflow, host: Host) -> None:
    """A workflow that has failed is this job's failure; unless somebody has asked the job to end, or retried it since
    then, or has the workflow tried again by itself just now: that is waited for."""
    job = await store.jobs.get(host.id)
    if job is not None and job.cancel_requested:
        raise Cancel("requested")
    if job is not None and _was_retried(job):
        partition = partition_of(known.id, store.partitions)
        try:
            alive, advance = await store.workflows.retry(partition, known.id)
        except NotRunning:  # tried again, and asked to end
            return
        if alive or advance.ended:  # with nothing left to run it has succeeded at once
            await carry_on(store, partition, advance)
            if host.workflow is not None:  # which it was paused with, perhaps, and not resumed
                await resume_inner(store, known.id, host.workflow)
            return
    await result_of(store, known.id)


def _was_retried(job: Job) -> bool:
    """Whether it lives again, and in this life has not had its workflow run yet. An attempt that was interrupted when
    it was to say how that has ended is followed by another, of the same life."""
    return job.generation > 0 and job.extras.began is None


def _builtin(
    kind: str, run: Callable[[Host, Any], Awaitable[Any]], arguments: type[msgspec.Struct]
) -> Builtin:
    definition = JobDefinition(
        kind=kind,
        function=run,
        arguments=arguments,
        decode=msgspec.json.Decoder(arguments).decode,
        is_async=True,
        no_retry=(MapFailed, InvalidValue, WorkflowFailed, NotRunning),
    )
    return Builtin(definition, run)


BUILTINS: Final = (
    _builtin(MAP_KIND, run_map, MapPayload),
    _builtin(SLEEP_KIND, run_sleep, Nothing),
    _builtin(SIGNAL_KIND, run_signal, Nothing),
    _builtin(WORKFLOW_KIND, run_workflow, WorkflowPayload),
)

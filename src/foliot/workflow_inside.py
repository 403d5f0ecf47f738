"""Workflows that run for steps of another, and ids of workflows and of jobs where the others are meant."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from foliot.errors import FoliotError, InvalidValue
from foliot.ids import JobId, inner_id
from foliot.model.job import Job, JobState
from foliot.model.workflow import HELD_FOR_WORKFLOW, WORKFLOW_KIND, Step, Workflow
from foliot.store.port import Store

log = logging.getLogger("foliot.workflow")
_MOST: Final = 10_000
_MOST_ASKED: Final = 100  # workflows that are looked into for one that waits


async def each_inside(store: Store, id: JobId) -> AsyncIterator[tuple[JobId, JobId]]:
    """Those that run for its steps, or for theirs, and in which: the steps of each are read after it was dealt with.
    There may be none of that id yet, or one that has ended."""
    ahead, found = deque([id]), 0
    while ahead:
        around = ahead.popleft()
        for step in await store.workflows.steps(around):
            if not _stands(step):
                continue
            if found == _MOST:
                log.warning("workflow %s has more than %d inside: not all are reached", id, _MOST)
                return
            found += 1
            inner = inner_id(step.job)
            yield inner, around
            ahead.append(inner)


async def find_waiting_inside(store: Store, id: JobId, name: str) -> Workflow | None:
    """The first of the workflows that run for its steps, or for theirs, that has a step for this signal."""
    ahead = deque([id])
    for _ in range(_MOST_ASKED):
        if not ahead:
            break
        inside = ahead.popleft()
        steps = await store.workflows.steps(inside)
        if any(step.signal == name and not step.state.final for step in steps):
            return await store.workflows.get(inside)
        ahead += [inner_id(step.job) for step in steps if step.reason == HELD_FOR_WORKFLOW]
    return None


@asynccontextmanager
async def meant_as_jobs(store: Store, ids: Sequence[JobId]) -> AsyncIterator[None]:
    """If one of these is refused in here as it is a workflow, that is what the error says."""
    try:
        yield
    except InvalidValue as error:
        if error.value in ids:
            await check_no_workflow(store, JobId(str(error.value)))
        raise


async def check_no_workflow(store: Store, id: JobId) -> None:
    """Of an id that no job has: for whoever has taken a workflow for one."""
    if await store.workflows.get(id) is not None:
        hint = f'its steps are jobs: flow["load"] in code, on the command line foliot workflows show {id}'
        raise FoliotError(f"{id} is a workflow, and no job", hint=hint)


def say_home(job: Job) -> str:
    """For whoever has taken it for a workflow."""
    if job.kind == WORKFLOW_KIND:
        return f"it stands for {inner_id(job.id)}"
    return f"it is a step of {job.workflow}" if job.workflow else f"see: foliot jobs show {job.id}"


def _stands(step: Step) -> bool:
    """One that runs is about to submit its workflow, or has just done so; so may have one that has lost its worker
    since then, and that waits to run again."""
    return (
        step.kind == WORKFLOW_KIND and step.state is not JobState.WAITING and not step.state.final
    )

"""The part of a store's contract that is about workflows.

A workflow's row is locked before everything else by whoever ends one of its steps, adds to it or changes it, rows in
the order of their ids: what is linked changes under one lock. Ends that rule out others are carried out level by level;
`advance` goes on where somebody stopped, and any process may, at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from foliot.config import LimitSettings
from foliot.ids import JobId, SessionId
from foliot.model.job import ClaimedJob, Parent
from foliot.model.workflow import AddedStep, Advance, Around, NewStep, NewWorkflow, Step, Workflow
from foliot.store.searching import Record


class Workflows(Protocol):
    async def submit(self, partition: int, workflow: NewWorkflow) -> bool:
        """The whole graph or nothing. False: there is one of this id already, and nothing was stored."""
        ...

    async def add(
        self,
        partition: int,
        id: JobId,
        steps: Sequence[NewStep],
        *,
        by: tuple[SessionId, JobId, int] | None = None,
        limits: LimitSettings | None = None,
    ) -> tuple[list[AddedStep], Advance]:
        """Add steps to one that runs. Of a step that the same job has added under the same name before, the first id
        stands. `by`: the session, job and fence that add; refused (NotRunning) if that is no longer running.
        Raises NotRunning if the workflow has ended or is being cancelled, InvalidValue for a name that is taken, an
        `into` that has begun, a step that would wait for itself, or more steps and edges than `limits` allow."""
        ...

    async def follow(
        self,
        partition: int,
        child: NewStep,
        workflow: NewWorkflow,
        *,
        limits: LimitSettings | None = None,
    ) -> tuple[JobId, Advance]:
        """Submit a job that waits for others (`options(after=…)`): it joins the workflow of its parents, or, if none
        has one, `workflow`, which these then join. Returns that workflow. Parents that have ended count as they did.
        Raises InvalidValue if parents are of different workflows or unknown, or there would be more steps and edges
        than `limits` allow; NotRunning if their workflow is being cancelled."""
        ...

    async def advance(self, partition: int, ids: Sequence[JobId]) -> Advance:
        """Carry out one level of what the ends of steps have led to: skips, a failure that stops others, a deadline."""
        ...

    async def find_stuck(self, partition: int, *, limit: int) -> tuple[list[JobId], bool]:
        """Workflows with something left to carry out, or past their deadline; and whether any runs. Only reads."""
        ...

    async def signal(
        self,
        partition: int,
        id: JobId,
        name: str,
        payload: bytes,
        *,
        early: bool = True,
        record: Record | None = None,
    ) -> Advance | None:
        """Ends the steps that wait for it; kept for one that will. None: there is no such workflow, or it has ended.
        Raises InvalidValue if no step of it that has not ended is there for this signal, unless it may be as early as
        that."""
        ...

    async def cancel(
        self, partition: int, id: JobId, *, record: Record | None = None, reason: str = "requested"
    ) -> Advance | None:
        """Steps that have not begun are cancelled, running ones asked to end, its steps' own workflows as well.
        None: there is none, or it has ended."""
        ...

    async def pause(
        self,
        partition: int,
        id: JobId,
        *,
        note: str | None,
        by: str,
        record: Record | None = None,
        within: JobId | None = None,
    ) -> bool:
        """What runs goes on, nothing else starts. False: there is none, or it has ended. One that runs `within` another
        is paused only if that is. Of one that is paused already, who did it and why stays, unless there is a note."""
        ...

    async def resume(
        self,
        partition: int,
        id: JobId,
        *,
        record: Record | None = None,
        within: JobId | None = None,
    ) -> Advance | None:
        """None: there is none, or it has ended. One `within` another is resumed only if that is not paused."""
        ...

    async def retry(
        self,
        partition: int,
        id: JobId,
        *,
        only: Sequence[JobId] = (),
        record: Record | None = None,
    ) -> tuple[list[JobId], Advance]:
        """The steps that failed (or `only` these) run again, unless their parents rule them out, and those that
        were skipped are decided anew. What succeeded is not run again, unless it is one of `only`: then with all that
        came after it. Returns the steps that were taken up again; none: nothing had failed, and one that was late or
        cancelled all the same has `ended` once more, and succeeded. Raises NotRunning while it is being cancelled,
        InvalidValue if what succeeded cannot be run anew, or another job has the unique key of one."""
        ...

    async def get(self, id: JobId) -> Workflow | None: ...

    async def steps(self, id: JobId) -> list[Step]:
        """In the order of submission."""
        ...

    async def named(self, id: JobId, names: Sequence[str]) -> dict[str, JobId]:
        """Of these names, those of steps of this workflow. Only reads."""
        ...

    async def around(self, job: JobId, *, most: int) -> Around | None:
        """Parents are counted, and of each end, and of those that have not ended, `most` are named, as they were given;
        without arguments, results, parents, children and kinds. None: the job is no step. Only reads."""
        ...

    async def children(self, job: JobId, *, most: int) -> list[Step]:
        """The first of those that come after it, with their arguments; without results, parents and children. Only
        reads."""
        ...

    async def list(
        self, *, name: str | None, state: str | None, limit: int, before: JobId | None
    ) -> list[Workflow]:
        """Newest first; chains are not listed."""
        ...

    async def parents(
        self, partition: int, jobs: Sequence[ClaimedJob]
    ) -> Mapping[JobId, tuple[Parent, ...]]:
        """Of running steps, with their results."""
        ...

    async def linked(self, partition: int, ids: Sequence[JobId]) -> dict[JobId, JobId]:
        """Of these live jobs, the workflows that they are steps of. Only reads."""
        ...

    async def prune(self, *, keep: float, limit: int) -> int:
        """Forget workflows that ended longer than `keep` seconds ago."""
        ...

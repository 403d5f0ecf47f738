"""Running: one attempt under way."""

from __future__ import annotations

import asyncio

from foliot.model.definition import JobDefinition
from foliot.model.job import ClaimedJob
from foliot.worker.context import CurrentJob, Place
from foliot.worker.executors.process import ChildProcess
from foliot.worker.invoke import Interruptible, Recipe


class Running:
    # On the class: what most attempts never change costs none of them anything.
    task: asyncio.Task[None] | None = None  # None: in a thread
    soft: Interruptible | None = None
    child: ChildProcess | None = None
    home: list[ChildProcess] | None = None  # where the child goes afterwards
    called = False  # of a child: whether it has been given the job
    begun = False  # of a task: whether it has come to its first line
    began: float | None = None  # when its function was called
    stop_reason: BaseException | None = None
    stopped_at = 0.0

    def __init__(self, job: ClaimedJob, recipe: Recipe, place: Place) -> None:
        self.job = job
        self.recipe = recipe
        self.current = CurrentJob(job, place)

    def give_back_child(self) -> None:
        """To where it came from; once."""
        if self.child is not None and self.home is not None:
            self.home.append(self.child)
            self.home = None

    @property
    def definition(self) -> JobDefinition:
        return self.recipe.definition

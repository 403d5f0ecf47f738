"""Running: one attempt under way."""

from __future__ import annotations

import asyncio

from foliot.model.definition import JobDefinition
from foliot.model.job import ClaimedJob
from foliot.worker.context import CurrentJob, Place
from foliot.worker.executors.process import ChildProcess
from foliot.worker.invoke import Interruptible, Recipe


class Running:
    __slots__ = (
        "begun",
        "called",
        "child",
        "current",
        "home",
        "job",
        "recipe",
        "soft",
        "stop_reason",
        "stopped_at",
        "task",
    )

    def __init__(self, job: ClaimedJob, recipe: Recipe, place: Place) -> None:
        self.job = job
        self.recipe = recipe
        self.current = CurrentJob(job, place)
        self.task: asyncio.Task[None] | None = None  # None: in a thread
        self.soft: Interruptible | None = None
        self.child: ChildProcess | None = None
        self.home: list[ChildProcess] | None = None  # where the child goes afterwards
        self.called = False  # of a child: whether it has been given the job
        self.begun = False  # of a task: whether it has come to its first line
        self.stop_reason: BaseException | None = None
        self.stopped_at = 0.0

    @property
    def definition(self) -> JobDefinition:
        return self.recipe.definition

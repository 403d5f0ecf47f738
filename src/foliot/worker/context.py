"""What a job's function may know of its job."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from foliot.errors import FoliotError
from foliot.ids import JobId
from foliot.model.job import ClaimedJob


class CurrentJob:
    """The job that is running here. `cancelled` turns true when somebody asked for its end."""

    __slots__ = ("_job", "cancelled")

    def __init__(self, job: ClaimedJob) -> None:
        self._job = job
        self.cancelled = False

    @property
    def id(self) -> JobId:
        return self._job.id

    @property
    def kind(self) -> str:
        return self._job.kind

    @property
    def attempt(self) -> int:
        """1 for the first."""
        return self._job.attempt

    @property
    def fence(self) -> int:
        """Rises with every claim of this job. Give it to what you write to, and let that refuse lower ones."""
        return self._job.fence


CURRENT: Final[ContextVar[CurrentJob]] = ContextVar("foliot_current_job")


def current_job() -> CurrentJob:
    try:
        return CURRENT.get()
    except LookupError:
        raise FoliotError(
            "current_job() was called outside a job",
            hint="in a test, call the function within foliot.testing.as_job()",
        ) from None

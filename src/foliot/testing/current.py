"""A current_job() for a function that a test calls directly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from foliot.client.function import JobFunction
from foliot.clock import SystemClock
from foliot.config import Settings
from foliot.ids import Ids
from foliot.model.job import ClaimedJob
from foliot.worker.context import CURRENT, CurrentJob, Place, State
from foliot.worker.notes import Notes


@contextmanager
def as_job(
    kind: str | JobFunction[..., Any, Any] = "test", *, attempt: int = 1, max_attempts: int = 5
) -> Iterator[CurrentJob]:
    """In this block `current_job()` is the job that is given back: `with as_job(send_email, attempt=2) as job:`."""
    job = ClaimedJob(
        id=Ids().job(),
        fence=attempt,
        kind=kind if isinstance(kind, str) else kind.definition.kind,
        payload=b"{}",
        attempt=attempt,
        max_attempts=max_attempts,
        losses=0,
        timeout=None,
        linked=False,
    )
    clock = SystemClock()
    notes = Notes(Settings(), clock, wake=lambda: None)
    place = Place(Ids().session(), clock, notes, {}, State())
    before = CURRENT.set(CurrentJob(job, place))
    try:
        yield CURRENT.get()
    finally:
        CURRENT.reset(before)

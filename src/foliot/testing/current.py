"""A current_job() for a function that a test calls directly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    kind: str | JobFunction[..., Any, Any] = "test",
    *,
    attempt: int = 1,
    max_attempts: int = 5,
    timeout: float | None = None,
    state: Mapping[str, Any] | None = None,
) -> Iterator[CurrentJob]:
    """In this block `current_job()` is the job that is given back: `with as_job(send_email, attempt=2) as job:`. Its
    `state` is what start-up functions would have made: `as_job(report, state={"pool": pool})`."""
    job = ClaimedJob(
        id=Ids().job(),
        fence=attempt,
        kind=kind if isinstance(kind, str) else kind.definition.kind,
        payload=b"{}",
        attempt=attempt,
        max_attempts=max_attempts,
        losses=0,
        timeout=timeout,
        linked=False,
    )
    clock = SystemClock()
    notes = Notes(Settings(), clock, wake=lambda: None)
    made = State()
    for name, value in (state or {}).items():
        setattr(made, name, value)
    current = CurrentJob(job, Place(Ids().session(), clock, notes, {}, made))
    current.begin()
    before = CURRENT.set(current)
    try:
        yield current
    finally:
        CURRENT.reset(before)

"""What a job says while it runs: log lines and progress."""

from __future__ import annotations

from datetime import datetime

import msgspec

from foliot.ids import JobId


class NewLine(msgspec.Struct, frozen=True, array_like=True):
    job: JobId
    fence: int
    number: int  # from 1, for each attempt
    attempt: int
    at: datetime
    level: str
    logger: str
    message: str


class LogLine(msgspec.Struct, frozen=True):
    """A line that a job has logged."""

    attempt: int
    number: int
    at: datetime
    level: str
    logger: str
    message: str


class NewProgress(msgspec.Struct, frozen=True, array_like=True):
    job: JobId
    fence: int
    fraction: float
    message: str | None

"""Batches as one JSON array, with all their byte strings in one blob; and the statements that read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from sqlite3 import Connection
from typing import Any, Final

import msgspec

from foliot.model.job import NewJob, Outcome
from foliot.store.batches import chunks
from foliot.store.sql import load_statements
from foliot.store.sqlite.times import to_microseconds

Rows = list[tuple[Any, ...]]
Values = dict[str, object]
Parts = tuple[str, ...]

_decode_names: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_SPARE: Final = b" "  # before all others: a piece of an empty blob would be NULL


def load_parts(*files: str) -> dict[str, Parts]:
    """The statements of these files by name, each as the parts that make it up."""
    found = load_statements("foliot.store.sqlite", *files)
    return {
        name: tuple(part.strip() for part in statement.text.split(";"))
        for name, statement in found.items()
    }


def execute(connection: Connection, parts: Sequence[str], values: Values) -> Rows:
    """Run all parts. At most one of them has rows to give."""
    rows: Rows = []
    for part in parts:
        rows += connection.execute(part, values).fetchall()
    return rows


def to_names(value: str | None) -> tuple[str, ...]:
    return _decode_names(value) if value else ()


def to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def submissions(jobs: Sequence[NewJob]) -> Iterator[Values]:
    """What submit_jobs and find_submitted_jobs read."""
    for some in chunks(jobs, lambda job: len(job.payload)):
        rows = [
            (
                job.id,
                job.lane,
                job.priority,
                job.max_attempts,
                job.namespace,
                job.kind,
                job.queue,
                None if job.run_at is None else to_microseconds(job.run_at),
                job.timeout,
                job.key,
                *piece,
                job.delay,
                job.more,
            )
            for job, piece in zip(some, _pieces(job.payload for job in some), strict=True)
        ]
        yield {"jobs": to_json(rows), "blob": _SPARE + b"".join([job.payload for job in some])}


def endings(outcomes: Sequence[Outcome], states: dict[str, str]) -> Iterator[tuple[int, Values]]:
    """What finish_jobs reads, and how many outcomes it names."""
    for some in chunks(outcomes, lambda outcome: len(outcome.result or b"")):
        rows = [
            (outcome.id, outcome.fence, states[outcome.end], outcome.reason, *piece)
            for outcome, piece in zip(some, _pieces(o.result for o in some), strict=True)
        ]
        blob = _SPARE + b"".join([outcome.result or b"" for outcome in some])
        yield len(some), {"outcomes": to_json(rows), "blob": blob}


def _pieces(blobs: Iterable[bytes | None]) -> Iterator[tuple[int | None, int | None]]:
    """Where each begins in all of them joined, counted from one, and how long it is."""
    start = 1 + len(_SPARE)
    for blob in blobs:
        if blob is None:
            yield None, None
        else:
            yield start, len(blob)
            start += len(blob)

"""Rows of either store to model types: both read the same columns in the same order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from foliot.ids import JobId, SessionId
from foliot.model.audit import Entry
from foliot.model.definition import Defaults, StoredDefinition
from foliot.model.job import UNFITTING, Attempt, ClaimedJob, Extras, Job, JobState, Progress
from foliot.model.lane import Strategy
from foliot.model.session import Session
from foliot.store.queueing import Queue

# A row is whatever the driver gives; its columns are named once, here.
Row = Sequence[Any]
ToTime = Callable[[Any], datetime | None]
ToNames = Callable[[Any], tuple[str, ...]]

_decode_weights: Final = msgspec.json.Decoder(dict[str, float]).decode
_NO_EXTRAS: Final = Extras()
_decode_extras: Final = msgspec.json.Decoder(Extras).decode
_decode_detail: Final = msgspec.json.Decoder(dict[str, Any]).decode
_decode_defaults: Final = msgspec.json.Decoder(Defaults).decode
_decode_progress: Final = msgspec.json.Decoder(Progress).decode


def claimed_jobs(rows: Sequence[Row]) -> list[ClaimedJob]:
    return [ClaimedJob(*row) for row in rows]


def job(row: Row, time: ToTime, names: ToNames) -> Job:
    created, run, started, finished = (time(value) for value in row[10:14])
    assert created is not None and run is not None
    return Job(
        id=JobId(row[0]),
        kind=row[1],
        state=JobState(row[2]),
        queue=row[3],
        namespace=row[4],
        priority=row[5],
        attempt=row[6],
        losses=row[7],
        generation=row[8],
        fence=row[9],
        created_at=created,
        run_at=run,
        started_at=started,
        finished_at=finished,
        session=None if row[14] is None else SessionId(row[14]),
        key=row[15],
        reason=row[16],
        cancel_requested=bool(row[17]),
        payload=bytes(row[18]),
        result=None if row[19] is None else bytes(row[19]),
        tags=names(row[20]),
        ordering_key=row[21],
        fair_key=row[22],
        requires=names(row[23]),
        expires_at=time(row[24]),
        max_attempts=row[25],
        timeout=row[26],
        extras=_NO_EXTRAS if row[27] is None else _decode_extras(row[27]),
        progress=None if row[28] is None else _decode_progress(row[28]),
        note=readable_note(row[16], row[29]),
    )


def readable_note(reason: str | None, note: str | None) -> str | None:
    """That of an unfitting payload begins with the fingerprint of what it does not fit, by which the store finds out
    that this has changed. It says nothing to people."""
    if note is None or reason != UNFITTING:
        return note
    return note.partition(": ")[2] or note


def attempt(row: Row, time: ToTime) -> Attempt:
    finished = time(row[7])
    assert finished is not None
    return Attempt(
        attempt=row[0],
        fence=row[1],
        outcome=row[2],
        error=row[3],
        traceback=row[4],
        session=None if row[5] is None else SessionId(row[5]),
        started_at=time(row[6]),
        finished_at=finished,
        worker=row[8],
    )


def session(row: Row, time: ToTime, names: ToNames) -> Session:
    started, beat, expires = (time(value) for value in row[7:10])
    assert started is not None and beat is not None and expires is not None
    return Session(
        id=SessionId(row[0]),
        host=row[1],
        pid=row[2],
        version=row[3],
        queues=names(row[4]),
        kinds=names(row[5]),
        duties=bool(row[6]),
        started_at=started,
        beat_at=beat,
        expires_at=expires,
        live=bool(row[10]),
        executing=row[11],
        capabilities=names(row[12]),
        concurrency=row[13],
        room=row[14],
        waiting=row[15],
        drain=bool(row[16]),
        note=row[17],
        moved_at=time(row[18]),
        silence=row[19],
    )


def entry(row: Row, time: ToTime) -> Entry:
    at = time(row[1])
    assert at is not None
    return Entry(row[0], at, row[2], row[3], row[4], _decode_detail(row[5]))


def definition(row: Row, time: ToTime) -> StoredDefinition:
    return StoredDefinition(
        kind=row[0],
        queue=row[1],
        signature=row[2],
        schema=row[3],
        fingerprint=row[4],
        version=row[5],
        options=_decode_defaults(row[6]),
        updated_at=time(row[7]),
    )


def queue(row: Row, time: ToTime) -> Queue:
    return Queue(
        name=row[0],
        paused_at=time(row[1]),
        paused_by=row[2],
        note=row[3],
        strategy=Strategy(row[4]),
        aging=row[5],
        weights=_decode_weights(row[6]),
        updated_by=row[7],
    )


def weights_text(weights: Mapping[str, float]) -> str:
    """As they are stored; the same weights are the same text."""
    return msgspec.json.encode(dict(weights), order="sorted").decode()


def as_is(value: datetime | None) -> datetime | None:
    return value

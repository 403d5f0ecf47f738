"""Rows of a model, as they should be: a job that was just submitted, claimed, or has ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from foliot.ids import SessionId
from foliot.model.job import ClaimedJob, NewJob
from foliot.model.lane import Strategy
from machine.content import Ended, Live
from machine.invariants import DEADLINE_GRACE
from machine.lab import IN_TURNS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CARRIED: Final = tuple(
    name for name in Ended.__struct_fields__ if name in Live.__struct_fields__ and name != "state"
)


def new_row(partition: int, job: NewJob, now: datetime) -> Live:
    due = job.run_at or now + timedelta(seconds=job.delay or 0)
    ordering_key = job.more.ordering_key if job.more else None
    in_turns = job.queue == IN_TURNS
    held = ordering_key is not None or (in_turns and due <= now)
    return Live(
        partition=partition,
        id=job.id,
        state="held" if held else "scheduled" if due > now else "ready",
        hold="admission" if held else None,
        lane=job.lane | (Strategy.ROUND_ROBIN if in_turns else 0),
        band=0 if in_turns else job.priority,
        rank=0 if in_turns else microseconds(due),
        ordering_key=ordering_key,
        fair_key=job.more.fair_key if job.more else None,
        priority=job.priority,
        max_attempts=job.max_attempts,
        namespace=job.namespace,
        kind=job.kind,
        queue=job.queue,
        created_at=now,
        run_at=due,
        timeout=job.timeout,
        key=job.key,
        payload=job.payload,
    )


def claimed_row(row: Live, session: SessionId, now: datetime) -> Live:
    deadline = None
    if row.timeout is not None:
        deadline = now + timedelta(seconds=row.timeout + DEADLINE_GRACE)
    return replace(
        row,
        state="running",
        session=session,
        fence=row.fence + 1,
        attempt=row.attempt + 1,
        claimed_at=now,
        deadline_at=deadline,
    )


def claimed_job(row: Live) -> ClaimedJob:
    """What its worker is told of a claimed row."""
    return ClaimedJob(
        row.id,
        row.fence,
        row.kind,
        row.payload,
        row.attempt,
        row.max_attempts,
        row.losses,
        row.timeout,
        linked=row.ordering_key is not None,
        lane=row.lane,
        priority=row.priority,
        more=_more(row),
    )


def ended_row(
    row: Live, state: str, reason: str | None, now: datetime, result: bytes | None = None
) -> Ended:
    return Ended(
        **{name: getattr(row, name) for name in _CARRIED},
        state=state,
        started_at=row.claimed_at,
        finished_at=now,
        reason=reason,
        result=result,
    )


def microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


def _more(row: Live) -> str | None:
    """What a claim says of it that is not said of every job."""
    said = {"key": row.key, "ordering_key": row.ordering_key, "fair_key": row.fair_key}
    more: dict[str, object] = {name: text for name, text in said.items() if text is not None}
    # Tried again in the same instant: nothing is lost by not saying so of one of which nothing else is said.
    if row.run_at != row.created_at or (more and row.generation > 0):
        more["run_at"] = microseconds(row.run_at)
    return msgspec.json.encode(more).decode() if more else None

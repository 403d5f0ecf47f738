"""Rows of either store to model types: both read the same columns in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import reduce
from itertools import starmap
from operator import or_
from typing import Any, Final

import msgspec

from foliot.ids import JobId, ScheduleId, SessionId
from foliot.model.audit import Entry
from foliot.model.definition import Defaults, StoredDefinition
from foliot.model.job import (
    Attempt,
    ClaimedJob,
    Extras,
    Job,
    JobState,
    NewJob,
    Parent,
    Progress,
    readable_note,
)
from foliot.model.lane import Strategy
from foliot.model.rollup import Ended, Histogram, Key, Rollup, Sum, add_up
from foliot.model.schedule import FOREVER, Gap, Rules, Schedule, ScheduleState
from foliot.model.session import Session
from foliot.model.workflow import SLEEP_KIND, Around, Rule, Step, Workflow, WorkflowState
from foliot.store.flowing import decode_ids
from foliot.store.queueing import Queue
from foliot.store.scheduling import Due, OpenGap, Run

# A row is whatever the driver gives; its columns are named once, here.
Row = Sequence[Any]
ToTime = Callable[[Any], datetime | None]
ToNames = Callable[[Any], tuple[str, ...]]

_decode_weights: Final = msgspec.json.Decoder(dict[str, float]).decode
_NO_EXTRAS: Final = Extras()
_decode_extras: Final = msgspec.json.Decoder(Extras).decode
_decode_detail: Final = msgspec.json.Decoder(dict[str, Any]).decode
_decode_defaults: Final = msgspec.json.Decoder(Defaults).decode
decode_rules: Final = msgspec.json.Decoder(Rules).decode
_decode_progress: Final = msgspec.json.Decoder(Progress).decode
_decode_template: Final = msgspec.json.Decoder(NewJob).decode
_decode_histogram: Final = msgspec.json.Decoder(Histogram).decode
_decode_histograms: Final = msgspec.json.Decoder(list[Histogram]).decode
_decode_numbers: Final = msgspec.json.Decoder(list[int]).decode


def claimed_jobs(rows: Sequence[Row]) -> list[ClaimedJob]:
    return list(starmap(ClaimedJob, rows))


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
        workflow=None if row[30] is None else JobId(row[30]),
    )


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
        modules=names(row[20]),
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


def schedule(row: Row, time: ToTime, names: ToNames) -> Schedule:
    paused, created, updated, active, since = (time(row[at]) for at in (20, 21, 22, 23, 27))
    assert created is not None and updated is not None and active is not None
    assert since is not None
    return Schedule(
        id=ScheduleId(row[0]),
        name=row[1],
        namespace=row[2],
        state=ScheduleState(row[3]),
        kind=row[4],
        queue=row[5],
        priority=row[6],
        max_attempts=row[7],
        timeout=row[8],
        payload=bytes(row[9]),
        key=row[10],
        more=row[11],
        extras=row[12],
        rules=decode_rules(row[13]),
        version=row[14],
        runs=row[15],
        tags=names(row[16]),
        origin=row[17],
        note=row[18],
        paused_by=row[19],
        paused_at=paused,
        created_at=created,
        updated_at=updated,
        active_from=active,
        trigger=row[24],
        next_at=None if row[25] in (None, FOREVER) else row[25],
        fired_at=row[26],
        since=since,
    )


def due(row: Row, names: ToNames) -> Due:
    return Due(
        id=row[0],
        stateful=bool(row[1]),
        expression=row[2],
        timezone=row[3],
        dst_gap=row[4],
        dst_overlap=row[5],
        calendars=names(row[6]),
        delay=row[7],
        nominal=row[8],
        cursor=row[9],
        count=row[10],
        upper=row[11],
        now=row[12],
    )


def gap(row: Row) -> Gap:
    return Gap(row[0], row[1], row[2], row[3], row[4], bool(row[5]), row[6], row[7])


def open_gap(row: Row, names: ToNames) -> OpenGap:
    """The gap's columns, then the trigger's."""
    trigger = None
    if row[8] is not None:
        trigger = due((row[0], *row[8:15], row[1], row[7], *row[15:18]), names)
    return OpenGap(gap(row), trigger, bool(row[18]))


def run(row: Row, time: ToTime) -> Run:
    """The last column, if there is one, says which nominal time it is of."""
    made = time(row[2])
    assert made is not None
    nominal = _decode_extras(row[4]).nominal if len(row) > 4 and row[4] is not None else None
    return Run(JobId(row[0]), JobState(row[1]), made, time(row[3]), nominal)


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
        said=row[8],
    )


def weights_text(weights: Mapping[str, float]) -> str:
    """As they are stored; the same weights are the same text."""
    return msgspec.json.encode(dict(weights), order="sorted").decode()


def as_is(value: datetime | None) -> datetime | None:
    return value


def workflow(row: Row, time: ToTime) -> Workflow:
    return Workflow(
        id=JobId(row[0]),
        name=row[1],
        namespace=row[2],
        state=WorkflowState(row[3]),
        policy=row[4],
        total=row[5],
        remaining=row[6],
        failed=row[7],
        created_at=_moment(time(row[8])),
        deadline_at=time(row[9]),
        finished_at=time(row[10]),
        paused_at=time(row[11]),
        paused_by=row[12],
        note=row[13],
        reason=row[14],
        cancel_requested=bool(row[15]),
        waiter=row[16],
        chain=bool(row[17]),
        deadline=row[18],
        fingerprint=row[19],
    )


def age_of_workflow(one: Workflow) -> tuple[datetime, JobId]:
    return one.created_at, one.id


def step(row: Row, time: ToTime) -> Step:
    template = None if row[12] == "{}" else _decode_template(row[12])
    if template is not None:
        template = msgspec.structs.replace(template, id=JobId(row[0]), payload=bytes(row[13]))
    started = time(row[16])
    if started is not None and template is not None and template.kind == SLEEP_KIND:
        started -= timedelta(seconds=template.delay or 0)  # it runs when its time is over
    return Step(
        job=JobId(row[0]),
        number=row[1],
        name=row[2],
        kind="" if template is None else template.kind,
        rule=Rule(row[3]),
        state=JobState(row[4]),
        parents=decode_ids(row[5]),
        children=decode_ids(row[6]),
        signal=row[7],
        mapped=row[8],
        added_by=row[9],
        finished_at=time(row[10]),
        result=None if row[11] is None else bytes(row[11]),
        job_template=template,
        started_at=started,
        reason=row[17],
    )


def around(found: Iterable[Row], time: ToTime) -> Around | None:
    """Of list_steps_around."""
    parts: dict[str, list[Step]] = {"own": [], "parent": [], "failed": []}
    numbers: dict[str | None, int] = {}
    for row in found:
        parts[row[18]].append(step(row, time))
        if row[18] == "parent":
            numbers[row[15]] = row[19]
    if not parts["own"]:
        return None
    return Around(
        step=parts["own"][0],
        parents=parts["parent"],
        left=numbers.pop(None, 0),
        ended={JobState(state): number for state, number in numbers.items() if state is not None},
        failed=next(iter(parts["failed"]), None),
    )


def parents(found: Iterable[Row]) -> dict[JobId, tuple[Parent, ...]]:
    """Of list_parents: steps with the ids of their parents, and these."""
    steps: dict[JobId, tuple[JobId, ...]] = {}
    known: dict[JobId, Parent] = {}
    for job, above, name, state, result, mapped in found:
        if above is not None:
            steps[JobId(job)] = decode_ids(above)
        else:
            ended = None if state is None else JobState(state)
            raw = None if result is None else bytes(result)
            known[JobId(job)] = Parent(JobId(job), name, ended, raw, mapped)
    return {job: tuple(known[id] for id in above if id in known) for job, above in steps.items()}


def _moment(at: datetime | None) -> datetime:
    assert at is not None
    return at


def rollup(row: Row) -> Rollup:
    minute, namespace, queue, kind, outcome, count, seconds, waits, runs = row
    key = Key(namespace, queue, kind, Ended(outcome))
    return Rollup(minute, key, count, seconds, _decode_histogram(waits), _decode_histogram(runs))


def rollup_sum(row: Row) -> Sum:
    minute, count, seconds, waits, runs = row
    ended = reduce(or_, _decode_numbers(seconds))
    return Sum(
        minute, count, ended, add_up(_decode_histograms(waits)), add_up(_decode_histograms(runs))
    )

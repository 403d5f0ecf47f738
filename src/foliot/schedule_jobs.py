"""The job of a schedule: its template as it was stored, and the jobs that people have made of it by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from struct import pack
from typing import Any, Final

import msgspec

from foliot.ids import JobId
from foliot.model.job import Extras, More, NewJob
from foliot.model.lane import lane_of
from foliot.model.schedule import NewSchedule, Overlap, Rules, Schedule
from foliot.store.scheduling import extras_of, more_of

_NOBODY: Final = JobId("")
_NO_MORE: Final = More()
_DEFAULTS: Final = Rules()
_decode_more: Final = msgspec.json.Decoder(More).decode
_decode_extras: Final = msgspec.json.Decoder(Extras).decode
# What options call as the rules do; the others need another form.
_AS_THEY_ARE: Final = tuple(
    name
    for name in Rules.__struct_fields__
    if name not in ("expression", "text", "start", "end", "overlap", "misfire", "keyed")
)


def template_of(schedule: Schedule) -> NewJob:
    """As a draft takes it."""
    extras = msgspec.structs.replace(_decode_extras(schedule.extras), schedule=None, carry=False)
    return _job(schedule, _NOBODY, None if extras == Extras() else extras)


def job_of(
    schedule: Schedule, id: JobId, *, overlap: Overlap, nominal: int | None = None
) -> NewJob:
    """A run of it that people ask for. With a nominal time it answers for that one."""
    extras = msgspec.structs.replace(_decode_extras(schedule.extras), nominal=nominal)
    job = _job(schedule, id, extras)
    more = job.more or _NO_MORE
    if schedule.rules.stateful:
        more = msgspec.structs.replace(more, schedule=schedule.id)
    if overlap.waits:
        more = msgspec.structs.replace(more, ordering_key=f"schedule:{schedule.id}")
    return msgspec.structs.replace(job, more=more)


def options_of(schedule: Schedule) -> dict[str, Any]:
    """What was said of it, as options say it; what has its default is not among them."""
    rules = schedule.rules
    options: dict[str, Any] = {
        name: value
        for name in _AS_THEY_ARE
        if (value := getattr(rules, name)) != getattr(_DEFAULTS, name)
    }
    for name in ("start", "end"):
        if (moment := getattr(rules, name)) is not None:
            options[name] = datetime.fromtimestamp(moment, UTC)
    for name in ("overlap", "misfire"):
        if (chosen := getattr(rules, name)) is not getattr(_DEFAULTS, name):
            options[name] = chosen.value
    if schedule.tags:
        options["tags"] = schedule.tags
    return options


def is_same(schedule: Schedule, new: NewSchedule) -> bool:
    """Whether storing it would change nothing."""
    job = new.template
    return (
        schedule.rules == new.rules
        and schedule.payload == job.payload
        and (schedule.kind, schedule.queue, schedule.priority, schedule.max_attempts)
        == (job.kind, job.queue, job.priority, job.max_attempts)
        and (schedule.key, schedule.tags, schedule.origin) == (job.key, new.tags, new.origin)
        and _single(schedule.timeout) == _single(job.timeout)
        and _more(schedule.more) == _more(more_of(new))
        and _decode_extras(schedule.extras) == _decode_extras(extras_of(new))
    )


def _job(schedule: Schedule, id: JobId, extras: Extras | None) -> NewJob:
    more = msgspec.structs.replace(_more(schedule.more), extras=extras)
    return NewJob(
        id,
        schedule.kind,
        schedule.payload,
        lane_of(schedule.queue, more.requires).number,
        schedule.queue,
        schedule.namespace,
        schedule.priority,
        schedule.max_attempts,
        timeout=schedule.timeout,
        key=schedule.key,
        more=None if more == _NO_MORE else more,
    )


def _more(stored: str | None) -> More:
    return _NO_MORE if stored is None else _decode_more(stored)


def _single(number: float | None) -> bytes | None:
    """Stores keep it in four bytes."""
    return None if number is None else pack("f", number)

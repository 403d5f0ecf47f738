"""Fan-out: a map step, and the steps that it becomes, one for each element of a list.

A map step waits and runs as any other. Elements wait for it, and whatever waits for it waits for them as well; so that
it is done as soon as they are made. Of a list that is known when the workflow is submitted, they are made then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from foliot.errors import FoliotError, InvalidValue
from foliot.ids import Ids, JobId, slot_of
from foliot.model.definition import Defaults
from foliot.model.job import Extras, More, NewJob
from foliot.model.lane import lane_of
from foliot.model.workflow import MAP_KIND, NewStep
from foliot.workflow_refs import element_name

_encode: Final = msgspec.json.Encoder().encode
_DEFAULTS: Final = Defaults()
_NOBODY: Final = JobId("")


class MapPayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of a map step's job, and the arguments of the function that runs it. That returns an empty list: what
    others see as its result is the list of the elements' results."""

    job: dict[str, Any]  # of an element, without id and payload
    item: str  # the argument that takes the element
    payload: dict[str, Any] = {}  # the other arguments
    over: Any = None
    expanded: bool = False  # the elements were made when it was submitted


def map_job(template: NewJob, over: Any, item: str, payload: Mapping[str, Any]) -> NewJob:
    """The job of a map step, without id. It runs where its elements do; a delay is its own and not theirs."""
    more = template.more or More()
    expanded = isinstance(over, list | tuple)
    job = msgspec.to_builtins(msgspec.structs.replace(template, delay=None, run_at=None))
    told = MapPayload(job, item, dict(payload), None if expanded else over, expanded)
    return NewJob(
        _NOBODY,
        MAP_KIND,
        _encode(told),
        template.lane,
        template.queue,
        template.namespace,
        template.priority,
        _DEFAULTS.max_attempts,
        template.run_at,
        template.delay,
        more=More(tags=more.tags, fair_key=more.fair_key, requires=more.requires),
    )


def element_template(told: MapPayload) -> NewJob:
    return msgspec.convert(told.job, NewJob)


def element_payloads(told: MapPayload, over: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Elements may be equal: which one it is follows from its place."""
    return ({**told.payload, told.item: element} for element in over)


def make_elements(
    told: MapPayload,
    *,
    name: str,
    map_step: JobId,
    workflow: JobId,
    ids: Ids,
    limit: int,
) -> list[NewStep]:
    """What a map step adds when it runs, before whatever waits for it then: `told` is its payload without references.
    Raises FoliotError if that is no list, or too long."""
    if told.expanded:
        return []
    if not isinstance(told.over, list):
        raise InvalidValue(f"over of {name}", told.over, "is not a list", example="over=[1, 2, 3]")
    if len(told.over) > limit:
        raise FoliotError(
            f"map_too_large: {name} is over {len(told.over)} elements,"
            f" and limits.steps leaves room for {limit}"
        )
    template, slot = element_template(told), slot_of(map_step)
    steps = []
    for index, payload in enumerate(element_payloads(told, told.over)):
        step = element_name(name, index)
        job = as_step(
            template,
            id=ids.job(slot),
            payload=_encode(payload),
            step=step,
            workflow=workflow,
            of_result=True,
        )
        steps.append(
            NewStep(
                name=step,
                job=job,
                parents=(map_step,),
                into=None,
                mapped=map_step,
                added_by=map_step,
            )
        )
    return steps


def as_step(
    template: NewJob,
    *,
    id: JobId,
    payload: bytes,
    step: str,
    workflow: JobId,
    parents: bool = True,
    refs: bool = False,
    of_result: bool = False,
    hold: str | None = None,
) -> NewJob:
    """The job of a step."""
    more = template.more or More()
    extras = more.extras or Extras()
    extras = Extras(
        version=extras.version,
        retry=extras.retry,
        ignore_result=extras.ignore_result,
        limit_key=extras.limit_key,
        breaker=extras.breaker,
        step=step,
        parents=parents,
        refs=refs,
        of_result=of_result,
    )
    return NewJob(
        id,
        template.kind,
        payload,
        template.lane,
        template.queue,
        template.namespace,
        template.priority,
        template.max_attempts,
        template.run_at,
        template.delay,
        template.timeout,
        more=More(
            tags=more.tags,
            ordering_key=more.ordering_key,
            fair_key=more.fair_key,
            requires=more.requires,
            expires_at=more.expires_at,
            expires_in=more.expires_in,
            extras=extras,
            workflow=workflow,
            waits=parents,
            hold=hold,
        ),
    )


def builtin_template(kind: str, *, queue: str = "default", **fields: Any) -> NewJob:
    """A job of a kind that every worker knows, without id and payload."""
    return NewJob(_NOBODY, kind, b"", lane_of(queue).number, queue, **fields)


def as_template(job: NewJob) -> NewJob:
    """Of a step's job: what it was made of. Keys that it was submitted with by itself are that job's."""
    more = job.more
    if more is not None:
        extras = more.extras
        if extras is not None:
            extras = msgspec.structs.replace(
                extras, step=None, parents=False, refs=False, idempotency_key=None
            )
            extras = None if extras == Extras() else extras
        more = msgspec.structs.replace(more, workflow=None, waits=False, hold=None, extras=extras)
        more = None if more == More() else more
    return msgspec.structs.replace(job, id=_NOBODY, payload=b"", key=None, more=more)

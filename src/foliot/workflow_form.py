"""Draft: a workflow as it is written down, in code or in a file, before it is checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from foliot.checks import check_seconds
from foliot.errors import LONGEST_WAIT, FoliotError, InvalidValue
from foliot.model.job import More, NewJob
from foliot.model.lane import lane_of
from foliot.model.workflow import (
    BUILTIN_KINDS,
    MAP_KIND,
    SIGNAL_KIND,
    SLEEP_KIND,
    WORKFLOW_KIND,
    Policy,
    Rule,
)
from foliot.workflow_map import builtin_template

_DEFAULT: Final = "default"


class StepDraft(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step. `after` and the references in its payload are its parents."""

    name: str
    template: NewJob | None = None  # its job without id and payload; None for a workflow
    payload: Any = {}  # a JSON object, may hold references
    rule: Rule = Rule.ALL_SUCCEEDED
    after: tuple[str, ...] = ()
    signal: str | None = None
    over: Any = None  # a list, or a reference to one: a step of each element
    item: str | None = None  # the argument that takes the element
    inner: Draft | None = None


class Draft(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A workflow that has neither been checked nor submitted."""

    name: str
    steps: tuple[StepDraft, ...] = ()
    namespace: str = _DEFAULT
    policy: Policy = "fail_fast"
    deadline: float | None = None  # seconds
    key: str | None = None


def to_json(draft: Draft) -> dict[str, Any]:
    """All of it, for a payload: from_json makes the same draft of it."""
    made: dict[str, Any] = msgspec.to_builtins(draft)
    return made


def from_json(given: Mapping[str, Any]) -> Draft:
    try:
        return msgspec.convert(given, Draft)
    except msgspec.ValidationError as error:
        raise InvalidValue("workflow", problem=f"cannot be read: {error}") from None


def signal_step(name: str, signal: str, *, timeout: float | None = None, **rest: Any) -> StepDraft:
    """A step that a signal ends; without one in time, it is cancelled."""
    more = None
    if timeout is not None:
        more = More(expires_in=_seconds("timeout", timeout, least=0.001, example="timeout=3600"))
    template = builtin_template(SIGNAL_KIND, max_attempts=1, more=more)
    return StepDraft(name=name, template=template, signal=signal, **rest)


def sleep_step(name: str, seconds: float, *, queue: str = _DEFAULT, **rest: Any) -> StepDraft:
    delay = _seconds("sleep", seconds, least=0, example="sleep=60")
    template = builtin_template(SLEEP_KIND, queue=queue, delay=delay)
    return StepDraft(name=name, template=template, **rest)


def workflow_template(*, queue: str = _DEFAULT) -> NewJob:
    """Of a job that stands for a workflow; its payload is workflow_payload."""
    return builtin_template(WORKFLOW_KIND, queue=queue)


def workflow_payload(draft: Draft) -> dict[str, Any]:
    return {"draft": to_json(draft)}


def placed(steps: Iterable[StepDraft], *, keep: Collection[str] = ()) -> tuple[StepDraft, ...]:
    """What Foliot itself runs goes where the job before it ran, so that a worker is there for it; but for the steps of
    these names, whose queues somebody has chosen."""
    by_name = {step.name: step for step in steps}
    return tuple(step if step.name in keep else _placed(step, by_name) for step in by_name.values())


def _placed(step: StepDraft, steps: Mapping[str, StepDraft]) -> StepDraft:
    template = step.template
    if template is None or template.kind not in BUILTIN_KINDS or template.kind == MAP_KIND:
        return step
    above = [steps[name] for name in step.after if name in steps]
    inside = () if step.inner is None else step.inner.steps
    queue = queue_of((*above, *inside, *steps.values()))
    there = msgspec.structs.replace(template, queue=queue, lane=lane_of(queue).number)
    return msgspec.structs.replace(step, template=there)


def queue_of(steps: Iterable[StepDraft]) -> str:
    """Of the first that is a job of the app."""
    for step in steps:
        if step.template is not None and step.template.kind not in BUILTIN_KINDS:
            return step.template.queue
    return _DEFAULT


@contextmanager
def in_step(name: object) -> Iterator[None]:
    """Errors in here say in which step."""
    try:
        yield
    except FoliotError as error:
        error.message = f"step {name}: {error.message}"
        raise


def _seconds(field: str, value: object, *, least: float, example: str) -> float:
    return check_seconds(field, value, least=least, most=LONGEST_WAIT, example=example)

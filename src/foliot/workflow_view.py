"""Steps as users see them: by their names, with what they returned, without what stores and workers keep of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from foliot.drawing import counted
from foliot.explain_step import reason_of
from foliot.ids import JobId
from foliot.model.job import JobState
from foliot.model.workflow import MAP_KIND, Rule, Step, Workflow

_NULL: Final = b"null"


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """A step as it is now. A map has succeeded when it has made its elements: how these are is beside it."""

    id: JobId  # of its job
    name: str
    kind: str
    state: JobState
    rule: Rule
    parents: tuple[str, ...]
    result: Any = None  # of a map, the list of its elements' results
    reason: str | None = None
    signal: str | None = None
    elements: dict[JobState, int] | None = None  # of a map, how many are in which state
    element_of: str | None = None  # the map
    added_by: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Elements:
    """Of the maps among these steps."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._of: dict[JobId, list[Step]] = {}
        for step in steps:
            if step.mapped is not None:
                self._of.setdefault(step.mapped, []).append(step)

    def of(self, step: Step) -> list[Step]:
        return self._of.get(step.job, [])

    def counts(self, step: Step) -> dict[JobState, int] | None:
        """None, if it is no map."""
        return dict(counted(self.of(step))) if step.kind == MAP_KIND else None

    def result(self, step: Step) -> bytes | None:
        """As JSON."""
        if not (elements := self.of(step)):
            return step.result
        return b"[" + b",".join(one.result or _NULL for one in elements) + b"]"


def views_of(workflow: Workflow, steps: Sequence[Step]) -> list[StepView]:
    names = {step.job: step.name for step in steps}
    elements = Elements(steps)
    reasons = (reason_of(workflow, step) for step in steps)
    return [
        _view(step, names, elements, reason) for step, reason in zip(steps, reasons, strict=True)
    ]


def _view(step: Step, names: dict[JobId, str], elements: Elements, reason: str | None) -> StepView:
    result = elements.result(step)
    return StepView(
        id=step.job,
        name=step.name,
        kind=step.kind,
        state=step.state,
        rule=step.rule,
        parents=tuple(names[id] for id in step.parents if id in names),
        result=None if result is None else msgspec.json.decode(result),
        reason=reason,
        signal=step.signal,
        elements=elements.counts(step),
        element_of=None if step.mapped is None else names.get(step.mapped),
        added_by=None if step.added_by is None else names.get(step.added_by),
        started_at=step.started_at,
        finished_at=step.finished_at,
    )

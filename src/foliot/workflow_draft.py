"""From a draft to a workflow that can be submitted, and back: checks, ids, the jobs of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from foliot.config import LimitSettings
from foliot.errors import InvalidValue
from foliot.ids import Ids, JobId, inner_id, slot_of, workflow_id
from foliot.model.job import NewJob
from foliot.model.workflow import (
    HELD_FOR_SIGNAL,
    MAP_KIND,
    WORKFLOW_KIND,
    NewStep,
    NewWorkflow,
    Rule,
    Step,
    Workflow,
)
from foliot.payload import check_json
from foliot.workflow_check import (
    check,
    check_deadline,
    check_graph,
    check_inner,
    check_step_name,
    check_step_options,
    fingerprint,
    not_for_a_step,
    ref_names,
    refs_of,
)
from foliot.workflow_form import (
    Draft,
    StepDraft,
    from_json,
    in_step,
    queue_of,
    signal_step,
    sleep_step,
    to_json,
    workflow_payload,
    workflow_template,
)
from foliot.workflow_map import (
    MapPayload,
    as_step,
    as_template,
    element_payloads,
    element_template,
    make_elements,
    map_job,
)
from foliot.workflow_refs import element_name

__all__ = [
    "Draft",
    "MapPayload",
    "StepDraft",
    "build",
    "check",
    "check_deadline",
    "check_graph",
    "check_inner",
    "check_step_name",
    "check_step_options",
    "draft_of",
    "fingerprint",
    "from_json",
    "job_for",
    "make_elements",
    "not_for_a_step",
    "signal_step",
    "sleep_step",
    "to_json",
    "workflow_payload",
    "workflow_template",
]

_DEFAULT: Final = "default"
_LIMITS: Final = LimitSettings()
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.decode
_decode_map: Final = msgspec.json.Decoder(MapPayload).decode


def build(
    draft: Draft,
    ids: Ids,
    *,
    limits: LimitSettings = _LIMITS,
    id: JobId | None = None,
    waiter: JobId | None = None,
) -> NewWorkflow:
    """The workflow to submit. Raises InvalidValue with what is wrong, and in which step. `waiter` is the job that
    stands for it, in whose partition it lives; `id` is the workflow's if somebody knows it already."""
    order, parents = check_graph(draft, limits=limits)
    if waiter is not None:
        check_inner(draft)
    if id is None:
        id = _id(draft, ids, waiter)
    # Its end lets the waiter go on, in one transaction.
    assert waiter is None or slot_of(id) == slot_of(waiter)
    made = _Building(draft, id, ids, parents)
    for step in order:
        with in_step(step.name):
            made.add(step, limits)
    return NewWorkflow(
        id=id,
        name=draft.name,
        steps=tuple(made.steps),
        namespace=draft.namespace,
        policy=draft.policy,
        deadline=draft.deadline,
        fingerprint=fingerprint(draft),
        waiter=waiter,
    )


def job_for(draft: Draft, limits: LimitSettings = _LIMITS) -> NewJob:
    """The job that stands for it, in a schedule. It is checked now: there, nobody would see what is wrong."""
    check_inner(draft)
    check_graph(draft, limits=limits)
    payload = _encode(workflow_payload(draft))
    if len(payload) > limits.payload:
        problem = f"has {len(payload)} bytes, more than limits.payload, {limits.payload}"
        raise InvalidValue(f"workflow {draft.name}", problem=problem)
    template = workflow_template(queue=queue_of(draft.steps))
    return msgspec.structs.replace(template, payload=payload, namespace=draft.namespace)


def draft_of(workflow: Workflow, steps: Sequence[Step]) -> Draft:
    """What was submitted: without what running steps have added."""
    first = [step for step in steps if step.added_by is None]
    names = {step.job: step.name for step in first if step.mapped is None}
    elements: dict[JobId, list[Step]] = {}
    for step in first:
        if step.mapped is not None:
            elements.setdefault(step.mapped, []).append(step)
    return Draft(
        name=workflow.name,
        steps=tuple(
            _step_draft(step, names, elements.get(step.job, []))
            for step in first
            if step.mapped is None
        ),
        namespace=workflow.namespace,
        policy=workflow.policy,
        deadline=workflow.deadline,
    )


def _step_draft(step: Step, names: Mapping[JobId, str], elements: Sequence[Step]) -> StepDraft:
    job = step.job_template
    if job is None:
        problem = "is not known any more: the workflow cannot be made again"
        raise InvalidValue(f"step {step.name}", problem=problem)
    payload: dict[str, Any] = _decode(job.payload or b"{}")
    template: NewJob | None = as_template(job)
    over, item, inner = None, None, None
    if job.kind == MAP_KIND:
        told = _decode_map(job.payload)
        element = element_template(told)
        template = msgspec.structs.replace(element, delay=job.delay, run_at=job.run_at)
        payload, over, item = told.payload, told.over, told.item
        if told.expanded:
            ordered = sorted(elements, key=lambda one: one.number)
            over = [_decode(one.job_template.payload)[item] for one in ordered if one.job_template]
    elif job.kind == WORKFLOW_KIND:
        inner, payload = from_json(payload["draft"]), {}
    return StepDraft(
        name=step.name,
        template=template,
        payload=payload,
        rule=step.rule,
        after=tuple(names[id] for id in step.parents if id in names),
        signal=step.signal,
        over=over,
        item=item,
        inner=inner,
    )


def _id(draft: Draft, ids: Ids, waiter: JobId | None) -> JobId:
    if waiter is not None:
        return inner_id(waiter)
    if draft.key is not None:
        return workflow_id(draft.namespace, draft.name, draft.key)
    return ids.job()


class _Building:
    """The steps that have been made."""

    def __init__(
        self, draft: Draft, id: JobId, ids: Ids, parents: Mapping[str, Sequence[str]]
    ) -> None:
        self.steps: list[NewStep] = []
        self._namespace, self._id, self._ids, self._parents = draft.namespace, id, ids, parents
        self._slot = slot_of(id)
        self._made: dict[str, tuple[JobId, ...]] = {}  # of a map step: its own, and its elements'

    def add(self, step: StepDraft, limits: LimitSettings) -> None:
        above = self._parents[step.name]
        parents = tuple(id for name in above for id in self._made[name])
        if step.inner is not None:
            job = self._job(step.template or workflow_template())
            payload = _encode(workflow_payload(step.inner))
        elif step.over is not None:
            assert step.template is not None
            _encoded(step.payload, limits)  # of a list that is known, each element is looked at
            job = map_job(self._job(step.template), step.over, step.item or "", step.payload)
            payload = job.payload
        else:
            assert step.template is not None
            job, payload = self._job(step.template), _encoded(step.payload, limits)
        known = isinstance(step.over, list | tuple)
        id = self._make(
            job,
            payload,
            step.name,
            parents,
            # Elements that are made now refer to results themselves; those that are made later are given them.
            refs=not known and bool(refs_of(step)),
            rule=step.rule,
            signal=step.signal,
        )
        self._made[step.name] = (id,)
        if known:
            self._add_elements(step, _decode_map(payload), limits)

    def _add_elements(self, step: StepDraft, told: MapPayload, limits: LimitSettings) -> None:
        (id,) = self._made[step.name]
        template, made = element_template(told), [id]
        for index, payload in enumerate(element_payloads(told, step.over)):
            encoded = _encoded(payload, limits)
            refs = tuple(one for name in ref_names(payload) for one in self._made[name])
            name = element_name(step.name, index)
            made.append(
                self._make(template, encoded, name, (id, *refs), refs=bool(refs), mapped=id)
            )
        self._made[step.name] = tuple(made)

    def _make(
        self,
        template: NewJob,
        payload: bytes,
        name: str,
        parents: tuple[JobId, ...],
        *,
        refs: bool,
        rule: Rule = Rule.ALL_SUCCEEDED,
        signal: str | None = None,
        mapped: JobId | None = None,
    ) -> JobId:
        job = as_step(
            template,
            id=self._ids.job(self._slot),
            payload=payload,
            step=name,
            workflow=self._id,
            parents=bool(parents),
            refs=refs,
            hold=None if signal is None else HELD_FOR_SIGNAL,
        )
        self.steps.append(
            NewStep(name=name, job=job, rule=rule, parents=parents, signal=signal, mapped=mapped)
        )
        return job.id

    def _job(self, template: NewJob) -> NewJob:
        """In the workflow's namespace, unless it has one of its own."""
        if template.namespace != _DEFAULT or self._namespace == _DEFAULT:
            return template
        return msgspec.structs.replace(template, namespace=self._namespace)


def _encoded(payload: Any, limits: LimitSettings) -> bytes:
    try:
        encoded = _encode(payload)
        check_json(payload, encoded)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidValue("payload", problem=f"cannot be written as JSON: {error}") from None
    if len(encoded) > limits.payload:
        raise InvalidValue(
            "payload",
            problem=f"has {len(encoded)} bytes, more than limits.payload, {limits.payload}",
            hint="store the data elsewhere and submit where it is",
        )
    return encoded

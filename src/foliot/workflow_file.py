"""Workflows in a file, TOML or JSON, for those who do not have the code of their jobs.

name = "etl"
deadline = "2h"

[[steps]]
name = "extract"
kind = "extract"
payload = { day = "2026-11-18" }

[[steps]]
name = "load"
kind = "load"
after = ["extract"]
payload = { rows = { "$result" = "extract" } }
options = { queue = "db", max_attempts = 3 }

Instead of kind, a step has `wait_for` (with `timeout`), `sleep` or `workflow`; with `over`, there is one of each
element of a list, which is the argument `item`, else the first that is not given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast, get_args

import msgspec

from foliot.checks import check_rule
from foliot.config import LimitSettings
from foliot.errors import InvalidValue, UnknownKind
from foliot.model.definition import Defaults, StoredDefinition
from foliot.model.job import NewJob
from foliot.model.retry import StoredRetry
from foliot.model.workflow import SLEEP_KIND, WORKFLOW_KIND
from foliot.options import NO_CHOICES, Options, check_options, template_of
from foliot.shown import did_you_mean
from foliot.store.port import Store
from foliot.units import read_duration
from foliot.workflow_check import (
    DEEPEST,
    NOT_FOR_STEPS,
    check_deadline,
    check_graph,
    check_step_name,
    not_for_a_step,
    ref_names,
    refs_of,
)
from foliot.workflow_examples import examples_in
from foliot.workflow_fit import check_elements, check_item, check_payload, first_free
from foliot.workflow_form import Draft, StepDraft, in_step, placed, signal_step
from foliot.workflow_graph import ancestors
from foliot.workflow_text import Format, form_of, parse, read_file

Kinds = Mapping[str, StoredDefinition]

_LIMITS: Final = LimitSettings()
_BUILT_IN: Final = "foliot."
_WHOLE: Final = ("name", "namespace", "policy", "deadline", "key", "steps")
_ANY: Final = ("name", "after", "rule")
_FORMS: Final = {  # what a step is, and what it may have besides
    "kind": ("payload", "options", "over", "item"),
    "wait_for": ("timeout",),
    "sleep": ("options",),
    "workflow": ("options",),
}
_KNOWN: Final = (*_ANY, *_FORMS, *dict.fromkeys(key for keys in _FORMS.values() for key in keys))
_BESIDE: Final = {"after": 'after=["extract"]', "rule": 'rule="all_done"'}
_DURATIONS: Final = ("delay", "timeout", "expires")
_OF_JOBS_ONLY: Final = {  # not of one that stands for a workflow: why, what to do, and that as an example
    "timeout": (
        "it ends an attempt, and none runs while that workflow does",
        "give that a deadline",
        'workflow={{"name": "{name}", "deadline": "1h", "steps": [...]}}',
    ),
    "ordering_key": (
        "a step of that workflow with this key would wait for this one, and it for that",
        "give it to the steps of that workflow",
        None,
    ),
}
# Written as code has them; they are told in the format of the file.
_ONE_STEP: Final = '{"name": "extract", "kind": "extract"}'
_STEPS: Final = f"steps=[{_ONE_STEP}]"
_INNER: Final = f'workflow={{"name": "small", "steps": [{_ONE_STEP}]}}'


async def read_draft(
    store: Store,
    source: str | Path,
    *,
    format: Format | None = None,
    limits: LimitSettings = _LIMITS,
) -> Draft:
    """Of a text, or of the file at a path. Kinds and payloads are checked against what apps have announced. Raises
    InvalidValue, or UnknownKind, with the step that is wrong."""
    if isinstance(source, Path):
        told, found = read_file(source)
    else:
        told, found = parse(source, format=format), format or form_of(source)
    kinds = {one.kind: one for one in await store.definitions.all()}
    return draft_from(told, kinds, format=found, limits=limits)


def draft_from(
    told: Mapping[str, Any],
    kinds: Kinds,
    *,
    format: Format = "json",
    limits: LimitSettings = _LIMITS,
) -> Draft:
    """What was parsed, with these kinds of jobs. Examples are in the `format` that it had."""
    with examples_in(format):
        return _draft(told, _Reading(kinds, limits, depth=1))


def _draft(told: Mapping[str, Any], reading: _Reading) -> Draft:
    if reading.depth > DEEPEST:
        raise InvalidValue("workflow", problem=f"is more than {DEEPEST} workflows deep")
    _check_keys(told, _WHOLE, "a workflow")
    steps = told.get("steps", [])
    if not isinstance(steps, list):
        raise InvalidValue("steps", steps, "is not a list", example=_STEPS)
    if "name" not in told:
        raise InvalidValue("name", problem="of the workflow is missing", example='name="etl"')
    check_step_name(told["name"], field="workflow", example='name="etl"')
    if not steps:
        problem = "are missing: a workflow has at least one"
        raise InvalidValue("steps", problem=problem, example=_STEPS)
    draft = Draft(
        name=told["name"],
        steps=_steps(steps, reading),
        namespace=told.get("namespace", "default"),
        policy=told.get("policy", "fail_fast"),
        deadline=_deadline(told.get("deadline")),
        key=told.get("key"),
    )
    _check_refs(draft, reading.limits)
    return draft


def _check_refs(draft: Draft, limits: LimitSettings) -> None:
    """In a file, `after` and `over` say the order; what a payload refers to has to come before by that."""
    _, parents = check_graph(draft, limits=limits)
    drawn = {
        step.name: tuple(
            name
            for name in parents[step.name]
            if name in step.after or name in ref_names(step.over)
        )
        for step in draft.steps
    }
    for step in draft.steps:
        before: set[str] | None = None
        for name in refs_of(step):
            if name in drawn[step.name]:
                continue
            before = ancestors(drawn, step.name) if before is None else before
            if name not in before:
                with in_step(step.name):
                    raise InvalidValue(
                        "reference",
                        name,
                        "need not have ended when this step begins: add it to its after",
                        example=f'after=["{name}"]',
                    )


class _Reading(msgspec.Struct, frozen=True):
    """What a step is read with."""

    kinds: Kinds
    limits: LimitSettings
    depth: int


def _steps(told: Sequence[object], reading: _Reading) -> tuple[StepDraft, ...]:
    steps = [_step(number, one, reading) for number, one in enumerate(told, 1)]
    chosen = [isinstance(one, dict) and "queue" in one.get("options", ()) for one in told]
    found = placed(steps, keep={step.name for step, own in zip(steps, chosen, strict=True) if own})
    return (
        found if len(found) == len(steps) else tuple(steps)
    )  # a name twice is told where names are checked


def _step(number: int, told: object, reading: _Reading) -> StepDraft:
    if not isinstance(told, dict):
        raise InvalidValue(f"step {number}", told, "is not an object", example=_ONE_STEP)
    if "name" not in told:
        raise InvalidValue(f"step {number}", problem="has no name", example='name="extract"')
    with in_step(number):
        name = check_step_name(told["name"])
    with in_step(name):
        form = _form_of(told)
        rest: dict[str, Any] = {
            "after": _after(told.get("after", [])),
            "rule": check_rule(told.get("rule", "all_succeeded")),
        }
        if form == "wait_for":
            timeout = _seconds("timeout", told.get("timeout"))
            signal = check_step_name(
                told["wait_for"], field="wait_for", example='wait_for="approval"'
            )
            return signal_step(name, signal, timeout=timeout, **rest)
        if form == "sleep":
            return StepDraft(name=name, template=_sleep(told), **rest)
        if form == "workflow":
            return StepDraft(name=name, **_workflow(told, reading), **rest)
        return StepDraft(name=name, **_job(told, reading.kinds), **rest)


def _form_of(told: Mapping[str, Any]) -> str:
    _check_keys(told, _KNOWN, "a step")
    forms = [form for form in _FORMS if form in told]
    if not forms:
        others = ", ".join(form for form in _FORMS if form != "kind")
        hint = f"or say {others}"
        raise InvalidValue("kind", problem="is missing", example='kind="extract"', hint=hint)
    if len(forms) > 1:
        raise InvalidValue(" and ".join(forms), problem="cannot be given together")
    for key in told:
        if key not in _ANY and key != forms[0] and key not in _FORMS[forms[0]]:
            problem = f"is not for a step with {forms[0]}"
            if key == "timeout" and forms[0] == "kind":
                problem = f"{problem}: it is one of the options"
                raise InvalidValue(key, problem=problem, example='options={"timeout": "30s"}')
            raise InvalidValue(key, problem=problem)
    return forms[0]


def _job(told: Mapping[str, Any], kinds: Kinds) -> dict[str, Any]:
    kind, payload = told["kind"], _table(told, "payload")
    if not isinstance(kind, str):
        raise InvalidValue("kind", kind, "is not text", example='kind="extract"')
    if kind.startswith(_BUILT_IN):
        hint = "say wait_for, sleep, over or workflow"
        raise InvalidValue("kind", kind, "is one of Foliot's own", hint=hint)
    known = kinds.get(kind)
    if known is None:
        raise UnknownKind(kind, known=kinds, announced=True)
    over, item = _over(told), told.get("item")
    if over is None and item is not None:
        raise InvalidValue("item", item, "needs over", example="over=[1, 2, 3]")
    if over is not None and item is None:
        item = first_free(known, payload)
    if isinstance(item, str):
        check_item(known, item)
    check_payload(known, payload, item)
    if isinstance(over, list) and isinstance(item, str):
        check_elements(known, payload, over, item)
    template = template_of(kind, known.options, check_options(NO_CHOICES, _options(told)))
    return {"template": template, "payload": payload, "over": over, "item": item}


def _over(told: Mapping[str, Any]) -> Any:
    if "over" in told and told["over"] is None:  # as only JSON can say it
        problem = "is neither a list nor a result"
        raise InvalidValue("over", None, problem, example="over=[1, 2, 3]")
    return msgspec.to_builtins(told.get("over"))


def _sleep(told: Mapping[str, Any]) -> NewJob:
    options = _options(told)
    if "delay" in options or "run_at" in options:
        raise InvalidValue("delay", problem="cannot be given together with sleep")
    if (seconds := _seconds("sleep", told["sleep"])) is None:
        raise InvalidValue("sleep", problem="is missing", example="sleep=60")
    choices = check_options(NO_CHOICES, {**options, "delay": seconds})
    return template_of(SLEEP_KIND, Defaults(), choices)


def _workflow(told: Mapping[str, Any], reading: _Reading) -> dict[str, Any]:
    inside = told["workflow"]
    if not isinstance(inside, dict):
        raise InvalidValue("workflow", inside, "is not an object", example=_INNER)
    inner = _draft(inside, msgspec.structs.replace(reading, depth=reading.depth + 1))
    given = _table(told, "options")
    for option, (why, instead, form) in _OF_JOBS_ONLY.items():
        if (value := given.get(option)) is not None:
            problem = f"is not for a step with workflow: {why}"
            example = form and form.format(name=inner.name)
            raise InvalidValue(option, value, problem, example=example, hint=instead)
    choices = check_options(NO_CHOICES, _options(told))
    return {"template": template_of(WORKFLOW_KIND, Defaults(), choices), "inner": inner}


def _options(told: Mapping[str, Any]) -> Options:
    """As `fn.options` takes them: a file has durations and moments in text."""
    given: dict[str, Any] = dict(_table(told, "options"))
    for name, value in given.items():
        if name in NOT_FOR_STEPS:
            if name in _BESIDE:
                problem = "is not one of the options of a step: it is said beside them"
                raise InvalidValue(name, problem=problem, example=_BESIDE[name])
            raise not_for_a_step(name, value)
        if name in _DURATIONS and isinstance(value, str):
            moment = name == "expires" and "-" in value.lstrip("-")
            given[name] = _moment(name, value) if moment else _seconds(name, value)
        elif name == "run_at" and isinstance(value, str):
            given[name] = _moment(name, value)
        elif name == "retry" and isinstance(value, dict):
            given[name] = _retry(value)
    return cast(Options, given)


def _retry(value: Mapping[str, Any]) -> StoredRetry:
    for form in get_args(StoredRetry):
        if value.get("type") == (name := form.__struct_config__.tag):
            _check_keys(value, ("type", *form.__struct_fields__), f"a retry of type {name}")
    try:
        return msgspec.convert(value, StoredRetry)  # type: ignore[arg-type, no-any-return, unused-ignore]
    except msgspec.ValidationError as error:
        problem = f"cannot be read: {error}"
        example = 'retry={"type": "fixed", "seconds": 30}'
        raise InvalidValue("retry", dict(value), problem, example=example) from None


def _moment(field: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        example = f'{field}="2027-01-31T09:00+01:00"'
        raise InvalidValue(field, text, "cannot be read", example=example) from None


def _seconds(field: str, value: object) -> float | None:
    if value is None:
        return None
    try:
        return read_duration(value)
    except ValueError as error:
        raise InvalidValue(field, value, str(error), example=f'{field}="30m"') from None


def _deadline(value: object) -> float | None:
    seconds = _seconds("deadline", value)
    return None if seconds is None else check_deadline(seconds)


def _after(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidValue("after", value, "is not a list of names", example='after=["extract"]')
    return tuple(value)


def _table(told: Mapping[str, Any], key: str) -> dict[str, Any]:
    """With what TOML has and JSON has not in its one form as text."""
    value = told.get(key, {})
    if not isinstance(value, dict):
        raise InvalidValue(key, value, "is not a table", example=f"{key}={{}}")
    found: dict[str, Any] = value if key == "options" else msgspec.to_builtins(value)
    return found


def _check_keys(told: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for key in told:
        if key not in known:
            hint = did_you_mean(key, known) or f"there are {', '.join(known)}"
            raise InvalidValue("key", key, f"is not something {what} has", hint=hint)

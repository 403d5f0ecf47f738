"""Whether a draft is a workflow: its names, its parents, its limits. Every error names the step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Final, get_args

import msgspec

from foliot.checks import check_name, check_seconds, check_text
from foliot.config import LimitSettings
from foliot.errors import LONGEST_WAIT, InvalidValue
from foliot.model.job import NewJob
from foliot.model.workflow import LONGEST_NAME, Policy, Rule
from foliot.options import Choices
from foliot.shown import did_you_mean
from foliot.workflow_form import Draft, StepDraft, in_step
from foliot.workflow_graph import in_order
from foliot.workflow_refs import MARK, Ref, find_refs

DEEPEST: Final = 8  # workflows inside each other
_NAME: Final = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{LONGEST_NAME - 1}}}", re.ASCII)
_ONE_KEY: Final = "give the workflow a key"
NOT_FOR_STEPS: Final = {  # options of jobs, and what to do instead
    "key": _ONE_KEY,
    "key_mode": _ONE_KEY,
    "idempotency_key": _ONE_KEY,
    "connection": "a workflow is stored in a transaction of its own",
    "after": "flow.add(load.prepare(), after=[extract])",
    "rule": 'flow.add(load.prepare(), after=[extract], rule="all_done")',
}
_NEEDS_PARENTS: Final = (Rule.ANY_SUCCEEDED, Rule.ANY_FAILED)
_FEWER: Final = {  # what to do about too many, and an example
    "steps": ("let a step work on several elements", "over=[[1, 2], [3, 4]]"),
    "edges": ("let one step stand where many come after many", 'flow.sleep(0, after=["a", "b"])'),
}
_MOST_COMPARED: Final = 5_000  # names, for the nearest to an unknown one
_LIMITS: Final = LimitSettings()
_canonical: Final = msgspec.json.Encoder(order="deterministic").encode


def check(draft: Draft) -> list[str]:
    """What is allowed and looks odd."""
    found = []
    for step in draft.steps:
        template = step.template
        if draft.deadline is None or template is None:
            continue
        expires = None if template.more is None else template.more.expires_in
        told = {"timeout": template.timeout, "delay": template.delay, "expires": expires}
        for word, seconds in told.items():
            if seconds is not None and seconds > draft.deadline:
                found.append(
                    f"step {step.name}: its {word}, {seconds:g} s, is longer than the deadline of the workflow,"
                    f" {draft.deadline:g} s"
                )
    return found


def check_graph(
    draft: Draft, *, limits: LimitSettings = _LIMITS, depth: int = 1
) -> tuple[list[StepDraft], dict[str, tuple[str, ...]]]:
    """The steps, parents first, and the parents of each."""
    check_whole(draft)
    _check_names(draft, limits)
    if depth == 1 and (all_steps := _count_all(draft, depth, {})) > limits.steps:
        _too_many("steps", all_steps, limits.steps)
    steps = {step.name: step for step in draft.steps}
    parents = {}
    for step in draft.steps:
        with in_step(step.name):
            _check_step(step, depth, limits)
            parents[step.name] = _parents(step, steps)
    _check_size(draft, parents, limits)
    return [steps[name] for name in in_order(parents)], parents


def fingerprint(draft: Draft) -> str:
    """Of the graph: what runs after what, with which payloads. In whatever order it was written, and whatever options
    the definitions have by now."""
    steps = sorted(map(_told, draft.steps))
    told = [draft.name, draft.policy, draft.deadline, steps]
    return blake2b(_canonical(told), digest_size=16).hexdigest()


def _told(step: StepDraft) -> list[str]:
    job = step.template
    delay = None if job is None else job.delay
    more = None if job is None or step.signal is None else job.more
    return [
        step.name,
        step.rule.value,
        " ".join(sorted({*step.after, *refs_of(step)})),
        "" if job is None or step.inner is not None else job.kind,
        "" if delay is None else f"{delay:g}",
        _canonical(step.payload).decode(),
        step.signal or "",
        "" if more is None else str(more.expires_in),
        _canonical(step.over).decode(),
        step.item or "",
        "" if step.inner is None else fingerprint(step.inner),
    ]


def is_step_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def check_step_name(value: object, *, field: str = "name", example: str | None = None) -> str:
    if not isinstance(value, str) or not is_step_name(value):
        problem = f"is not 1 to {LONGEST_NAME} letters, digits, and any of _ . -, first no . or -"
        raise InvalidValue(field, value, problem, example=example or f'{field}="extract"')
    return value


def check_deadline(value: object) -> float:
    return check_seconds("deadline", value, least=0.001, most=LONGEST_WAIT, example="deadline=3600")


def refs_of(step: StepDraft) -> list[str]:
    """The steps that it refers to, each once. Those inside a workflow refer to each other and not to these."""
    if step.inner is not None:
        return []
    return ref_names([step.payload, step.over])


def ref_names(value: object) -> list[str]:
    return list(dict.fromkeys(name for name, _ in find_refs(value)))


def check_whole(draft: Draft) -> None:
    """What is said of it besides its steps."""
    check_step_name(draft.name, field="workflow", example='app.workflow("extract")')
    check_name("namespace", draft.namespace, example='namespace="shop"')
    if draft.policy not in get_args(Policy):
        known = " or ".join(get_args(Policy))
        raise InvalidValue("policy", draft.policy, f"is not {known}", example='policy="continue"')
    if draft.deadline is not None:
        check_deadline(draft.deadline)
    if draft.key is not None:
        check_text("key", "2026-11-18")(draft.key)


def _check_names(draft: Draft, limits: LimitSettings) -> None:
    if not draft.steps:
        raise InvalidValue(
            "steps",
            problem="are missing: a workflow has at least one",
            example="flow.add(extract.prepare())",
        )
    if len(draft.steps) > limits.steps:
        _too_many("steps", len(draft.steps), limits.steps)
    seen: dict[str, int] = {}
    for number, step in enumerate(draft.steps, 1):
        first = seen.setdefault(check_step_name(step.name), number)
        if first != number:
            problem = f"is the name of two steps, number {first} and number {number}"
            raise InvalidValue("name", step.name, problem, hint="rename one")


def _check_step(step: StepDraft, depth: int, limits: LimitSettings) -> None:
    payload = step.payload
    if not isinstance(payload, dict) or not all(isinstance(name, str) for name in payload):
        raise InvalidValue("payload", payload, "is not an object", example='{"day": "2026-11-18"}')
    if step.template is not None:
        check_step_options(step.template)
    elif step.inner is None:
        raise InvalidValue("kind", problem="is missing", example='kind="extract"')
    if step.signal is not None:
        check_step_name(step.signal, field="signal")
    if step.over is not None:
        _check_map(step)
    if step.inner is not None:
        check_inner(step.inner)
        if depth >= DEEPEST:
            raise InvalidValue(
                "workflow", step.inner.name, f"is more than {DEEPEST} workflows deep"
            )
        check_graph(step.inner, limits=limits, depth=depth + 1)


def check_parents(rule: Rule, parents: Sequence[object]) -> None:
    """Without any, one of these would never run, or for no reason."""
    if not parents and rule in _NEEDS_PARENTS:
        raise InvalidValue(
            "rule", rule.value, "needs parents, and this step has none", example='after=["a"]'
        )


def check_inner(draft: Draft) -> None:
    """Of a workflow that a job stands for: which run it is follows from that job."""
    if draft.key is not None:
        raise InvalidValue(
            "key", draft.key, "is not for a workflow that is a step, or that a schedule fires"
        )


def check_step_options(job: NewJob) -> None:
    """What is submitted once is the workflow: a step has no key of its own."""
    extras = None if job.more is None else job.more.extras
    told = {
        "key": job.key,
        "key_mode": None if job.key_mode == "keep" else job.key_mode,
        "idempotency_key": None if extras is None else extras.idempotency_key,
    }
    for name, value in told.items():
        if value is not None:
            raise not_for_a_step(name, value)


def check_step_choices(choices: Choices) -> None:
    """Of a call that is to be a step: what `options` has said which the jobs of steps do not carry."""
    for option in NOT_FOR_STEPS:
        if (value := getattr(choices, option)) is not None:
            raise not_for_a_step(option, value)


def not_for_a_step(option: str, value: object) -> InvalidValue:
    hint = NOT_FOR_STEPS[option]
    if option not in ("after", "rule"):
        return InvalidValue(option, value, "is not for a step", hint=hint)
    problem = "is not one of the options of a step"
    return InvalidValue(option, problem=problem, hint=f"say it beside them: {hint}")


def _check_map(step: StepDraft) -> None:
    over = step.over
    if not _is_list(over) and not isinstance(over, Ref) and not _is_ref(over):
        raise InvalidValue(
            "over", over, "is neither a list nor a result", example='over={"$result": "extract"}'
        )
    if step.template is None or step.signal is not None or step.inner is not None:
        raise InvalidValue("over", problem="needs a kind, whose jobs take the elements")
    if not isinstance(step.item, str) or not step.item:
        raise InvalidValue(
            "item", step.item, "is not the name of an argument", example='item="url"'
        )
    if step.item in step.payload:
        raise InvalidValue("item", step.item, "is in the payload as well: it takes the element")


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _is_ref(value: object) -> bool:
    return isinstance(value, dict) and MARK in value


def _parents(step: StepDraft, steps: Mapping[str, StepDraft]) -> tuple[str, ...]:
    """In the order they were named, each once."""
    for name in step.after:
        if name not in steps:
            raise _unknown("after", name, step, steps)
    refs = refs_of(step)
    for name in refs:
        if name not in steps:
            raise _unknown("reference", name, step, steps)
        _check_kept(name, steps[name])
    parents = tuple(dict.fromkeys((*step.after, *refs)))
    check_parents(step.rule, parents)
    return parents


def _unknown(
    field: str, name: object, step: StepDraft, steps: Mapping[str, StepDraft]
) -> InvalidValue:
    problem = "is not a step of this workflow"
    near = did_you_mean(str(name), islice(steps, _MOST_COMPARED))
    other = next((one for one in steps if one != step.name), None)
    if near is not None or other is None:
        return InvalidValue(field, name, problem, hint=near or "there is no other step in it")
    example = f'after=["{other}"]' if field == "after" else f'{{"{MARK}": "{other}"}}'
    return InvalidValue(field, name, problem, example=example)


def _check_kept(name: str, step: StepDraft) -> None:
    more = None if step.template is None else step.template.more
    if more is not None and more.extras is not None and more.extras.ignore_result:
        raise InvalidValue(
            "reference", name, "has no result: ignore_result is set", example="ignore_result=False"
        )


def _check_size(draft: Draft, parents: Mapping[str, Sequence[str]], limits: LimitSettings) -> None:
    """With the elements of lists that are known."""
    elements = {step.name: len(step.over) for step in draft.steps if _is_list(step.over)}
    steps = len(draft.steps) + sum(elements.values())
    if steps > limits.steps:
        _too_many("steps", steps, limits.steps)
    edges = sum(1 + elements.get(one, 0) for above in parents.values() for one in above)
    for step in draft.steps:
        for element in step.over if step.name in elements else ():
            above = ref_names([step.payload, element])
            edges += 1 + sum(1 + elements.get(one, 0) for one in above)
    if edges > limits.edges:
        _too_many("edges", edges, limits.edges)


def _count_all(draft: Draft, depth: int, known: dict[int, int]) -> int:
    """With those of the workflows inside: each has some of its own, so that a few levels are as many as one likes. What
    is the same object was counted before."""
    count = len(draft.steps)
    for step in draft.steps if depth < DEEPEST else ():
        if (inner := step.inner) is not None:
            if id(inner) not in known:
                known[id(inner)] = _count_all(inner, depth + 1, known)
            count += known[id(inner)]
    return count


def _too_many(what: str, count: int, most: int) -> None:
    instead, example = _FEWER[what]
    problem = f"are {count}, more than limits.{what}, {most}: {instead}"
    raise InvalidValue(what, problem=problem, example=example)

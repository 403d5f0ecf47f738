"""Drafts: what is refused, in which words, and what is submitted in the end."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from foliot.checks import check_rule
from foliot.config import LimitSettings
from foliot.errors import FoliotError, InvalidValue
from foliot.ids import Ids, inner_id, is_job_id, slot_of
from foliot.model.definition import Defaults
from foliot.model.job import JobState, NewJob
from foliot.model.retry import Fixed
from foliot.model.workflow import NewStep, NewWorkflow, Rule, Step, Workflow, WorkflowState
from foliot.options import NO_CHOICES, Options, check_options, template_of
from foliot.workflow_draft import (
    Draft,
    MapPayload,
    StepDraft,
    build,
    check,
    draft_of,
    fingerprint,
    from_json,
    make_elements,
    signal_step,
    sleep_step,
    to_json,
)
from foliot.workflow_graph import in_order

IDS = Ids(seed=7)
NOW = datetime(2026, 11, 18, tzinfo=UTC)


def template(kind: str = "work", /, **options: Any) -> NewJob:
    given: Options = options  # type: ignore[assignment]
    return template_of(kind, Defaults(), check_options(NO_CHOICES, given))


PLAIN = template()


def step(name: Any, *after: str, rule: Rule = Rule.ALL_SUCCEEDED, **rest: Any) -> StepDraft:
    return StepDraft(name=name, **{"template": PLAIN, "after": after, "rule": rule, **rest})


def draft(*steps: StepDraft, **rest: Any) -> Draft:
    return Draft(**{"name": "etl", "steps": steps, **rest})


def made(*steps: StepDraft, **rest: Any) -> NewWorkflow:
    return build(draft(*steps, **rest), IDS)


def by_name(workflow: NewWorkflow) -> dict[str, NewStep]:
    return {one.name: one for one in workflow.steps}


def parents_of(workflow: NewWorkflow, name: str) -> list[str]:
    names = {one.job.id: one.name for one in workflow.steps}
    return [names[id] for id in by_name(workflow)[name].parents]


def ref(name: str, **rest: Any) -> dict[str, Any]:
    return {"$result": name, **rest}


def nested(depth: int) -> Draft:
    inner = draft(step("a"))
    for _ in range(depth - 1):
        inner = draft(StepDraft(name="inner", inner=inner))
    return inner


REFUSED: dict[str, tuple[Draft, str]] = {
    "G01": (draft(), "steps are missing: a workflow has at least one"),
    "G03": (draft(step("a", "a")), "steps have a cycle: a → a"),
    "G03-by-reference-G34": (
        draft(step("a", payload={"x": ref("a")})),
        "steps have a cycle: a → a",
    ),
    "G06": (
        draft(step("a", "c"), step("b", "a"), step("c", "b"), step("d", "e"), step("e", "d")),
        "steps have a cycle: d → e → d",
    ),
    "G06-behind-a-root": (
        draft(step("root"), step("a", "root", "b"), step("b", "a"), step("leaf", "b")),
        "steps have a cycle: a → b → a",
    ),
    "G07": (draft(step("a"), step("b"), step("a")), "name: 'a' is the name of two steps"),
    "G11": (
        draft(step("extract"), step("b", "extrct")),
        "step b: after: 'extrct' is not a step of this workflow; did you mean extract?",
    ),
    "G11-by-reference": (
        draft(step("extract"), step("b", payload={"x": ref("extrct")})),
        "step b: reference: 'extrct' is not a step of this workflow; did you mean extract?",
    ),
    "G21": (draft(step("a", template=None)), "step a: kind is missing"),
    "G25-any_failed": (
        draft(step("a", rule=Rule.ANY_FAILED)),
        "step a: rule: 'any_failed' needs parents, and this step has none",
    ),
    "G25-any_succeeded": (
        draft(step("a", rule=Rule.ANY_SUCCEEDED)),
        "step a: rule: 'any_succeeded' needs parents, and this step has none",
    ),
    "G43-zero": (draft(step("a"), deadline=0), "deadline: 0 is not a number of seconds"),
    "G43-past": (draft(step("a"), deadline=-5.0), "deadline: -5.0 is not a number of seconds"),
    "G43-nan": (draft(step("a"), deadline=float("nan")), "deadline: nan is not a number of"),
    "G49": (nested(9), "workflow: 'etl' is more than 8 workflows deep"),
    "policy": (draft(step("a"), policy="stop"), "policy: 'stop' is not fail_fast or continue"),
    "name": (draft(step("a"), name="e t l"), "workflow: 'e t l' is not 1 to 200 letters"),
    "empty-key": (draft(step("a"), key=""), "key: '' is not printable text"),
    "key": (
        draft(step("a", template=template(key="k"))),
        "step a: key: 'k' is not for a step; give the workflow a key",
    ),
    "key_mode": (
        draft(step("a", template=msgspec.structs.replace(PLAIN, key_mode="replace"))),
        "step a: key_mode: 'replace' is not for a step; give the workflow a key",
    ),
    "idempotency_key": (
        draft(step("a", template=template(idempotency_key="k"))),
        "step a: idempotency_key: 'k' is not for a step; give the workflow a key",
    ),
    "key-of-an-inner-one": (
        draft(StepDraft(name="a", inner=draft(step("b"), key="k"))),
        "step a: key: 'k' is not for a workflow that is a step",
    ),
    "no-result": (
        draft(step("a", template=template(ignore_result=True)), step("b", payload={"x": ref("a")})),
        "step b: reference: 'a' has no result: ignore_result is set",
    ),
    "payload": (draft(step("a", payload=[1])), "step a: payload: [1] is not an object"),
    "payload-nan": (
        draft(step("a", payload={"x": float("nan")})),
        "step a: payload cannot be written as JSON: it holds NaN",
    ),
    "payload-surrogate": (
        draft(step("a", payload={"x": "\ud800"})),
        "step a: payload cannot be written as JSON",
    ),
    "payload-size": (
        draft(step("a", payload={"x": "y" * (300 << 10)})),
        "step a: payload has 307208 bytes, more than limits.payload, 262144",
    ),
    "over-number": (draft(step("a", over=5, item="x")), "step a: over: 5 is neither a list nor"),
    "over-no-item": (draft(step("a", over=[5])), "step a: item: None is not the name of an"),
    "over-item-twice": (
        draft(step("a", over=[5], item="x", payload={"x": 1})),
        "step a: item: 'x' is in the payload as well",
    ),
    "signal": (draft(signal_step("a", "go now")), "step a: signal: 'go now' is not 1 to 200"),
}


@pytest.mark.parametrize("row", REFUSED)
def test_what_is_no_workflow_is_refused_in_words(row: str) -> None:
    given, said = REFUSED[row]
    with pytest.raises(InvalidValue) as caught:
        build(given, IDS)
    assert str(caught.value).removeprefix("step inner: " * 8).startswith(said)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a b",
        "a/b",
        "..",
        ".",
        "-a",
        "é",
        "🎉",
        "a\n",
        "a[0]",
        "x" * 201,
        "x" * 300,
        10,
        None,
    ],
    ids=lambda name: f"G09-{name!r:.12}",
)
def test_a_name_that_does_not_fit_is_refused_with_the_pattern(name: Any) -> None:
    with pytest.raises(InvalidValue, match=r"^name: .* is not 1 to 200 letters, digits, and any"):
        made(step("first"), step(name))


@pytest.mark.parametrize(
    "name", ["010", "yes", "null", "1e3", "a..b", "_", "x" * 200], ids=lambda n: f"G10-{n:.5}"
)
def test_a_name_stays_the_text_that_it_is(name: str) -> None:
    assert made(step(name)).steps[0].name == name


@pytest.mark.parametrize("row", ["G05"])
def test_a_cycle_of_a_thousand_steps_is_found_at_once(row: str) -> None:
    steps = [step(f"s{number}", f"s{(number - 1) % 1000}") for number in range(1000)]
    began = time.perf_counter()
    with pytest.raises(InvalidValue, match="steps have a cycle: ") as refused:
        made(*steps)
    assert time.perf_counter() - began < 1
    names = [f"s{number}" for number in range(1000)]
    assert refused.value.problem == f"have a cycle: {' → '.join([*names, 's0'])}"
    assert refused.value.hint == "leave one of these arrows out, for example s999 → s0"
    assert refused.value.value == names


@pytest.mark.parametrize("row", ["G05-shortest"])
def test_of_many_cycles_the_shortest_is_shown(row: str) -> None:
    steps = [step(f"s{number}", f"s{(number - 1) % 1000}") for number in range(1000)]
    steps[600] = step("s600", "s599", "s601")
    began = time.perf_counter()
    with pytest.raises(InvalidValue, match=r"cycle: s600 → s601 → s600; leave one"):
        made(*steps)
    assert time.perf_counter() - began < 1


def shortest(graph: dict[str, list[str]]) -> int | None:
    """The length of the shortest cycle: slowly, and without doubt."""
    ways = {(child, parent) for child, parents in graph.items() for parent in parents}
    longer = set(ways)
    for length in range(1, len(graph) + 1):
        if any(one == two for one, two in longer):
            return length
        longer = {(one, four) for one, two in longer for three, four in ways if two == three}
    return None


@pytest.mark.parametrize("row", ["G05-G06"])
def test_random_graphs_are_put_in_order_or_have_the_cycle_that_is_shown(row: str) -> None:
    chance = random.Random(5)
    found = set()
    for _ in range(1000):
        names = [f"s{number}" for number in range(chance.randint(1, 8))]
        graph = {
            name: chance.sample(names, chance.randint(0, min(2, len(names)))) for name in names
        }
        length = shortest(graph)
        found.add(length)
        if length is None:
            order = in_order(graph)
            assert sorted(order) == names
            assert all(order.index(up) < order.index(name) for name in names for up in graph[name])
            continue
        with pytest.raises(InvalidValue) as caught:
            in_order(graph)
        cycle = caught.value.message.partition("cycle: ")[2].split(" → ")
        assert (cycle[0], len(cycle)) == (cycle[-1], length + 1)
        assert all(up in graph[name] for up, name in pairwise(cycle))
    assert found >= {None, 1, 2, 3, 4}


@pytest.mark.parametrize(
    ("row", "steps", "said"),
    [
        ("G14", [step(f"s{n}") for n in range(11)], "steps are 11, more than limits.steps, 10"),
        (
            "G14-elements",
            [step("each", over=list(range(10)), item="x")],
            "steps are 11, more than limits.steps, 10",
        ),
        (
            "G15",
            [step(f"s{n}", *(f"s{m}" for m in range(n))) for n in range(6)],
            "edges are 15, more than limits.edges, 12",
        ),
        (
            "G15-elements",
            [step("each", over=list(range(7)), item="x"), step("z", "each")],
            "edges are 15, more than limits.edges, 12",
        ),
    ],
    ids=["G14", "G14-elements", "G15", "G15-elements"],
)
def test_more_than_the_limit_is_refused(row: str, steps: list[StepDraft], said: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        build(draft(*steps), IDS, limits=LimitSettings(steps=10, edges=12))
    assert str(caught.value).startswith(f"{said}: let ")


@pytest.mark.parametrize("row", ["G14-G15-default"])
def test_the_limits_are_fifty_thousand_steps_and_a_hundred_thousand_edges(row: str) -> None:
    assert (LimitSettings().steps, LimitSettings().edges) == (50_000, 100_000)
    steps = [step(f"s{n}") for n in range(334)] + [
        step(f"t{n}", *(f"s{m}" for m in range(334))) for n in range(300)
    ]
    with pytest.raises(InvalidValue, match=r"edges are 100200, more than limits.edges, 100000"):
        made(*steps)


@pytest.mark.parametrize("row", ["G14-G66"])
def test_steps_of_workflows_inside_count_and_a_few_levels_do_not_take_for_ever(row: str) -> None:
    inner = draft(step("a"))
    for _ in range(7):
        inner = draft(*(StepDraft(name=f"in{n}", inner=inner) for n in range(30)))
    with pytest.raises(
        InvalidValue, match=r"^steps are \d+, more than limits.steps, 50000: let a step"
    ):
        build(inner, IDS)


@pytest.mark.parametrize("row", ["G02"])
def test_one_step_is_a_workflow(row: str) -> None:
    workflow = made(step("a"))
    (only,) = workflow.steps
    assert (workflow.name, only.parents, only.rule) == ("etl", (), Rule.ALL_SUCCEEDED)
    assert only.job.more is not None and only.job.more.extras is not None
    assert (only.job.more.workflow, only.job.more.waits, only.job.more.hold) == (
        workflow.id,
        False,
        None,
    )
    extras = only.job.more.extras
    assert (extras.step, extras.parents, extras.refs) == ("a", False, False)


@pytest.mark.parametrize("row", ["G17-G18"])
def test_ten_thousand_steps_fan_out_and_in_within_a_second(row: str) -> None:
    many = [f"b{number}" for number in range(10_000)]
    began = time.process_time()  # what others take from the machine meanwhile is not counted
    workflow = made(step("a"), *(step(name, "a") for name in many), step("z", *many))
    assert time.process_time() - began < 1
    assert len(workflow.steps) == 10_002
    assert len(workflow.steps[-1].parents) == 10_000


@pytest.mark.parametrize("row", ["G19"])
def test_a_diamond_is_put_in_order_and_lives_in_one_place(row: str) -> None:
    workflow = made(step("d", "b", "c"), step("b", "a"), step("c", "a", "a"), step("a"))
    assert [one.name for one in workflow.steps] == ["a", "b", "c", "d"]
    assert (parents_of(workflow, "d"), parents_of(workflow, "c")) == (["b", "c"], ["a"])
    ids = [one.job.id for one in workflow.steps]
    assert ids == sorted(ids)
    assert {slot_of(id) for id in ids} == {slot_of(workflow.id)}
    more = by_name(workflow)["d"].job.more
    assert more is not None and more.extras is not None
    assert (more.waits, more.extras.parents, more.extras.step) == (True, True, "d")


def test_steps_stay_in_the_order_they_were_given_as_far_as_parents_allow() -> None:
    names = ["z", "m", "a", "k"]
    workflow = made(step("z"), step("m", "z"), step("a"), step("k", "a", "m"))
    assert [one.name for one in workflow.steps] == names


def test_a_reference_makes_a_parent() -> None:
    workflow = made(step("a"), step("b"), step("c", "b", payload={"x": [ref("a", at="rows.0")]}))
    assert parents_of(workflow, "c") == ["b", "a"]
    more = by_name(workflow)["c"].job.more
    assert more is not None and more.extras is not None and more.extras.refs


def test_options_of_a_step_reach_its_job() -> None:
    job = (
        made(
            step(
                "a",
                template=template(
                    queue="db",
                    priority=1,
                    timeout=30,
                    delay=5,
                    tags=["x"],
                    retry=Fixed(3),
                    expires=60,
                    ordering_key="o",
                    fair_key="f",
                ),
            )
        )
        .steps[0]
        .job
    )
    more = job.more
    assert more is not None and more.extras is not None
    assert (job.queue, job.priority, job.timeout, job.delay) == ("db", 1, 30, 5)
    assert (more.tags, more.expires_in, more.ordering_key, more.fair_key) == (("x",), 60, "o", "f")
    assert more.extras.retry == Fixed(3)


def test_steps_are_in_the_namespace_of_the_workflow_unless_they_have_their_own() -> None:
    own = template(namespace="other")
    workflow = made(step("a"), step("b", template=own), namespace="shop")
    assert [one.job.namespace for one in workflow.steps] == ["shop", "other"]


def test_a_signal_is_held_from_the_start_and_expires() -> None:
    workflow = made(step("a"), signal_step("ok", "approval", timeout=3600, after=("a",)))
    found = by_name(workflow)["ok"]
    assert (found.signal, found.job.kind) == ("approval", "foliot.signal")
    assert found.job.more is not None
    assert (found.job.more.hold, found.job.more.waits, found.job.more.expires_in) == (
        "signal",
        True,
        3600,
    )


@pytest.mark.parametrize("seconds", [-1, float("inf"), True, "60"], ids=str)
def test_a_sleep_and_a_timeout_are_seconds(seconds: Any) -> None:
    with pytest.raises(InvalidValue, match=r"sleep: .* is not a number of seconds"):
        sleep_step("a", seconds)
    with pytest.raises(InvalidValue, match=r"timeout: .* is not a number of seconds"):
        signal_step("a", "go", timeout=seconds)


def test_a_sleep_is_a_delay() -> None:
    job = made(step("a"), sleep_step("pause", 60, after=("a",))).steps[1].job
    assert (job.kind, job.delay, job.payload) == ("foliot.sleep", 60, b"{}")


def test_a_workflow_inside_another_is_a_job_that_carries_it() -> None:
    inner = draft(step("x"), step("y", payload={"v": ref("x")}), name="inner")
    found = by_name(made(step("a"), StepDraft(name="in", inner=inner, after=("a",))))["in"]
    assert found.job.kind == "foliot.workflow"
    assert from_json(msgspec.json.decode(found.job.payload)["draft"]) == inner
    extras = found.job.more.extras if found.job.more else None
    assert extras is not None and not extras.refs  # its own steps are meant


def test_a_mistake_in_an_inner_workflow_is_found_before_anything_is_submitted() -> None:
    inner = draft(step("x", "y"), step("y", "x"), name="inner")
    with pytest.raises(InvalidValue, match=r"^step in: steps have a cycle: x → y → x"):
        made(StepDraft(name="in", inner=inner))


def test_a_workflow_that_a_job_stands_for_lives_where_the_job_does() -> None:
    job = IDS.job(1234)
    workflow = build(draft(step("a")), IDS, waiter=job)
    assert (workflow.id, workflow.waiter) == (inner_id(job), job)
    assert slot_of(workflow.steps[0].job.id) == 1234
    assert is_job_id(workflow.id)
    with pytest.raises(InvalidValue, match="key: 'k' is not for a workflow that is a step"):
        build(draft(step("a"), key="k"), IDS, waiter=job)


# Maps.


@pytest.mark.parametrize("row", ["G39"])
def test_elements_of_a_known_list_are_made_at_once_and_may_be_equal(row: str) -> None:
    each = step("each", "a", over=[5, 5], item="x", payload={"y": ref("b")})
    workflow = made(step("a"), step("b"), each, step("z", payload={"all": ref("each")}))
    assert [one.name for one in workflow.steps] == ["a", "b", "each", "each[0]", "each[1]", "z"]
    found = by_name(workflow)
    map_step = found["each"].job.id
    assert found["each[0]"].job.payload == b'{"y":{"$result":"b"},"x":5}'
    assert [found[name].mapped for name in ("each", "each[0]", "each[1]")] == [
        None,
        map_step,
        map_step,
    ]
    assert parents_of(workflow, "each") == ["a", "b"]
    assert parents_of(workflow, "each[1]") == ["each", "b"]
    assert parents_of(workflow, "z") == ["each", "each[0]", "each[1]"]


def test_elements_may_be_results_of_others() -> None:
    workflow = made(step("a"), step("b"), step("each", over=[ref("a"), ref("b"), 1], item="x"))
    assert parents_of(workflow, "each") == ["a", "b"]
    assert [parents_of(workflow, f"each[{n}]") for n in range(3)] == [
        ["each", "a"],
        ["each", "b"],
        ["each"],
    ]


@pytest.mark.parametrize("row", ["G37"])
def test_a_list_without_elements_is_fine(row: str) -> None:
    workflow = made(step("each", over=[], item="x"), step("z", payload={"all": ref("each")}))
    assert [one.name for one in workflow.steps] == ["each", "z"]


def running_map(over: Any, limit: int = 10) -> list[NewStep]:
    """What a map step adds, over a list that is known when it runs."""
    workflow = made(
        step("a"), step("each", over=ref("a"), item="x", payload={"y": 1}), step("z", "each")
    )
    each = by_name(workflow)["each"].job
    assert each.kind == "foliot.map" and each.more and each.more.extras and each.more.extras.refs
    told = msgspec.structs.replace(msgspec.json.decode(each.payload, type=MapPayload), over=over)
    return make_elements(
        told,
        name="each",
        map_step=each.id,
        workflow=workflow.id,
        ids=IDS,
        limit=limit,
    )


def test_a_map_step_makes_a_step_of_each_element_when_it_runs() -> None:
    one, two = running_map(["p", {"$result": "odd"}])
    assert [one.name, two.name] == ["each[0]", "each[1]"]
    assert one.job.payload == b'{"y":1,"x":"p"}'
    assert one.parents == (one.mapped,) == (one.added_by,)
    assert one.job.kind == "work" and one.into is None
    assert one.mapped is not None and slot_of(one.job.id) == slot_of(one.mapped)
    extras = two.job.more.extras if two.job.more else None
    assert extras is not None and (extras.step, extras.refs) == ("each[1]", False)


@pytest.mark.parametrize(
    ("over", "said"),
    [
        (list(range(11)), "map_too_large: each is over 11 elements, and limits.steps leaves room"),
        ({"a": 1}, "over of each: {'a': 1} is not a list"),
        (None, "over of each: None is not a list"),
    ],
    ids=["G38", "G38-object", "G38-null"],
)
def test_a_list_that_is_too_long_or_none_fails_with_the_reason(over: Any, said: str) -> None:
    with pytest.raises(FoliotError) as caught:
        running_map(over)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("row", ["G37-running"])
def test_a_map_step_over_nothing_adds_nothing(row: str) -> None:
    assert running_map([]) == []


# Keys.


@pytest.mark.parametrize("row", ["G50"])
def test_the_same_key_is_the_same_run_in_whatever_order_it_was_written(row: str) -> None:
    one = made(step("a", payload={"x": 1, "y": 2}), step("b", "a"), key="2026-11-18")
    two = made(step("b", "a"), step("a", payload={"y": 2, "x": 1}), key="2026-11-18")
    assert (one.id, one.fingerprint) == (two.id, two.fingerprint)
    assert is_job_id(one.id)
    assert one.id != made(step("a"), key="2026-11-18", namespace="shop").id
    assert one.id != made(step("a"), key="2026-11-19").id
    assert made(step("a")).id != made(step("a")).id


OTHERS = {
    "payload": draft(step("a", payload={"x": 2}), step("b", "a")),
    "edge": draft(step("a", payload={"x": 1}), step("b")),
    "rule": draft(step("a", payload={"x": 1}), step("b", "a", rule=Rule.ALL_DONE)),
    "kind": draft(step("a", payload={"x": 1}), step("b", "a", template=template("other"))),
    "delay": draft(step("a", payload={"x": 1}), step("b", "a", template=template(delay=1))),
    "policy": draft(step("a", payload={"x": 1}), step("b", "a"), policy="continue"),
    "step": draft(step("a", payload={"x": 1}), step("b", "a"), step("c")),
    "signal": draft(step("a", payload={"x": 1}), signal_step("b", "go", after=("a",))),
    "timeout": draft(step("a", payload={"x": 1}), signal_step("b", "go", timeout=5, after=("a",))),
    "inner": draft(step("a", payload={"x": 1}), StepDraft(name="b", after=("a",), inner=nested(1))),
    "inner-2": draft(
        step("a", payload={"x": 1}), StepDraft(name="b", after=("a",), inner=nested(2))
    ),
}


@pytest.mark.parametrize("other", OTHERS, ids=lambda name: f"G51-{name}")
def test_another_graph_is_known_by_its_fingerprint(other: str) -> None:
    first = draft(step("a", payload={"x": 1}), step("b", "a"))
    prints = [fingerprint(one) for one in (first, *OTHERS.values())]
    assert prints.count(fingerprint(OTHERS[other])) == 1


# Odd, but allowed.


@pytest.mark.parametrize("row", ["G42"])
def test_a_deadline_shorter_than_a_timeout_is_told(row: str) -> None:
    slow = step("slow", template=template(timeout=60))
    assert check(draft(slow, step("b"), deadline=30.0)) == [
        "step slow: its timeout, 60 s, is longer than the deadline of the workflow, 30 s"
    ]
    late = [sleep_step("nap", 40), signal_step("ok", "go", timeout=50)]
    assert [one.split(",")[0] for one in check(draft(*late, deadline=30.0))] == [
        "step nap: its delay",
        "step ok: its expires",
    ]
    assert check(draft(slow, deadline=60.0)) == check(draft(slow)) == []


@pytest.mark.parametrize("rule", ["all_failed", "", None, 5], ids=lambda rule: f"G25-{rule}")
def test_a_rule_that_there_is_not_is_refused_with_those_there_are(rule: Any) -> None:
    with pytest.raises(InvalidValue, match="is none of all_succeeded, all_done, any_succeeded"):
        check_rule(rule)
    assert check_rule("none_failed") is Rule.NONE_FAILED


# There and back.

WHOLE = draft(
    step("a", payload={"x": 1}, template=template(queue="db", retry=Fixed(3), tags=["t"])),
    step("b", "a", rule=Rule.ALL_DONE, payload={"y": ref("a", at="r.0")}),
    step("late", "a", template=template(delay=5.0)),
    step("each", over=ref("b"), item="x", template=template(delay=2.0, timeout=9.0)),
    step("known", "b", over=[{"u": 1}, ref("a")], item="x", payload={"y": 3}),
    step("none", "b", over=[], item="x", payload={"y": 3}),
    step("z", "known", "each", rule=Rule.NONE_FAILED),
    signal_step("ok", "approval", timeout=60.0, after=("z",)),
    sleep_step("nap", 60.0, after=("z",)),
    StepDraft(name="in", inner=draft(step("x"), name="inner"), after=("nap",)),
    policy="continue",
    deadline=100.0,
)


def test_a_draft_is_the_same_after_it_was_written_as_json() -> None:
    text = msgspec.json.encode(to_json(WHOLE))
    assert from_json(msgspec.json.decode(text)) == WHOLE
    with pytest.raises(InvalidValue, match="workflow cannot be read"):
        from_json({"name": "x", "steps": 5})


def as_stored(workflow: NewWorkflow) -> tuple[Workflow, list[Step]]:
    """As a store gives it back."""
    stored = Workflow(
        id=workflow.id,
        name=workflow.name,
        namespace=workflow.namespace,
        state=WorkflowState.FAILED,
        policy=workflow.policy,
        total=len(workflow.steps),
        remaining=0,
        failed=1,
        created_at=NOW,
        deadline=workflow.deadline,
    )
    steps = [
        Step(
            job=one.job.id,
            number=number,
            name=one.name,
            kind=one.job.kind,
            rule=one.rule,
            state=JobState.SUCCEEDED,
            parents=one.parents,
            signal=one.signal,
            mapped=one.mapped,
            added_by=one.added_by,
            job_template=one.job,
        )
        for number, one in enumerate(workflow.steps)
    ]
    return stored, steps


def test_a_workflow_is_made_again_as_it_was_first_submitted() -> None:
    first = build(WHOLE, IDS)
    stored, steps = as_stored(first)
    added = msgspec.structs.replace(steps[0], job=IDS.job(), name="more", added_by=steps[0].job)
    known = [*steps, added]
    known[-2] = msgspec.structs.replace(known[-2], parents=(*known[-2].parents, added.job))
    again = draft_of(stored, known)
    assert fingerprint(again) == first.fingerprint == fingerprint(WHOLE)
    second = build(again, IDS)
    assert [one.name for one in second.steps] == [one.name for one in first.steps]
    for one, two in zip(first.steps, second.steps, strict=True):
        assert parents_of(first, one.name) == parents_of(second, two.name)
        assert comparable(one.job) == comparable(two.job)


def comparable(job: NewJob) -> NewJob:
    assert job.more is not None
    more = msgspec.structs.replace(job.more, workflow=None)
    return msgspec.structs.replace(job, id="", more=more, payload=normal(job.payload))


def normal(payload: bytes) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(payload), order="deterministic")

"""What a picture shows: which steps share a box, and what is said of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given

from drawing.sketch import NOW, START, graphs, job_id, many, sketch, steps_of
from foliot.drawing.boxes import FEW, Box, boxes_of, took
from foliot.model.job import JobState
from foliot.model.workflow import Rule, Step

MAP = {"kind": "foliot.map"}


def titles(steps: list[Step]) -> list[str]:
    return [box.title for box in boxes_of(steps, now=NOW)]


def only(steps: list[Step], title: str) -> Box:
    [found] = [box for box in boxes_of(steps, now=NOW) if box.title == title]
    return found


def elements(*states: str) -> dict[str, Any]:
    """Of the second step, which is a map."""
    return {
        f"read[{number}]": {"mapped": job_id(1), "state": state}
        for number, state in enumerate(states)
    }


def mapped(*states: str) -> list[Step]:
    made = elements(*states)
    arrows = [f"find > read > {name} > report" for name in made]
    return sketch("find > read > report", *arrows, read=MAP, report="waiting", **made)


@many
@given(steps=graphs(most=20))
def test_every_step_is_in_one_box_and_parents_come_first(steps: list[Step]) -> None:
    boxes = boxes_of(steps)
    assert sorted(step.job for box in boxes for step in box.steps) == [step.job for step in steps]
    for number, box in enumerate(boxes):
        assert all(parent < number for parent in box.parents)
        assert all(number in boxes[parent].children for parent in box.parents)
        assert all(number in boxes[child].parents for child in box.children)


def test_a_map_is_one_box_before_and_after_its_elements_are_made() -> None:
    before = sketch("find > read > report", find="running", read={**MAP, "state": "waiting"})
    assert titles(before) == ["find", "read × n", "report"]
    assert titles(mapped("running", "ready")) == ["find", "read × 2", "report"]
    empty = sketch("find > read > report", read={**MAP, "state": "succeeded"})
    assert titles(empty) == ["find", "read × 0", "report"]


@pytest.mark.parametrize(
    ("states", "state", "said"),
    [
        (["succeeded", "succeeded"], "succeeded", ["✓ 2", "1.5s"]),
        (["succeeded", "dead", "running"], "dead", ["✓ 1  ✗ 1  ● 1", "1m00s"]),
        (["running", "ready"], "running", ["● 1  ○ 1", "1m00s"]),
        (["succeeded", "waiting"], "running", ["✓ 1  ◌ 1", "1m00s"]),
        (["skipped", "skipped"], "skipped", ["↷ 2", "1.5s"]),
        (["cancelled", "skipped"], "cancelled", ["⊘ 1  ↷ 1", "1.5s"]),
    ],
)
def test_of_many_the_most_urgent_state_is_shown_and_all_are_counted(
    states: list[str], state: str, said: list[str]
) -> None:
    box = only(mapped(*states), f"read × {len(states)}")
    assert (box.state, box.words) == (JobState(state), said)


def test_up_to_a_dozen_are_drawn_one_by_one() -> None:
    def fan(count: int) -> list[str]:
        return titles(sketch("a > " + ", ".join(f"read-{n}" for n in range(count)) + " > z"))

    assert len(fan(FEW)) == FEW + 2
    assert fan(FEW + 1) == ["a", "read × 13", "z"]


def test_parallel_chains_are_one_chain() -> None:
    chains = [f"a > fetch-{number} > parse-{number} > z" for number in range(20)]
    assert titles(sketch(*chains)) == ["a", "fetch × 20", "parse × 20", "z"]


def test_many_of_different_kinds_at_one_place_are_steps() -> None:
    names = [f"{letter}{letter}" for letter in "bcdefghijklmnop"]
    assert titles(sketch(f"a > {', '.join(names)} > z")) == ["a", "steps × 15", "z"]


@pytest.mark.parametrize(
    ("names", "title"),
    [
        ("read-{}", "read × 13"),
        ("read_city.{}", "read_city × 13"),
        ("n{}-read", "read × 13"),
        ("{}", "work × 13"),
    ],
)
def test_many_are_called_by_what_their_names_have_in_common(names: str, title: str) -> None:
    kind = {"kind": title.split(" ", maxsplit=1)[0]}
    steps = steps_of(
        {names.format(number): [] for number in range(13)},
        {names.format(number): kind for number in range(13)},
    )
    assert titles(steps) == [title]


def test_a_rule_is_said_if_it_is_not_the_usual_one() -> None:
    rule = {"rule": Rule.ANY_FAILED, "state": "waiting"}
    steps = sketch("a > b, c", b=rule)
    assert only(steps, "b").words == ["if any_failed", "waiting"]
    assert only(steps, "b").in_words == "if any_failed · waiting"
    assert only(steps, "c").words == ["succeeded", "1.5s"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"reason": "signal", "signal": "approval"}, "waits for approval"),
        ({"reason": "paused", "signal": "approval"}, "paused"),
        ({"reason": "workflow"}, "its workflow runs"),
        ({"reason": "unknown_kind"}, "held: unknown kind a"),
        ({}, "held"),
    ],
)
def test_what_a_held_step_is_held_for_is_said(fields: dict[str, Any], said: str) -> None:
    [box] = boxes_of(sketch("a", a={"state": "held", **fields}))
    assert box.words == [said]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0ms"),
        (0.0004, "0ms"),
        (0.34, "340ms"),
        (0.9996, "1.0s"),
        (1.24, "1.2s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (185, "3m05s"),
        (7_800, "2h10m"),
        (86_400 * 4 + 3 * 3_600, "4d03h"),
    ],
)
def test_durations_are_short(seconds: float, said: str) -> None:
    assert took(seconds) == said


def test_a_step_that_runs_takes_until_now_and_one_that_tries_again_takes_nothing() -> None:
    steps = sketch("a, b", a="running", b={"state": "scheduled", "started_at": START})
    assert only(steps, "a").seconds == (NOW - START) / timedelta(seconds=1)
    assert only(steps, "b").seconds is None


def test_what_is_no_graph_is_shown_all_the_same() -> None:
    """It cannot be; but a picture is looked at when something is wrong."""
    steps = sketch("a > b > c")
    first = sketch("c > a")[1]
    circle = [
        Step(
            job=steps[0].job,
            number=0,
            name="a",
            kind="a",
            rule=first.rule,
            state=JobState.WAITING,
            parents=(steps[2].job, job_id(99)),
        ),
        *steps[1:],
    ]
    assert titles(circle) == ["a", "b", "c"]

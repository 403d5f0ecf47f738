"""What the random stories check without the reference: that the check itself can be trusted."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from workflows.past import Look, Past

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def step(
    state: str, *parents: str, rule: str = "all_succeeded", life: int = 0, result: bytes = b"1"
) -> Look:
    return Look(state, life, result, NOON, rule, parents)


def test_a_step_that_ends_runs_again_and_ends_is_fine() -> None:
    past = Past()
    past.look({"a": step("ready")}, [], alone=True)
    past.look({"a": step("running")}, [("start", "a")], alone=True)
    past.look({"a": step("running")}, [("back", "a"), ("start", "a")], alone=True)
    past.look({"a": step("dead")}, [], alone=True)
    past.look({"a": step("ready", life=1)}, [], alone=True)
    past.look({"a": step("running", life=1)}, [("start", "a")], alone=True)
    past.look({"a": step("succeeded", life=1)}, [], alone=True)


@pytest.mark.parametrize(
    ("first", "then", "says"),
    [
        (step("dead"), step("succeeded"), "had ended"),
        (step("succeeded"), step("succeeded", result=b"2"), "had ended"),
        (step("succeeded"), step("running"), "had ended"),
        (step("succeeded"), step("ready", life=1), "had succeeded, and lives again"),
        (step("running"), step("ready", life=1), "had not ended"),
        (step("dead"), step("ready", life=2), "has lived unseen"),
    ],
)
def test_a_life_that_does_not_end_once_is_noticed(first: Look, then: Look, says: str) -> None:
    past = Past()
    past.look({"a": first}, [], alone=True)
    with pytest.raises(AssertionError, match=says):
        past.look({"a": then}, [], alone=True)


def test_a_second_start_is_noticed() -> None:
    past = Past()
    past.look({"a": step("running")}, [("start", "a")], alone=True)
    with pytest.raises(AssertionError, match="was started twice"):
        past.look({"a": step("running")}, [("start", "a")], alone=True)


@pytest.mark.parametrize(
    ("rule", "first", "second", "may"),
    [
        ("all_succeeded", "succeeded", "succeeded", True),
        ("all_succeeded", "succeeded", "running", False),
        ("all_succeeded", "succeeded", "skipped", False),
        ("all_done", "dead", "skipped", True),
        ("all_done", "dead", "running", False),
        ("any_succeeded", "succeeded", "running", True),
        ("any_succeeded", "dead", "running", False),
        ("any_failed", "cancelled", "running", True),
        ("any_failed", "succeeded", "skipped", False),
        ("none_failed", "succeeded", "skipped", True),
        ("none_failed", "succeeded", "dead", False),
    ],
)
def test_a_start_before_the_ends_that_its_rule_asks_for_is_noticed(
    rule: str, first: str, second: str, may: bool
) -> None:
    seen = {"a": step(first), "b": step(second), "c": step("running", "a", "b", rule=rule)}
    if may:
        Past().look(seen, [("start", "c")], alone=True)
    else:
        with pytest.raises(AssertionError, match="before its parents had ended"):
            Past().look(seen, [("start", "c")], alone=True)

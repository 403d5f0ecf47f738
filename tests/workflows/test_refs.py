"""References to results of other steps: found, refused, and replaced when the step runs."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from foliot.errors import InvalidValue, MissingInput
from foliot.ids import Ids, JobId
from foliot.model.job import JobState, Parent
from foliot.workflow_refs import Ref, find_refs, resolve

ids = Ids(seed=1)


def parent(
    name: str,
    result: Any = None,
    state: JobState | None = JobState.SUCCEEDED,
    *,
    mapped: JobId | None = None,
) -> Parent:
    return Parent(ids.job(), name, state, msgspec.json.encode(result), mapped)


def resolved(payload: Any, *parents: Parent) -> Any:
    return msgspec.json.decode(resolve(msgspec.json.encode(payload), parents))


def test_a_reference_is_written_as_json_wherever_it_stands() -> None:
    ref = Ref("extract")["rows"][0]
    payload = msgspec.json.encode({"first": [ref], "all": Ref("extract")})
    assert msgspec.json.decode(payload) == {
        "first": [{"$result": "extract", "at": ["rows", 0]}],
        "all": {"$result": "extract"},
    }
    assert ref.to_json() == {"$result": "extract", "at": ["rows", 0]}
    assert (str(ref), str(Ref("a").at("rows.0")["id"])) == ("extract.rows.0", "a.rows.0.id")


def test_a_reference_is_not_walked_through_for_ever() -> None:
    with pytest.raises(TypeError):
        list(Ref("a"))  # type: ignore[call-overload]
    with pytest.raises(InvalidValue, match="is neither a name nor an index"):
        Ref("a")[1.5]  # type: ignore[index]


def test_a_reference_is_no_part_of_a_text() -> None:
    """Else the name of the step would be stored, and nobody told."""
    with pytest.raises(
        InvalidValue, match=r"^the result of rows\.0 is no text before the step has"
    ):
        f"rows: {Ref('rows')[0]}"
    assert str(Ref("rows")[0]) == "rows.0"


def test_references_are_found_in_their_order() -> None:
    payload = {
        "a": {"$result": "one"},
        "b": [{"c": {"$result": "two", "at": "x.0"}}, Ref("three")],
        "text": "$result",
    }
    assert find_refs(payload) == [("one", ()), ("two", ("x", "0")), ("three", ())]


@pytest.mark.parametrize(
    "given",
    [
        {"$result": 7},
        {"$result": ""},
        {"$result": "a", "path": "rows"},
        {"$result": "a", "at": 5},
        {"$result": "a", "at": ""},
        {"$result": "a", "at": "rows..id"},
        {"$result": "a", "at": ["rows", None]},
        {"$result": "a", "at": [True]},
    ],
    ids=str,
)
def test_what_was_meant_to_be_a_reference_is_refused_with_an_example(given: Any) -> None:
    with pytest.raises(InvalidValue, match=r"reference.*for example \{\"\$result\""):
        find_refs({"x": [given]})


def test_a_payload_that_is_nested_without_end_is_refused() -> None:
    value: Any = {}
    for _ in range(2 * sys.getrecursionlimit()):
        value = {"a": value}
    with pytest.raises(InvalidValue, match="is nested too deeply"):
        find_refs(value)


def test_results_stand_where_the_references_were() -> None:
    rows = {"rows": [{"id": 5, "a.b": 6}], "7": "seven"}
    assert resolved({"x": {"$result": "a"}, "y": 1}, parent("a", rows)) == {"x": rows, "y": 1}
    for at, expected in {
        "rows.0.id": 5,
        "rows.-1.id": 5,
        "7": "seven",
        ("rows", 0, "a.b"): 6,
        (7,): "seven",
    }.items():
        given = {"x": {"$result": "a", "at": at}}
        assert resolved(given, parent("a", rows), parent("b")) == {"x": expected}


def test_a_result_that_looks_like_a_reference_is_left_alone() -> None:
    odd = {"$result": "b"}
    assert resolved({"x": {"$result": "a"}}, parent("a", odd)) == {"x": odd}


def test_a_payload_without_references_is_not_touched() -> None:
    payload = b'{ "x" : "$results" }'
    assert resolve(payload, []) is payload


def test_a_parent_whose_result_was_not_kept_counts_as_null() -> None:
    empty = Parent(ids.job(), "a", JobState.SUCCEEDED)
    assert resolved({"x": {"$result": "a"}}, empty) == {"x": None}


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("rows.5", "input a.rows.5: there is no 5 in a.rows, which is a list of 1"),
        ("row", "input a.row: there is no row in a, which is an object of 1: rows"),
        ("rows.0.id.x", "input a.rows.0.id.x: there is no x in a.rows.0.id, which is a number"),
        ("rows.first", "input a.rows.first: there is no first in a.rows, which is a list of 1"),
    ],
    ids=lambda value: f"G31-{value}" if " " not in value else "",
)
def test_a_path_that_leads_nowhere_is_named(at: str, said: str) -> None:
    with pytest.raises(MissingInput) as caught:
        resolved({"x": {"$result": "a", "at": at}}, parent("a", {"rows": [{"id": 5}]}))
    assert str(caught.value) == said
    assert (caught.value.step, caught.value.path) == ("a", tuple(at.split(".")))


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (JobState.SKIPPED, "is skipped"),
        (JobState.DEAD, "is dead"),
        (None, "has not ended"),
    ],
)
def test_a_parent_that_did_not_succeed_has_no_result(state: JobState | None, said: str) -> None:
    with pytest.raises(MissingInput, match=f"^input a: a {said}$"):
        resolved({"x": {"$result": "a"}}, parent("a", 1, state))


def test_a_step_that_is_no_parent_has_no_result() -> None:
    with pytest.raises(MissingInput, match="b is not a parent of this step"):
        resolved({"x": {"$result": "b"}}, parent("a", 1))


def test_the_result_of_a_map_step_is_the_list_of_its_elements_in_their_order() -> None:
    each = parent("each", [])
    elements = [parent(f"each[{index}]", index * 10, mapped=each.id) for index in range(12)]
    given = {"all": {"$result": "each"}, "last": {"$result": "each", "at": "11"}}
    found = resolved(given, *reversed(elements), each, parent("other", 1))
    assert found == {"all": [index * 10 for index in range(12)], "last": 110}


@pytest.mark.parametrize("state", [JobState.DEAD], ids=["G31-element"])
def test_an_element_that_failed_leaves_the_list_without_a_result(state: JobState) -> None:
    each = parent("each", [])
    elements = [
        parent("each[0]", 1, mapped=each.id),
        parent("each[1]", None, state, mapped=each.id),
    ]
    with pytest.raises(MissingInput, match=r"^input each: each\[1\] is dead$"):
        resolved({"x": {"$result": "each"}}, each, *elements)


@pytest.mark.parametrize("result", [[]], ids=["G37"])
def test_a_map_step_without_elements_results_in_an_empty_list(result: Any) -> None:
    assert resolved({"x": {"$result": "each"}}, parent("each", result)) == {"x": []}

"""What a signal is to bring, as an option that can be copied: by what the steps that use its result take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
import pytest

from foliot.explain_signal import payload_option
from foliot.ids import Ids, JobId
from foliot.model.job import JobState, NewJob
from foliot.model.lane import lane_of
from foliot.model.workflow import Rule, Step
from foliot.registry import define
from foliot.schema import stored_definition
from foliot.workflow_map import map_job

ids = Ids(seed=1)
RESULT = {"$result": "approval"}


class Approval(msgspec.Struct):
    by: str
    cents: int
    how: Literal["mail", "letter"] = "mail"
    next: Approval | None = None


def option(function: Callable[..., Any], *payloads: dict[str, Any], over: Any = None) -> str:
    definition = define(function, kind="use")
    schemas = {"use": msgspec.json.decode(stored_definition(definition).schema)}
    users = [user(one, over) for one in payloads]
    return payload_option("approval", users, schemas.__getitem__)


def user(payload: dict[str, Any], over: Any = None) -> Step:
    raw, kind = msgspec.json.encode(payload), "use"
    if over is not None:
        template = NewJob(JobId(""), "use", b"", lane_of("default").number, "default")
        mapped = map_job(template, over, "item", payload)
        raw, kind = mapped.payload, mapped.kind
    template = NewJob(ids.job(), kind, raw, lane_of("default").number, "default")
    return Step(
        job=template.id,
        number=1,
        name="use",
        kind=kind,
        rule=Rule.ALL_SUCCEEDED,
        state=JobState.WAITING,
        job_template=template,
    )


def whole(approval: Approval) -> None: ...
def named(approval: dict[str, str]) -> None: ...
def number(approval: int | None, item: float = 1.5) -> None: ...
def anything(approval: Any) -> None: ...
def rows(approval: list[Approval], day: str = "") -> None: ...


@pytest.mark.parametrize(
    ("function", "payload", "told"),
    [
        (whole, RESULT, """ --payload '{"by":"text","cents":1}'"""),
        (named, RESULT, """ --payload '{"name":"text"}'"""),
        (number, RESULT, " --payload 1"),
        (number, {**RESULT, "at": "order.cents"}, """ --payload '{"order":{"cents":1}}'"""),
        (number, {**RESULT, "at": ["orders", 0]}, """ --payload '{"orders":[1]}'"""),
        (anything, RESULT, " --payload …"),
        (anything, {**RESULT, "at": "by"}, """ --payload '{"by":"…"}'"""),
        (rows, RESULT, """ --payload '[{"by":"text","cents":1}]'"""),
        (rows, [RESULT], """ --payload '{"by":"text","cents":1}'"""),
        (named, {"by": RESULT}, """ --payload '"text"'"""),
        (named, {"by": "ada"}, ""),
        (named, {"$result": "another"}, ""),
    ],
)
def test_the_example_has_the_type_of_the_argument(
    function: Callable[..., Any], payload: Any, told: str
) -> None:
    assert option(function, {"approval": payload}) == told


def test_several_uses_make_one_example() -> None:
    parts = [{"approval": {**RESULT, "at": path}} for path in ("cents", "order.id", "order.no")]
    told = option(number, *parts)
    assert told == """ --payload '{"cents":1,"order":{"id":1,"no":1}}'"""


def test_a_map_takes_a_list() -> None:
    assert option(number, {"approval": 1}, over=RESULT) == " --payload '[1.5]'"
    assert option(number, {"approval": RESULT}, over=[1, 2]) == " --payload 1"


def test_of_a_kind_that_nobody_has_announced_nothing_is_known() -> None:
    told = payload_option("approval", [user({"approval": RESULT})], lambda _: {})
    assert told == " --payload …"

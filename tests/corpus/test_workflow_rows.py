"""Graphs that are refused when they are given: in code, and in a file by the command line, in the same words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corpus.conftest import Foliot_
from corpus.rows import row
from foliot import Foliot, commands
from foliot.client.function import JobFunction
from foliot.client.workflow import Flow
from foliot.errors import InvalidValue

Job = JobFunction[..., Any, Any]


class Shop:
    """An app whose jobs are known to its store."""

    def __init__(self, app: Foliot, folder: Path) -> None:
        self.app = app
        self._folder = folder

        @app.job
        def load(rows: list[int] | None = None, day: str = "") -> list[int]:
            return rows or []

        self.load: Job = load
        self.app._portal.call(self._announce())

    async def _announce(self) -> None:
        store = await self.app._portal.store()
        await commands.announce(store, [self.load.definition])

    def file(self, told: object, name: str = "flow.json") -> list[str]:
        """The words that submit it."""
        text = told if isinstance(told, str) else json.dumps(told)
        (self._folder / name).write_text(text, encoding="utf-8")
        return ["workflows", "submit", name, "--url", self.app.settings.store.url]

    def check_empty(self) -> None:
        assert self.app.workflows() == []
        assert self.app.jobs() == []


@pytest.fixture
def shop(app: Foliot, tmp_path: Path) -> Shop:
    return Shop(app, tmp_path)


def step(name: Any = "a", *after: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "kind": "load", **({"after": list(after)} if after else {}), **rest}


def ref(name: str) -> dict[str, Any]:
    return {"rows": {"$result": name}}


def ring(size: int) -> list[dict[str, Any]]:
    return [step(f"s{n}", f"s{(n - 1) % size}") for n in range(size)]


def inside(depth: int) -> dict[str, Any]:
    """A workflow in a workflow, so deep."""
    steps = [step()] if depth == 1 else [{"name": "in", "workflow": inside(depth - 1)}]
    return {"name": "w", "steps": steps}


def pairs(above: int, below: int) -> list[dict[str, Any]]:
    names = [f"a{n}" for n in range(above)]
    return [*map(step, names), *(step(f"b{n}", *names) for n in range(below))]


NAME = 'is not 1 to 200 letters, digits, and any of _ . -, first no . or -, for example "name": '
NAMES = ["", " ", "a b", "a/b", "..", "é", "🎉", "\x1b[2J", "x" * 300]

IN_FILES = [
    pytest.param([], "steps are missing: a workflow has at least one", marks=row("G01")),
    pytest.param([step("a", "a")], "steps have a cycle: a → a", marks=row("G03")),
    pytest.param(ring(1000), " → ".join(f"s{n}" for n in [*range(1000), 0]), marks=row("G05")),
    pytest.param(
        [step("a", "b"), step("b", "a")], "steps have a cycle: a → b → a", marks=row("G06")
    ),
    pytest.param([step(), step()], "name: 'a' is the name of two steps", marks=row("G07")),
    *(pytest.param([step(name)], NAME, marks=row("G09")) for name in NAMES),
    *(pytest.param([step(name)], NAME, marks=row("G10")) for name in (8, 1e3, True, None)),
    pytest.param(
        [step("extract"), step("b", "extrct")],
        "step b: after: 'extrct' is not a step of this workflow",
        marks=row("G11"),
    ),
    pytest.param(
        [step("a"), step("b", "a", needs=["c"])],
        "step b: key: 'needs' is not something a step has",
        marks=row("G13"),
    ),
    pytest.param(
        [step(f"s{n}") for n in range(50_001)],
        "steps are 50001, more than limits.steps, 50000",
        marks=row("G14"),
    ),
    pytest.param(
        pairs(500, 201), "edges are 100500, more than limits.edges, 100000", marks=row("G15")
    ),
    pytest.param([{"name": "a"}], "step a: kind is missing", marks=row("G21")),
    pytest.param(
        [step(paylod={})], "step a: key: 'paylod' is not something a step has", marks=row("G23")
    ),
    pytest.param(
        [step(rule="all_failed")],
        "step a: rule: 'all_failed' is none of all_succeeded, all_done",
        marks=row("G25"),
    ),
    pytest.param(
        [step(rule="any_failed")],
        "step a: rule: 'any_failed' needs parents, and this step has none",
        marks=row("G25"),
    ),
    pytest.param(
        [step("a"), step("b", payload=ref("a"))],
        "step b: reference: 'a' need not have ended when this step begins: add it to its after, for example",
        marks=row("G30"),
    ),
    pytest.param([step(payload=ref("a"))], "steps have a cycle: a → a", marks=row("G34")),
    pytest.param(
        [step(options={"max_attempts": -1})],
        "step a: max_attempts: -1 is not a whole number from 1 to 1000",
        marks=row("G41"),
    ),
    pytest.param(
        [step(options={"timeout": 0})],
        "step a: timeout: 0 is not a number of seconds from 0.01",
        marks=row("G41"),
    ),
    pytest.param(
        [step(options={"priority": 10})],
        "step a: priority: 10 is not a whole number from 0 to 9",
        marks=row("G45"),
    ),
    pytest.param(
        inside(9)["steps"], "step in: workflow is more than 8 workflows deep", marks=row("G49")
    ),
]


@pytest.mark.parametrize(("steps", "said"), IN_FILES, ids=lambda value: ascii(value)[:40])
def test_a_file_is_refused_with_the_step_and_what_is_wrong_with_it(
    shop: Shop, foliot: Foliot_, steps: list[Any], said: str
) -> None:
    answer = foliot(*shop.file({"name": "etl", "steps": steps}))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert said in answer.err
    assert len(answer.err.partition(" → ")[0]) < 500  # but for a cycle, which is shown in full
    assert "\x1b" not in answer.err
    shop.check_empty()


@row("G22")
def test_a_kind_that_nobody_knows_is_named_with_its_step(shop: Shop, foliot: Foliot_) -> None:
    steps = [*(step(f"s{n}") for n in range(6)), step("seventh", kind="laod")]
    answer = foliot(*shop.file({"name": "etl", "steps": steps}))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "error: step seventh: no job of kind 'laod' is registered\nhint: did you mean load?\n"
    )
    shop.check_empty()


@row("G43")
@pytest.mark.parametrize(
    ("deadline", "said"),
    [
        (0, "deadline: 0.0 is not a number of seconds from 0.001"),
        (-5, "deadline: -5 is negative"),
        ("-1h", "deadline: '-1h' is negative"),
        ("2020-01-01T00:00:00Z", "deadline: '2020-01-01T00:00:00Z' is not a duration"),
    ],
)
def test_a_deadline_is_not_in_the_past(
    shop: Shop, foliot: Foliot_, deadline: Any, said: str
) -> None:
    answer = foliot(*shop.file({"name": "etl", "steps": [step()], "deadline": deadline}))
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err and 'for example "deadline": ' in answer.err
    shop.check_empty()


@row("G67")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name": "a", "name": "b", "steps": []}', "'name' is there twice in one object"),
        ('{"name": "a",\n "steps": [}', "is not JSON: Expecting value: line 2 column 12"),
        ('{"name": "a"} {"name": "b"}', "is not JSON: Extra data: line 1 column 15"),
        ("%YAML 1.2\n---\nname: !!python/object:x", "is not JSON: Expecting value: line 1"),
    ],
    ids=["twice", "broken", "two", "yaml"],
)
def test_a_text_that_cannot_be_read_is_refused_with_the_line(
    shop: Shop, foliot: Foliot_, text: str, said: str
) -> None:
    answer = foliot(*shop.file(text))
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    answer = foliot(*shop.file('name = "a"\nname = "b"\n', "flow.toml"))
    assert "is not TOML: Cannot overwrite a value (at line 2" in answer.err
    shop.check_empty()


@row("G10")
@pytest.mark.parametrize("name", ["010", "yes", "null", "1e3"])
def test_a_name_stays_the_text_that_it_is(shop: Shop, foliot: Foliot_, name: str) -> None:
    toml = f'name = "{name}"\n[[steps]]\nname = "{name}"\nkind = "load"\n'
    for words in (shop.file({"name": name, "steps": [step(name)]}), shop.file(toml, "flow.toml")):
        answer = foliot(*words)
        assert answer.code == 0, answer.err
        flow = shop.app.get_workflow(answer.out.strip())
        assert (flow.get().name, [one.name for one in flow.steps()]) == (name, [name])


TOML = """
name = "etl"
deadline = "2h"
[[steps]]
name = "a"
kind = "load"
payload = { day = 2026-11-18 }
[[steps]]
name = "b"
kind = "load"
after = ["a"]
payload = { rows = { "$result" = "a" } }
"""
SAME = {
    "steps": [
        {"kind": "load", "payload": ref("a"), "name": "b", "after": ["a"]},
        {"payload": {"day": "2026-11-18"}, "kind": "load", "name": "a"},
    ],
    "deadline": 7200,
    "name": "etl",
}


@row("G69", "G50", "G51")
def test_one_graph_under_one_key_is_one_run_however_it_is_written(
    shop: Shop, foliot: Foliot_
) -> None:
    first = foliot(*shop.file(TOML, "flow.toml"), "--key", "2026-11-18")
    again = foliot(*shop.file(SAME), "--key", "2026-11-18")
    assert (first.code, again.code, first.out) == (0, 0, again.out), again.err
    other = foliot(*shop.file({**SAME, "policy": "continue"}), "--key", "2026-11-18")
    assert (other.code, other.out) == (2, "")
    assert "error: key belongs to a run of etl with another graph, " in other.err
    assert "hint: give another key, or the same steps" in other.err
    assert len(shop.app.workflows()) == 1 and len(shop.app.jobs()) == 2


@row("G42")
def test_a_deadline_shorter_than_a_timeout_is_told(
    shop: Shop, foliot: Foliot_, caplog: pytest.LogCaptureFixture
) -> None:
    told = "step slow: its timeout, 60 s, is longer than the deadline of the workflow, 30 s"
    slow = step("slow", options={"timeout": 60})
    answer = foliot(*shop.file({"name": "etl", "steps": [slow], "deadline": 30}))
    assert (answer.code, answer.err) == (0, f"warning: {told}\n")
    with shop.app.workflow("etl", deadline=30) as flow:
        flow.add(shop.load.options(timeout=60).prepare(), name="slow")
    assert [record.getMessage() for record in caplog.records] == [f"workflow etl: {told}"]


def twice(flow: Flow, load: Job, name: str) -> None:
    flow.add(load.prepare(), name=name)
    flow.add(load.prepare(), name=name)


def circle(flow: Flow, load: Job, size: int) -> None:
    for number in range(size):
        flow.add(load.prepare(), name=f"s{number}", after=[f"s{(number - 1) % size}"])


def nested(flow: Flow, load: Job, *, depth: int, copies: int = 1) -> None:
    """Each level has the one below it so many times."""
    app: Foliot = flow._owner  # type: ignore[assignment]
    inner = app.workflow("inner")
    inner.add(load.prepare())
    for _ in range(depth - 2):
        outer = app.workflow("inner")
        for _ in range(copies):
            outer.add(inner)
        inner = outer
    flow.add(inner)


Draw = Callable[[Flow, Job], Any]
IN_CODE: list[Any] = [
    pytest.param(lambda flow, load: None, "steps", marks=row("G01")),
    pytest.param(lambda flow, load: circle(flow, load, 1), "steps", marks=row("G03")),
    pytest.param(lambda flow, load: circle(flow, load, 1000), "steps", marks=row("G05")),
    pytest.param(lambda flow, load: circle(flow, load, 3), "steps", marks=row("G06")),
    pytest.param(lambda flow, load: twice(flow, load, "a"), "name", marks=row("G07")),
    *(
        pytest.param(
            lambda flow, load, name=name: flow.add(load.prepare(), name=name),
            "name",
            marks=row("G09"),
        )
        for name in [*NAMES, 8]
    ),
    pytest.param(
        lambda flow, load: flow.add(load.prepare(), after=["load-2"]), "after", marks=row("G11")
    ),
    pytest.param(
        lambda flow, load: flow.map(load, over=[[]] * 50_000, item="rows"),
        "steps",
        marks=row("G14"),
    ),
    pytest.param(
        lambda flow, load: flow.add(
            load.prepare(), after=[flow.map(load, over=[[]] * 49_998, item="rows") for _ in "ab"]
        ),
        "steps",
        marks=row("G14"),
    ),
    pytest.param(
        lambda flow, load: (
            [
                flow.add(load.prepare(), after=[f"s{n}" for n in range(500)], name=f"b{m}")
                for m in range(201)
            ]
            + [flow.add(load.prepare(), name=f"s{n}") for n in range(500)]
        ),
        "edges",
        marks=row("G15"),
    ),
    pytest.param(lambda flow, load: flow.add("load"), "flow.add()", marks=row("G21")),
    pytest.param(
        lambda flow, load: flow.add(load.prepare(), rule="all_failed"), "rule", marks=row("G25")
    ),
    pytest.param(
        lambda flow, load: flow.add(load.prepare(), rule="any_failed"), "rule", marks=row("G25")
    ),
    pytest.param(
        lambda flow, load: load.options(max_attempts=-1), "max_attempts", marks=row("G41")
    ),
    pytest.param(lambda flow, load: load.options(timeout=0), "timeout", marks=row("G41")),
    pytest.param(lambda flow, load: load.options(priority=10), "priority", marks=row("G45")),
    pytest.param(lambda flow, load: nested(flow, load, depth=9), "workflow", marks=row("G49")),
    pytest.param(
        lambda flow, load: nested(flow, load, depth=8, copies=30), "steps", marks=row("G66")
    ),
    pytest.param(lambda flow, load: flow.add(flow), "flow.add()", marks=row("G70")),
]


@pytest.mark.parametrize(("draw", "field"), IN_CODE)
def test_code_is_refused_with_the_field_and_nothing_is_stored(
    shop: Shop, draw: Draw, field: str
) -> None:
    with pytest.raises(InvalidValue) as refused, shop.app.workflow("etl") as flow:
        draw(flow, shop.load)
    assert refused.value.field == field
    assert len(str(refused.value).partition(" → ")[0]) < 500
    shop.check_empty()


@row("G43")
@pytest.mark.parametrize("deadline", [0, -5, float("nan"), "soon"])
def test_a_deadline_in_code_is_some_seconds(shop: Shop, deadline: Any) -> None:
    with (
        pytest.raises(InvalidValue) as refused,
        shop.app.workflow("etl", deadline=deadline) as flow,
    ):
        flow.add(shop.load.prepare())
    assert (refused.value.field, refused.value.example) == ("deadline", "deadline=3600")
    shop.check_empty()


@row("G30", "G34")
def test_a_result_is_that_of_a_step_of_the_same_workflow(shop: Shop) -> None:
    other = shop.app.workflow("other").add(shop.load.prepare(), name="elsewhere")
    with (
        pytest.raises(
            InvalidValue, match="reference: 'elsewhere' is a step of another workflow"
        ) as refused,
        shop.app.workflow("etl") as flow,
    ):
        flow.add(shop.load.prepare(rows=other.result), name="b")
    assert refused.value.field == "reference"
    shop.check_empty()


@row("G23")
def test_a_word_that_a_step_does_not_take_is_refused_by_python(shop: Shop) -> None:
    flow = shop.app.workflow("etl")
    with pytest.raises(TypeError, match="paylod"):
        flow.add(shop.load.prepare(), paylod={})  # type: ignore[call-arg]
    with pytest.raises(InvalidValue, match=r"load\(\) cannot be called like this.*rowz"):
        flow.add(shop.load.prepare(rowz=[]))

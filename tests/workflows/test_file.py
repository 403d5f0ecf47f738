"""Workflows in a file: read with what apps have announced, and refused with the step that is wrong."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from foliot import commands
from foliot.errors import FoliotError, InvalidValue, UnknownKind
from foliot.ids import Ids
from foliot.model.retry import Fixed
from foliot.model.workflow import Rule
from foliot.registry import define
from foliot.workflow_draft import Draft, build, fingerprint, from_json, to_json
from foliot.workflow_file import read_draft
from support.stores import World

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("place", ["sqlite-1"], indirect=True)]

FILE = """
name = "etl"
policy = "continue"
deadline = "2h"
[[steps]]
name = "extract"
kind = "extract"
payload = { day = "2026-11-18" }
[[steps]]
name = "load"
kind = "load"
after = ["extract"]
rule = "all_done"
payload = { rows = { "$result" = "extract" } }
options = { queue = "db", max_attempts = 3, timeout = 30, delay = "5s", priority = 1, tags = ["x"] }
[[steps]]
name = "approval"
wait_for = "approval"
timeout = 3600
after = ["load"]
[[steps]]
name = "pause"
sleep = 60
[[steps]]
name = "each"
kind = "resize"
over = { "$result" = "extract", at = "urls" }
item = "url"
payload = { width = 100 }
[[steps]]
name = "inner"
workflow = { name = "small", steps = [ { name = "x", kind = "extract", payload = { day = "1" } } ] }
"""


@pytest.fixture
async def known(world: World) -> World:
    def extract(day: str) -> list[int]: ...  # type: ignore[empty-body]

    def load(rows: list[int], name: str = "all") -> None: ...

    def resize(url: str, width: int) -> None: ...

    def paint(url: str, colour: str = "red", alpha: int = 0) -> None: ...

    def echo(value: object = None) -> object: ...

    def merge(rows: list[int], into: object, by: str = "id") -> None: ...

    announced = [define(one) for one in (extract, load, resize, paint, echo, merge)]
    await commands.announce(world.store, announced)
    return world


async def read(known: World, *steps: dict[str, Any], **rest: Any) -> Draft:
    told = {"name": "etl", "steps": list(steps), **rest}
    return await read_draft(known.store, json.dumps(told))


def extract(name: str = "extract", **rest: Any) -> dict[str, Any]:
    return {"name": name, "kind": "extract", "payload": {"day": "2026-11-18"}, **rest}


def load(name: str = "load", **rest: Any) -> dict[str, Any]:
    return {"name": name, "kind": "load", "payload": {"rows": {"$result": "extract"}}, **rest}


async def test_a_file_says_all_that_code_can(known: World) -> None:
    draft = await read_draft(known.store, FILE)
    assert (draft.name, draft.policy, draft.deadline, draft.key) == (
        "etl",
        "continue",
        7200.0,
        None,
    )
    workflow = build(draft, Ids())
    steps = {one.name: one for one in workflow.steps}
    assert list(steps) == ["extract", "load", "approval", "pause", "each", "inner"]
    job = steps["load"].job
    assert (job.queue, job.max_attempts, job.timeout, job.delay, job.priority) == (
        "db",
        3,
        30,
        5,
        1,
    )
    assert steps["load"].rule is Rule.ALL_DONE
    assert (steps["approval"].signal, steps["pause"].job.delay) == ("approval", 60)
    approval = steps["approval"].job.more
    assert approval is not None and approval.expires_in == 3600
    assert steps["each"].parents == (steps["extract"].job.id,)
    assert steps["inner"].job.kind == "foliot.workflow"
    assert from_json(json.loads(json.dumps(to_json(draft)))) == draft


@pytest.mark.parametrize("row", ["G69"])
async def test_json_and_toml_of_one_graph_are_the_same_draft(known: World, row: str) -> None:
    toml = await read_draft(known.store, FILE, format="toml")
    same = await read_draft(known.store, json.dumps(tomllib.loads(FILE)), format="json")
    assert toml == same
    assert fingerprint(toml) == fingerprint(same)


async def test_a_file_is_read_by_its_path(known: World, tmp_path: Path) -> None:
    text = await read_draft(known.store, FILE)
    (tmp_path / "etl.toml").write_text("\ufeff" + FILE.replace("\n", "\r\n"), encoding="utf-8")
    (tmp_path / "etl.json").write_text(json.dumps(tomllib.loads(FILE)), encoding="utf-8")
    assert await read_draft(known.store, tmp_path / "etl.toml") == text
    assert await read_draft(known.store, tmp_path / "etl.json") == text
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe{")
    for name, said in {
        "none.toml": "cannot be read: No such",
        "binary.json": "is not UTF-8",
    }.items():
        with pytest.raises(InvalidValue, match=said):
            await read_draft(known.store, tmp_path / name)


async def test_json_that_is_no_object_is_refused(known: World) -> None:
    with pytest.raises(InvalidValue, match=r"workflow: \[1\] is not an object"):
        await read_draft(known.store, "[1]", format="json")


async def test_days_of_toml_are_text(known: World) -> None:
    text = FILE.replace('day = "2026-11-18"', "day = 2026-11-18")
    assert await read_draft(known.store, text) == await read_draft(known.store, FILE)


async def test_options_are_read_as_files_write_them(known: World) -> None:
    options = {
        "timeout": "1m",
        "expires": "2030-01-01T00:00:00Z",
        "run_at": "2029-01-01T00:00:00+00:00",
        "retry": {"type": "fixed", "seconds": 30},
    }
    job = (await read(known, extract(options=options))).steps[0].template
    assert job is not None and job.run_at is not None and job.more is not None
    assert (job.timeout, job.run_at.year) == (60, 2029)
    assert job.more.expires_at == 1893456000 * 1_000_000
    assert job.more.extras is not None and job.more.extras.retry == Fixed(30)


async def test_elements_of_a_list_are_checked_as_arguments(known: World) -> None:
    each = {"name": "each", "kind": "resize", "item": "url", "payload": {"width": 5}}
    draft = await read(known, {**each, "over": ["a", "b"]})
    assert [one.name for one in build(draft, Ids()).steps] == ["each", "each[0]", "each[1]"]
    with pytest.raises(InvalidValue, match=r"^step each: over\[1\]: 5 is not of type string"):
        await read(known, {**each, "over": ["a", 5]})
    nested = {"name": "each", "kind": "load", "item": "rows", "over": [[1], ["x"]]}
    with pytest.raises(
        InvalidValue, match=r"^step each: over\[1\]\[0\]: 'x' is not of type integer"
    ):
        await read(known, nested)


async def test_without_an_item_the_first_argument_that_is_not_given_takes_the_element(
    known: World,
) -> None:
    each = {"name": "each", "kind": "resize", "over": ["a", "b"], "payload": {"width": 5}}
    assert await read(known, each) == await read(known, {**each, "item": "url"})
    with pytest.raises(InvalidValue, match=r"^step each: over\[0\]: 5 is not of type string"):
        await read(known, {**each, "over": [5]})
    with pytest.raises(InvalidValue, match="leaves no argument of resize for the element"):
        await read(known, {**each, "payload": {"width": 5, "url": "a"}})


async def test_an_argument_that_must_be_given_takes_the_element_before_others(known: World) -> None:
    each: dict[str, Any] = {"name": "each", "kind": "paint", "over": ["a"]}
    assert await read(known, each) == await read(known, {**each, "item": "url"})
    each["payload"] = {"url": "a", "alpha": 1}
    assert await read(known, each) == await read(known, {**each, "item": "colour"})
    each["payload"] = {"url": "a"}
    with pytest.raises(InvalidValue, match=r"^step each: item is missing: alpha or colour"):
        await read(known, each)


async def test_a_step_that_is_a_workflow_has_a_queue_a_priority_and_tags(known: World) -> None:
    options = {"queue": "x", "priority": 1, "tags": ["y"]}
    step = {"name": "w", "workflow": {"name": "small", "steps": [extract()]}, "options": options}
    job = (await read(known, step)).steps[0].template
    assert job is not None and job.more is not None
    assert (job.queue, job.priority, job.more.tags) == ("x", 1, ("y",))


async def test_what_foliot_runs_itself_goes_where_the_jobs_before_it_go(known: World) -> None:
    inside = {"name": "small", "steps": [extract(options={"queue": "far"})]}
    draft = await read(
        known,
        extract(options={"queue": "db"}),
        {"name": "rest", "sleep": 1, "after": ["extract"]},
        {"name": "own", "sleep": 1, "options": {"queue": "default"}},
        {"name": "inner", "workflow": inside},
    )
    queues = {step.name: step.template and step.template.queue for step in draft.steps}
    assert queues == {"extract": "db", "rest": "db", "own": "default", "inner": "far"}


SMALL = {"name": "small", "steps": [extract()]}
REFUSED: dict[str, tuple[list[Any], str]] = {
    "G01": ([], "steps are missing"),
    "G07": ([extract(), extract()], "name: 'extract' is the name of two steps"),
    "G10-number": ([extract(name=10)], "step 1: name: 10 is not 1 to 200 letters"),  # type: ignore[arg-type]
    "G10-true": ([extract(name=True)], "step 1: name: True is not 1 to 200 letters"),  # type: ignore[arg-type]
    "G10-null": ([extract(name=None)], "step 1: name: None is not 1 to 200 letters"),  # type: ignore[arg-type]
    "G09": ([extract(name="\x1b[2J")], r"step 1: name: '\x1b[2J' is not 1 to 200 letters"),
    "G09-long": ([extract(name="x" * 100_000)], "step 1: name: 'xxxxxxxx"),
    "G11": (
        [extract(), load(after=["extrat"])],
        "step load: after: 'extrat' is not a step of this workflow; did you mean extract?",
    ),
    "G13": (
        [extract(), load(after=["extract"], needs=["extract"])],
        "step load: key: 'needs' is not something a step has",
    ),
    "G21": ([{"name": "a"}], "step a: kind is missing"),
    "G21-null": ([{"name": "a", "kind": None}], "step a: kind: None is not text"),
    "G23": (
        [extract(paylod={})],
        "step extract: key: 'paylod' is not something a step has; did you mean payload?",
    ),
    "G25": ([extract(rule="all_failed")], "step extract: rule: 'all_failed' is none of"),
    "G25-root": ([extract(rule="any_failed")], "step extract: rule: 'any_failed' needs parents"),
    "G30": (
        [extract(), load()],
        "step load: reference: 'extract' need not have ended when this step begins: add it to its after, for example",
    ),
    "G30-child": (
        [load("first"), extract(after=["first"])],
        "steps have a cycle: first → extract → first",
    ),
    "G34": ([load(payload={"rows": {"$result": "load"}})], "steps have a cycle: load → load"),
    "G41-attempts": (
        [extract(options={"max_attempts": -1})],
        "step extract: max_attempts: -1 is not a whole number from 1 to 1000",
    ),
    "G41-timeout": (
        [extract(options={"timeout": 0})],
        "step extract: timeout: 0 is not a number of seconds from 0.01",
    ),
    "G45": (
        [extract(options={"priority": 10})],
        "step extract: priority: 10 is not a whole number from 0 to 9",
    ),
    "option": (
        [extract(options={"queu": "x"})],
        "step extract: options: 'queu' is not an option; did you mean queue?",
    ),
    "option-limit-key": (
        [extract(options={"limit_key": "c:*"})],
        "step extract: limit_key: 'c:*' ends with a *, as limits of many keys do",
    ),
    "option-key": (
        [extract(options={"key": "x"})],
        "step extract: key: 'x' is not for a step; give the workflow a key",
    ),
    "option-connection": (
        [extract(options={"connection": 1})],
        "step extract: connection: 1 is not for a step; a workflow is stored in a transaction of its own",
    ),
    "option-after": (
        [extract(options={"after": ["extract"]})],
        (
            "step extract: after is not one of the options of a step: it is said beside them,"
            ' for example "after": ["extract"]'
        ),
    ),
    "option-rule": (
        [extract(options={"rule": "all_done"})],
        (
            "step extract: rule is not one of the options of a step: it is said beside them,"
            ' for example "rule": "all_done"'
        ),
    ),
    "option-after-of-sleep": (
        [{"name": "z", "sleep": 1, "options": {"after": ["extract"]}}],
        "step z: after is not one of the options of a step",
    ),
    "option-after-of-workflow": (
        [{"name": "w", "workflow": SMALL, "options": {"after": ["extract"]}}],
        "step w: after is not one of the options of a step",
    ),
    "workflow-timeout": (
        [{"name": "w", "workflow": SMALL, "options": {"timeout": "1s"}}],
        (
            "step w: timeout: '1s' is not for a step with workflow: it ends an attempt, and none runs"
            ' while that workflow does, for example "workflow": {"name": "small", "deadline": "1h",'
            ' "steps": […]}; give that a deadline'
        ),
    ),
    "workflow-ordering_key": (
        [{"name": "w", "workflow": SMALL, "options": {"queue": "x", "ordering_key": "k"}}],
        (
            "step w: ordering_key: 'k' is not for a step with workflow: a step of that workflow with"
            " this key would wait for this one, and it for that; give it to the steps of that workflow"
        ),
    ),
    "options": ([extract(options=[])], "step extract: options: [] is not a table"),
    "options-timeout": (
        [extract(timeout=5)],
        (
            "step extract: timeout is not for a step with kind: it is one of the options,"
            ' for example "options": {"timeout": "30s"}'
        ),
    ),
    "retry": (
        [extract(options={"retry": {"type": "never"}})],
        "step extract: retry: {'type': 'never'} cannot be read",
    ),
    "retry-key": (
        [extract(options={"retry": {"type": "exponential", "frist": 60}})],
        "step extract: key: 'frist' is not something a retry of type exponential has; did you mean first?",
    ),
    "retry-unknown": (
        [extract(options={"retry": {"type": "fixed", "seconds": 60, "most": 90}})],
        "step extract: key: 'most' is not something a retry of type fixed has; there are type, seconds",
    ),
    "run_at": ([extract(options={"run_at": "soon"})], "step extract: run_at: 'soon' cannot be"),
    "two-forms": (
        [extract(sleep=5)],
        "step extract: kind and sleep cannot be given together",
    ),
    "after": ([extract(after="a")], "step extract: after: 'a' is not a list of names"),
    "own-kind": (
        [{"name": "a", "kind": "foliot.sleep"}],
        "step a: kind: 'foliot.sleep' is one of Foliot's own",
    ),
    "no-object": (["a"], "step 1: 'a' is not an object"),
    "no-name": ([{"kind": "extract"}], "step 1 has no name"),
    "payload-lacks": ([extract(payload={})], "step extract: payload lacks day"),
    "payload-type": (
        [extract(payload={"day": 5})],
        "step extract: payload.day: 5 is not of type string",
    ),
    "payload-long": (
        [extract(payload={"day": ["a", *range(1000)]})],
        "step extract: payload.day: ['a', 0, 1, 2, 3, 4, ...] is not of type string",
    ),
    "payload-beside-a-reference": (
        [extract(), load(after=["extract"], payload={"rows": {"$result": "extract"}, "name": 5})],
        "step load: payload.name: 5 is not of type string",
    ),
    "payload-unknown": (
        [extract(), load(after=["extract"], payload={"row": {"$result": "extract"}})],
        "step load: payload lacks rows",
    ),
    "reference-misspelt": (
        [extract(), load(after=["extract"], payload={"rows": {"$resul": "extract"}})],
        "step load: payload.rows: {'$resul': 'extract'} is not of type array; did you mean $result?",
    ),
    "reference": (
        [extract(), load(after=["extract"], payload={"rows": {"$result": 5}})],
        "step load: reference $result: 5 is not the name of a step",
    ),
    "item-alone": ([extract(item="x")], "step extract: item: 'x' needs over"),
    "item-unknown": (
        [extract(over=["a"], item="dya")],
        "step extract: item: 'dya' is no argument of extract, which has day; did you mean day?",
    ),
    "item-unknown-beside-anything": (
        [{"name": "e", "kind": "echo", "over": [1], "item": "vale"}],
        "step e: item: 'vale' is no argument of echo, which has value; did you mean value?",
    ),
    "over-without-an-argument-left": (
        [{"name": "e", "kind": "echo", "payload": {"value": 1}, "over": [1]}],
        "step e: over leaves no argument of echo for the element",
    ),
    "payload-beside-anything": (
        [{"name": "m", "kind": "merge", "payload": {"rows": "all", "into": 1}}],
        "step m: payload.rows: 'all' is not of type array",
    ),
    "payload-unknown-beside-anything": (
        [{"name": "m", "kind": "merge", "payload": {"rows": [], "into": 1, "bye": "id"}}],
        "step m: payload has bye, which is not known; did you mean by?",
    ),
    "reference-misspelt-beside-anything": (
        [
            {
                "name": "m",
                "kind": "merge",
                "payload": {"rows": {"$resutl": "extract"}, "into": 1},
            }
        ],
        "step m: payload.rows: {'$resutl': 'extract'} is not of type array; did you mean $result?",
    ),
    "over-null": (
        [extract(over=None)],
        'step extract: over: None is neither a list nor a result, for example "over": [1, 2, 3]',
    ),
    "over-null-with-item": ([extract(over=None, item="x")], "step extract: over: None is neither"),
    "sleep": ([{"name": "a", "sleep": "soon"}], "step a: sleep: 'soon' is not a duration"),
    "sleep-null": ([{"name": "a", "sleep": None}], "step a: sleep is missing"),
    "sleep-delay": (
        [{"name": "a", "sleep": 5, "options": {"delay": 5}}],
        "step a: delay cannot be given together with sleep",
    ),
    "signal": ([{"name": "a", "wait_for": ""}], "step a: wait_for: '' is not 1 to 200"),
    "signal-number": (
        [{"name": "a", "wait_for": 5}],
        (
            "step a: wait_for: 5 is not 1 to 200 letters, digits, and any of _ . -,"
            ' first no . or -, for example "wait_for": "approval"'
        ),
    ),
    "signal-timeout": (
        [{"name": "a", "wait_for": "go", "timeout": 0}],
        "step a: timeout: 0.0 is not a number of seconds",
    ),
    "inner": (
        [{"name": "a", "workflow": {"name": "b", "steps": [{"name": "c"}]}}],
        "step a: step c: kind is missing",
    ),
    "inner-text": ([{"name": "a", "workflow": "b"}], "step a: workflow: 'b' is not an object"),
}


@pytest.mark.parametrize("row", REFUSED)
async def test_what_is_wrong_is_refused_with_its_step(known: World, row: str) -> None:
    steps, said = REFUSED[row]
    with pytest.raises(InvalidValue) as caught:
        await read(known, *steps)
    assert str(caught.value).startswith(said)


async def test_an_argument_that_takes_anything_takes_the_elements(known: World) -> None:
    draft = await read(known, {"name": "e", "kind": "echo", "over": [1, "b", {"c": None}]})
    assert draft.steps[0].item == "value"


@pytest.mark.parametrize("row", ["G22"])
async def test_a_kind_that_nobody_announced_is_named_with_its_step(known: World, row: str) -> None:
    steps = [extract(f"s{number}") for number in range(1, 7)]
    with pytest.raises(UnknownKind) as caught:
        await read(known, *steps, extract("seventh", kind="extrat"))
    assert str(caught.value) == (
        "step seventh: no job of kind 'extrat' is registered; did you mean extract?"
    )


@pytest.mark.parametrize("row", ["G30-ancestor"])
async def test_a_reference_reaches_all_that_came_before(known: World, row: str) -> None:
    draft = await read(known, extract(), extract("b", after=["extract"]), load(after=["b"]))
    workflow = build(draft, Ids())
    assert workflow.steps[2].parents == (workflow.steps[1].job.id, workflow.steps[0].job.id)


@pytest.mark.parametrize("row", ["G49"])
async def test_workflows_are_not_inside_each_other_without_end(known: World, row: str) -> None:
    def inside(depth: int) -> dict[str, Any]:
        if depth == 0:
            return extract()
        return {"name": "in", "workflow": {"name": "w", "steps": [inside(depth - 1)]}}

    await read(known, inside(7))
    with pytest.raises(InvalidValue, match="is more than 8 workflows deep"):
        await read(known, inside(8))


async def test_a_name_that_is_refused_comes_with_one_as_a_file_has_it(known: World) -> None:
    with pytest.raises(InvalidValue, match=r"""first no \. or -, for example "name": "etl"$"""):
        await read_draft(known.store, json.dumps({"name": "a b", "steps": [extract()]}))


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ({"deadline": 0}, "deadline: 0.0 is not a number of seconds from 0.001"),
        ({"deadline": "-1h"}, "deadline: '-1h' is negative"),
        ({"deadline": "soon"}, "deadline: 'soon' is not a duration"),
        ({"polcy": "continue"}, "key: 'polcy' is not something a workflow has; did you mean pol"),
        ({"policy": 5}, "policy: 5 is not fail_fast or continue"),
        ({"namespace": "a b"}, "namespace: 'a b' is not 1 to 200"),
        ({"name": 5}, "workflow: 5 is not 1 to 200 letters"),
        ({"key": 5}, "key: 5 is not printable text"),
        ({"steps": {}}, "steps: {} is not a list"),
    ],
    ids=[
        "G43-zero",
        "G43-past",
        "G43-word",
        "key",
        "policy",
        "namespace",
        "name",
        "key-5",
        "steps",
    ],
)
async def test_what_is_wrong_with_the_whole_is_refused(
    known: World, rest: dict[str, Any], said: str
) -> None:
    told = {"name": "etl", "steps": [extract()], **rest}
    with pytest.raises(InvalidValue) as caught:
        await read_draft(known.store, json.dumps(told))
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name": "a", "name": "b", "steps": []}', "workflow: 'name' is there twice"),
        ('{"name": NaN}', "workflow: 'NaN' is not a number that JSON has: line 1 column 10"),
        (
            '{"name": "NaN \\" NaN",\n "steps": [1, -Infinity, NaN]}',
            "workflow: '-Infinity' is not a number that JSON has: line 2 column 15",
        ),
        (
            '{"name": "' + "1" * 5000 + '",\n "x": -1' + "0" * 5000 + "}",
            "workflow has a number that is too long, of 5,001 digits: line 2 column 7; write it as",
        ),
        (
            'name = "\\"1" # ' + "1" * 5000 + f"\ny = 1{'_000' * 1400}\nx = 1{'_000' * 2000}",
            "workflow has a number that is too long, of 6,001 digits: line 3 column 5",
        ),
        ('{"name": ', "workflow is not JSON: Expecting value: line 1 column 10"),
        ("{" + '"a":{' * 100_000, "workflow is"),
        ("name = \n", "workflow is not TOML: Invalid value (at line 1"),
        ('name = "a"\nname = "b"\n', "workflow is not TOML: Cannot overwrite a value (at line 2"),
        ("", "name of the workflow is missing"),
        ('{"name": "a"} ', "steps are missing"),
        ("steps: [a]\n---\nb", "workflow is not TOML"),
    ],
    ids=[
        "G67-twice-in-json",
        "nan",
        "infinity-behind-a-string",
        "digits",
        "digits-in-toml",
        "G67-broken-json",
        "deep",
        "broken-toml",
        "G67-twice-in-toml",
        "empty",
        "no-steps",
        "G67-yaml",
    ],
)
async def test_a_text_that_cannot_be_read_is_refused_with_the_place(
    known: World, text: str, said: str
) -> None:
    with pytest.raises(FoliotError) as caught:
        await read_draft(known.store, text)
    assert str(caught.value).startswith(said)

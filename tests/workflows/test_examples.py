"""Examples in errors about a workflow in a file: they are in its format, and work as they are written."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from foliot import commands
from foliot.errors import InvalidValue
from foliot.registry import define
from foliot.workflow_examples import written
from foliot.workflow_file import read_draft
from foliot.workflow_text import Format
from support.stores import World

STEP = 'name = "b"\nkind = "extract"\npayload = { day = "1" }\n'
WHOLE = f'name = "etl"\n[[steps]]\nname = "extract"\nkind = "extract"\npayload = {{ day = "1" }}\n[[steps]]\n{STEP}'
AT = 'after = ["extract"]\npayload = { day = { "$result" = "extract", at = 5 } }\n'
WRONG: dict[str, tuple[str, str, str]] = {  # the text in TOML; the example in TOML, in JSON
    "steps": (
        'name = "etl"\nsteps = [5]',
        '{ name = "extract", kind = "extract" }',
        '{"name": "extract", "kind": "extract"}',
    ),
    "steps-none": (
        'name = "etl"\nsteps = []',
        'steps = [{ name = "extract", kind = "extract" }]',
        '"steps": [{"name": "extract", "kind": "extract"}]',
    ),
    "steps-number": (
        'name = "etl"\nsteps = 5',
        'steps = [{ name = "extract", kind = "extract" }]',
        '"steps": [{"name": "extract", "kind": "extract"}]',
    ),
    "workflow": (
        'name = "etl"\n[[steps]]\nname = "w"\nworkflow = 5',
        'workflow = { name = "small", steps = [{ name = "extract", kind = "extract" }] }',
        '"workflow": {"name": "small", "steps": [{"name": "extract", "kind": "extract"}]}',
    ),
    "over": (
        'name = "etl"\n[[steps]]\nname = "b"\nkind = "extract"\nover = 5',
        'over = { "$result" = "extract" }',
        '"over": {"$result": "extract"}',
    ),
    "at": (
        WHOLE.replace(STEP, 'name = "b"\nkind = "extract"\n') + AT,
        '{ "$result" = "extract", at = "rows.0.id" }',
        '{"$result": "extract", "at": "rows.0.id"}',
    ),
    "rule": (WHOLE + 'rule = "x"', 'rule = "all_done"', '"rule": "all_done"'),
    "kind": (
        'name = "etl"\n[[steps]]\nname = "b"',
        'kind = "extract"',
        '"kind": "extract"',
    ),
    "reference": (
        WHOLE.replace(STEP, STEP.replace('"1"', '{ "$result" = "extract" }')),
        'after = ["extract"]',
        '"after": ["extract"]',
    ),
    "after-far": (WHOLE + 'after = ["zzz"]', 'after = ["extract"]', '"after": ["extract"]'),
    "option": (
        WHOLE + "options = { max_attempts = -1 }",
        "max_attempts = 5",
        '"max_attempts": 5',
    ),
    "ignored": (
        WHOLE + 'after = ["extract"]\noptions = { ignore_result = 5 }',
        "ignore_result = true",
        '"ignore_result": true',
    ),
    "retry": (
        WHOLE + "options = { retry = 5 }",
        'retry = { type = "fixed", seconds = 30 }',
        '"retry": {"type": "fixed", "seconds": 30}',
    ),
    "run_at": (
        WHOLE + "options = { run_at = 2027-01-01T00:00:00 }",
        'run_at = "2027-01-31T09:00+01:00"',
        "",  # JSON has no moments
    ),
    "inside": (
        f'name = "etl"\n[[steps]]\nname = "w"\n[steps.workflow]\n{WHOLE}rule = "x"'.replace(
            '[[steps]]\nname = "extract"', '[[steps.workflow.steps]]\nname = "extract"'
        ).replace('[[steps]]\nname = "b"', '[[steps.workflow.steps]]\nname = "b"'),
        'rule = "all_done"',
        '"rule": "all_done"',
    ),
}


@pytest.fixture
async def known(world: World) -> World:
    def extract(day: str) -> list[int]: ...  # type: ignore[empty-body]

    await commands.announce(world.store, [define(extract)])
    return world


@pytest.mark.anyio
@pytest.mark.parametrize("place", ["sqlite-1"], indirect=True)
@pytest.mark.parametrize("format", ["toml", "json"])
@pytest.mark.parametrize("row", WRONG)
async def test_an_example_is_in_the_format_of_the_file(
    known: World, row: str, format: Format
) -> None:
    text, *examples = WRONG[row]
    example = examples[format == "json"]
    if not example:
        return
    told = text if format == "toml" else json.dumps(tomllib.loads(text))
    with pytest.raises(InvalidValue) as caught:
        await read_draft(known.store, told, format=format)
    assert caught.value.example == example, str(caught.value)
    assert f"for example {example}" in caught.value.message
    parse(example, format)


def parse(example: str, format: Format) -> Any:
    """As a file reads it, where it stands."""
    if format == "json":
        return json.loads(example if example.startswith("{") else f"{{{example}}}")
    return tomllib.loads(f"x = {example}" if example.startswith("{") else example)


@pytest.mark.anyio
@pytest.mark.parametrize("place", ["sqlite-1"], indirect=True)
async def test_a_name_that_is_given_twice_comes_with_the_numbers_of_its_steps(
    known: World,
) -> None:
    a, b = ({"name": name, "kind": "extract", "payload": {"day": "1"}} for name in "ab")
    with pytest.raises(InvalidValue, match=r"'a' is the name of two steps, number 1 and number 3"):
        await read_draft(known.store, json.dumps({"name": "etl", "steps": [a, b, a]}))


@pytest.mark.anyio
@pytest.mark.parametrize("place", ["sqlite-1"], indirect=True)
async def test_a_cycle_comes_with_an_arrow_that_may_be_left_out(known: World) -> None:
    step: dict[str, Any] = {"kind": "extract", "payload": {"day": "1"}}
    steps = [{**step, "name": "a", "after": ["b"]}, {**step, "name": "b", "after": ["a"]}]
    with pytest.raises(InvalidValue, match=r"arrows out, for example b → a$"):
        await read_draft(known.store, json.dumps({"name": "etl", "steps": steps}))
    del steps[0]["after"]  # as it says
    await read_draft(known.store, json.dumps({"name": "etl", "steps": steps}))


@pytest.mark.parametrize(
    ("example", "toml", "json_"),
    [
        ("delay=60, expires=3600", "delay = 60, expires = 3600", '"delay": 60, "expires": 3600'),
        ('requires={"gpu"}', 'requires = ["gpu"]', '"requires": ["gpu"]'),
        ("over=[[1, 2], [3, 4]]", "over = [[1, 2], [3, 4]]", '"over": [[1, 2], [3, 4]]'),
        ('name="é"', 'name = "é"', '"name": "é"'),
        ("fn.options(key=1)", "fn.options(key=1)", "fn.options(key=1)"),
        ("what (it is", "what (it is", "what (it is"),
    ],
)
def test_what_code_says_is_said_as_a_file_does(example: str, toml: str, json_: str) -> None:
    assert written(example, "toml") == toml
    assert written(example, "json") == json_
    for format, once in (("toml", toml), ("json", json_)):
        assert written(once, format) == once  # type: ignore[arg-type]

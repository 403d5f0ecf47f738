"""Payloads and results: kept exactly, or refused when they are given."""

from __future__ import annotations

import base64
import math
import pickle
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from corpus.conftest import Echo
from corpus.rows import row
from foliot import Foliot, FoliotError
from foliot.errors import InvalidValue, JobFailed
from foliot.payload import check_json

LIMIT = 256 * 1024
COMPOSED = unicodedata.normalize("NFC", "é")
DECOMPOSED = unicodedata.normalize("NFD", "é")


@row("P01")
def test_a_call_without_arguments_is_an_empty_object(echo: Echo) -> None:
    handle = echo.echo.submit()
    assert handle.result(timeout=30) is None
    assert handle.job().payload in (b"{}", b'{"value":null}')


@row("P02", "P11", "P13", "P14", "P15", "P17", "P18", "P22", "P26", "P27", "P33", "P34", "P46")
@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        0,
        "",
        False,
        None,
        {"": 1},
        {"__proto__": 1, "constructor": 2, "__class__": 3},
        {"a.b": 1, "$c": 2, "d/e": 3, "f g": 4},
        {COMPOSED: 1, DECOMPOSED: 2},
        "".join(map(chr, range(32))) + "\x7f\x85\u2028\u202e\u200b\ufeff",
        2**53 + 1,
        -(2**63),
        [0.1, 1.10, -0.5, 1e300],
        base64.b64encode(pickle.dumps([1])).decode(),
        '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        ["{{7*7}}", "${jndi:ldap://x}", "%s%s%n", "$1", ":name", "?"],
        "'; drop table jobs; --",
        {"$ref": "#/definitions/x", "$schema": "y"},
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_what_is_given_comes_back_exactly(echo: Echo, value: Any) -> None:
    returned = echo(value)
    assert returned == value
    assert type(returned) is type(value)


@row("P22", "P21")
def test_of_a_number_the_value_counts_and_not_the_text(echo: Echo) -> None:
    assert math.copysign(1, echo(-0.0)) in (1, -1)
    definition = echo.echo.definition
    assert definition.decode(b'{"value":1e-400}').value == 0.0


@row("P03")
def test_a_payload_of_exactly_the_limit_is_accepted(echo: Echo) -> None:
    fitting = "x" * (LIMIT - len('{"value":""}'))
    assert echo.echo.submit(fitting).job().payload == f'{{"value":"{fitting}"}}'.encode()
    with pytest.raises(InvalidValue, match=r"more than limits.payload, 262144"):
        echo.echo.submit(fitting + "x")


@row("P09", "P10", "P69")
def test_what_is_too_large_is_refused_with_the_limit(echo: Echo) -> None:
    for value in (list(range(1_000_000)), {"k" * 1_000_000: 1}):
        with pytest.raises(InvalidValue, match=r"echo\(\) has arguments of .* bytes, more than"):
            echo.echo.submit(value)
    with pytest.raises(InvalidValue, match=r"key: .* is not printable text of 1 to 512"):
        echo.echo.options(key="k" * 1_000_000)


@row("P06", "P07", "A26", "A27")
@pytest.mark.parametrize("depth", [64, 65, 100_000])
def test_what_is_nested_too_deeply_is_refused(
    echo: Echo, nested: Callable[[int], Any], depth: int
) -> None:
    """One level is the object of the arguments."""
    with pytest.raises(InvalidValue, match="cannot be called like this"):
        echo.echo.submit(nested(depth))
    deepest = nested(63)
    assert echo(deepest) == deepest


def test_brackets_in_texts_are_no_nesting() -> None:
    text = ["[" * 1000, '"' + "{" * 1000, "\\", ']"']
    check_json(text, b'["' + b"[" * 1000 + b'","\\"' + b"{" * 1000 + b'","\\\\","]\\""]')
    deep = b'{"a":[' * 32 + b"[]" + b"]}" * 32
    with pytest.raises(ValueError, match="nested"):
        check_json(None, deep)
    wide = b"[" + b",".join([b"[{}]"] * 1000) + b"]"
    check_json([[{}]] * 1000, wide)


@row("P19", "P23", "A38")
@pytest.mark.parametrize(
    "value",
    [10**5000, float("nan"), float("inf"), {"a": [float("-inf")]}, "\ud800", {"\udfff": 1}],
    ids=["digits", "nan", "inf", "inside", "surrogate", "key"],
)
def test_what_json_has_no_way_to_say_is_refused(echo: Echo, value: Any) -> None:
    with pytest.raises(InvalidValue, match=r"echo\(\) cannot be called like this"):
        echo.echo.submit(value)
    with pytest.raises(InvalidValue, match=r"echo\(\) cannot be called like this"):
        echo.app.submit_many([echo.echo.prepare(value)])


@row("A37", "P53")
def test_the_nul_character_is_data_in_workflows(echo: Echo) -> None:
    nul = {"a\0b": "c\0d"}
    with echo.app.workflow("nul") as flow:
        asked = flow.wait_for("go")
        flow.add(echo.echo.prepare(asked.result), name="told")
        flow.add(echo.echo.prepare(nul), name="given")
        flow.map(echo.echo, over=["\0", nul], item="value", name="each")
    flow.signal("go", nul)
    assert flow.result(timeout=30) == {"told": nul, "given": nul, "each": ["\0", nul]}


@row("A37", "P53")
def test_the_nul_character_is_data_in_payloads_and_results(echo: Echo) -> None:
    """They are bytes to a store; where it could not be kept, in keys and names, it is refused."""
    assert echo({"a\0b": "c\0d"}) == {"a\0b": "c\0d"}
    assert echo.produce.submit("nul").result(timeout=30) == {"a\0b": "c\0d"}
    with pytest.raises(InvalidValue, match="key"):
        echo.echo.options(key="a\0b")


@row("P51", "P54", "P23")
@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("too_large", "more than limits.result, 262144"),
        ("circle", r"the result of produce\(\) cannot be stored: .* holds itself"),
        ("object", r"the result of produce\(\) cannot be stored: .*; what can be: numbers"),
        ("nan", "holds NaN or Infinity"),
        ("deep", "nested deeper than 64 levels"),
        ("surrogate", "surrogates not allowed"),
    ],
)
def test_a_result_that_cannot_be_kept_is_a_counted_failure(
    echo: Echo, what: str, error: str
) -> None:
    handle = echo.produce.submit(what)
    with pytest.raises(JobFailed, match=error):
        handle.result(timeout=30)
    assert handle.job().attempt == 1
    assert echo("still here") == "still here"


@row("P55")
def test_a_long_error_is_cut_and_its_end_kept(echo: Echo) -> None:
    handle = echo.produce.submit("fail")
    with pytest.raises(JobFailed):
        handle.result(timeout=30)
    [attempt] = handle.attempts()
    assert attempt.error is not None
    assert len(attempt.error) < 5_000
    assert "characters cut" in attempt.error
    assert attempt.error.endswith("xend")
    assert attempt.traceback is not None
    assert len(attempt.traceback) < 25_000


@row("P47")
def test_a_kind_that_nobody_knows_waits_and_is_not_failed(echo: Echo) -> None:
    with Foliot(echo.app.settings.store.url) as other:

        @other.job
        def nobody_knows_me() -> None: ...

        handle = nobody_knows_me.submit()
        echo("meanwhile")
        job = handle.job()
        assert job.state in ("ready", "running", "held")
        while handle.status() != "held":
            pass
        assert handle.job().reason == "unknown_kind"
        assert handle.attempts() == []
        handle.cancel()


@row("P65", "P66", "P67", "A22", "A23", "K18")
@pytest.mark.parametrize(
    ("options", "range"),
    [
        ({"priority": 10**9}, "from 0 to 9"),
        ({"priority": True}, "from 0 to 9"),
        ({"priority": "5"}, "from 0 to 9"),
        ({"timeout": 0}, "from 0.01 to"),
        ({"timeout": -1}, "from 0.01 to"),
        ({"timeout": 10 * 366 * 86_400}, "from 0.01 to"),
        ({"max_attempts": 0}, "from 1 to 1000"),
        ({"max_attempts": -1}, "from 1 to 1000"),
        ({"max_attempts": 10**6}, "from 1 to 1000"),
    ],
    ids=str,
)
def test_numbers_out_of_range_are_refused_with_the_range(
    app: Foliot, options: Any, range: str
) -> None:
    with pytest.raises(InvalidValue, match=range) as refused:
        app.job(**options)(print_nothing)
    [(field, value)] = options.items()
    assert (refused.value.field, refused.value.value) == (field, value)
    assert refused.value.example


def print_nothing() -> None: ...


def test_every_refusal_is_an_error_of_ours_and_of_python(app: Foliot) -> None:
    with pytest.raises(FoliotError):
        app.job(priority=10)(print_nothing)
    with pytest.raises(ValueError, match="priority"):
        app.job(priority=10)(print_nothing)

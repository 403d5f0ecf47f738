"""Limits in code: `app.limit`, and `limit_key` of a definition or of one submission."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from foliot import Foliot
from foliot.author import this_user
from foliot.breaker_commands import list_breakers
from foliot.errors import FoliotError, InvalidValue
from foliot.limit_commands import limit_of, list_limits
from foliot.model.lane import Strategy
from foliot.store.limiting import Standing
from foliot.store.port import Store
from support.stores import make_sqlite

T = TypeVar("T")


@pytest.fixture
def app(tmp_path: Path) -> Foliot:
    return Foliot(asyncio.run(make_sqlite(tmp_path)))


def _ask(app: Foliot, question: Callable[[Store], Awaitable[T]]) -> T:
    async def ask() -> T:
        return await question(await app._portal.store())

    return app._portal.call(ask())


def _limits(app: Foliot) -> list[Standing]:
    return _ask(app, list_limits)


def test_limits_are_stored_before_the_first_submission(app: Foliot) -> None:
    app.limit("queue:mail", concurrency=3, note="the contract")
    app.limit("key:customer:*", rate="90/minute", burst=9)

    @app.job(queue="mail")
    def send() -> None: ...

    send.submit()
    key, queue = [one.limit for one in _limits(app)]
    assert (key.name, key.rate, key.period, key.burst) == ("key:customer:*", 90.0, 60.0, 9)
    assert (queue.name, queue.concurrency, queue.note) == ("queue:mail", 3, "the contract")
    assert queue.updated_by == "code"
    app.close()


def test_the_key_of_a_submission_goes_before_that_of_the_definition(app: Foliot) -> None:
    @app.job(limit_key="stripe")
    def pay() -> None: ...

    keys = [
        handle.job().extras.limit_key
        for handle in (pay.submit(), pay.options(limit_key="customer:42").submit())
    ]
    assert keys == ["stripe", "customer:42"]
    app.close()


def test_the_same_limit_twice_is_the_last(app: Foliot) -> None:
    app.limit("queue:mail", concurrency=3)
    app.limit("queue:mail", concurrency=4)
    [found] = _limits(app)
    assert found.limit.concurrency == 4
    app.close()


def test_what_is_said_later_is_stored_before_the_next_submission(app: Foliot) -> None:
    @app.job(queue="mail")
    def send() -> None: ...

    app.limit("queue:mail", concurrency=3)
    app.limit("kind:send", concurrency=5)
    send.submit()
    app.set_limit("kind:send", concurrency=50)
    app.limit("queue:mail", concurrency=9)
    app.limit("key:new", concurrency=2)
    app.queue("mail", strategy="fifo")
    app.breaker("bank", failures=7)
    send.submit()
    assert {one.limit.name: one.limit.concurrency for one in _limits(app)} == {
        "queue:mail": 9,
        "key:new": 2,
        "kind:send": 50,  # what code said of it before is not said again
    }
    [queue] = [one for one in _ask(app, lambda store: store.queues.all()) if one.name == "mail"]
    assert queue.strategy is Strategy.FIFO
    [breaker] = _ask(app, list_breakers)
    assert breaker.breaker.options.failures == 7
    app.close()


def test_what_could_not_be_stored_is_stored_with_the_submission_after(
    app: Foliot, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> bool:
        raise FoliotError("not now")

    app.limit("queue:mail", concurrency=3)
    assert len(_limits(app)) == 1
    app.limit("queue:mail", concurrency=4)
    app.limit("key:new", concurrency=2)
    with monkeypatch.context() as patched:
        patched.setattr("foliot.store.sqlite.limits.SqliteLimits.set", fail)
        with pytest.raises(FoliotError, match="not now"):
            _limits(app)
    assert [one.limit.concurrency for one in _limits(app)] == [2, 4]
    app.close()


def test_a_limit_set_at_run_time_counts_when_the_call_returns(app: Foliot) -> None:
    app.limit("queue:mail", concurrency=3)
    assert app.set_limit("queue:mail", concurrency=8, rate="100/minute", note="the newsletter")
    assert not app.set_limit("queue:mail", concurrency=8, rate="100/minute", note="the newsletter")
    [found] = _limits(app)
    assert (found.limit.concurrency, found.limit.rate, found.limit.note) == (
        8,
        100.0,
        "the newsletter",
    )
    assert found.limit.updated_by == this_user()
    assert app.delete_limit("queue:mail")
    assert not app.delete_limit("queue:mail")
    assert _limits(app) == []
    with pytest.raises(InvalidValue, match="limits nothing"):
        app.set_limit("queue:mail")
    app.close()


def test_what_a_program_has_set_stays_until_its_code_says_something_new(app: Foliot) -> None:
    app.limit("queue:mail", concurrency=2)
    app.set_limit("queue:mail", concurrency=50)
    app.limit("queue:mail", concurrency=2)
    assert [one.limit.concurrency for one in _limits(app)] == [50]
    app.limit("queue:mail", concurrency=3)
    assert [one.limit.concurrency for one in _limits(app)] == [3]
    app.delete_limit("queue:mail")
    assert _limits(app) == []
    app.limit("queue:mail", concurrency=3)
    assert [one.limit.concurrency for one in _limits(app)] == [3]
    app.close()


@pytest.mark.anyio
async def test_async_code_sets_limits_too(app: Foliot) -> None:
    assert await app.aset_limit("kind:send", concurrency=1)
    [found] = await asyncio.to_thread(_limits, app)
    assert (found.limit.name, found.limit.concurrency) == ("kind:send", 1)
    assert await app.adelete_limit("kind:send")
    assert await asyncio.to_thread(_limits, app) == []
    with pytest.raises(InvalidValue, match="is no scope and name"):
        await app.aset_limit("send", concurrency=1)
    await app.aclose()


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("queues:mail", {"concurrency": 1}, "is no scope and name"),
        (None, {"concurrency": 1}, "is no scope and name"),
        ("queue:", {"concurrency": 1}, "limit: 'queue:' is not 1 to 200 letters"),
        ("kind:a b", {"concurrency": 1}, "limit: 'kind:a b' is not 1 to 200 letters"),
        ("key:", {"concurrency": 1}, "limit: 'key:' is not printable text"),
        ("queue:mail", {}, "limits nothing"),
        ("queue:mail", {"concurrency": True}, "concurrency"),
        ("queue:mail", {"concurrency": "5"}, "concurrency"),
        ("queue:mail", {"rate": 5}, "is not a number of starts"),
        ("queue:mail", {"rate": "-5/second"}, "is not a number of starts"),
        ("queue:mail", {"rate": "5/second", "burst": 2.5}, "burst"),
        ("key:" + "x" * 2000, {"concurrency": 1}, "limit"),
    ],
)
def test_what_is_no_limit_is_refused_when_it_is_given(
    app: Foliot, name: Any, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidValue, match=said):
        app.limit(name, **fields)


@pytest.mark.parametrize("key", ["", 5, "a\0b", "x" * 2000, "*", "customer:*"])
def test_what_is_no_key_is_refused_when_it_is_given(app: Foliot, key: Any) -> None:
    def pay() -> None: ...

    with pytest.raises(InvalidValue, match="limit_key"):
        app.job(pay).options(limit_key=key)
    with pytest.raises(InvalidValue, match="limit_key"):
        app.job(kind="other", limit_key=key)(pay)


def test_a_key_that_ends_like_a_pattern_is_refused_with_what_would_do(app: Foliot) -> None:
    """`foliot limits list` and `explain` would take it for the limit of many keys."""

    def pay() -> None: ...

    said = r"limit_key: 'c:\*' ends with a \*, as limits of many keys do, for example limit_key=\"customer:42\""
    with pytest.raises(InvalidValue, match=said):
        app.job(pay).options(limit_key="c:*")
    assert app.job(kind="other", limit_key="c:*d")(pay).definition.limit_key == "c:*d"


@pytest.mark.parametrize("rate", ["100/ms", "5/ss", "1/hs", "3/fortnight", "0/second", "5"])
def test_a_rate_in_words_that_nobody_knows_is_refused(rate: str) -> None:
    with pytest.raises(InvalidValue, match="rate"):
        limit_of("kind:x", rate=rate)


@pytest.mark.parametrize(
    ("rate", "period"), [("5/s", 1), ("5 per seconds", 1), ("5/mins", 60), ("5/Hour", 3600)]
)
def test_units_of_a_rate_may_be_short(rate: str, period: float) -> None:
    assert limit_of("kind:x", rate=rate).period == period


def test_a_rate_that_brings_its_burst_in_years_is_refused() -> None:
    with pytest.raises(InvalidValue, match="more than 30 days"):
        limit_of("kind:x", rate="0.001/hour")
    assert limit_of("kind:x", rate="1/hour", burst=500).burst == 500

"""Breakers as an app sees them: what its functions raise opens one, and time and their success close it."""

from __future__ import annotations

from typing import Any

import pytest

from foliot import Fixed, Foliot, InvalidValue
from foliot.breaker_commands import open_breaker
from foliot.client.function import JobFunction
from foliot.model.breaker import Breaker
from foliot.testing import Harness


class Busy(Exception):
    retry_after = 300


class Service:
    """What jobs call."""

    def __init__(self) -> None:
        self.error: BaseException | None = ConnectionError("refused")
        self.calls = 0

    def call(self) -> None:
        self.calls += 1
        if self.error is not None:
            raise self.error


@pytest.fixture
def service() -> Service:
    return Service()


def breaker(app: Foliot, name: str = "bank") -> Breaker | None:
    async def look() -> Breaker | None:
        found = await (await app.portal.store()).breakers.all(most=10)
        return next((one.breaker for one in found if one.breaker.name == name), None)

    return app.portal.call(look())


def charges(app: Foliot, service: Service, **named: Any) -> JobFunction[..., Any, Any]:
    """One kind, as different versions of the code have it."""

    @app.job(retry=Fixed(1), max_attempts=2, **named)
    def charge() -> None:
        service.call()

    return charge


def open_it(app: Foliot, seconds: float) -> None:
    async def act() -> None:
        await open_breaker(await app.portal.store(), "bank", seconds=seconds, new=True)

    app.portal.call(act())


def test_kinds_that_share_a_breaker_stop_together_and_go_on_together(
    foliot: Harness, foliot_app: Foliot, service: Service
) -> None:
    foliot_app.breaker("bank", failures=3, open_for=60)

    @foliot_app.job(breaker="bank", retry=Fixed(1), max_attempts=2)
    def charge() -> None:
        service.call()

    @foliot_app.job(breaker="bank", retry=Fixed(1), max_attempts=2)
    def refund() -> None:
        service.call()

    first = [charge.submit() for _ in range(3)]
    foliot.run_until_idle()
    later = [refund.submit() for _ in range(3)]
    foliot.advance(30)
    assert service.calls == 3
    assert {one.status() for one in (*first, *later)} == {"held"}
    assert [one.job().attempt for one in later] == [0, 0, 0]
    service.error = None
    foliot.advance(31)
    assert {one.status() for one in (*first, *later)} == {"succeeded"}
    found = breaker(foliot_app)
    assert found is not None
    assert found.state == "closed"


def test_one_that_was_not_declared_is_there_with_its_first_failure(
    foliot: Harness, foliot_app: Foliot, service: Service
) -> None:
    @foliot_app.job(breaker="bank", max_attempts=1)
    async def charge() -> None:
        service.call()

    service.error = None
    charge.submit()
    foliot.run_until_idle()
    assert breaker(foliot_app) is None, "healthy traffic writes nothing"
    service.error = ConnectionError()
    for _ in range(9):
        charge.submit()
        foliot.run_until_idle()
    assert service.calls == 1 + 5
    found = breaker(foliot_app)
    assert found is not None
    assert (found.state, found.reason) == ("open", "ConnectionError: ")


def test_one_that_the_code_names_no_more_is_closed_and_opened_by_those_who_wait_for_it(
    foliot: Harness, foliot_app: Foliot, service: Service
) -> None:
    """They bring its name along, and are held for it."""

    charge = charges(foliot_app, service, breaker="bank")
    open_it(foliot_app, 10)
    jobs = [charge.submit() for _ in range(12)]
    charges(foliot_app, service)
    foliot.run_until_idle()
    assert service.calls == 0
    foliot.advance(11)
    found = breaker(foliot_app)
    assert (found and found.state, service.calls) == ("open", 1)
    service.error = None
    foliot.advance(90)
    assert {one.status() for one in jobs} == {"succeeded"}
    found = breaker(foliot_app)
    assert found is not None
    assert found.state == "closed"


def test_what_was_submitted_before_its_kind_had_one_opens_it_and_is_held_with_no_attempt_used_up(
    foliot: Harness, foliot_app: Foliot, service: Service
) -> None:
    foliot_app.breaker("bank", failures=3, open_for=60)
    charge = charges(foliot_app, service)
    jobs = [charge.submit() for _ in range(3)]
    later = [charge.options(delay=5).submit() for _ in range(20)]
    charges(foliot_app, service, breaker="bank")
    foliot.advance(30)
    found = breaker(foliot_app)
    assert (found and found.state, service.calls) == ("open", 3)
    assert {one.status() for one in (*jobs, *later)} == {"held"}
    assert {one.job().attempt for one in later} == {0}
    service.error = None
    foliot.advance(70)
    assert {one.status() for one in (*jobs, *later)} == {"succeeded"}
    assert service.calls == 26


def test_what_is_the_jobs_own_fault_does_not_count(
    foliot: Harness, foliot_app: Foliot, service: Service
) -> None:
    foliot_app.breaker("bank", failures=2, on=ConnectionError)

    @foliot_app.job(breaker="bank", max_attempts=1)
    def charge() -> None:
        service.call()

    service.error = KeyError("customer")
    for _ in range(5):
        charge.submit()
        foliot.run_until_idle()
    assert service.calls == 5
    found = breaker(foliot_app)
    assert found is not None
    assert found.counts == (0, 0)


def test_successes_are_told_with_the_next_failure(
    foliot: Harness, foliot_app: Foliot, service: Service
) -> None:
    foliot_app.breaker("bank", failures=2, ratio=0.6)

    @foliot_app.job(breaker="bank", max_attempts=1)
    def charge(fails: bool) -> None:
        service.error = OSError() if fails else None
        service.call()

    foliot_app.submit_many(charge.prepare(fails) for fails in (False,) * 4)
    foliot.run_until_idle()
    found = breaker(foliot_app)
    assert found is not None
    assert found.counts == (0, 0)
    foliot_app.submit_many(charge.prepare(fails) for fails in (False, False, True, True))
    foliot.run_until_idle()
    found = breaker(foliot_app)
    assert found is not None
    assert (found.state, found.counts) == ("closed", (2, 2))


def test_an_exception_says_how_long_to_wait(
    foliot: Harness, foliot_app: Foliot, service: Service
) -> None:
    foliot_app.breaker("bank", failures=1)

    @foliot_app.job(breaker="bank", retry=Fixed(1))
    def charge() -> None:
        service.call()

    service.error = Busy()
    handle = charge.submit()
    foliot.run_until_idle()
    service.error = None
    foliot.advance(290)
    assert (handle.status(), service.calls) == ("held", 1)
    foliot.advance(11)
    assert (handle.status(), service.calls) == ("succeeded", 2)


def test_inline_the_clock_leaps_to_when_the_breaker_lets_some_try(service: Service) -> None:
    app = Foliot()
    app.breaker("bank", failures=2, open_for=3600)

    @app.job(breaker="bank", max_attempts=1)
    def charge(amount: int) -> int:
        service.call()
        return amount

    with app.inline():
        failed = [charge.submit(amount) for amount in range(2)]
        assert {one.status() for one in failed} == {"dead"}
        service.error = None
        handles = [charge.submit(amount) for amount in range(3)]
        assert [one.result(timeout=5) for one in handles] == [0, 1, 2]


def test_an_option_that_cannot_be_is_refused_where_it_is_said(foliot_app: Foliot) -> None:
    with pytest.raises(InvalidValue, match="on"):
        foliot_app.breaker("bank", on="HTTPError")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="breaker"):
        foliot_app.breaker("")

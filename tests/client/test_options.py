"""What may be said of a submission: kept as it was given, or refused when it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from foliot import Exponential, Fixed, Foliot, JobState, current_job
from foliot.errors import InvalidValue, NotChangeable
from foliot.model.lane import lane_of

StartWorker = Callable[[], None]
TOMORROW = datetime.now(UTC) + timedelta(days=1)


def test_every_option_is_kept_with_the_job(app: Foliot) -> None:
    @app.job
    def echo(n: int) -> int:
        return n

    handle = echo.options(
        delay=timedelta(minutes=1),
        priority=7,
        queue="slow",
        key="order-42",
        idempotency_key="request-1",
        tags=["vip", "test", "vip"],
        timeout=timedelta(seconds=3),
        max_attempts=9,
        retry=Fixed(2),
        expires=3600,
        namespace="shop",
        fair_key="customer-7",
        ignore_result=True,
    ).submit(1)
    job = handle.job()
    assert job.state is JobState.SCHEDULED
    assert job.run_at - job.created_at == timedelta(minutes=1)
    assert (job.priority, job.queue, job.key, job.namespace) == (7, "slow", "order-42", "shop")
    assert (job.tags, job.timeout, job.max_attempts) == (("vip", "test"), 3.0, 9)
    assert job.expires_at == job.created_at + timedelta(hours=1)
    assert job.fair_key == "customer-7"
    assert (job.extras.retry, job.extras.ignore_result) == (Fixed(2), True)
    assert job.extras.idempotency_key == "request-1"


def test_the_definition_says_what_holds_unless_a_submission_says_otherwise(app: Foliot) -> None:
    @app.job(
        queue="mail",
        tags=("mail",),
        timeout=timedelta(seconds=5),
        expires=timedelta(hours=1),
        namespace="shop",
        requires={"region:eu", "gpu"},
        version=3,
        ignore_result=True,
    )
    def send() -> None: ...

    job = send.submit().job()
    assert (job.queue, job.tags, job.timeout, job.namespace) == ("mail", ("mail",), 5.0, "shop")
    assert job.requires == ("gpu", "region:eu")
    assert job.expires_at == job.created_at + timedelta(hours=1)
    assert (job.extras.version, job.extras.ignore_result) == (3, True)
    other = send.options(tags=[], timeout=1, expires=60, namespace="b", ignore_result=False)
    job = other.submit().job()
    assert (job.tags, job.timeout, job.namespace) == ((), 1.0, "b")
    assert job.expires_at == job.created_at + timedelta(minutes=1)
    assert job.extras.ignore_result is False
    job = other.options(tags=None, timeout=None, namespace=None, ignore_result=None).submit().job()
    assert (job.tags, job.timeout, job.namespace) == (("mail",), 5.0, "shop")
    assert job.extras.ignore_result is True


def test_required_capabilities_make_a_lane_of_their_own(app: Foliot) -> None:
    @app.job(queue="q", requires={"gpu"})
    def train() -> None: ...

    assert train.prepare().template.lane == lane_of("q", ("gpu",)).number != lane_of("q").number


def test_a_plain_job_carries_nothing_more(app: Foliot) -> None:
    @app.job
    def plain() -> None: ...

    assert plain.prepare().template.more is None
    assert plain.options(tags=["a"]).options(tags=None).prepare().template.more is None


def test_an_expiry_is_a_number_of_seconds_or_a_moment(app: Foliot) -> None:
    @app.job
    def echo() -> None: ...

    assert echo.options(expires=TOMORROW).submit().job().expires_at == TOMORROW
    job = echo.options(expires=timedelta(days=1), delay=60).submit().job()
    assert job.expires_at == job.created_at + timedelta(days=1)


def test_options_add_up_and_the_last_one_counts(app: Foliot) -> None:
    @app.job
    def echo() -> None: ...

    template = echo.options(priority=1, key="a").options(key="b", queue="c").prepare().template
    assert (template.priority, template.key, template.queue) == (1, "b", "c")
    assert echo.options(delay=5).options(run_at=TOMORROW).prepare().template.delay is None


BAD: dict[str, list[Any]] = {
    "delay": [-1, "60", True, float("nan"), timedelta(seconds=-1), 1e12],
    "run_at": ["tomorrow", datetime(2027, 1, 1), 5],  # noqa: DTZ001
    "priority": [10, -1, 1.5, "high", True],
    "queue": ["", "a b", 5, "x" * 201, "é"],
    "key": ["", "a\0b", "x" * 513, 5, "a\nb", "\ud800"],
    "key_mode": ["always", 1],
    "idempotency_key": ["", "x" * 513, b"a"],
    "tags": ["vip", [""], [5], ["a\0"], ["x" * 101], {"a": 1}, [f"t{n}" for n in range(33)]],
    "timeout": [0, -1, "30", True, float("inf")],
    "max_attempts": [0, 1001, "5", 2.0],
    "retry": [lambda failures: 1.0, "fixed", 5],
    "expires": [0, -5, "1h", datetime(2027, 1, 1)],  # noqa: DTZ001
    "namespace": ["", "a/b", None.__class__, "x" * 201],
    "ordering_key": ["", 7],
    "fair_key": ["", 7],
    "ignore_result": [1, "yes"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values]
)
def test_a_bad_value_is_refused_when_it_is_given(app: Foliot, name: str, value: object) -> None:
    @app.job
    def echo() -> None: ...

    with pytest.raises(InvalidValue) as caught:
        echo.options(**{name: value, **({"key": "k"} if name == "key_mode" else {})})  # type: ignore[arg-type]
    assert caught.value.field == name
    assert caught.value.example is not None or "more than" in str(caught.value)


def test_options_that_contradict_each_other_are_refused(app: Foliot) -> None:
    @app.job
    def echo() -> None: ...

    with pytest.raises(InvalidValue, match="together with run_at"):
        echo.options(delay=1, run_at=TOMORROW)
    with pytest.raises(InvalidValue, match="needs a key"):
        echo.options(key_mode="replace")
    with pytest.raises(InvalidValue, match="not after the time it is to run"):
        echo.options(delay=60, expires=30)
    with pytest.raises(InvalidValue, match="not after the time it is to run"):
        echo.options(run_at=TOMORROW, expires=TOMORROW)


def test_an_unknown_option_is_refused_with_the_nearest_one(app: Foliot) -> None:
    @app.job
    def echo() -> None: ...

    with pytest.raises(InvalidValue, match="did you mean priority"):
        echo.options(prioritty=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "options",
    [
        {"requires": "gpu"}, {"requires": {""}}, {"requires": ["a b"]}, {"version": 0},
        {"version": "2"}, {"tags": "vip"}, {"ignore_result": 1}, {"expires": TOMORROW},
        {"namespace": ""}, {"timeout": timedelta(0)}, {"retry": 5},
    ],
)  # fmt: skip
def test_a_definition_is_checked_where_it_is_written(app: Foliot, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue) as caught:
        app.job(**options)(test_an_unknown_option_is_refused_with_the_nearest_one)
    assert caught.value.field == next(iter(options))


def test_jobs_that_share_an_ordering_key_share_a_home(app: Foliot) -> None:
    @app.job
    def one(n: int = 0) -> None: ...

    @app.job
    def two() -> None: ...

    def slots(*handles: Any) -> set[str]:
        return {handle.id[14:18] for handle in handles}

    ordered = [one.options(ordering_key="a").submit(n) for n in range(3)]
    ordered.append(two.options(ordering_key="a").submit())
    assert len(slots(*ordered)) == 1
    keyed = [one.options(key="a", namespace=name).submit() for name in ("x", "y")]
    assert len(slots(*keyed)) == 2


def test_a_retry_policy_of_a_submission_is_stored(app: Foliot) -> None:
    @app.job
    def echo() -> None: ...

    policy = Exponential(first=2, factor=3, cap=10)
    assert echo.options(retry=policy).submit().job().extras.retry == policy


def test_a_key_may_stand_for_the_last_submission(app: Foliot, start_worker: StartWorker) -> None:
    @app.job
    def echo(n: int) -> int:
        return n

    keyed = echo.options(key="a", delay=60)
    first = keyed.submit(1)
    assert keyed.submit(2).id == first.id
    assert first.job().payload == b'{"n":1}'
    assert keyed.options(key_mode="replace").submit(3).id == first.id
    assert first.job().payload == b'{"n":3}'
    last = keyed.options(key_mode="debounce", delay=0).submit(4)
    start_worker()
    assert (last.id, last.result(timeout=20)) == (first.id, 4)


def test_a_handle_changes_its_job_until_that_starts(app: Foliot, start_worker: StartWorker) -> None:
    @app.job
    def echo(n: int) -> int:
        return n

    handle = echo.options(delay=3600).submit(1)
    assert handle.change(priority=1, tags=["x"]) is JobState.SCHEDULED
    with pytest.raises(InvalidValue, match="does not fit echo"):
        handle.change(payload={"n": "one"})
    assert handle.change(payload={"n": 7}, run_at=datetime.now(UTC)) is JobState.READY
    start_worker()
    assert handle.result(timeout=20) == 7
    assert (handle.job().priority, handle.job().tags) == (1, ("x",))
    with pytest.raises(NotChangeable, match="is succeeded, and only a job that has not started"):
        handle.change(priority=1)

    async def main() -> None:
        later = await echo.options(delay=3600).asubmit(2)
        assert await later.achange(delay=0) is JobState.READY
        assert await later.aresult(timeout=20) == 2

    asyncio.run(main())


def test_an_ignored_result_is_not_stored(app: Foliot, start_worker: StartWorker) -> None:
    @app.job(ignore_result=True)
    def big() -> object:
        return object()  # could not be stored, and need not be

    @app.job
    async def echo(n: int) -> int:
        return n

    start_worker()
    assert big.submit().result(timeout=20) is None
    ignored = echo.options(ignore_result=True).submit(5)
    assert ignored.result(timeout=20) is None
    assert ignored.job().result is None
    assert echo.submit(5).result(timeout=20) == 5


def test_an_idempotency_key_stands_for_one_submission(
    app: Foliot, start_worker: StartWorker
) -> None:
    @app.job
    def charge(amount: int) -> int:
        return amount

    once = charge.options(idempotency_key="request-1")
    first = once.submit(5)
    start_worker()
    assert first.result(timeout=20) == 5
    again = once.submit(5)
    assert (again.id, again.result(timeout=20)) == (first.id, 5)
    with pytest.raises(InvalidValue, match="was used with other arguments"):
        once.submit(6)
    many = app.submit_many([once.prepare(5), charge.prepare(1), once.prepare(5)])
    assert many[0].id == many[2].id == first.id


def test_a_submission_may_have_a_retry_policy_of_its_own(
    app: Foliot, start_worker: StartWorker
) -> None:
    @app.job(retry=Fixed(3600))
    def unsteady() -> int:
        if current_job().attempt < 3:
            raise ConnectionError
        return current_job().attempt

    start_worker()
    assert unsteady.options(retry=Fixed(0)).submit().result(timeout=20) == 3


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            lambda app: app.job(max_retries=3),
            "job: 'max_retries' is not an option; did you mean max_attempts?",
        ),
        (
            lambda app: app.job(prioritty=1),
            "job: 'prioritty' is not an option; did you mean priority?",
        ),
        (
            lambda app: app.job(colour=1),
            "job: 'colour' is not an option; there are breaker, cancel_grace,",
        ),
        (
            lambda app: app.breaker("x", failure=3),
            "breaker: 'failure' is not an option; did you mean failures?",
        ),
        (lambda app: app.breaker("x", retries=3), "breaker: 'retries' is not an option; "),
        (
            lambda app: app.limit("kind:x", concurency=3),
            "limit: 'concurency' is not an option; did you mean concurrency?",
        ),
        (
            lambda app: app.set_limit("kind:x", rte="1/s"),
            "set_limit: 'rte' is not an option; did you mean rate?",
        ),
        (
            lambda app: app.queue("x", weight=1),
            "queue: 'weight' is not an option; did you mean weights?",
        ),
    ],
)
def test_a_mistyped_keyword_is_refused_with_what_was_meant(
    app: Foliot, said: Callable[[Any], object], told: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        said(app)
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize("nothing", [(), [], {}])
def test_a_breaker_that_would_count_no_error_is_refused(app: Foliot, nothing: Any) -> None:
    with pytest.raises(InvalidValue, match="names none") as refused:
        app.breaker("stripe", on=nothing)
    assert refused.value.field == "on"
    assert app.registry.breakers == {}

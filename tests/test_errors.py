"""The exceptions: what they are, what they say, and what they never say."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime

import pytest

from foliot import errors
from foliot.errors import (
    ConfigError,
    FoliotError,
    InvalidValue,
    JobFailed,
    ResultTimeout,
    Retry,
    SchemaNewer,
    SchemaOutdated,
    StoreUnavailable,
    UnknownJob,
    UnknownKind,
)
from foliot.shown import redact, shown

EXCEPTIONS = [
    one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, Exception)
]


@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_every_error_is_a_foliot_error_and_is_drawn_in_the_tree(kind: type[Exception]) -> None:
    assert issubclass(kind, FoliotError)
    assert kind.__name__ in (errors.__doc__ or "")


def test_a_refused_value_names_field_value_and_example() -> None:
    error = InvalidValue("priority", 99, "is not between 0 and 9", example="priority=2")
    assert str(error) == "priority: 99 is not between 0 and 9, for example priority=2"
    assert isinstance(error, ValueError)
    assert (error.field, error.value, error.example) == ("priority", 99, "priority=2")


def test_a_refused_setting_names_its_place_and_its_hint() -> None:
    error = ConfigError("worker.lesae", problem="is not a setting", source="a:3", hint="oh")
    assert str(error) == "worker.lesae is not a setting (a:3); oh"


def test_errors_are_also_what_python_calls_them() -> None:
    assert isinstance(UnknownJob("x"), LookupError)
    timeout = ResultTimeout("x", 10, "running")
    assert isinstance(timeout, TimeoutError)
    assert str(timeout) == "job x is still running after 10 s"


def test_a_failed_job_carries_its_last_error() -> None:
    error = JobFailed("x", "dead", "ValueError: no")
    assert str(error) == "job x is dead: ValueError: no"
    assert (error.id, error.state, error.error) == ("x", "dead", "ValueError: no")


def test_a_schema_error_says_what_to_run() -> None:
    assert "foliot db upgrade" in str(SchemaOutdated(1, 3))
    assert "pip install --upgrade foliot" in str(SchemaNewer(5, 3))


def test_an_unknown_kind_suggests_the_nearest() -> None:
    assert "did you mean send_mail?" in str(UnknownKind("send_male", known=["send_mail", "tidy"]))


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf"), True, "30"])
def test_a_retry_after_no_number_of_seconds_is_refused(after: float) -> None:
    with pytest.raises(InvalidValue, match="after=30"):
        Retry(after=after)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:s3cret@host/db",
        "postgresql://me:s3cret/x@y@host/db",
        "cannot connect to postgresql://me:s3cret@host/db now",
        "postgresql://host/db?user=me&password=s3cret&x=1",
        "host=h password=s3cret dbname=d",
        "postgresql://:s3cret@host/db",
    ],
)
def test_a_password_is_never_shown(text: str) -> None:
    assert "s3cret" not in redact(text)
    assert "s3cret" not in str(InvalidValue("url", text, "is wrong"))
    assert "s3cret" not in str(StoreUnavailable(text))


def test_what_is_no_secret_stays() -> None:
    assert redact("postgresql://me:x@host:5432/db") == "postgresql://me:***@host:5432/db"
    assert redact("postgresql://host:5432/db") == "postgresql://host:5432/db"


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, 10**5000, list(range(10**5)), {"a": "b" * 10**6}],
    ids=["text", "int", "list", "dict"],
)
def test_a_long_value_is_shortened(value: object) -> None:
    assert len(shown(value)) < 200


def test_a_moment_is_shown_as_people_write_it() -> None:
    error = InvalidValue("to", datetime(2027, 1, 31, 9, tzinfo=UTC), "is before start")
    assert str(error) == "to: 2027-01-31 09:00:00+00:00 is before start"


def test_a_value_that_cannot_be_shown_does_no_harm() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError

    assert "Hostile" in shown(Hostile())

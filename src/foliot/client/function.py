"""What `@app.job` makes of a function: still callable as itself, and submittable."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack

import msgspec

from foliot.client.handle import Handle
from foliot.errors import LONGEST_WAIT, InvalidValue
from foliot.model.definition import JobDefinition
from foliot.model.job import NewJob
from foliot.registry import bind, check_seconds, check_whole

if TYPE_CHECKING:
    from foliot.client.app import Foliot

P = ParamSpec("P")
C = TypeVar("C")  # what a call returns: of an async function, a coroutine
R = TypeVar("R")  # what the job results in


class Options(TypedDict, total=False):
    """What `options` takes."""

    delay: float | timedelta
    run_at: datetime
    priority: int
    key: str
    connection: Any  # of psycopg, psycopg2, asyncpg, sqlite3, SQLAlchemy or Django


class Choices(msgspec.Struct, frozen=True):
    """Options that were checked."""

    delay: float | None = None
    run_at: datetime | None = None
    priority: int | None = None
    key: str | None = None
    connection: Any = None  # on which to submit, in the transaction of its owner


class Prepared(msgspec.Struct, frozen=True):
    """A call that has been checked and not yet submitted."""

    definition: JobDefinition
    payload: bytes
    choices: Choices


class JobFunction(Generic[P, C, R]):
    """A function that can be run as a job."""

    __name__: str

    def __init__(
        self, app: Foliot, definition: JobDefinition, choices: Choices | None = None
    ) -> None:
        self.definition = definition
        self._app = app
        self._choices = choices or Choices()
        update_wrapper(self, definition.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Call the function here and now."""
        return self.definition.function(*args, **kwargs)  # type: ignore[no-any-return]

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Have it run by a worker. Durable when this returns."""
        return self._app.submit(self.prepare(*args, **kwargs))

    async def asubmit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        return await self._app.asubmit(self.prepare(*args, **kwargs))

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> Prepared:
        """The call, checked, for `app.submit_many`."""
        payload = bind(self.definition, args, kwargs)
        if len(payload) > self._app.settings.limits.payload:
            raise InvalidValue(
                f"{self.definition.kind}()",
                problem=f"has arguments of {len(payload)} bytes, more than limits.payload, "
                f"{self._app.settings.limits.payload}",
                hint="store the data elsewhere and submit where it is",
            )
        return Prepared(self.definition, payload, self._choices)

    def options(self, **options: Unpack[Options]) -> JobFunction[P, C, R]:
        """The same function with other options for what is submitted through it."""
        return JobFunction(self._app, self.definition, check_options(self._choices, options))

    def __repr__(self) -> str:
        return f"<job {self.definition.kind}>"


def check_options(choices: Choices, options: Options) -> Choices:
    known = Options.__optional_keys__
    for name in options:
        if name not in known:
            raise InvalidValue(
                "options", name, f"is not an option; there are {', '.join(sorted(known))}"
            )
    values: dict[str, Any] = dict(options)
    if values.get("delay") is not None and values.get("run_at") is not None:
        raise InvalidValue("delay", values["delay"], "cannot be given together with run_at")
    for name, check in _CHECKS.items():
        if values.get(name) is not None:
            values[name] = check(values[name])
    if "delay" in values or "run_at" in values:
        values = {"delay": None, "run_at": None, **values}
    return msgspec.structs.replace(choices, **values)


def new_job(prepared: Prepared, app: Foliot) -> NewJob:
    definition, choices = prepared.definition, prepared.choices
    return NewJob(
        id=app.new_id(definition.kind, choices.key),
        kind=definition.kind,
        payload=prepared.payload,
        lane=app.lane(definition.queue).number,
        queue=definition.queue,
        priority=definition.priority if choices.priority is None else choices.priority,
        max_attempts=definition.max_attempts,
        run_at=choices.run_at,
        delay=choices.delay,
        timeout=definition.timeout,
        key=choices.key,
    )


def _check_delay(value: float | timedelta) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return check_seconds("delay", seconds, least=0, most=LONGEST_WAIT, example="delay=60")


def _check_run_at(value: datetime) -> datetime:
    example = "run_at=datetime(2027, 1, 1, 9, tzinfo=ZoneInfo('Europe/Berlin'))"
    if not isinstance(value, datetime):
        raise InvalidValue("run_at", value, "is not a datetime", example=example)
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidValue("run_at", value, "has no time zone", example=example)
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        raise InvalidValue("run_at", value, "is out of range", example=example) from None
    if not 1970 <= moment.year <= 2999:
        raise InvalidValue("run_at", value, "is not between 1970 and 2999", example=example)
    return moment


def _check_priority(value: int) -> int:
    return int(check_whole("priority", value, 0, 9, example="priority=Priority.HIGH"))


def _check_key(value: str) -> str:
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= 512
        or "\0" in value
        or not value.isprintable()
    ):
        raise InvalidValue(
            "key", value, "is not printable text of 1 to 512 characters", example='key="order-42"'
        )
    return value


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "delay": _check_delay,
    "run_at": _check_run_at,
    "priority": _check_priority,
    "key": _check_key,
}

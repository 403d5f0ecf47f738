"""Options of a submission: every value is checked when it is given, and completed by the definition's defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypedDict, cast

import msgspec

from foliot.checks import (
    check_delay,
    check_expires,
    check_flag,
    check_key_mode,
    check_limit_key,
    check_moment,
    check_name,
    check_option,
    check_retry,
    check_rule,
    check_tags,
    check_text,
    check_timeout,
    check_whole,
)
from foliot.errors import InvalidValue
from foliot.ids import Ids, JobId, is_job_id, slot_of_key
from foliot.model.change import Change
from foliot.model.definition import Defaults
from foliot.model.job import Extras, KeyMode, More, NewJob
from foliot.model.lane import lane_of
from foliot.model.retry import StoredRetry
from foliot.model.workflow import Rule
from foliot.shown import did_you_mean

Names = (
    list[str] | tuple[str, ...] | set[str] | frozenset[str]
)  # not str, which is a sequence of them

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOBODY: Final = JobId("")  # of a template
_PLAIN: Final = Extras()


class Options(TypedDict, total=False):
    """What `options` takes; None takes back what was said before."""

    delay: float | timedelta | None
    run_at: datetime | None
    priority: int | None
    queue: str | None
    key: str | None
    key_mode: KeyMode | None
    idempotency_key: str | None
    tags: Names | None
    timeout: float | timedelta | None
    max_attempts: int | None
    retry: StoredRetry | None
    expires: float | timedelta | datetime | None
    namespace: str | None
    ordering_key: str | None
    fair_key: str | None
    limit_key: str | None  # jobs that share one share a limit: see app.limit
    ignore_result: bool | None
    after: Iterable[Any] | None  # handles of jobs, or their ids: it waits for them
    rule: str | None  # which of their ends let it run
    connection: Any  # of psycopg, psycopg2, asyncpg, sqlite3, SQLAlchemy or Django


class Changes(TypedDict, total=False):
    """What `change` takes; what is not named stays."""

    delay: float | timedelta
    run_at: datetime
    priority: int
    queue: str
    payload: dict[str, Any]
    tags: Names
    timeout: float | timedelta
    max_attempts: int
    expires: float | timedelta | datetime


class Choices(msgspec.Struct, frozen=True):
    """Options that were checked. None: as the definition says."""

    delay: float | None = None
    run_at: datetime | None = None
    priority: int | None = None
    queue: str | None = None
    key: str | None = None
    key_mode: KeyMode | None = None
    idempotency_key: str | None = None
    tags: tuple[str, ...] | None = None
    timeout: float | None = None
    max_attempts: int | None = None
    retry: StoredRetry | None = None
    expires: float | datetime | None = None
    namespace: str | None = None
    ordering_key: str | None = None
    fair_key: str | None = None
    limit_key: str | None = None
    ignore_result: bool | None = None
    after: tuple[JobId, ...] | None = None
    rule: Rule | None = None
    connection: Any = None  # on which to submit, in the transaction of its owner


NO_CHOICES: Final = Choices()


def check_options(choices: Choices, options: Options) -> Choices:
    """`choices` with these options on top."""
    values: dict[str, Any] = dict(options)
    for name, value in values.items():
        check_option("options", name, _CHECKS)
        if value is not None:
            values[name] = _CHECKS[name](value)
    if values.get("delay") is not None and values.get("run_at") is not None:
        raise InvalidValue("delay", values["delay"], "cannot be given together with run_at")
    if "delay" in values or "run_at" in values:
        values = {"delay": None, "run_at": None, **values}
    made = msgspec.structs.replace(choices, **values)
    if made.key_mode not in (None, "keep") and made.key is None:
        raise InvalidValue(
            "key_mode", made.key_mode, "needs a key", example='key="order-42", key_mode="replace"'
        )
    _check_after(made)
    return made


def _check_after(choices: Choices) -> None:
    if choices.after is None:
        if choices.rule is not None:
            raise InvalidValue("rule", choices.rule, "needs after", example="after=[handle]")
        return
    for name in ("key", "idempotency_key", "connection"):
        if getattr(choices, name) is not None:
            raise InvalidValue("after", problem=f"cannot be given together with {name}")


def template_of(kind: str, defaults: Defaults, choices: Choices = NO_CHOICES) -> NewJob:
    """A job of these options, without id and payload: computed once for all that are submitted with them."""
    requires = defaults.requires
    queue = choices.queue or defaults.queue
    return NewJob(
        _NOBODY,
        kind=kind,
        payload=b"",
        lane=lane_of(queue, requires).number,
        queue=queue,
        namespace=choices.namespace or defaults.namespace,
        priority=_either(choices.priority, defaults.priority),
        max_attempts=_either(choices.max_attempts, defaults.max_attempts),
        run_at=choices.run_at,
        delay=choices.delay,
        timeout=_either(choices.timeout, defaults.timeout),
        key=choices.key,
        more=_more(defaults, choices),
        key_mode=choices.key_mode or "keep",
    )


def fill(template: NewJob, payload: bytes, ids: Ids) -> NewJob:
    """The job of one call."""
    return NewJob(
        ids.job(None if template.key is None and template.more is None else _home(template)),
        template.kind,
        payload,
        template.lane,
        template.queue,
        template.namespace,
        template.priority,
        template.max_attempts,
        template.run_at,
        template.delay,
        template.timeout,
        template.key,
        template.more,
        template.key_mode,
    )


def change_of(
    options: Mapping[str, Any], payload: bytes | None, requires: tuple[str, ...]
) -> Change:
    """Of a job that requires these capabilities."""
    for name in options:
        if name not in Changes.__optional_keys__:
            hint = did_you_mean(name, Changes.__optional_keys__)
            raise InvalidValue("change", name, "is not something that can be changed", hint=hint)
    choices = check_options(NO_CHOICES, cast(Options, options))
    _check_expiry(choices.expires, choices)
    return Change(
        retime=choices.delay is not None or choices.run_at is not None,
        run_at=choices.run_at,
        delay=choices.delay,
        queue=choices.queue,
        lane=None if choices.queue is None else lane_of(choices.queue, requires).number,
        priority=choices.priority,
        max_attempts=choices.max_attempts,
        timeout=choices.timeout,
        payload=payload,
        tags=choices.tags,
        more=More(**_expiry(choices.expires)),
    )


def key_slot(job: NewJob) -> int:
    """Where its unique key lives."""
    return slot_of_key(job.namespace, job.kind, job.key or "")


def idempotency_slot(job: NewJob, key: str) -> int:
    return slot_of_key(job.namespace, job.kind, key)


def _home(job: NewJob) -> int | None:
    """Where it lives: with those that share its ordering key, else with its unique key, else with its idempotency
    key, else with those that share its limit, else anywhere."""
    more = job.more
    if more is not None and more.ordering_key is not None:
        return slot_of_key(job.namespace, more.ordering_key)
    if job.key is not None:
        return key_slot(job)
    if more is not None and more.extras is not None and more.extras.idempotency_key is not None:
        return idempotency_slot(job, more.extras.idempotency_key)
    if more is not None and more.extras is not None and more.extras.limit_key is not None:
        return slot_of_key(job.namespace, more.extras.limit_key)
    return None


def _more(defaults: Defaults, choices: Choices) -> More | None:
    extras = Extras(
        version=defaults.version,
        retry=choices.retry,
        ignore_result=_either(choices.ignore_result, defaults.ignore_result),
        idempotency_key=choices.idempotency_key,
        limit_key=_either(choices.limit_key, defaults.limit_key),
        breaker=defaults.breaker,
    )
    expires = defaults.expires if choices.expires is None else choices.expires
    _check_expiry(expires, choices)
    more = More(
        tags=_either(choices.tags, defaults.tags),
        ordering_key=choices.ordering_key,
        fair_key=choices.fair_key,
        requires=defaults.requires,
        extras=None if extras == _PLAIN else extras,
        **_expiry(expires),
    )
    return None if more == More() else more


def _expiry(expires: float | datetime | None) -> dict[str, Any]:
    if isinstance(expires, datetime):
        return {"expires_at": _microseconds(expires)}
    return {} if expires is None else {"expires_in": expires}


def _check_expiry(expires: float | datetime | None, choices: Choices) -> None:
    """As far as two clocks need not be compared."""
    start = choices.delay if isinstance(expires, float) else choices.run_at
    if expires is not None and start is not None and expires <= start:  # type: ignore[operator]
        raise InvalidValue(
            "expires",
            expires,
            "is not after the time it is to run at",
            example="delay=60, expires=3600",
        )


def _parents(value: object) -> tuple[JobId, ...]:
    example = "after=[handle]"
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidValue("after", value, "is not a list of jobs", example=example)
    found = []
    for one in value:
        id = one if isinstance(one, str) else getattr(one, "id", None)
        if not isinstance(id, str) or not is_job_id(id):
            raise InvalidValue("after", one, "is neither a handle nor a job's id", example=example)
        found.append(JobId(id))
    if not found:
        raise InvalidValue("after", problem="names no job", example=example)
    return tuple(dict.fromkeys(found))


def _either(chosen: Any, default: Any) -> Any:
    return default if chosen is None else chosen


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "delay": check_delay,
    "run_at": lambda value: check_moment("run_at", value),
    "priority": lambda value: int(check_whole("priority", value, 0, 9, example="priority=2")),
    "queue": lambda value: check_name("queue", value, example='queue="mail"'),
    "key": check_text("key", "order-42"),
    "key_mode": check_key_mode,
    "idempotency_key": check_text("idempotency_key", "request-42"),
    "tags": check_tags,
    "timeout": check_timeout,
    "max_attempts": lambda value: check_whole(
        "max_attempts", value, 1, 1000, example="max_attempts=5"
    ),
    "retry": check_retry,
    "expires": check_expires,
    "namespace": lambda value: check_name("namespace", value, example='namespace="shop"'),
    "ordering_key": check_text("ordering_key", "account-7"),
    "fair_key": check_text("fair_key", "customer-7"),
    "limit_key": check_limit_key,
    "ignore_result": lambda value: check_flag("ignore_result", value),
    "after": _parents,
    "rule": check_rule,
    "connection": lambda value: value,  # checked by what uses it: drivers are not imported before
}

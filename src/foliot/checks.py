"""Checks of single values: each returns the value in its one form, or says what is wrong with it and what would do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Final, ParamSpec, TypeVar, get_args

from foliot.errors import LONGEST_WAIT, InvalidValue
from foliot.model.job import KeyMode
from foliot.model.lane import Strategy
from foliot.model.queue import QueueOptions
from foliot.model.retry import Exponential, Fixed, StoredRetry
from foliot.model.workflow import Rule
from foliot.setting import NAME
from foliot.shown import did_you_mean
from foliot.units import read_size

P = ParamSpec("P")
R = TypeVar("R")

_RETRIES: Final = ("max_retries", "retries")  # what others call it
_MOST_NAMES: Final = 32
_MOST_WEIGHTS: Final = 1000
_MONTHS: Final = 366 * 86_400.0
_LEAST_MEMORY: Final = 1 << 24
_MOST_MEMORY: Final = 1 << 50


def check_option(field: str, name: str, known: Collection[str]) -> None:
    """That there is an option of this name."""
    if name not in known:
        hint = did_you_mean(name, known) or f"there are {', '.join(sorted(known))}"
        if name in _RETRIES and "max_attempts" in known:
            hint = "did you mean max_attempts? It counts the first attempt, too"
        raise InvalidValue(field, name, "is not an option", hint=hint)


def options_checked(function: Callable[P, R]) -> Callable[P, R]:
    """Above a function of the SDK: a mistyped keyword is refused like any wrong value, with what was meant."""
    parameters = inspect.signature(function).parameters.values()
    known = {one.name for one in parameters if one.name != "self"}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            check_option(function.__name__, name, known)
        return function(*args, **kwargs)

    return checked


def check_name(field: str, value: object, *, example: str) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise InvalidValue(
            field, value, "is not 1 to 200 letters, digits, and any of _ . : -", example=example
        )
    return value


def check_whole(field: str, value: object, least: int, most: int, *, example: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidValue(
            field, value, f"is not a whole number from {least} to {most}", example=example
        )
    return value


def check_number(
    field: str, value: object, least: float, most: float, *, problem: str, example: str
) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidValue(field, value, problem, example=example)
    return float(value)


def check_seconds(
    field: str, value: object, *, least: float, example: str, most: float = LONGEST_WAIT
) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    problem = f"is not a number of seconds from {least:g} to {most:.12g}"
    return check_number(field, seconds, least, most, problem=problem, example=example)


def check_delay(value: object) -> float:
    return check_seconds("delay", value, least=0, example="delay=60")


def check_timeout(value: object) -> float:
    return check_seconds("timeout", value, least=0.01, example="timeout=30", most=_MONTHS)


def check_expires_in(value: object) -> float:
    return check_seconds("expires", value, least=0.001, example="expires=3600")


def check_expires(value: object) -> float | datetime:
    if isinstance(value, datetime):
        return check_moment("expires", value)
    return check_expires_in(value)


def check_moment(field: str, value: object) -> datetime:
    example = f"{field}=datetime(2027, 1, 1, 9, tzinfo=ZoneInfo('Europe/Berlin'))"
    if not isinstance(value, datetime):
        raise InvalidValue(field, value, "is not a datetime", example=example)
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidValue(field, value, "has no time zone", example=example)
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        raise InvalidValue(field, value, "is out of range", example=example) from None
    if not 1970 <= moment.year <= 2999:
        raise InvalidValue(field, value, "is not between 1970 and 2999", example=example)
    return moment


def check_text(field: str, example: str, longest: int = 512) -> Callable[[object], str]:
    def check(value: object) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= longest or not value.isprintable():
            problem = f"is not printable text of 1 to {longest} characters"
            raise InvalidValue(field, value, problem, example=f'{field}="{example}"')
        return value

    return check


def check_limit_key(value: object) -> str:
    """Limits of many keys end with a star, so a key does not: which of both is meant could not be told."""
    example = "customer:42"
    key = check_text("limit_key", example)(value)
    if key.endswith("*"):
        problem = "ends with a *, as limits of many keys do"
        raise InvalidValue("limit_key", value, problem, example=f'limit_key="{example}"')
    return key


def check_note(value: object, example: str) -> str | None:
    """Why somebody does something by hand."""
    return None if value is None else check_text("note", example)(value)


def check_names(
    field: str, value: object, one: Callable[[object], str], *, example: str
) -> tuple[str, ...]:
    """Several names, each once, in their order."""
    if not isinstance(value, list | tuple | set | frozenset):
        raise InvalidValue(field, value, "is not a list of names", example=example)
    ordered: Iterable[object] = (
        sorted(value, key=str) if isinstance(value, set | frozenset) else value
    )
    names = tuple(dict.fromkeys(one(name) for name in ordered))
    if len(names) > _MOST_NAMES:
        raise InvalidValue(field, problem=f"has {len(names)} names, more than {_MOST_NAMES}")
    return names


def check_tags(value: object) -> tuple[str, ...]:
    return check_names("tags", value, check_text("tags", "vip", 100), example='tags=["vip"]')


def check_requires(value: object) -> tuple[str, ...]:
    def one(name: object) -> str:
        return check_name("requires", name, example='requires={"gpu", "region:eu"}')

    return tuple(sorted(check_names("requires", value, one, example='requires={"gpu"}')))


def check_key_mode(value: object) -> KeyMode:
    for mode in get_args(KeyMode):
        if value == mode:
            return mode  # type: ignore[no-any-return]
    raise InvalidValue(
        "key_mode", value, "is not keep, replace or debounce", example='key_mode="replace"'
    )


def check_retry(value: object) -> StoredRetry:
    if isinstance(value, Exponential | Fixed):
        return value
    raise InvalidValue(
        "retry",
        value,
        "is not Exponential or Fixed",
        example="retry=Fixed(30)",
        hint="a function of your own belongs to the definition" if callable(value) else None,
    )


def check_flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue(field, value, "is not True or False", example=f"{field}=True")
    return value


def check_soft_timeout(timeout: object, value: object) -> float | None:
    """It comes before the timeout, if there is one."""
    if value is None:
        return None
    example = "soft_timeout=25, timeout=30"
    soft = check_seconds("soft_timeout", value, least=0.01, example=example, most=_MONTHS)
    if timeout is not None and soft >= (hard := check_timeout(timeout)):
        raise InvalidValue(
            "soft_timeout", value, f"is not below timeout, {hard:g}", example=example
        )
    return soft


def check_cancel_grace(value: object) -> float | None:
    if value is None:
        return None
    return check_seconds("cancel_grace", value, least=0, example="cancel_grace=30", most=_MONTHS)


def check_executor(executor: object) -> bool:
    if executor not in ("auto", "process"):
        raise InvalidValue(
            "executor", executor, "is neither auto nor process", example='executor="process"'
        )
    return executor == "process"


def check_memory(memory: int | str | None, executor: str) -> int | None:
    if memory is None:
        return None
    example = 'executor="process", memory="256MiB"'
    if executor != "process":
        raise InvalidValue("memory", memory, "needs a process of its own", example=example)
    try:
        size = read_size(memory)
    except ValueError as error:
        raise InvalidValue("memory", memory, str(error), example=example) from None
    if not _LEAST_MEMORY <= size <= _MOST_MEMORY:
        raise InvalidValue("memory", memory, "is not between 16MiB and 1PiB", example=example)
    return size


def check_errors(given: object, field: str = "no_retry") -> tuple[type[BaseException], ...]:
    errors = (given,) if isinstance(given, type) else given
    if isinstance(errors, Iterable):
        found = tuple(errors)
        if all(isinstance(error, type) and issubclass(error, BaseException) for error in found):
            return found
    raise InvalidValue(
        field, given, "holds something that is no exception", example=f"{field}=(ValueError,)"
    )


def check_strategy(value: object) -> Strategy:
    if isinstance(value, Strategy):
        return value
    names = [strategy.name.lower() for strategy in Strategy]
    if not isinstance(value, str) or value not in names:
        problem = f"is not one of {', '.join(names)}"
        raise InvalidValue("strategy", value, problem, example='strategy="round_robin"')
    return Strategy[value.upper()]


def check_weights(value: object) -> dict[str, float]:
    example = 'weights={"vip": 3}'
    if not isinstance(value, Mapping):
        raise InvalidValue("weights", value, "is not a mapping of fair keys", example=example)
    if len(value) > _MOST_WEIGHTS:
        raise InvalidValue("weights", problem=f"has more than {_MOST_WEIGHTS} keys")
    named = check_text("weights", "vip")
    for weight in value.values():
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not 0.001 <= weight <= 1000:
            problem = "has a weight that is not a number from 0.001 to 1000"
            raise InvalidValue("weights", dict(value), problem, example=example)
    return {named(key): float(weight) for key, weight in value.items()}


def check_queue_options(
    strategy: object = None, aging: object = None, weights: object = None
) -> QueueOptions:
    return QueueOptions(
        None if strategy is None else check_strategy(strategy),
        None
        if aging is None
        else check_seconds("aging", aging, least=0, most=366 * 86400, example="aging=60"),
        None if weights is None else check_weights(weights),
    )


def check_rule(value: object) -> Rule:
    """Of its word."""
    if isinstance(value, str) and value in list(Rule):
        return Rule(value)
    known = ", ".join(Rule)
    hint = did_you_mean(value, Rule) if isinstance(value, str) else None
    raise InvalidValue("rule", value, f"is none of {known}", example='rule="all_done"', hint=hint)

"""Of everything a user may ask (commands.py), what is about breakers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from foliot.author import Author, by_hand
from foliot.checks import check_name, check_note, check_number, check_seconds, check_whole
from foliot.errors import FoliotError, InvalidValue
from foliot.limit_commands import MOST_COUNTED, let_in, read_rate
from foliot.model.breaker import Options
from foliot.shown import did_you_mean, named, shown
from foliot.store.breaking import Found, Shift
from foliot.store.port import Store

_DAY: Final = 86_400.0
SHORTEST: Final = 0.1  # seconds that one is opened for by hand
LONGEST: Final = 31 * _DAY
_MOST: Final = 1_000_000
_MOST_PROBES: Final = 100
_LEAST_RATIO: Final = 1e-9
_LONGEST: Final = 600.0  # seconds that one stays open, if it opens shorter at first


def options_of(
    *,
    failures: int = 5,
    window: float | timedelta = 60.0,
    ratio: float | None = None,
    open_for: float | timedelta = 30.0,
    longest: float | timedelta | None = None,
    probes: int = 1,
    successes: int = 1,
    release: str = "10/second",
) -> Options:
    """Options, with every value checked."""
    check_whole("failures", failures, 1, _MOST, example="failures=5")
    check_whole("probes", probes, 1, _MOST_PROBES, example="probes=1")
    check_whole("successes", successes, 1, _MOST, example="successes=3")
    number, period = _release(release)
    shortest = _seconds("open_for", open_for)
    return Options(
        failures=failures,
        window=_seconds("window", window),
        ratio=None if ratio is None else _ratio(ratio),
        open_for=shortest,
        longest=_longest(longest, shortest),
        probes=probes,
        successes=successes,
        release=number / period,
    )


def _longest(given: float | timedelta | None, shortest: float) -> float:
    if given is None:
        return max(shortest, _LONGEST)
    seconds = _seconds("longest", given)
    if seconds < shortest:
        problem = f"is shorter than open_for, {shortest:g} seconds"
        raise InvalidValue("longest", given, problem, example=f"longest={shortest * 10:g}")
    return seconds


def check_breaker_name(name: object) -> str:
    return check_name("breaker", name, example='"stripe"')


async def apply_breakers(store: Store, breakers: Mapping[str, Options]) -> bool:
    """As an app's code says it. Whether it changed anything."""
    changed = False
    for name, options in sorted(breakers.items()):
        changed |= await store.breakers.declare(name, options)
    return changed


async def list_breakers(store: Store) -> list[Found]:
    return await store.breakers.all(most=MOST_COUNTED)


async def open_breaker(
    store: Store,
    name: str,
    *,
    seconds: float | timedelta | None = None,
    note: str | None = None,
    new: bool = False,
    by: Author | str | None = None,
) -> Shift:
    """Nothing that has this breaker starts, for so long, or until somebody closes it. What runs goes on. One that
    nobody has named before is opened only as `new`: a slip of the pen would stop nothing."""
    check_breaker_name(name)
    if not new and name not in (known := await _known(store)):
        raise _unknown(name, known, "if no app has named it so far, add --new")
    length = None
    if seconds is not None:
        length = _seconds("--for", seconds, most=LONGEST, example="--for 10m")
    who, record = by_hand(by, "open breaker", **_told({"note": note, "seconds": length}))
    return await store.breakers.open(name, seconds=length, note=_note(note), by=who, record=record)


async def close_breaker(
    store: Store, name: str, *, note: str | None = None, by: Author | str | None = None
) -> Shift:
    """Those who wait for it start again, at its rate."""
    check_breaker_name(name)
    who, record = by_hand(by, "close breaker", **_told({"note": note}))
    shift = await store.breakers.close(name, note=_note(note), by=who, record=record)
    if shift is None:
        raise _unknown(name, await _known(store))
    if shift.moved:
        await let_in(store)
    return shift


async def _known(store: Store) -> set[str]:
    """Those that there are, and those that definitions name."""
    there = {one.breaker.name for one in await store.breakers.all(most=1)}
    of_kinds = {one.options.breaker for one in await store.definitions.all()}
    return there | {name for name in of_kinds if name is not None}


def _unknown(name: str, known: Iterable[str], otherwise: str | None = None) -> FoliotError:
    names = sorted(known)
    near = did_you_mean(name, names)
    there = f"there are {named(names)}" if names else "there are none so far"
    hint = near or there
    if otherwise is not None:
        hint += f" {otherwise}" if near else f"; {otherwise}"
    return FoliotError(f"no breaker is called {shown(name)}", hint=hint)


def _release(release: object) -> tuple[float, float]:
    try:
        return read_rate(release)
    except InvalidValue:
        problem = "is not a number of starts per second, minute or hour"
        raise InvalidValue("release", release, problem, example='release="10/second"') from None


def _seconds(field: str, value: object, *, most: float = _DAY, example: str | None = None) -> float:
    return check_seconds(field, value, least=SHORTEST, most=most, example=example or f"{field}=60")


def _ratio(value: object) -> float:
    return check_number(
        "ratio", value, _LEAST_RATIO, 1, problem="is not a share of 1", example="ratio=0.5"
    )


def _note(note: str | None) -> str | None:
    return check_note(note, "they are down until noon")


def _told(detail: dict[str, Any]) -> dict[str, Any]:
    """What the audit log says of it."""
    return {name: value for name, value in detail.items() if value is not None}

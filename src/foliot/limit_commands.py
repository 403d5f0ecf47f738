"""Of everything a user may ask (commands.py), what is about limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil, isfinite
from typing import Any, Final

import msgspec

from foliot.author import Author, by_hand
from foliot.checks import check_name, check_note, check_text, check_whole
from foliot.errors import InvalidValue
from foliot.model.limit import SCOPES, Limit
from foliot.model.said import is_heard, text_of
from foliot.shown import did_you_mean
from foliot.store.limiting import MOST_GATES, Standing
from foliot.store.port import Store, Wake

MOST_COUNTED: Final = 10_000  # jobs that wait for one limit
_MOST: Final = 1_000_000_000
_WORDS: Final = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
}
_RATE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:/|per\s)\s*([a-z]+)\s*", re.IGNORECASE)
_LONGEST_REFILL: Final = (
    30 * 86400.0
)  # seconds; what nobody has asked for is forgotten after 40 days
_EXAMPLE: Final = '"queue:mail", "kind:send_email", "namespace:shop" or "key:customer:*"'


def limit_of(
    name: str,
    *,
    concurrency: int | None = None,
    rate: str | None = None,
    burst: int | None = None,
    note: str | None = None,
) -> Limit:
    """A limit, with every value checked."""
    check_limit_name(name)
    if concurrency is None and rate is None:
        raise InvalidValue(
            "limit", name, "limits nothing", example='concurrency=5, or rate="100/minute"'
        )
    if concurrency is not None:
        check_whole("concurrency", concurrency, 0, _MOST, example="concurrency=5")
    number, period = (None, 1.0) if rate is None else read_rate(rate)
    if burst is not None:
        check_whole("burst", burst, 1, _MOST, example="burst=10")
        if rate is None:
            raise InvalidValue(
                "burst", burst, "needs a rate", example='rate="100/minute", burst=10'
            )
    most = burst or _usual_burst(number, period)
    if number is not None and most * period / number > _LONGEST_REFILL:
        problem = f"takes more than {_LONGEST_REFILL / 86400:g} days to bring a burst of {most}"
        raise InvalidValue("rate", rate, problem, example='rate="1/hour", burst=10')
    return Limit(
        name=name,
        concurrency=concurrency,
        rate=number,
        period=period,
        burst=most,
        note=check_note(note, "the contract says so"),
    )


def _usual_burst(rate: float | None, period: float) -> int:
    """What comes together in a tenth of a second: fewer could not be let in one by one at high rates."""
    return 1 if rate is None else max(1, ceil(rate / period / 10))


def read_rate(text: object) -> tuple[float, float]:
    """How many in how many seconds: "100/minute"."""
    found = _RATE.fullmatch(text) if isinstance(text, str) else None
    period = _WORDS.get(found[2].lower()) if found else None
    number = float(found[1]) if found else 0.0
    if period is None or not isfinite(number) or not 0 < number <= _MOST:
        problem = "is not a number of starts per second, minute or hour"
        raise InvalidValue("rate", text, problem, example='rate="100/minute"')
    return number, period


def check_limit_name(name: object) -> str:
    scope, colon, word = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not colon or scope not in SCOPES:
        hint = did_you_mean(scope, SCOPES) if scope not in SCOPES else None
        raise InvalidValue("limit", name, "is no scope and name", example=_EXAMPLE, hint=hint)
    example = '"key:customer:*"' if scope == "key" else f'"{scope}:mail"'
    try:
        if scope == "key":
            check_text("limit", example)(word)
        else:
            check_name("limit", word, example=example)
    except InvalidValue as error:
        raise InvalidValue("limit", name, error.problem, example=example) from None
    if scope == "key" and "*" in word[:-1]:
        raise InvalidValue("limit", name, "has a * that is not its end", example=example)
    return str(name)


async def set_limit(store: Store, limit: Limit, *, by: Author | str | None = None) -> bool:
    """Whether it changed anything. What runs goes on; who waits is asked again at once."""
    who, record = by_hand(by, "set limit", **_told(limit))
    changed = await store.limits.set(limit, by=who, record=record)
    if changed:
        await _count_on(store)
    return changed


async def delete_limit(store: Store, name: str, *, by: Author | str | None = None) -> bool:
    """Whether it was there."""
    check_limit_name(name)
    _, record = by_hand(by, "delete limit")
    deleted = await store.limits.delete(name, record=record)
    if deleted:
        await let_in(store)
    return deleted


async def _count_on(store: Store) -> None:
    """After a change."""
    await store.limits.relax()
    await let_in(store)


async def let_in(store: Store) -> None:
    """Ask those again who wait for limits with room, without waiting for the duty; the rest is its."""
    for partition in range(store.partitions):
        tended = await store.limits.tend(partition, "", limit=MOST_GATES)
        lanes = {(partition, one.lane) for one in tended.admitted}
        if lanes:
            store.wake(Wake(tuple(sorted(lanes))))
    store.wake(Wake(due=True))


async def apply_limits(store: Store, limits: Mapping[str, Limit], *, by: str) -> bool:
    """As an app's code says it, where that counts (model/said.py); what it does not say stays. Whether it changed
    anything. It looks first: who changes limits keeps all claims waiting, and mostly there is nothing to change."""
    known = {one.name: one for one in await store.limits.known()} if limits else {}
    news = [
        msgspec.structs.replace(limit, said=said)
        for name, limit in sorted(limits.items())
        if _is_heard(said := text_of(_told(limit)), known.get(name), by)
    ]
    changed = [await store.limits.set(limit, by=by) for limit in news]
    if any(changed):
        await _count_on(store)
    return any(changed)


def _is_heard(said: str, known: Limit | None, by: str) -> bool:
    return known is None or is_heard(
        said,
        before=known.said,
        own=known.updated_by == by,
        other=text_of(_told(known)) != said,
    )


async def list_limits(store: Store) -> list[Standing]:
    return await store.limits.all(most=MOST_COUNTED)


def _told(limit: Limit) -> dict[str, Any]:
    """What the audit log says of it, and code."""
    burst = None if limit.rate is None else limit.burst
    told = {
        "concurrency": limit.concurrency,
        "rate": limit.shown_rate,
        "burst": burst,
        "note": limit.note,
    }
    return {name: value for name, value in told.items() if value is not None}

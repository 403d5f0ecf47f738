"""`foliot limits`: how many jobs may run at once or start in a time, and how much of that is used."""

from __future__ import annotations

import msgspec

from foliot import limit_commands, queue_commands
from foliot.author import Author
from foliot.cli.ask import ask
from foliot.cli.options import DEFAULT_OPTIONS, OptionalWhole, Options
from foliot.cli.output import ago, print_doubt, print_json, print_table, print_unknown
from foliot.ids import Ids
from foliot.model.limit import Limit, show_gate
from foliot.store.limiting import KeyStanding, Standing
from foliot.store.port import Store


def list_limits(*, options: Options = DEFAULT_OPTIONS) -> None:
    """List the limits, how much of each is used, and how many jobs wait for it.

    Tokens are how many may start at once by the rate, of its burst.
    Of a limit for many keys the busiest keys follow. Counting those who wait stops at 10,000; a + says that there are
    more.
    """
    found = ask(options, limit_commands.list_limits)
    if options.json:
        print_json({"limits": [_told(one) for one in found]})
        return
    rows = [row for one in found for row in (_row(one), *(_key_row(one, key) for key in one.keys))]
    print_table(("limit", "running", "rate", "tokens", "waiting", "set by", "note"), rows)


def set_limit(
    limit: str,
    *,
    concurrency: OptionalWhole = None,
    rate: str | None = None,
    burst: OptionalWhole = None,
    note: str | None = None,
    by: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Limit how many jobs run at once, or start in a time. What was said of the limit before is replaced.

    Lowered, it stops nothing that runs; raised, those who wait go on at once.

    Parameters
    ----------
    limit
        For what: queue:mail, kind:send_email, namespace:shop, key:customer:42, or key:customer:* for each such key.
    concurrency
        How many may run at once, in all workers together.
    rate
        How many may start in a time: 10/second, 100/minute, 5000/hour.
    burst
        How many may start at once where there were none for a while; else what a tenth of a second brings.
    note
        Why, for those who wonder.
    by
        Who says so; else user@host.
    """
    made = limit_commands.limit_of(
        limit, concurrency=concurrency, rate=rate, burst=burst, note=note
    )
    author = Author(Ids(), by)

    scope, _, name = limit.partition(":")

    async def run(store: Store) -> tuple[bool, Standing | None, str | None]:
        changed = await limit_commands.set_limit(store, made, by=author)
        found = await store.limits.get(limit, most=limit_commands.MOST_COUNTED)
        return changed, found, await queue_commands.find_doubt(store, scope, name)

    changed, found, doubt = ask(options, run)
    if options.json:
        print_json({"changed": changed, **({} if found is None else _told(found))})
    else:
        print(f"set {limit}" if changed else f"{limit} is as it was")
    print_doubt(doubt)


def delete(limit: str, *, by: str | None = None, options: Options = DEFAULT_OPTIONS) -> int:
    """Take a limit away. Those who wait for it go on.

    Parameters
    ----------
    limit
        Its name, as `foliot limits list` shows it.
    by
        Who says so; else user@host.
    """
    author = Author(Ids(), by)

    async def run(store: Store) -> tuple[bool, list[Standing]]:
        deleted = await limit_commands.delete_limit(store, limit, by=author)
        return deleted, [] if deleted else await limit_commands.list_limits(store)

    deleted, others = ask(options, run)
    if options.json:
        print_json({"name": limit, "deleted": deleted})
    elif deleted:
        print(f"deleted {limit}")
    else:
        print_unknown("limit", limit, [one.limit.name for one in others])
    return 0 if deleted else 1


def _row(one: Standing) -> tuple[str, ...]:
    limit = one.limit
    most = "" if limit.concurrency is None else f"/{limit.concurrency}"
    used = f"{one.used}{most}"
    if limit.is_pattern or one.keys:
        used = f"{one.used} ({limit.concurrency} each)" if most else f"{one.used}"
    waiting = f"{one.waiting}{'+' if one.at_least else ''}"
    tokens = _tokens(limit, one.tokens, one.wait)
    rate = limit.shown_rate or ""
    return (limit.name, used, rate, tokens, waiting, limit.updated_by or "", limit.note or "")


def _key_row(one: Standing, key: KeyStanding) -> tuple[str, ...]:
    most = "" if one.limit.concurrency is None else f"/{one.limit.concurrency}"
    tokens = _tokens(one.limit, key.tokens, key.wait)
    return (f"  {show_gate(key.name)}", f"{key.used}{most}", "", tokens, "", "", "")


def _tokens(limit: Limit, left: float | None, wait: float | None) -> str:
    """How many may start at once, and when there is the next where none is left."""
    if limit.rate is None:
        return ""
    if left is None:
        return f"{limit.burst} each"
    whole = int(left + 1e-9)  # what adding fractions loses
    next_ = "" if whole or wait is None else f", next in {ago(wait)}"
    return f"{whole}/{limit.burst}{next_}"


def _told(one: Standing) -> dict[str, object]:
    told: dict[str, object] = msgspec.to_builtins(one)
    limit = told.pop("limit")
    assert isinstance(limit, dict)
    del limit["counted"], limit["said"]  # that is between the store and its workers
    return {**limit, "rate": one.limit.shown_rate, **told}

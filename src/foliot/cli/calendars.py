"""`foliot calendars`: days on which the schedules that name them do not fire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import print_json, print_table, print_unknown, printable
from foliot.errors import InvalidValue

if TYPE_CHECKING:
    from foliot.store.excluding import Calendar
    from foliot.store.port import Store


def list_calendars(*, options: Options = DEFAULT_OPTIONS) -> None:
    """List calendars with their entries."""
    from foliot.cli.ask import ask
    from foliot.cli.shape import show_time

    async def read(store: Store) -> list[Calendar]:
        return await store.calendars.all()

    found = ask(options, read)
    if options.json:
        print_json({"calendars": [_to_json(one) for one in found]})
        return
    print_table(
        ("calendar", "entries", "changed", "by"),
        [
            (one.name, ", ".join(_entries(one)), show_time(one.updated_at), one.updated_by or "")
            for one in found
        ],
    )


def set_calendar(
    name: str, *entries: str, by: str | None = None, options: Options = DEFAULT_OPTIONS
) -> None:
    """Say which days a calendar has, from now on.

    Parameters
    ----------
    name
        Its name.
    entries
        Days: 2026-12-25, 2026-12-24..2027-01-01, 12-25 for every year, or an expression that fires on them.
    by
        Who says so, for the audit log (else user@host).
    """
    from foliot import schedule_calendars
    from foliot.author import Author
    from foliot.cli.ask import ask
    from foliot.ids import Ids

    if not entries:
        raise InvalidValue(
            "entries", problem="are missing", example="foliot calendars set holidays 12-25 12-26"
        )
    author = Author(Ids(), by)

    async def run(store: Store) -> bool:
        return await schedule_calendars.set_calendar(store, name, entries, by=author)

    changed = ask(options, run)
    if options.json:
        print_json({"name": name, "entries": entries, "changed": changed})
    else:
        print(printable(f"set {name}" if changed else f"{name} is as it was"))


def delete(name: str, *, by: str | None = None, options: Options = DEFAULT_OPTIONS) -> int:
    """Delete a calendar: the schedules that name it fire on its days again. Exit code 1: there is none.

    Parameters
    ----------
    name
        Its name.
    by
        Who asks for it, for the audit log (else user@host).
    """
    from foliot import schedule_calendars
    from foliot.author import Author
    from foliot.cli.ask import ask
    from foliot.ids import Ids

    author = Author(Ids(), by)

    async def run(store: Store) -> tuple[bool, list[Calendar]]:
        deleted = await schedule_calendars.delete_calendar(store, name, by=author)
        return deleted, await store.calendars.all()

    deleted, others = ask(options, run)
    if options.json:
        print_json({"name": name, "deleted": deleted})
    elif deleted:
        print(printable(f"deleted {name}"))
    else:
        print_unknown("calendar", name, [one.name for one in others])
    return 0 if deleted else 1


def _entries(calendar: Calendar) -> list[str]:
    import msgspec

    return msgspec.json.decode(calendar.dates, type=list[str])


def _to_json(calendar: Calendar) -> dict[str, object]:
    return {
        "name": calendar.name,
        "entries": _entries(calendar),
        "updated_at": calendar.updated_at,
        "updated_by": calendar.updated_by,
    }

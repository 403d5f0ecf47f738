"""Of everything a user may ask (commands.py), what is about calendars."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from foliot.author import Author
from foliot.checks import check_name
from foliot.errors import InvalidValue
from foliot.model.calendar import write_entries
from foliot.store.port import Store
from foliot.store.searching import Record

_decode: Final = msgspec.json.Decoder(tuple[str, ...]).decode


async def set_calendar(
    store: Store, name: str, entries: Iterable[str], *, by: Author | str | None = None
) -> bool:
    """Make these its entries. Whether that changed anything."""
    check_name("calendar", name, example='"holidays"')
    if isinstance(entries, str):
        raise InvalidValue("calendar", entries, "is not a list", example='["2026-12-25"]')
    dates = write_entries(entries)
    if any(one.name == name and one.dates == dates for one in await store.calendars.all()):
        return False
    who, record = _by(by, "set", name)
    await store.calendars.put(name, dates, by=who, record=record)
    return True


async def delete_calendar(store: Store, name: str, *, by: Author | str | None = None) -> bool:
    """Whether there was one. Schedules that name it fire on all days."""
    return await store.calendars.delete(name, record=_by(by, "delete", name)[1])


async def calendars(store: Store) -> dict[str, tuple[str, ...]]:
    """The entries of each, by name."""
    return {one.name: _decode(one.dates) for one in await store.calendars.all()}


def _by(by: Author | str | None, action: str, name: str) -> tuple[str | None, Record | None]:
    if not isinstance(by, Author):
        return by, None
    author = by
    return by.name, lambda _: [author.deed(action, f"calendar:{name}")]

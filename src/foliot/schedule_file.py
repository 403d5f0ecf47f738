"""Schedules in a TOML file: what it would change (diff), and making it so (apply).

[calendars]
holidays = ["12-25", "2026-12-24..2026-12-26"]

[schedules.nightly-report]
kind = "report"
payload = { region = "eu" }
expression = "every weekday at 9am"
timezone = "Europe/Berlin"
calendars = ["holidays"]
options = { queue = "slow", max_attempts = 3 }
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from foliot import commands
from foliot.author import Author
from foliot.errors import FoliotError, InvalidValue
from foliot.ids import Ids, schedule_id
from foliot.model.calendar import write_entries
from foliot.model.schedule import Schedule
from foliot.options import Options
from foliot.schedule_calendars import calendars, set_calendar
from foliot.schedule_commands import Draft, compare, create, delete
from foliot.schedule_looks import walk, wanted_of
from foliot.schedule_options import ScheduleOptions
from foliot.schedule_sync import Change, Diff, told
from foliot.shown import did_you_mean
from foliot.store.port import Store

_LARGEST: Final = 10 << 20
_TABLES: Final = ("schedules", "calendars")
_OWN: Final = frozenset({"kind", "payload", "expression", "options"})
_KNOWN: Final = (*sorted(_OWN), *sorted(ScheduleOptions.__optional_keys__))
ORIGIN: Final = "file:"  # of schedules that a file declares, before its name


class Contents(msgspec.Struct, frozen=True):
    """What a file says, as far as that can be known without a store."""

    schedules: dict[str, dict[str, Any]]
    calendars: dict[str, list[str]]
    origin: str


def read_file(path: Path) -> Contents:
    """Raises InvalidValue with the table and key that is wrong."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidValue("file", str(path), f"cannot be read: {reason}") from None
    if len(raw) > _LARGEST:
        raise InvalidValue("file", str(path), "is larger than 10MiB")
    try:
        return read_text(raw.decode("utf-8-sig").replace("\r\n", "\n"), name=path.name)
    except UnicodeDecodeError:
        raise InvalidValue("file", str(path), "is not UTF-8 text") from None


def read_text(text: str, *, name: str = "schedules.toml") -> Contents:
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidValue("file", name, f"is not TOML: {error}") from None
    for table in tables:
        if table not in _TABLES:
            hint = did_you_mean(table, _TABLES) or "there are schedules and calendars"
            raise InvalidValue("file", table, "is not a table of schedules", hint=hint)
    schedules = _tables(tables.get("schedules", {}), "schedules")
    for known, said in schedules.items():
        _check_keys(known, said)
    return Contents(schedules, _calendars(tables.get("calendars", {})), f"{ORIGIN}{name}")


async def diff_file(store: Store, contents: Contents, *, ids: Ids, prune: bool = False) -> Diff:
    """What `apply_file` would change."""
    drafts = await _drafts(store, contents, ids)
    puts = await compare(store, drafts)
    changes = await _calendar_changes(store, contents)
    changes += [line for draft, put in zip(drafts, puts, strict=True) if (line := told(draft, put))]
    if prune:
        changes += [_gone(one, contents) for one in await _lost(store, contents, drafts)]
    return Diff(changes, sum(put.outcome == "unchanged" for put in puts))


async def apply_file(
    store: Store,
    contents: Contents,
    *,
    ids: Ids,
    prune: bool = False,
    by: Author | str | None = None,
) -> Diff:
    """Make schedules and calendars what the file says. With `prune`, schedules that an earlier state of this file made
    and that it does not name any more are deleted; others never are."""
    drafts = await _drafts(store, contents, ids)
    await compare(store, drafts)  # nothing is changed if anything is refused
    changes = await _calendar_changes(store, contents)
    for name, entries in contents.calendars.items():
        await set_calendar(store, name, entries, by=by)
    puts = await create(store, drafts, by=by)
    changes += [line for draft, put in zip(drafts, puts, strict=True) if (line := told(draft, put))]
    if prune:
        lost = await _lost(store, contents, drafts)
        for one in lost:
            await delete(store, one.name, namespace=one.namespace, by=by)
        changes += [_gone(one, contents) for one in lost]
    return Diff(changes, sum(put.outcome == "unchanged" for put in puts))


async def _drafts(store: Store, contents: Contents, ids: Ids) -> list[Draft]:
    drafts: list[Draft] = []
    for name, said in contents.schedules.items():
        try:
            drafts.append(await _draft(store, name, said, contents.origin, ids))
        except FoliotError as error:
            error.message = f"[schedules.{name}] {error.message}"
            raise
    return drafts


async def _draft(store: Store, name: str, said: Mapping[str, Any], origin: str, ids: Ids) -> Draft:
    options = cast(Options, said.get("options", {}))
    job = await commands.prepare_kind(
        store, said["kind"], said.get("payload", {}), ids=ids, options=options
    )
    rest = {key: value for key, value in said.items() if key not in _OWN}
    return Draft(name, job, said.get("expression"), cast(ScheduleOptions, rest), origin)


async def _calendar_changes(store: Store, contents: Contents) -> list[Change]:
    known = await calendars(store) if contents.calendars else {}
    return [
        Change("~" if name in known else "+", f"calendar {name}", ", ".join(entries))
        for name, entries in contents.calendars.items()
        if known.get(name) != tuple(entries)
    ]


async def _lost(store: Store, contents: Contents, drafts: list[Draft]) -> list[Schedule]:
    kept = {schedule_id(draft.job.namespace, draft.name) for draft in drafts}
    return [
        one
        async for page in walk(store, wanted_of(origin=contents.origin))
        for one in page
        if one.id not in kept
    ]


def _gone(schedule: Schedule, contents: Contents) -> Change:
    file = contents.origin.removeprefix(ORIGIN)
    return Change("-", schedule.name, f"deleted: {file} does not name it any more")


def _tables(given: object, field: str) -> dict[str, dict[str, Any]]:
    if not isinstance(given, dict) or not all(isinstance(one, dict) for one in given.values()):
        example = '[schedules.nightly] kind = "report" expression = "0 3 * * *"'
        raise InvalidValue(field, given, "is not a table of tables", example=example)
    return given


def _check_keys(name: str, said: Mapping[str, Any]) -> None:
    place = f"schedules.{name}"
    for key in said:
        if key not in _KNOWN:
            hint = did_you_mean(key, _KNOWN) or f"there are {', '.join(_KNOWN)}"
            raise InvalidValue(place, key, "is not something a schedule has", hint=hint)
    if not isinstance(said.get("kind"), str):
        raise InvalidValue(f"{place}.kind", problem="is missing", example='kind = "report"')
    for key in ("payload", "options"):
        if not isinstance(said.get(key, {}), dict):
            example = f"{key} = {{ }}"
            raise InvalidValue(f"{place}.{key}", said[key], "is not a table", example=example)


def _calendars(given: object) -> dict[str, list[str]]:
    if not isinstance(given, dict):
        raise InvalidValue("calendars", given, "is not a table", example='holidays = ["12-25"]')
    found: dict[str, list[str]] = {}
    for name, entries in given.items():
        if not isinstance(entries, list):
            example = f'{name} = ["2026-12-25"]'
            raise InvalidValue(f"calendars.{name}", entries, "is not a list", example=example)
        # A day may be written without quotes, as TOML has days.
        found[name] = [str(one) if isinstance(one, date) else one for one in entries]
        try:
            write_entries(found[name])
        except InvalidValue as error:
            error.message = f"calendars.{name}: {error.message}"
            raise
    return found

"""Schedules in a TOML file: what it would change, and making it so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foliot import commands as job_commands
from foliot import schedule_commands as commands
from foliot.errors import FoliotError, InvalidValue, UnknownKind, UnknownSchedule
from foliot.registry import define
from foliot.schedule_file import apply_file, diff_file, read_file, read_text
from support.stores import World

pytestmark = pytest.mark.anyio

FILE = """
[calendars]
holidays = ["12-25", 2026-12-31]

[schedules.nightly-report]
kind = "report"
payload = { region = "eu" }
expression = "every weekday at 9am"
timezone = "Europe/Berlin"
calendars = ["holidays"]
misfire_window = "2h"
start = 2026-01-01T00:00:00Z
tags = ["shop"]
options = { queue = "slow", max_attempts = 3, priority = 1 }

[schedules."poll mail"]
kind = "report"
payload = { region = "us" }
after_completion = "5m"
"""


@pytest.fixture
async def known(world: World) -> World:
    def report(region: str) -> None: ...

    await job_commands.announce(world.store, [define(report)])
    return world


async def test_a_file_is_applied_and_then_there_is_nothing_to_change(known: World) -> None:
    store, ids = known.store, known.ids
    contents = read_text(FILE, name="shop.toml")
    planned = await diff_file(store, contents, ids=ids)
    assert str(planned).splitlines() == [
        "+ calendar holidays: 12-25, 2026-12-31",
        "+ nightly-report: report, every weekday at 9am Europe/Berlin",
        "+ poll mail: report, 5m after the end of the last run",
    ]
    assert await commands.search(store) == []
    assert str(await apply_file(store, contents, ids=ids)) == str(planned)
    found = await commands.get(store, "nightly-report")
    assert (found.kind, found.payload, found.queue) == ("report", b'{"region":"eu"}', "slow")
    assert (found.max_attempts, found.priority, found.origin) == (3, 1, "file:shop.toml")
    assert (found.rules.misfire_window, found.rules.calendars) == (7200.0, ("holidays",))
    assert await commands.calendars(store) == {"holidays": ("12-25", "2026-12-31")}
    again = await apply_file(store, contents, ids=ids)
    assert not again and again.unchanged == 2 and str(again) == "nothing to change"


async def test_a_change_is_said_and_made(known: World) -> None:
    store, ids = known.store, known.ids
    await apply_file(store, read_text(FILE, name="shop.toml"), ids=ids)
    changed = FILE.replace("weekday at 9am", "weekday at 10am").replace('"2h"', '"7200s"')
    contents = read_text(changed.replace('"eu"', '"asia"'), name="shop.toml")
    planned = await diff_file(store, contents, ids=ids)
    assert str(planned) == (
        "~ nightly-report: expression every weekday at 9am → every weekday at 10am, "
        'payload {"region":"eu"} → {"region":"asia"}'
    )
    await apply_file(store, contents, ids=ids)
    assert (await commands.get(store, "nightly-report")).version == 2


async def test_what_a_file_no_longer_names_stays_unless_it_is_pruned(known: World) -> None:
    store, ids = known.store, known.ids
    await apply_file(store, read_text(FILE, name="shop.toml"), ids=ids)
    less = read_text(FILE[: FILE.index('[schedules."poll')], name="shop.toml")
    assert not await apply_file(store, less, ids=ids)
    await commands.get(store, "poll mail")
    gone = "- poll mail: deleted: shop.toml does not name it any more"
    assert str(await diff_file(store, less, ids=ids, prune=True)) == gone
    assert str(await apply_file(store, less, ids=ids, prune=True)) == gone
    with pytest.raises(UnknownSchedule):
        await commands.get(store, "poll mail")
    assert len(await commands.search(store)) == 1


async def test_nothing_is_changed_if_anything_is_refused(known: World) -> None:
    bad = (
        FILE
        + '\n[schedules.bad]\nkind = "report"\npayload = {region = "x"}\nexpression = "61 * * * *"\n'
    )
    with pytest.raises(InvalidValue, match="schedule 'bad': expression"):
        await apply_file(known.store, read_text(bad), ids=known.ids)
    assert await commands.search(known.store) == []
    assert await commands.calendars(known.store) == {}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            'kind = "reprot"',
            r"\[schedules.n\] no job of kind 'reprot' is registered; did you mean report",
        ),
        ('kind = "report"', r"\[schedules.n\] payload"),
        (
            'kind = "report"\npayload = { region = "eu" }\noptions = { limit_key = "c:*" }',
            r"\[schedules.n\] limit_key: 'c:\*' ends with a \*",
        ),
    ],
)
async def test_a_job_that_cannot_be_is_refused_with_its_table(
    known: World, line: str, message: str
) -> None:
    contents = read_text(f'[schedules.n]\n{line}\nexpression = "@daily"\n')
    with pytest.raises(FoliotError, match=message) as caught:
        await apply_file(known.store, contents, ids=known.ids)
    assert isinstance(caught.value, UnknownKind | InvalidValue)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[schedules", "is not TOML"),
        ("[schedule.n]\nkind = 'x'", "did you mean schedules"),
        ("schedules = 5", "is not a table of tables"),
        ("[schedules]\nn = 5", "is not a table of tables"),
        ("[schedules.n]\nexpression = '@daily'", "schedules.n.kind is missing"),
        ("[schedules.n]\nkind = 'x'\nexpresion = '@daily'", "did you mean expression"),
        ("[schedules.n]\nkind = 'x'\npayload = 5", "schedules.n.payload"),
        ("[schedules.n]\nkind = 'x'\noptions = []", "schedules.n.options"),
        ("calendars = 5", "calendars"),
        ("[calendars]\nc = '12-25'", "calendars.c"),
        ("[calendars]\nc = ['2026-02-30']", "2026-02-30"),
        ("[calendars]\nc = [5]", "calendar"),
        ("a = " + "[" * 100_000, "is not TOML"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_bad_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        read_text(text)


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"#" * (11 << 20)])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: Any) -> None:
    file = tmp_path / "schedules.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidValue) as caught:
        read_file(file)
    assert caught.value.field == "file"


def test_a_file_of_another_system_is_read(tmp_path: Path) -> None:
    file = tmp_path / "schedules.toml"
    file.write_bytes(b"\xef\xbb\xbf" + FILE.replace("\n", "\r\n").encode())
    assert set(read_file(file).schedules) == {"nightly-report", "poll mail"}

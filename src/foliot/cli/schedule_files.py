"""`foliot schedules diff` and `apply`: schedules and calendars as a file says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import print_json, printable

if TYPE_CHECKING:
    from foliot.schedule_sync import Diff
    from foliot.store.port import Store

Switch = Annotated[bool, Parameter(negative="")]


def diff(file: Path, *, prune: Switch = False, options: Options = DEFAULT_OPTIONS) -> int:
    """Say what `apply` would change. Exit code 1: something.

    Parameters
    ----------
    file
        A TOML file with tables [schedules.NAME] and [calendars].
    prune
        With what `apply --prune` would delete.
    """
    from foliot import schedule_file
    from foliot.cli.ask import ask
    from foliot.ids import Ids

    contents = schedule_file.read_file(file)

    async def run(store: Store) -> Diff:
        return await schedule_file.diff_file(store, contents, ids=Ids(), prune=prune)

    found = ask(options, run)
    _tell(found, options)
    return 1 if found else 0


def apply(
    file: Path,
    *,
    prune: Switch = False,
    by: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Make schedules and calendars what a file says, and say what that has changed. All is checked first.

    Parameters
    ----------
    file
        A TOML file with tables [schedules.NAME] and [calendars].
    prune
        Delete schedules that this file has made and does not name any more.
    by
        Who asks for it, for the audit log (else user@host).
    """
    from foliot import schedule_file
    from foliot.author import Author
    from foliot.cli.ask import ask
    from foliot.ids import Ids

    contents = schedule_file.read_file(file)
    ids = Ids()
    author = Author(ids, by)

    async def run(store: Store) -> Diff:
        return await schedule_file.apply_file(store, contents, ids=ids, prune=prune, by=author)

    _tell(ask(options, run), options)


def _tell(found: Diff, options: Options) -> None:
    if options.json:
        print_json({"changes": found.changes, "unchanged": found.unchanged})
        return
    for line in str(found).splitlines():
        print(printable(line))

"""`foliot schedules`: what there is, and what is done to schedules by hand."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from foliot.cli.given import read_time
from foliot.cli.options import DEFAULT_OPTIONS, Options, Whole
from foliot.cli.output import print_json, printable
from foliot.cli.schedule_options import Overlapping
from foliot.errors import InvalidValue

if TYPE_CHECKING:
    from foliot.ids import JobId
    from foliot.model.audit import Entry
    from foliot.model.schedule import Schedule
    from foliot.store.port import Store
    from foliot.when import Fire

Switch = Annotated[bool, Parameter(negative="")]
_PAST = {"pause": "paused", "resume": "resumed", "delete": "deleted"}


def list_schedules(
    *,
    name: str | None = None,
    tag: str | None = None,
    kind: str | None = None,
    state: Literal["active", "paused", "parked", "ended"] | None = None,
    namespace: str | None = None,
    limit: Whole = 1000,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """List schedules: how they are, when they fire, and when next.

    Parameters
    ----------
    name
        Only those of this name; * stands for any characters.
    tag
        Only those with this tag.
    kind
        Only those whose jobs are of this kind.
    state
        Only those that are so.
    namespace
        Only those of this namespace.
    limit
        How many, at most.
    """
    from foliot import schedule_commands
    from foliot.cli.ask import ask
    from foliot.cli.schedule_shape import print_schedules, schedule_to_json

    async def read(store: Store) -> list[Schedule]:
        return await schedule_commands.search(
            store, tag=tag, kind=kind, state=state, name=name, namespace=namespace, limit=limit
        )

    found = ask(options, read)
    if options.json:
        print_json({"schedules": [schedule_to_json(one) for one in found]})
    else:
        print_schedules(found)
    if len(found) == limit:
        print(f"there may be more than {limit:,}: see --limit", file=sys.stderr)


def show(name: str, *, namespace: str = "default", options: Options = DEFAULT_OPTIONS) -> None:
    """Show all that is known of a schedule, with its next fires and what was done to it by hand.

    Parameters
    ----------
    name
        Its name.
    namespace
        Whose schedule it is.
    """
    from foliot import schedule_commands
    from foliot.cli.ask import ask
    from foliot.cli.schedule_shape import print_schedule, schedule_to_json

    async def read(store: Store) -> tuple[Schedule, list[Fire], list[Entry]]:
        schedule = await schedule_commands.get(store, name, namespace=namespace)
        fires = await schedule_commands.next_fires(store, name, namespace=namespace)
        return schedule, fires, await store.audit.list(target=f"schedule:{schedule.name}")

    schedule, fires, audit = ask(options, read)
    if options.json:
        print_json({**schedule_to_json(schedule), "next_fires": fires, "audit": audit})
    else:
        print_schedule(schedule, fires, audit)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Which:
    """Which schedules are meant, and by whom."""

    tag: str | None = None
    """All with this tag, instead of names."""

    namespace: str = "default"
    """Whose schedules they are."""

    by: str | None = None
    """Who asks for it, for the audit log (else user@host)."""


DEFAULT_WHICH = Which()


def pause(
    *names: str,
    note: str | None = None,
    which: Which = DEFAULT_WHICH,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Stop schedules from firing, until they are resumed. What runs goes on.

    Parameters
    ----------
    names
        Their names.
    note
        Why, for those who wonder.
    """
    from foliot import schedule_commands

    _act("pause", schedule_commands.pause, names, which, options, note=note)


def resume(*names: str, which: Which = DEFAULT_WHICH, options: Options = DEFAULT_OPTIONS) -> None:
    """Let paused or parked schedules fire again, from now on.

    Parameters
    ----------
    names
        Their names.
    """
    from foliot import schedule_commands

    _act("resume", schedule_commands.resume, names, which, options)


def delete(
    *names: str,
    yes: Switch = False,
    which: Which = DEFAULT_WHICH,
    options: Options = DEFAULT_OPTIONS,
) -> int | None:
    """Delete schedules, with their ledger and versions. Their jobs stay.

    Parameters
    ----------
    names
        Their names.
    yes
        Do not ask, where a tag says which.
    """
    from foliot import schedule_commands
    from foliot.cli.selection import Selection, confirm

    if which.tag is not None and not confirm(
        f"delete all schedules with the tag {printable(which.tag)}?", Selection(yes=yes)
    ):
        print("nothing was changed", file=sys.stderr)
        return 1
    _act("delete", schedule_commands.delete, names, which, options)
    return None


def _act(
    action: str,
    act: Callable[..., Awaitable[list[str]]],
    names: tuple[str, ...],
    which: Which,
    options: Options,
    **more: Any,
) -> None:
    from foliot.author import Author
    from foliot.cli.ask import ask
    from foliot.ids import Ids

    if bool(names) == (which.tag is not None):
        raise InvalidValue(
            "names",
            problem="are missing" if not names else "cannot be given together with --tag",
            example=f"foliot schedules {action} --tag nightly",
        )
    author = Author(Ids(), which.by)

    async def run(store: Store) -> list[str]:
        return await act(
            store, names or None, tag=which.tag, namespace=which.namespace, by=author, **more
        )

    done = ask(options, run)
    left = sorted(set(names) - set(done))
    if options.json:
        print_json({_PAST[action]: done, "unchanged": left})
        return
    for name in done:
        print(f"{_PAST[action]} {printable(name)}")
    for name in left:
        print(f"{printable(name)} is as it was", file=sys.stderr)
    if which.tag is not None:
        print(f"{_PAST[action]}: {len(done):,}", file=sys.stderr)


def trigger(
    name: str,
    *,
    overlap: Overlapping | None = None,
    namespace: str = "default",
    by: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> int:
    """Run a schedule once, now; its own times stay what they are. Exit code 1: a run that has not ended forbids it.

    Parameters
    ----------
    name
        Its name.
    overlap
        What to do if an earlier run has not ended, instead of its own rule.
    namespace
        Whose schedule it is.
    by
        Who asks for it, for the audit log (else user@host).
    """
    from foliot import schedule_commands
    from foliot.author import Author
    from foliot.cli.ask import ask
    from foliot.ids import Ids

    ids = Ids()
    author = Author(ids, by)

    async def run(store: Store) -> JobId | None:
        return await schedule_commands.trigger(
            store, name, overlap=overlap, ids=ids, namespace=namespace, by=author
        )

    id = ask(options, run)
    if options.json:
        print_json({"id": id})
    elif id is not None:
        print(id)
    if id is None:
        print(
            f"{printable(name)} was not run: an earlier run has not ended, or a live job has its key",
            file=sys.stderr,
        )
    return 1 if id is None else 0


def backfill(
    name: str,
    *,
    from_: Annotated[str, Parameter(name="--from")],
    to: str,
    overlap: Literal["buffer_all", "allow"] | None = None,
    force: Switch = False,
    namespace: str = "default",
    by: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Run a schedule for the nominal times of a span in which it has no job; as it was then.

    Parameters
    ----------
    name
        Its name.
    from_
        The first of these times may be, for example 2027-01-01T00:00Z.
    to
        The last of them may be.
    overlap
        buffer_all: one run after the other. allow: all at once. Else the former.
    force
        Also for times whose jobs history may have forgotten: they may run a second time.
    namespace
        Whose schedule it is.
    by
        Who asks for it, for the audit log (else user@host).
    """
    from foliot import schedule_backfill
    from foliot.author import Author
    from foliot.cli.ask import ask
    from foliot.ids import Ids

    author = Author(Ids(), by)
    retention = options.load().settings.retention.history
    start, end = read_time("--from", from_), read_time("--to", to)
    assert start is not None
    assert end is not None

    async def run(store: Store) -> list[JobId]:
        return await schedule_backfill.backfill(
            store,
            name,
            start,
            end,
            overlap=overlap,
            force=force,
            retention=retention,
            namespace=namespace,
            by=author,
        )

    made = ask(options, run)
    if options.json:
        print_json({"ids": made})
        return
    for id in made:
        print(id)
    print(f"submitted: {len(made):,}", file=sys.stderr)

"""Commands that change jobs: one by one by id, or all that a filter means."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from foliot.cli.ask import ask
from foliot.cli.options import Options
from foliot.cli.output import print_json, printable
from foliot.cli.selection import Selection, check_selection, confirm, resolve

if TYPE_CHECKING:
    from foliot.author import Author
    from foliot.store.port import Store

_NOT_RETRIED = "steps of workflows are refused, and jobs whose key another one has by now"
_PAST = {"cancel": "cancelled", "retry": "retried", "purge": "purged"}


def act_on(
    ids: Sequence[str],
    action: str,
    act: Callable[..., Awaitable[Any]],
    *,
    selection: Selection,
    options: Options,
) -> int:
    """`act` is for one id; it may return the job's state then. Exit code 1: some of them could not be changed."""
    from foliot.author import Author
    from foliot.ids import Ids

    check_selection(ids, selection)
    author = Author(Ids(), selection.by)
    if selection.filter is not None:
        return _act_on_filter(selection.filter, action, author, selection, options)

    async def question(store: Store) -> tuple[list[str], dict[str, str], int]:
        return await _act_on_ids(store, ids, act, author, dry=selection.dry_run)

    changed, refused, running = ask(options, question)
    _report(action, changed, len(changed), refused, selection, options, running=running)
    return 1 if refused else 0


async def _act_on_ids(
    store: Store,
    ids: Sequence[str],
    act: Callable[..., Awaitable[Any]],
    author: Author,
    *,
    dry: bool,
) -> tuple[list[str], dict[str, str], int]:
    """What was changed, what was refused, and how many of the changed still run. One that cannot be changed does not
    keep the others from it."""
    from foliot.errors import FoliotError, InvalidValue, StoreUnavailable
    from foliot.model.job import JobState

    known = [await resolve(store, id) for id in ids]
    changed: list[str] = []
    refused: dict[str, str] = {}
    running = 0
    for id in known:
        try:
            if not dry:
                running += await act(store, id, by=author) is JobState.RUNNING
            changed.append(id)
        except (StoreUnavailable, InvalidValue):
            raise
        except FoliotError as error:
            refused[id] = error.message
    return changed, refused, running


def _act_on_filter(
    filter: str, action: str, author: Author, selection: Selection, options: Options
) -> int:
    from foliot.bulk import Bulk, Done, among, states_of
    from foliot.clock import SystemClock
    from foliot.model.search import Count
    from foliot.search import count_jobs, to_filter

    wanted = among(to_filter(filter), states_of(action))

    async def look(store: Store) -> tuple[Count, str]:
        return await count_jobs(store, wanted), store.url

    async def do(store: Store) -> Done:
        bulk = Bulk(
            store,
            filter,
            by=author,
            clock=SystemClock(),
            limit=selection.limit,
            rate=selection.rate,
        )
        done: Done = await getattr(bulk, action)()
        return done

    Bulk.check(filter, limit=selection.limit, rate=selection.rate)
    if selection.dry_run or not selection.yes:
        found, url = ask(options, look)
        if selection.dry_run:
            _report_dry(action, found, options)
            return 0
        if not confirm(f"{action} {found} jobs in {url}?", selection):
            print("nothing was changed", file=sys.stderr)
            return 1
    done = ask(options, do)
    refused = {str(id): reason for id, reason in done.reasons.items()}
    more = done.refused - len(refused)
    _report(action, [], done.changed, refused, selection, options, more=more, running=done.running)
    return 1 if done.refused else 0


def _report(
    action: str,
    ids: Sequence[str],
    count: int,
    refused: dict[str, str],
    selection: Selection,
    options: Options,
    *,
    more: int = 0,
    running: int = 0,
) -> None:
    if options.json:
        answer: dict[str, Any] = {"changed": 0 if selection.dry_run else count}
        if selection.dry_run:
            answer["meant"] = count
        if ids:
            answer["ids"] = list(ids)
        if action == "cancel":
            answer["still_running"] = running
        print_json({**answer, "refused": refused, "refused_count": len(refused) + more})
        return
    would = "would be " if selection.dry_run else ""
    _print_counts(f"{would}{_PAST[action]}", count - running, running)
    for id, reason in refused.items():
        print(f"refused: {id}: {printable(reason)}", file=sys.stderr)
    if more:
        print(f"refused: {more:,} more", file=sys.stderr)


def _print_counts(done: str, count: int, running: int) -> None:
    if count or not running:
        print(f"{done}: {count:,}")
    if running:
        print(f"asked to end: {running:,}, still running")


def _report_dry(action: str, found: Any, options: Options) -> None:
    if options.json:
        print_json({"changed": 0, "meant": int(found), "exact": found.exact})
    else:
        most = " at most" if action == "retry" and found.exact and found else ""
        print(f"would be {_PAST[action]}:{most} {found}")
        if most:
            print(_NOT_RETRIED, file=sys.stderr)

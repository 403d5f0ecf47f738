"""`foliot workflows retry`: one workflow, several, or all that have failed under a name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import print_json, printable
from foliot.errors import FoliotError, InvalidValue, StoreUnavailable

if TYPE_CHECKING:
    from foliot.author import Author
    from foliot.ids import JobId
    from foliot.store.port import Store

_PAGE = 1_000


def retry(
    *ids: str,
    step: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")] = None,
    name: str | None = None,
    state: Literal["failed", "cancelled"] | None = None,
    yes: Annotated[bool, Parameter(negative="")] = False,
    by: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> int:
    """Run the failed steps of workflows again, and decide anew about skipped ones. What succeeded is not run again
    unless --step names it: then with all that came after it. Exit code 1: nothing had failed, or some were refused.

    Parameters
    ----------
    ids
        Their ids, or their beginnings or ends.
    step
        Only these, by their names; also of those that succeeded.
    name
        Instead of ids: all of this name that have failed, or are as --state says.
    state
        Instead of ids: all that are so.
    yes
        Do not ask before all of a name or state are retried.
    by
        Who asks for it, for the audit log (else user@host).
    """
    from foliot.author import Author
    from foliot.cli.ask import ask
    from foliot.cli.selection import Selection, confirm
    from foliot.explain_worker import count
    from foliot.ids import Ids

    many = name is not None or state is not None
    _check(ids, step, many=many)
    author = Author(Ids(), by)
    known = ask(
        options, lambda store: _all(store, name, state or "failed") if many else _named(store, ids)
    )
    asked = f"retry {count(len(known), 'workflow')}?" if known and many else None
    if asked is not None and not confirm(asked, Selection(yes=yes)):
        print("nothing was changed", file=sys.stderr)
        return 1
    alive, done, refused = ask(options, lambda store: _retry(store, known, step or (), author))
    again = [job for jobs in alive.values() for job in jobs]
    if options.json:
        print_json({"retried": alive, "succeeded": done, "refused": refused})
    elif again:
        print(f"retried: {count(len(again), 'step')} of {count(len(alive), 'workflow')}")
    for id in () if options.json else done:
        print(f"succeeded: {id}: nothing had to run again")
    for id, why in refused.items():
        print(f"refused: {id}: {printable(why)}", file=sys.stderr)
    changed = bool(again or done)
    if not changed and not refused:
        print("nothing was changed: no step has failed", file=sys.stderr)
    return 0 if changed and not refused else 1


def _check(ids: tuple[str, ...], steps: tuple[str, ...] | None, *, many: bool) -> None:
    if steps is not None and not (
        steps and all(steps)
    ):  # of nothing, all that failed would be meant
        example = "foliot workflows retry 01a1ecf4 --step load"
        raise InvalidValue("--step", problem="needs the name of a step", example=example)
    if ids and many:
        raise InvalidValue("ids", problem="go without --name and --state, which mean others")
    if not ids and not many:
        raise InvalidValue("ids", problem="are missing", example="foliot workflows retry 01a1ecf4")


async def _named(store: Store, ids: tuple[str, ...]) -> list[JobId]:
    from foliot.cli.workflow_choice import resolve_workflow

    return [await resolve_workflow(store, id) for id in ids]


async def _all(store: Store, name: str | None, state: str) -> list[JobId]:
    from foliot import workflow_commands

    found: list[JobId] = []
    while True:
        before = found[-1] if found else None
        page = await workflow_commands.list_workflows(
            store, name=name, state=state, limit=_PAGE, before=before
        )
        found += [one.id for one in page]
        if len(page) < _PAGE:
            return found


async def _retry(
    store: Store, ids: list[JobId], steps: tuple[str, ...], by: Author
) -> tuple[dict[JobId, list[JobId]], list[JobId], dict[JobId, str]]:
    """The jobs that live again, the workflows that have succeeded as nothing had to run, and why others are not
    retried: one that cannot be does not keep the rest from it."""
    from foliot import workflow_commands
    from foliot.cli.workflow_choice import reason_of
    from foliot.model.workflow import WorkflowState

    alive: dict[JobId, list[JobId]] = {}
    done: list[JobId] = []
    refused: dict[JobId, str] = {}
    for id in dict.fromkeys(ids):
        try:
            before = await workflow_commands.get_workflow(store, id)
            if again := await workflow_commands.retry_workflow(store, id, by=by, only=steps):
                alive[id] = again
            elif before.state in (WorkflowState.FAILED, WorkflowState.CANCELLED):
                after = await workflow_commands.get_workflow(store, id)
                done += [id] if after.state is WorkflowState.SUCCEEDED else []
        except StoreUnavailable:
            raise
        except FoliotError as error:
            if len(ids) == 1:
                raise
            refused[id] = reason_of(error)
    return alive, done, refused

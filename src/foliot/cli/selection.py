"""Which jobs a command means: ids, or a filter; and whether that is really wanted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from foliot.cli.options import OptionalWhole
from foliot.cli.workflow_choice import workflows_like
from foliot.errors import FoliotError, InvalidValue

if TYPE_CHECKING:
    from foliot.filter import Filter
    from foliot.ids import JobId
    from foliot.store.port import Store

Words = Annotated[str, Parameter(allow_leading_hyphen=True)]
_MOST_NAMED = 5
_SHORTEST = 8  # characters that name a job: fewer may be a mistake


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Selection:
    """Options of commands that change many jobs at once."""

    filter: str | None = None
    """Every job that this means, instead of ids."""

    limit: OptionalWhole = None
    """How many jobs it may change, the newest first."""

    rate: float | None = None
    """How many jobs it may change in a second."""

    dry_run: Annotated[bool, Parameter(negative="")] = False
    """Say how many jobs are meant, and change nothing."""

    yes: Annotated[bool, Parameter(negative="")] = False
    """Do not ask."""

    by: str | None = None
    """Who asks for it, for the audit log (else user@host)."""


DEFAULT_SELECTION = Selection()


def read_filter(words: Sequence[str], state: str | None = None) -> Filter:
    """The words of a command line as one filter; `state` is what the command is about."""
    from foliot.filter import parse

    for word in words:
        if word.startswith("--"):
            raise InvalidValue("filter", word, "is an option that this command does not have")
    return parse(" ".join([f"state:{state}", *words] if state else words))


def check_selection(ids: Sequence[str], selection: Selection) -> None:
    if ids and selection.filter is not None:
        raise InvalidValue("filter", selection.filter, "cannot be given together with ids")
    if not ids and selection.filter is None:
        raise InvalidValue(
            "ids", problem="are missing: name jobs, or a filter", example="--filter 'state:dead'"
        )
    if ids and (selection.limit is not None or selection.rate is not None):
        raise InvalidValue("ids", problem="go without --limit and --rate, which belong to --filter")


def confirm(question: str, selection: Selection) -> bool:
    """Whether it is really wanted. Where nobody can be asked, --yes must have said so."""
    if selection.yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidValue("--yes", problem="is missing: nobody can be asked here", example="--yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


async def resolve(store: Store, text: str) -> JobId:
    """The id that begins so, else the one that ends so."""
    from foliot.commands import check_id
    from foliot.errors import UnknownJob
    from foliot.filter_value import ID_FORM, is_id_prefix, is_id_suffix
    from foliot.workflow_inside import check_no_workflow

    part = text.strip().lower()
    begins, ends = is_id_prefix(part), is_id_suffix(part)
    if not _SHORTEST <= len(part) < len(ID_FORM) or not (begins or ends):
        id = check_id(part)
        if await store.jobs.get(id) is None:
            await check_no_workflow(store, id)
        return id
    found = await _find(store, f"id:{part}*", text, "beginning") if begins else None
    if found is None and ends:
        found = await _find(store, f"id:*{part}", text, "end")
    if found is None:
        for id in await workflows_like(store, part):
            await check_no_workflow(store, id)
        raise UnknownJob(text)
    return found


async def _find(store: Store, filter: str, text: str, place: str) -> JobId | None:
    from foliot.search import SEARCH_CAP, list_jobs

    page = await list_jobs(store, filter, limit=_MOST_NAMED + 1, payloads=False)
    if len(page.jobs) > 1:
        names = ", ".join(job.id for job in page.jobs[:_MOST_NAMED])
        more = " …" if len(page.jobs) > _MOST_NAMED else ""
        problem = f"is the {place} of several ids: {names}{more}"
        flows = await workflows_like(store, text.strip().lower())
        hint = f"also of a workflow's: foliot workflows show {flows[0]}" if flows else None
        raise InvalidValue("id", text, problem, hint=hint)
    if not page.jobs and page.next is not None:
        raise FoliotError(
            f"{text} is not the {place} of an id among the newest {SEARCH_CAP:,} jobs",
            hint="give the whole id",
        )
    return page.jobs[0].id if page.jobs else None

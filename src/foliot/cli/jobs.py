"""`foliot jobs`: look at jobs, and change them by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from foliot.cli.acting import act_on
from foliot.cli.ask import ask
from foliot.cli.options import DEFAULT_OPTIONS, Options, Whole
from foliot.cli.output import print_json, printable
from foliot.cli.selection import DEFAULT_SELECTION, Selection, Words, read_filter, resolve
from foliot.cli.shape import job_to_json, print_job, print_jobs, print_line

if TYPE_CHECKING:
    from foliot.author import Author
    from foliot.model.job import JobState
    from foliot.store.port import Store

_LOOK = 0.5  # seconds between two looks at a log that is followed


def list_jobs(
    *filter: Words,
    limit: Whole = 100,
    after: str | None = None,
    payloads: Annotated[bool, Parameter(negative="")] = False,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """List jobs, newest first: live, ended and dead ones.

    Parameters
    ----------
    filter
        Which ones, for example: state:dead kind:send_* created>-2h -tag:test
    limit
        How many at most.
    after
        Go on after this id, which the last page gave as `next`.
    payloads
        With payloads and results, in JSON.
    """
    show_page(filter, None, limit=limit, after=after, payloads=payloads, options=options)


def show_page(
    words: tuple[str, ...],
    state: str | None,
    *,
    limit: int,
    after: str | None,
    payloads: bool,
    options: Options,
) -> None:
    from foliot.model.search import Page
    from foliot.search import list_jobs as find

    wanted = read_filter(words, state)

    async def question(store: Store) -> Page:
        return await find(store, wanted, limit=limit, after=after, payloads=payloads)

    page = ask(options, question)
    if options.json:
        shapes = [job_to_json(job, payloads=payloads) for job in page.jobs]
        print_json({"jobs": shapes, "next": page.next})
        return
    if page.jobs:
        print_jobs(page.jobs)
    if page.next is not None:
        found = "more" if len(page.jobs) == limit else "not all jobs were looked at: more"
        print(f"{found} with: --after {page.next}")
    elif not page.jobs:
        print("none")


def count(*filter: Words, options: Options = DEFAULT_OPTIONS) -> None:
    """Count jobs. The count ends at a cap, and says so.

    Parameters
    ----------
    filter
        Which ones, for example: state:dead kind:send_*
    """
    show_count(filter, None, options=options)


def show_count(words: tuple[str, ...], state: str | None, *, options: Options) -> None:
    from foliot.search import count_jobs

    wanted = read_filter(words, state)
    found = ask(options, lambda store: count_jobs(store, wanted))
    if options.json:
        print_json({"count": int(found), "exact": found.exact})
    else:
        print(found)


def show(id: str, *, options: Options = DEFAULT_OPTIONS) -> None:
    """Show all that is known of a job: its payload, result, failed attempts, and who did what with it.

    Parameters
    ----------
    id
        Its id, or the beginning or the end of it.
    """
    from foliot import commands

    async def question(store: Store) -> tuple[Any, Any, Any]:
        known = await resolve(store, id)
        job = await commands.get(store, known)
        audit = await store.audit.list(target=known)
        return job, await store.jobs.attempts(known), audit[::-1]

    job, attempts, audit = ask(options, question)
    if options.json:
        print_json({"job": job_to_json(job), "attempts": attempts, "audit": audit})
    else:
        print_job(job, attempts, audit)


def cancel(
    *ids: str, selection: Selection = DEFAULT_SELECTION, options: Options = DEFAULT_OPTIONS
) -> int:
    """Ask for the end of jobs: those that do not run end at once, running ones are told.

    Parameters
    ----------
    ids
        Their ids, or their beginnings or ends.
    """
    return act_on(ids, "cancel", _cancel, selection=selection, options=options)


async def _cancel(store: Store, id: str, *, by: Author) -> JobState:
    """To cancel what is cancelled changes nothing; to say so of what ended otherwise would be untrue."""
    from foliot import commands
    from foliot.errors import FoliotError
    from foliot.model.job import JobState

    state = await commands.cancel(store, id, by=by)
    if state.final and state is not JobState.CANCELLED:
        raise FoliotError(f"job {id} is {state.value} already")
    return state


def explain(id: str, *, options: Options = DEFAULT_OPTIONS) -> None:
    """Say why a job is not running, or how it ended.

    Parameters
    ----------
    id
        Its id, or the beginning or the end of it.
    """
    from foliot import explain_commands
    from foliot.explain import Explanation

    async def question(store: Store) -> Explanation:
        return await explain_commands.explain_job(store, await resolve(store, id))

    explanation = ask(options, question)
    if options.json:
        print_json(explanation)
    else:
        for line in explanation.lines:
            print(printable(line))


def logs(
    id: str,
    *,
    follow: Annotated[bool, Parameter(negative="")] = False,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Show what a job has logged, in all its attempts.

    Parameters
    ----------
    id
        Its id, or the beginning or the end of it.
    follow
        Go on until the job has ended; in JSON, one object a line.
    """
    from foliot import commands
    from foliot.clock import SystemClock
    from foliot.model.note import LogLine

    clock = SystemClock()

    async def question(store: Store) -> list[LogLine]:
        known = await resolve(store, id)
        job = await commands.get(store, known)
        lines = await commands.logs(store, known)
        told = 0
        while follow:
            for line in lines[told:]:
                print_line(line, json=options.json)
            told = len(lines)
            if job.state.final:
                break
            await clock.sleep(_LOOK)
            job = await commands.get(store, known)
            lines = await commands.logs(store, known)
        return lines

    lines = ask(options, question)
    if options.json and not follow:
        print_json({"lines": lines})
    elif not follow:
        for line in lines:
            print_line(line, json=False)

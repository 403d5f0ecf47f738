"""`foliot dead`: the dead-letter queue. What is there stays until it is retried or purged by hand."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from cyclopts import Parameter

from foliot.cli.acting import act_on
from foliot.cli.jobs import show as show_job
from foliot.cli.jobs import show_count, show_page
from foliot.cli.options import DEFAULT_OPTIONS, Options, Whole
from foliot.cli.selection import DEFAULT_SELECTION, Selection, Words
from foliot.errors import InvalidValue


def list_dead(
    *filter: Words,
    limit: Whole = 100,
    after: str | None = None,
    payloads: Annotated[bool, Parameter(negative="")] = False,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """List dead jobs, newest first.

    Parameters
    ----------
    filter
        Which ones, for example: kind:send_* reason:timed_out finished>-1d
    limit
        How many at most.
    after
        Go on after this id, which the last page gave as `next`.
    payloads
        With payloads, in JSON.
    """
    show_page(filter, "dead", limit=limit, after=after, payloads=payloads, options=options)


def count(*filter: Words, options: Options = DEFAULT_OPTIONS) -> None:
    """Count dead jobs.

    Parameters
    ----------
    filter
        Which ones, for example: kind:send_*
    """
    show_count(filter, "dead", options=options)


def show(id: str, *, options: Options = DEFAULT_OPTIONS) -> None:
    """Show all that is known of a dead job: its payload, its failed attempts, and who did what with it.

    Parameters
    ----------
    id
        Its id, or the beginning or the end of it.
    """
    show_job(id, options=options)


def retry(
    *ids: str,
    payload: str | None = None,
    selection: Selection = DEFAULT_SELECTION,
    options: Options = DEFAULT_OPTIONS,
) -> int:
    """Try dead jobs again: same ids, all attempts anew.

    Parameters
    ----------
    ids
        Their ids, or their beginnings or ends.
    payload
        The arguments to try it with instead, as a JSON object; for one job.
    """
    from foliot import commands

    act = commands.retry
    if payload is None:
        return act_on(ids, "retry", act, selection=selection, options=options)
    if len(ids) != 1:
        raise InvalidValue("payload", payload, "is for one job", example="foliot dead retry ID")
    largest = options.load().settings.limits.payload
    mended = partial(act, payload=payload, largest=largest)
    return act_on(ids, "retry", mended, selection=selection, options=options)


def purge(
    *ids: str, selection: Selection = DEFAULT_SELECTION, options: Options = DEFAULT_OPTIONS
) -> int:
    """Forget dead jobs, with their attempts and log lines.

    Parameters
    ----------
    ids
        Their ids, or their beginnings or ends.
    """
    from foliot import commands

    return act_on(ids, "purge", commands.purge, selection=selection, options=options)

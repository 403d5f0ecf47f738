"""Lists and counts of jobs by a filter, for every command that takes one.

A search goes down by the id in windows that grow while nothing is found, and ends at a cap: whoever wants to look
further says so. What is common is found in the first window, what is rare costs a bounded look, and no search can
keep the store busy for long.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from foliot.checks import check_whole
from foliot.errors import InvalidValue
from foliot.filter import Filter, parse
from foliot.ids import JobId, is_job_id
from foliot.model.job import Job
from foliot.model.search import Count, Page
from foliot.store.port import Store

# Jobs that one search looks at: so many live, so many ended, so many dead ones, the newest for which holds what an
# index tells of the filter.
SEARCH_CAP: Final = 100_000
COUNT_CAP: Final = 10_000  # jobs that are counted
LONGEST_PAGE: Final = 1_000
_FIRST_WINDOW: Final = 1_000
_GROWTH: Final = 10


def to_filter(filter: str | Filter) -> Filter:
    return filter if isinstance(filter, Filter) else parse(filter)


async def list_jobs(
    store: Store,
    filter: str | Filter = "",
    *,
    limit: int = 100,
    after: str | None = None,
    payloads: bool = True,
) -> Page:
    """A page of matching jobs, newest first; `after` is the `next` of the page before."""
    wanted = to_filter(filter)
    check_whole("limit", limit, 1, LONGEST_PAGE, example="limit=100")
    here = None if after is None else _check_after(after)
    found: list[Job] = []
    looked, window = 0, max(_FIRST_WINDOW, limit)
    while True:
        window = min(window, SEARCH_CAP - looked)
        page = await store.search.look(
            wanted, limit=limit - len(found), window=window, after=here, payloads=payloads
        )
        found += page.jobs
        looked += window
        here = page.next
        if here is None or len(found) == limit or looked >= SEARCH_CAP:
            return Page(found, here)
        window *= _GROWTH


async def walk_jobs(
    store: Store, filter: str | Filter = "", *, limit: int = LONGEST_PAGE, payloads: bool = True
) -> AsyncIterator[list[Job]]:
    """All matching jobs, page after page, however many: for what has to see every one."""
    after: str | None = None
    while True:
        page = await list_jobs(store, filter, limit=limit, after=after, payloads=payloads)
        if page.jobs:
            yield page.jobs
        if page.next is None:
            return
        after = page.next


async def count_jobs(store: Store, filter: str | Filter = "") -> Count:
    """How many match; exact unless one of the caps was met."""
    wanted = to_filter(filter)
    found, looked, window = 0, 0, _FIRST_WINDOW
    after: JobId | None = None
    while True:
        window = min(window, SEARCH_CAP - looked)
        tally = await store.search.tally(
            wanted, limit=COUNT_CAP + 1 - found, window=window, after=after
        )
        found += tally.found
        looked += window
        after = tally.next
        if found > COUNT_CAP:
            return Count(COUNT_CAP, exact=False)
        if after is None or looked >= SEARCH_CAP:
            return Count(found, exact=after is None)
        window *= _GROWTH


def _check_after(after: object) -> JobId:
    if not isinstance(after, str) or not is_job_id(after):
        raise InvalidValue("after", after, "is not the `next` of a page")
    return JobId(after)

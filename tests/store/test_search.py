"""Searching: what a filter finds in a real store, page by page, and that no search looks at everything."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from foliot import search
from foliot.errors import InvalidValue, SearchTimeout
from foliot.filter import parse
from foliot.ids import JobId
from foliot.model.job import End, Extras, JobState, More
from foliot.model.search import Count
from foliot.store.port import Store
from support.stores import World

pytestmark = pytest.mark.anyio


async def find(world: World, filter: str = "", **options: Any) -> list[JobId]:
    return [job.id for job in (await search.list_jobs(world.store, filter, **options)).jobs]


async def one_of_each(world: World) -> dict[JobState, JobId]:
    """A job in every state that can be reached, oldest first."""
    session = await world.open_session()
    found: dict[JobState, JobId] = {}
    for state, end in {
        JobState.SUCCEEDED: End.SUCCEED,
        JobState.CANCELLED: End.CANCEL,
        JobState.DEAD: End.BURY,
        JobState.HELD: End.HOLD,
        JobState.RUNNING: None,
    }.items():
        job = await world.run(session, queue=str(state))
        reason = {End.HOLD: "unknown_kind", End.BURY: "timed_out"}.get(end) if end else None
        if end:
            await world.end(session, job, end, reason=reason)
        found[state] = job.id
        world.clock.advance(1)
    found[JobState.SCHEDULED] = await world.submit(delay=60, queue="scheduled")
    found[JobState.READY] = await world.submit(queue="ready")
    return found


async def test_every_state_is_found_newest_first(world: World) -> None:
    made = await one_of_each(world)
    assert await find(world) == sorted(made.values(), reverse=True)
    for state, id in made.items():
        assert await find(world, f"state:{state}") == [id]
        assert await find(world, f"queue:{state}") == [id]
        assert await find(world, f"id:{id}") == [id]
        page = await search.list_jobs(world.store, f"state:{state}")
        assert page.jobs == [await world.get(id)]
        assert page.next is None
    live = {id for state, id in made.items() if not state.final}
    assert set(await find(world, "-state:succeeded,cancelled,dead")) == live
    assert await find(world, "reason:timed_out") == [made[JobState.DEAD]]
    assert await find(world, "reason:unknown_kind") == [made[JobState.HELD]]


async def test_options_of_a_job_are_found(world: World) -> None:
    vip = await world.submit(
        kind="send_mail",
        payload=b'{"customer": 42}',
        key="order-42",
        more=More(tags=("vip", "eu"), extras=Extras(version=2, schedule="nightly")),
    )
    await world.submit(kind="send_sms", payload=b'{"customer": 43}', more=More(tags=("eu",)))
    for filter in (
        "kind:send_m*",
        "tag:vip",
        "tag:eu -kind:send_sms",
        "payload.customer:42",
        "payload.customer<43",
        "key:order-42",
        "key:*",
        "schedule:nightly",
        "schedule:night* -schedule:other",
        "created>-1m tag:vip state:ready",
    ):
        assert await find(world, filter) == [vip], filter
    assert await find(world, "created<-1m") == []
    assert await find(world, "state:dead tag:vip") == []


async def test_a_page_without_payloads_has_the_rest(world: World) -> None:
    id = await world.submit(payload=b'{"a": 1}')
    [job] = (await search.list_jobs(world.store, "payload.a:1", payloads=False)).jobs
    assert (job.id, job.payload) == (id, b"{}")


async def test_pages_follow_each_other_whatever_happens_in_between(world: World) -> None:
    """Jobs that move on while the pages are turned are neither shown twice nor left out."""
    session = await world.open_session()
    ids = await world.submit_many(10)
    seen: list[JobId] = []
    after: str | None = None
    while True:
        page = await search.list_jobs(world.store, limit=3, after=after)
        seen += [job.id for job in page.jobs]
        if page.next is None:
            break
        after = page.next
        [job] = await world.claim(session, 1)  # the oldest: still to come
        await world.end(session, job, [End.SUCCEED, End.BURY][len(seen) % 2])
        await world.submit()  # newer than all: not to come any more
    assert seen == sorted(ids, reverse=True)


async def test_partitions_are_searched_as_one(world: World) -> None:
    ids = []
    for partition in range(world.store.partitions):
        for job in [world.new_job(partition) for _ in range(3)]:
            await world.store.jobs.submit(partition, [job])
            ids.append(job.id)
            world.clock.advance(0.01)
    assert await find(world) == sorted(ids, reverse=True)
    seen: list[JobId] = []
    async for jobs in search.walk_jobs(world.store, limit=2):
        seen += [job.id for job in jobs]
    assert seen == sorted(ids, reverse=True)


async def test_a_window_ends_where_one_table_has_no_more_room(world: World) -> None:
    """Rows below the edge of one table are not shown while those of another there have not been looked at."""
    session = await world.open_session()
    old = await world.run(session)
    await world.end(session, old)
    live = await world.submit_many(20 * world.store.partitions)
    page = await world.store.search.look(
        parse(""), limit=1000, window=5 * world.store.partitions, after=None
    )
    assert [job.id for job in page.jobs] == sorted(live, reverse=True)[:5]
    assert page.next == page.jobs[-1].id or page.next in live


class Looks:
    """A store whose searches are counted."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.windows: list[int] = []

    @property
    def search(self) -> Any:
        return self

    async def look(self, *args: Any, window: int, **options: Any) -> Any:
        self.windows.append(window)
        return await self.store.search.look(*args, window=window, **options)

    async def tally(self, *args: Any, window: int, **options: Any) -> Any:
        self.windows.append(window)
        return await self.store.search.tally(*args, window=window, **options)


@pytest.fixture
def capped(world: World, monkeypatch: pytest.MonkeyPatch) -> Looks:
    monkeypatch.setattr(search, "SEARCH_CAP", 16)
    monkeypatch.setattr(search, "COUNT_CAP", 10)
    monkeypatch.setattr(search, "_FIRST_WINDOW", 2)
    monkeypatch.setattr(search, "_GROWTH", 2)
    return Looks(world.store)


@pytest.mark.parametrize("place", ["sqlite-1", "postgres-1"], indirect=True)
async def test_a_search_ends_at_its_cap_and_says_where_to_go_on(world: World, capped: Any) -> None:
    rare = await world.submit(kind="rare")
    await world.submit_many(40)
    page = await search.list_jobs(capped, "kind:rare", limit=1)
    assert page.jobs == []
    assert capped.windows == [2, 4, 8, 2]
    assert page.next is not None
    while page.next is not None and not page.jobs:
        page = await search.list_jobs(capped, "kind:rare", limit=1, after=page.next)
    assert [job.id for job in page.jobs] == [rare]


@pytest.mark.parametrize("place", ["sqlite-1", "postgres-1"], indirect=True)
async def test_what_an_index_tells_does_not_count_against_the_cap(
    world: World, capped: Any
) -> None:
    session = await world.open_session()
    job = await world.run(session, queue="a")
    await world.end(session, job, End.HOLD, reason="unknown_kind")
    keyed = await world.submit(key="order-42")
    await world.submit_many(40)
    assert [j.id for j in (await search.list_jobs(capped, "state:held")).jobs] == [job.id]
    assert [j.id for j in (await search.list_jobs(capped, "key:order-42")).jobs] == [keyed]
    assert [j.id for j in (await search.list_jobs(capped, f"id:{job.id[:35]}*")).jobs] == [job.id]


@pytest.mark.parametrize("place", ["sqlite-1", "postgres-1"], indirect=True)
async def test_a_count_is_exact_or_says_that_it_is_not(world: World, capped: Any) -> None:
    await world.submit_many(4, kind="a")
    assert await search.count_jobs(capped, "kind:a") == 4
    assert str(await search.count_jobs(capped, "kind:a")) == "4"
    await world.submit_many(16)
    found = await search.count_jobs(capped, "kind:a")  # the oldest four: not looked at
    assert (found, found.exact) == (0, False)
    found = await search.count_jobs(capped)
    assert (found, found.exact) == (10, False)
    assert str(found) == "at least 10"


async def test_counts_of_all_places_and_partitions_are_added(world: World) -> None:
    made = await one_of_each(world)
    other = world.new_job(0)
    await world.store.jobs.submit(0, [other])
    assert await search.count_jobs(world.store) == len(made) + 1
    assert await search.count_jobs(world.store, "state:dead,ready") == 3
    found = await search.count_jobs(world.store, "state:dead")
    assert (found, found.exact) == (Count(1), True)


@pytest.mark.parametrize("place", ["postgres-1"], indirect=True)
@pytest.mark.parametrize("filter", ["created>-1h", "created:2026-11-18", "finished>-2h"])
async def test_days_of_history_that_cannot_match_are_not_looked_at(
    world: World, filter: str
) -> None:
    """What has finished long ago was created long ago: the bound follows, and finds what it must."""
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job)
    world.clock.advance(10)
    assert await find(world, "created>-1h") == [job.id]
    assert await find(world, "finished>-1h") == [job.id]
    world.clock.advance(3 * 86400)
    assert await find(world, filter) == [] or "2026" in filter
    assert await find(world, "created<-2d") == [job.id]
    assert await find(world, "finished<-2d") == [job.id]


@pytest.mark.parametrize("limit", [0, -1, 1001, True, 1.5, "5"])
async def test_a_page_has_a_size(world: World, limit: Any) -> None:
    with pytest.raises(InvalidValue, match="limit"):
        await search.list_jobs(world.store, limit=limit)


async def test_a_page_begins_at_an_id(world: World) -> None:
    with pytest.raises(InvalidValue, match="after"):
        await search.list_jobs(world.store, after="tomorrow")


async def test_a_job_knows_who_is_before_it(world: World) -> None:
    first, second, third = [await world.submit() for _ in range(3)]
    before_all = await world.submit(priority=0)
    assert (await world.store.search.standing(before_all, limit=10)).ahead == 0
    assert (await world.store.search.standing(third, limit=10)).ahead == 3
    assert (await world.store.search.standing(third, limit=2)).ahead == 2
    other_queue = await world.submit(queue="other")
    assert (await world.store.search.standing(other_queue, limit=10)).ahead == 0
    ordered = [await world.submit(more=More(ordering_key="k")) for _ in range(3)]
    await world.submit(more=More(ordering_key="other"))
    standing = await world.store.search.standing(ordered[2], limit=10)
    assert standing.earlier == [(id, JobState.HELD) for id in ordered[:2]]
    assert standing.ahead == 0
    assert (await world.store.search.standing(first, limit=10)).earlier == []
    assert second


@pytest.mark.parametrize("place", ["sqlite-1", "sqlite-8"], indirect=True)
async def test_a_search_of_a_file_ends_in_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.submit_many(100)
    monkeypatch.setattr("foliot.store.sqlite.search.SEARCH_TIMEOUT", -1.0)
    monkeypatch.setattr("foliot.store.sqlite.search._STEPS", 10)
    with pytest.raises(SearchTimeout, match="narrow the filter"):
        await search.list_jobs(world.store, "payload.a:1")
    monkeypatch.undo()
    assert await search.count_jobs(world.store) == 100, "the next one is not interrupted"


@pytest.mark.parametrize("place", ["postgres-1", "pooled-8"], indirect=True)
async def test_a_search_of_a_server_ends_in_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.submit()
    monkeypatch.setattr("foliot.store.postgres.search.SEARCH_TIMEOUT", 0.05)
    with psycopg.connect(world.place.direct) as other:
        other.execute("LOCK TABLE foliot.jobs IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SearchTimeout, match="narrow the filter"):
            await search.count_jobs(world.store)
    assert await search.count_jobs(world.store) == 1
    assert await world.state((await find(world))[0]) == "ready", "other statements have no limit"

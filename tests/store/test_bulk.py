"""Acts on many: every job that is meant and no other, at a rate, and one entry that tells the truth."""

from __future__ import annotations

from typing import Any

import pytest

from foliot import bulk, commands, explain_commands, queue_commands
from foliot.author import Author
from foliot.bulk import Bulk
from foliot.errors import FoliotError, InvalidValue, NotDead, UnknownJob
from foliot.ids import JobId
from foliot.model.job import End, JobState
from foliot.model.lane import Strategy
from foliot.registry import define
from support.flows import draw
from support.stores import World

pytestmark = pytest.mark.anyio


async def bury(world: World, count: int, **fields: Any) -> list[JobId]:
    session = await world.open_session()
    ids = await world.submit_many(count, **fields)
    for job in await world.claim(session, count):
        await world.end(session, job, End.BURY, reason="failed", error="no")
    return ids


def act(world: World, filter: str, **options: Any) -> Bulk:
    author = Author(world.ids, "ada@box")
    return Bulk(world.store, filter, by=author, clock=world.clock, **options)


async def test_every_job_that_is_meant_is_changed_and_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BATCH", 2)
    mine = await bury(world, 5, kind="send_mail")
    others = await bury(world, 2, kind="other")
    ready = await world.submit(kind="send_mail")
    done = await act(world, "kind:send_*").retry()
    assert (done.changed, done.refused) == (5, 0)
    assert {await world.state(id) for id in mine} == {JobState.READY}
    assert {await world.state(id) for id in others} == {JobState.DEAD}
    assert (await world.get(ready)).generation == 0
    [entry] = await world.store.audit.list()
    assert (entry.actor, entry.action, entry.target) == ("ada@box", "retry", "kind:send_*")
    assert entry.detail == {"filter": "kind:send_*", "count": 5}
    again = await act(world, "kind:send_*").retry()
    assert again.changed == 0, "what lives is not retried"
    assert len(await world.store.audit.list()) == 1, "what changed nothing is not written down"


async def test_steps_of_workflows_are_among_those_that_are_refused(world: World) -> None:
    flow = await draw(world)
    await flow.submit(flow.step("a"), flow.step("b"))
    await flow.run("a", "b", end=End.BURY)
    await bury(world, 2)
    done = await act(world, "state:dead").retry()
    assert (done.changed, done.refused, len(done.reasons)) == (2, 2, 2)
    assert set(done.reasons) == {flow.ids["a"], flow.ids["b"]}
    assert all("foliot workflows retry" in reason for reason in done.reasons.values())


async def test_dead_jobs_are_purged_by_a_filter(world: World) -> None:
    mine, others = await bury(world, 3, kind="a"), await bury(world, 1, kind="b")
    live = await world.submit(kind="a")
    assert (await act(world, "kind:a").purge()).changed == 3
    assert [await world.store.jobs.get(id) for id in mine] == [None] * 3
    assert await world.state(others[0]) is JobState.DEAD
    assert await world.state(live) is JobState.READY


async def test_live_jobs_are_cancelled_by_a_filter(world: World) -> None:
    session = await world.open_session()
    running = (await world.run(session, kind="a")).id
    [dead] = await bury(world, 1, kind="a", queue="default")
    ready, scheduled = await world.submit(kind="a"), await world.submit(kind="a", delay=60)
    other = await world.submit(kind="b")
    assert (await act(world, "kind:a").cancel()).changed == 3
    assert (await world.get(running)).cancel_requested
    assert await world.state(ready) is await world.state(scheduled) is JobState.CANCELLED
    assert await world.state(dead) is JobState.DEAD
    assert await world.state(other) is JobState.READY
    [entry] = await world.store.audit.list()
    assert (entry.action, entry.detail["count"]) == ("cancel", 3)


async def test_partitions_are_changed_one_after_the_other(world: World) -> None:
    for partition in range(world.store.partitions):
        world.partition = partition
        await bury(world, 2)
    total = 2 * world.store.partitions
    assert (await act(world, "state:dead").retry()).changed == total
    [entry] = await world.store.audit.list()
    assert entry.detail["count"] == total


@pytest.mark.parametrize("place", ["sqlite-1", "postgres-1"], indirect=True)
async def test_a_rate_is_kept(world: World) -> None:
    await bury(world, 25)
    start = world.clock.monotonic()
    assert (await act(world, "state:dead", rate=10).retry()).changed == 25
    assert world.clock.monotonic() - start == pytest.approx(2.0, abs=0.1)
    await bury(world, 3)
    start = world.clock.monotonic()
    await act(world, "state:dead", rate=0.5).purge()
    assert world.clock.monotonic() - start == pytest.approx(4.0, abs=0.1)


async def test_an_act_ends_at_its_limit_and_goes_on_when_asked_again(world: World) -> None:
    ids = await bury(world, 5)
    assert (await act(world, "state:dead", limit=2).retry()).changed == 2
    states = [await world.state(id) for id in ids]
    assert states.count(JobState.READY) == 2
    assert (await act(world, "state:dead").retry()).changed == 3


async def test_an_act_that_breaks_has_told_what_it_did(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BATCH", 2)
    await bury(world, 5)
    calls = []
    retry = world.store.dead.retry

    async def break_at_the_third(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:
            raise OSError("out of paper")
        return await retry(*args, **options)

    monkeypatch.setattr(world.store.dead, "retry", break_at_the_third)
    with pytest.raises(OSError, match="out of paper"):
        await act(world, "state:dead").retry()
    [entry] = await world.store.audit.list()
    assert entry.detail["count"] == 4
    assert (await act(world, "state:dead").retry()).changed == 1


async def test_what_is_refused_is_counted_and_named(world: World) -> None:
    [first] = await bury(world, 1, key="k")
    heir = await world.submit(key="k")
    await world.cancel(heir)
    await bury(world, 1)
    heir = await world.submit(key="k")
    done = await act(world, "state:dead").retry()
    assert (done.changed, done.refused) == (1, 1)
    assert done.reasons == {first: f"its unique key belongs to job {heir} now"}


@pytest.mark.parametrize(
    ("filter", "options", "said"),
    [
        ("", {}, "filter is empty"),
        ("state:dad", {}, "did you mean dead"),
        ("state:dead", {"limit": 0}, "limit: 0"),
        ("state:dead", {"rate": 0}, "rate: 0"),
        ("state:dead", {"rate": float("nan")}, "rate: nan"),
        ("state:dead", {"rate": "fast"}, "rate: 'fast'"),
    ],
)
@pytest.mark.parametrize("place", ["sqlite-1"], indirect=True)
async def test_a_mistake_changes_nothing(
    world: World, filter: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidValue, match=said):
        act(world, filter, **options)


# One job


async def test_one_job_is_retried_with_another_payload_and_both_are_told(world: World) -> None:
    [id] = await bury(world, 1, payload=b'{"a": "x"}')
    author = Author(world.ids, "ada@box")
    state = await commands.retry(world.store, id, by=author, payload=b'{"a": 1}')
    assert state is JobState.READY
    assert (await world.get(id)).payload == b'{"a":1}'
    [entry] = await world.store.audit.list(target=id)
    before, after = entry.detail["payload_before"], entry.detail["payload_after"]
    assert len(before) == len(after) == 64 and before != after


async def test_a_payload_that_is_no_object_is_refused(world: World) -> None:
    [id] = await bury(world, 1)
    author = Author(world.ids)
    for payload in (b"[1]", b"1", b"{", b""):
        with pytest.raises(InvalidValue, match="payload"):
            await commands.retry(world.store, id, by=author, payload=payload)
    assert await world.state(id) is JobState.DEAD


async def test_only_the_dead_are_retried_or_purged(world: World) -> None:
    id, unknown = await world.submit(), world.new_job().id
    author = Author(world.ids)
    for command in (commands.retry, commands.purge):
        with pytest.raises(NotDead, match="is ready"):
            await command(world.store, id, by=author)
        with pytest.raises(UnknownJob):
            await command(world.store, unknown, by=author)


async def test_one_job_whose_key_is_taken_cannot_be_retried(world: World) -> None:
    [id] = await bury(world, 1, key="k")
    heir = await world.submit(key="k")
    with pytest.raises(FoliotError, match=f"belongs to job {heir}"):
        await commands.retry(world.store, id, by=Author(world.ids))


async def test_a_cancel_by_hand_is_written_down(world: World) -> None:
    id = await world.submit()
    author = Author(world.ids)
    assert await commands.cancel(world.store, id, by=author) is JobState.CANCELLED
    assert await commands.cancel(world.store, id, by=author) is JobState.CANCELLED
    [entry] = await world.store.audit.list(target=id)
    assert (entry.action, entry.actor) == ("cancel", author.name)
    assert "@" in author.name


async def test_what_is_done_to_queues_by_hand_is_written_down(world: World) -> None:
    author = Author(world.ids, "ada@box")
    await queue_commands.pause_queue(world.store, "mail", by=author, note="no ink")
    assert await queue_commands.resume_queue(world.store, "mail", by=author)
    assert not await queue_commands.resume_queue(world.store, "mail", by=author)
    fifo, weights = Strategy.FIFO, {"a": 2.0}
    assert await queue_commands.configure_queue(
        world.store, "mail", by=author, strategy=fifo, weights=weights
    )
    assert not await queue_commands.configure_queue(world.store, "mail", by=author, strategy=fifo)
    entries = (await commands.audit(world.store, target="mail"))[::-1]
    assert [(entry.action, entry.actor, entry.detail) for entry in entries] == [
        ("pause", "ada@box", {"note": "no ink"}),
        ("resume", "ada@box", {}),
        ("configure", "ada@box", {"strategy": "fifo", "weights": {"a": 2.0}}),
    ]
    [queue] = await world.store.queues.all()
    assert (queue.paused_at, queue.strategy, queue.updated_by) == (None, fifo, "ada@box")


async def test_a_drain_by_hand_is_written_down(world: World) -> None:
    session = await world.open_session()
    await world.open_session()
    author = Author(world.ids, "ada@box")
    assert await world.store.sessions.drain([session], record=author.each("drain")) == [session]
    world.expire()
    assert await world.store.sessions.drain([session], record=author.each("drain")) == []
    [entry] = await world.store.audit.list()
    assert (entry.action, entry.target, entry.actor) == ("drain", session, "ada@box")


async def test_a_job_of_the_store_is_explained(world: World) -> None:
    ahead, id = await world.submit(), await world.submit()
    told = await explain_commands.explain_job(world.store, id)
    assert told.why == "no worker is alive; it waits for one"
    await world.open_session()
    told = await explain_commands.explain_job(world.store, id)
    assert told.why == "1 job ahead"
    assert ahead


async def test_a_payload_is_checked_against_what_is_known_of_its_kind(world: World) -> None:
    def send(to: str, copies: int = 1) -> None: ...

    [id] = await bury(world, 1, kind="send", payload=b'{"to": 1}')
    await commands.announce(world.store, [define(send, version=3)])
    author = Author(world.ids)
    for payload, said in (
        ('{"to": 1}', "payload.to: 1 is not of type string"),
        ('{"copies": 1}', "lacks to"),
        ('{"to": "ada", "copy": 1}', "did you mean copies"),
    ):
        with pytest.raises(InvalidValue, match=said):
            await commands.retry(world.store, id, by=author, payload=payload)
    with pytest.raises(InvalidValue, match=r"limits\.payload, 5"):
        await commands.retry(world.store, id, by=author, payload='{"to": "ada"}', largest=5)
    await commands.retry(world.store, id, by=author, payload={"to": "ada"})
    job = await world.get(id)
    assert (job.payload, job.extras.version) == (b'{"to":"ada"}', 3)

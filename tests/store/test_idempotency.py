"""Idempotency keys: what was submitted under one stands for whatever comes under it again, also when it has ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foliot import commands
from foliot.errors import FoliotError, InvalidValue, StoreUnavailable
from foliot.idempotency import give_back, reserve
from foliot.ids import JobId
from foliot.model.definition import Defaults
from foliot.model.job import End, JobState, NewJob
from foliot.model.key import Reservation
from foliot.options import NO_CHOICES, Options, check_options, fill, template_of
from foliot.store.port import Share
from support.stores import World

pytestmark = pytest.mark.anyio

KEEP = 86_400.0


def make(world: World, payload: bytes = b"{}", kind: str = "echo", **options: Any) -> NewJob:
    given: Options = {"idempotency_key": "i", **options}  # type: ignore[typeddict-item]
    template = template_of(kind, Defaults(), check_options(NO_CHOICES, given))
    return fill(template, payload, world.ids)


async def send(world: World, *jobs: NewJob, resend: bool = False) -> list[JobId]:
    return await commands.submit(world.store, jobs, resend=resend, keep=KEEP)


async def finish(world: World, id: JobId, end: End = End.SUCCEED) -> None:
    session = await world.open_session()
    partition = int(id[15:18], 16) * world.store.partitions // 4096
    [(_, lane)] = [one for one in (await world.store.jobs.peek()).ready if one[0] == partition]
    cycle = await world.store.jobs.finish_and_claim(
        partition, session, shares=[Share(lane, 10)], room=10
    )
    [job] = cycle.claimed
    assert job.id == id
    await world.store.jobs.finish_and_claim(partition, session, outcomes=[world.outcome(job, end)])


@pytest.mark.parametrize("end", [None, End.SUCCEED, End.CANCEL, End.BURY, End.RETRY])
async def test_the_same_key_again_is_the_first_job(world: World, end: End | None) -> None:
    [first] = await send(world, make(world))
    if end is not None:
        await finish(world, first, end)
    assert await send(world, make(world)) == [first]
    assert sum((await world.count()).values()) == 1


async def test_a_key_is_of_its_kind_and_namespace(world: World) -> None:
    ids = await send(world, make(world), make(world, kind="other"), make(world, namespace="other"))
    assert len(set(ids)) == 3
    assert await send(world, make(world, kind="other")) == [ids[1]]


async def test_a_key_that_was_used_with_other_arguments_is_refused(world: World) -> None:
    [first] = await send(world, make(world, b'{"n":1}'))
    with pytest.raises(InvalidValue, match="was used with other arguments") as caught:
        await send(world, make(world, b'{"n":2}'))
    assert caught.value.field == "idempotency_key" and first in str(caught.value)
    with pytest.raises(InvalidValue, match="was used with other arguments"):
        await send(world, make(world, b'{"n":1}', key="k"))
    assert (await world.get(first)).payload == b'{"n":1}'
    assert await world.count() == {JobState.READY: 1}


async def test_a_key_runs_out(world: World) -> None:
    [first] = await send(world, make(world))
    world.clock.advance(KEEP - 60)
    assert await send(world, make(world)) == [first]
    world.clock.advance(61)
    [second] = await send(world, make(world, b'{"n":2}'))
    assert second != first
    assert await send(world, make(world, b'{"n":2}')) == [second]


async def test_keys_that_have_run_out_are_pruned(world: World) -> None:
    jobs = [make(world, idempotency_key=f"i{number}") for number in range(25)]
    ids = await send(world, *jobs)
    assert await world.store.upkeep.prune(keep=None, limit=10) == 0
    world.clock.advance(KEEP + 1)
    [late] = await send(world, make(world, idempotency_key="late"))
    assert await world.store.upkeep.prune(keep=None, limit=10) == 25
    assert await send(world, make(world, idempotency_key="late")) == [late]
    [again] = await send(world, make(world, idempotency_key="i0"))
    assert again not in ids


async def test_a_batch_may_name_a_key_twice_and_mix_all_kinds_of_jobs(world: World) -> None:
    plain = [
        fill(template_of("echo", Defaults(), check_options(NO_CHOICES, given)), b"{}", world.ids)
        for given in (
            Options(),
            Options(key="k"),
            Options(key="k", key_mode="replace"),
            Options(key="k"),
        )
    ]
    jobs = [make(world), *plain, make(world), make(world, idempotency_key="j"), make(world)]
    ids = await send(world, *jobs)
    assert ids[0] == ids[5] == ids[7]
    assert ids[2] == ids[3] == ids[4]
    assert len(set(ids)) == 4
    assert sum((await world.count()).values()) == 4
    assert await send(world, *jobs, resend=True) == ids
    assert sum((await world.count()).values()) == 4
    with pytest.raises(InvalidValue, match="other arguments"):
        await send(world, make(world, idempotency_key="x"), make(world, b"[]", idempotency_key="x"))


async def test_a_key_stands_for_the_live_job_that_had_the_unique_key(world: World) -> None:
    """Also when that has ended, and the unique key is free again."""
    plain = template_of("echo", Defaults(), check_options(NO_CHOICES, {"key": "k"}))
    [first] = await send(world, fill(plain, b"{}", world.ids))
    assert await send(world, make(world, key="k")) == [first]
    await finish(world, first)
    assert await send(world, make(world, key="k")) == [first]
    [other] = await send(world, fill(plain, b"{}", world.ids))
    assert other != first
    assert await send(world, make(world, key="k", key_mode="replace")) == [first]


@pytest.mark.parametrize("ordering", [None, "account-1"])
async def test_a_submission_that_was_cut_off_is_completed_by_the_next(
    world: World, ordering: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an ordering key the job lives elsewhere than its idempotency key does."""
    jobs = type(world.store.jobs)
    submit = jobs.submit

    async def cut(self: object, *args: Any, **kwargs: Any) -> list[JobId]:
        raise StoreUnavailable("cut off", unknown=True)

    lost = make(world, ordering_key=ordering)
    with monkeypatch.context() as cutting:
        cutting.setattr(jobs, "submit", cut)
        with pytest.raises(StoreUnavailable):
            await send(world, lost)
    assert jobs.submit is submit and await world.count() == {}
    [id] = await send(world, make(world, ordering_key=ordering))
    assert id == lost.id
    assert await send(world, lost, resend=True) == [id]
    assert sum((await world.count()).values()) == 1


async def test_a_batch_that_is_refused_leaves_its_keys_free(world: World) -> None:
    await send(world, make(world, b'{"n":1}', idempotency_key="used"))
    good = make(world, b'{"n":1}')
    with pytest.raises(InvalidValue):
        await send(world, good, make(world, b'{"n":2}', idempotency_key="used"))
    [id] = await send(world, make(world, b'{"n":3}'))
    assert (await world.get(id)).payload == b'{"n":3}'
    assert await send(world, make(world, b'{"n":3}')) == [id]
    with pytest.raises(InvalidValue, match="other arguments"):
        await send(world, good)


@pytest.mark.parametrize(
    ("error", "free"),
    [
        (FoliotError("refused"), True),
        (StoreUnavailable("told"), True),
        (StoreUnavailable("?", unknown=True), False),
    ],
    ids=["refused", "unavailable", "unknown"],
)
async def test_a_key_is_free_after_an_error_that_says_that_nothing_was_done(
    world: World, error: FoliotError, free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: object, *args: Any, **kwargs: Any) -> list[JobId]:
        raise error

    with monkeypatch.context() as refusing:
        refusing.setattr(type(world.store.jobs), "submit", refuse)
        with pytest.raises(FoliotError):
            await send(world, make(world, b'{"n":1}'))
    if free:
        await send(world, make(world, b'{"n":2}'))
    else:
        with pytest.raises(InvalidValue, match="other arguments"):
            await send(world, make(world, b'{"n":2}'))


async def test_a_job_that_is_stored_keeps_its_key_when_it_is_refused_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make(world)
    await send(world, job)

    async def refuse(self: object, *args: Any, **kwargs: Any) -> list[JobId]:
        raise FoliotError("refused")

    with monkeypatch.context() as refusing:
        refusing.setattr(type(world.store.jobs), "submit", refuse)
        with pytest.raises(FoliotError):
            await send(world, job, resend=True)
    assert await send(world, make(world)) == [job.id]


async def test_who_follows_a_key_that_is_given_back_meanwhile_has_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make(world), make(world)
    jobs = type(world.store.jobs)
    submit = jobs.submit

    async def held_up(self: Any, *args: Any, **kwargs: Any) -> list[JobId]:
        monkeypatch.setattr(jobs, "submit", submit)
        await give_back(world.store, [first])
        return await submit(self, *args, **kwargs)

    await reserve(world.store, [first], keep=KEEP)
    monkeypatch.setattr(jobs, "submit", held_up)
    assert await send(world, second) == [first.id]
    assert await send(world, make(world)) == [first.id]
    assert await world.count() == {JobState.READY: 1}


async def test_who_reserved_first_and_inserts_last_does_not_run_it_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two, another one with that key has inserted the job, and it has ended."""
    jobs = type(world.store.jobs)
    submit = jobs.submit
    faster: list[JobId] = []

    async def held_up(self: Any, *args: Any, **kwargs: Any) -> list[JobId]:
        monkeypatch.setattr(jobs, "submit", submit)
        faster.extend(await send(world, make(world)))
        await finish(world, faster[0])
        return await submit(self, *args, **kwargs)

    monkeypatch.setattr(jobs, "submit", held_up)
    assert await send(world, make(world)) == faster
    assert await world.count() == {JobState.SUCCEEDED: 1}


async def test_of_racing_submissions_with_one_key_one_makes_the_job(world: World) -> None:
    other = await world.another_store()
    for number in range(8):
        options: dict[str, Any] = {"idempotency_key": f"i{number}", "ordering_key": f"o{number}"}
        jobs = [make(world, **options) for _ in range(6)]
        stores = [world.store, other] * 3
        found = await asyncio.gather(
            *(commands.submit(s, [j]) for s, j in zip(stores, jobs, strict=True))
        )
        assert len({id for [id] in found}) == 1
    assert sum((await world.count()).values()) == 8


async def test_reserving_tells_who_was_first(world: World) -> None:
    first, second = world.ids.job(), world.ids.job()
    one = Reservation("n", "kind", "key", first, "ab")
    two = Reservation("n", "kind", "key", second, "cd")
    assert await world.store.jobs.reserve(world.partition, [one], keep=60) == [one]
    assert await world.store.jobs.reserve(world.partition, [two], keep=60) == [one]
    await world.store.jobs.redirect(world.partition, two, first)  # not its own: nothing changes
    await world.store.jobs.redirect(world.partition, one, second)
    [found] = await world.store.jobs.reserve(world.partition, [one], keep=60)
    assert (found.job, found.fingerprint) == (second, "ab")


async def test_a_unique_key_far_from_the_ordering_key_is_refused(world: World) -> None:
    def job(number: int) -> NewJob:
        options: Options = {"key": f"k{number}", "ordering_key": "o"}
        return fill(
            template_of("echo", Defaults(), check_options(NO_CHOICES, options)), b"{}", world.ids
        )

    refused = 0
    for number in range(12):
        try:
            await send(world, job(number))
        except InvalidValue as error:
            assert error.field == "key" and "another partition" in str(error)  # noqa: PT017
            refused += 1
    assert refused == 0 if world.store.partitions == 1 else refused > 0

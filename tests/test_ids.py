"""Ids: in order, with a home that every machine reads from them."""

from __future__ import annotations

import uuid

import pytest

from foliot.ids import (
    SLOTS,
    Ids,
    is_job_id,
    mark_of,
    milliseconds_of,
    partition_of,
    slot_of,
    slot_of_key,
    workflow_id,
)
from foliot.testing.clock import ManualClock


@pytest.fixture
def ids(clock: ManualClock) -> Ids:
    return Ids(clock=clock, seed=7)


def test_an_id_is_a_uuid_of_version_7_with_its_time(ids: Ids, clock: ManualClock) -> None:
    id = ids.job()
    parsed = uuid.UUID(id)
    assert (str(parsed), parsed.version, parsed.variant) == (id, 7, uuid.RFC_4122)
    assert is_job_id(id)
    assert milliseconds_of(id) == int(clock.now().timestamp() * 1000)


def test_ids_rise_and_differ(ids: Ids) -> None:
    made = [ids.job() for _ in range(10_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert len({mark_of(id) for id in made}) == len(made)


def test_the_home_of_an_id_is_what_it_was_given(ids: Ids) -> None:
    for slot in (0, 1, 255, 256, 2048, SLOTS - 1):
        assert slot_of(ids.job(slot)) == slot


@pytest.mark.parametrize("partitions", [1, 2, 7, 8, 32, 1024, 4096])
def test_slots_are_shared_evenly_among_partitions_in_order(ids: Ids, partitions: int) -> None:
    where = [partition_of(ids.job(slot), partitions) for slot in range(SLOTS)]
    assert where == sorted(where)
    assert set(where) == set(range(partitions))
    counts = [where.count(partition) for partition in range(partitions)]
    assert max(counts) - min(counts) <= 1


def test_equal_names_have_one_home_on_every_machine() -> None:
    assert slot_of_key("default", "mail", "order-42") == slot_of_key("default", "mail", "order-42")
    assert slot_of_key("default", "mail", "1") != slot_of_key("default", "mail", "2")
    assert slot_of_key("a", "bc") != slot_of_key("ab", "c")
    assert slot_of_key("default", "echo", "key") == 4005, "a stored job would not be found again"


def test_the_beginning_of_the_id_of_a_keyed_workflow_tells_it_from_others() -> None:
    made = [workflow_id("default", "etl", f"day {day}") for day in range(100)]
    assert len({id[:8] for id in made}) == len(made)
    assert all(is_job_id(id) and milliseconds_of(id) < 1_104_537_600_000 for id in made)  # 2005
    assert made[0] == workflow_id("default", "etl", "day 0")

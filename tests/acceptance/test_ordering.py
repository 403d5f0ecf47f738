"""Order among many processes: strict order although workers are killed, and no queue starves another."""

from __future__ import annotations

from itertools import pairwise

from foliot.ids import JobId
from support.fleet import Fleet


def test_ordered_jobs_run_in_order_although_workers_are_killed(any_fleet: Fleet) -> None:
    fleet = any_fleet
    keys: dict[str, list[JobId]] = {key: [] for key in ("a", "b", "c")}
    calls = [
        fleet.jobs.nap.options(ordering_key=key).prepare(0.02) for _ in range(8) for key in keys
    ]
    handles = fleet.jobs.app.submit_many(calls)
    for position, handle in enumerate(handles):
        keys[list(keys)[position % len(keys)]].append(fleet.submit(handle).id)
    workers = fleet.scale(3)
    for kills in range(2):
        fleet.wait_for_starts(4, than=4 * kills)
        workers = [*workers[1:], fleet.replace(workers[0])]
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    for ids in keys.values():
        _check_order(fleet, ids)


def _check_order(fleet: Fleet, ids: list[JobId]) -> None:
    """Each begins when the one before it has ended for good."""
    events = sorted((e for e in fleet.events() if e.job in ids), key=lambda event: event.at)
    begun = list(dict.fromkeys(event.job for event in events if event.event == "start"))
    assert begun == ids
    for before, after in pairwise(ids):
        last = max(event.at for event in events if event.job == before and event.event == "end")
        assert all(event.at > last for event in events if event.job == after)


def test_a_full_queue_leaves_another_its_share(any_fleet: Fleet) -> None:
    fleet = any_fleet
    heavy = [fleet.jobs.quick.options(queue="heavy").prepare(n) for n in range(400)]
    light = [fleet.jobs.quick.options(queue="light").prepare(n) for n in range(20)]
    ids = [handle.id for handle in fleet.jobs.app.submit_many([*heavy, *light])]
    fleet.submitted += ids
    fleet.start("--concurrency", "1", "--queues", "heavy=3,light")
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    order = [event.job for event in sorted(fleet.events("start"), key=lambda event: event.at)]
    last = max(order.index(id) for id in ids[400:])
    # One of four; and what was fetched ahead, 50 ms of work, before anybody had seen that there are others.
    assert last <= 4 * 20 + 100

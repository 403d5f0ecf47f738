"""Roll-ups of real workers: what they count is what happened."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

import msgspec

from acceptance.conftest import FleetMaker
from foliot import Handle
from foliot.model.rollup import Rollup, add_up, merge
from foliot.store.port import Store
from foliot.testing.postgres import TemporaryPostgres
from foliot.units import read_duration
from support.fleet import Fleet, eventually

AHEAD: Final = re.compile(r"([\d,]+) jobs ahead(?: at about ([\d,]+)/s, expected start in (\w+))?")


async def read(store: Store) -> list[Rollup]:
    return await store.rollups.read(0, 1 << 40)


def counted(fleet: Fleet) -> dict[str, int]:
    """By outcome."""
    totals: dict[str, int] = {}
    for one in merge(fleet.ask(read)):
        assert sum(one.waits.values()) == sum(one.runs.values()) == one.count
        totals[one.key.outcome] = totals.get(one.key.outcome, 0) + one.count
    return totals


def test_workers_that_stop_have_written_all_they_counted(any_fleet: Fleet) -> None:
    fleet = any_fleet
    workers = fleet.scale(2)
    fleet.submit_quick(3_000)
    fleet.wait_until_done()
    for worker in workers:
        assert worker.stop() == 0
    assert counted(fleet) == {"succeeded": 3_000}
    waits = add_up(one.waits for one in fleet.ask(read))
    assert sum(waits.values()) == 3_000


def test_a_store_that_is_away_longer_than_the_lease_loses_no_count(
    own_server: TemporaryPostgres, make_fleet: FleetMaker
) -> None:
    """The session that counted is lost; the process goes on with another one."""
    fleet = make_fleet(own_server.url("jobs"), worker_loss_limit="1000")
    worker = fleet.start()
    fleet.submit_quick(500)
    fleet.wait_until_done()
    own_server.stop("immediate")
    eventually(lambda: "the session is lost" in worker.log, what=fleet.logs)
    own_server.start()
    fleet.submit_quick(100)
    fleet.wait_until_done()
    assert worker.stop() == 0
    assert counted(fleet) == {"succeeded": 600}


def test_a_worker_that_is_killed_takes_only_its_last_seconds_along(fleet: Fleet) -> None:
    worker = fleet.start()
    fleet.submit_quick(200)
    eventually(lambda: counted(fleet) == {"succeeded": 200}, what=fleet.logs)
    worker.kill()
    last = fleet.start()
    fleet.submit_quick(100)
    fleet.wait_until_done()
    assert last.stop() == 0
    assert counted(fleet) == {"succeeded": 300}


class Place(msgspec.Struct, frozen=True):
    """What is said of a job's, and when."""

    at: float
    ahead: int
    pace: int  # 0: none is told
    start: float | None


def place(handle: Handle[int], fits: Callable[[Place], object]) -> Place:
    """The first that does."""

    def look() -> list[Place]:
        time.sleep(0.2)  # who asks without a pause slows down what it asks about
        told = AHEAD.search(handle.explain().why)
        assert told is not None, handle.explain()
        ahead, pace = (int((one or "0").replace(",", "")) for one in told.groups()[:2])
        start = None if told[3] is None else read_duration(told[3])
        found = Place(time.monotonic(), ahead, pace, start)
        return [found] if fits(found) else []

    return eventually(look)[0]


def test_a_job_starts_about_when_it_is_expected_to(fleet: Fleet) -> None:
    """By what two workers have counted, who tell of it at different times. How fast they really are is seen by how many
    are ahead of it."""
    *_, last = fleet.jobs.app.submit_many([fleet.jobs.nap.prepare(0.1) for _ in range(8_000)])
    for worker in [fleet.start(worker_concurrency="10") for _ in range(2)]:
        fleet.wait_for_session(worker)
    first = place(last, lambda one: one.ahead < 7_900)
    told = place(last, lambda one: one.pace)
    real = (first.ahead - told.ahead) / (told.at - first.at)
    assert told.start is not None
    assert real / 2 < told.pace < real * 2
    assert told.ahead / real / 2 < told.start < told.ahead / real * 2

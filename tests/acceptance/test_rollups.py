"""Roll-ups of real workers: what they count is what happened."""

from __future__ import annotations

from acceptance.conftest import FleetMaker
from foliot.model.rollup import Rollup, add_up, merge
from foliot.store.port import Store
from foliot.testing.postgres import TemporaryPostgres
from support.fleet import Fleet, eventually


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

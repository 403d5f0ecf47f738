"""The store goes away and comes back: processes neither exit nor need help, and nothing is lost."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from acceptance.conftest import FleetMaker
from foliot.errors import StoreUnavailable
from foliot.store.port import Store
from foliot.testing.postgres import TemporaryPostgres
from support.fleet import Fleet, eventually
from support.proxy import CuttingProxy


@contextmanager
def steady_load(fleet: Fleet, *, batch: int = 50) -> Iterator[None]:
    """Submit all the time, whatever happens; a submission returns when it is durable."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def submit() -> None:
        try:
            while not stop.is_set():
                fleet.submit_quick(batch)
                stop.wait(0.02)
        except BaseException as error:  # noqa: BLE001 - shown by the test
            errors.append(error)

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not errors, errors


def finish(fleet: Fleet, server: TemporaryPostgres) -> None:
    fleet.wait_until_done()
    assert all(worker.alive for worker in fleet.workers), fleet.logs()
    fleet.check_all_succeeded()
    assert "deadlock detected" not in server.log_text()


def test_a_server_that_crashes_under_load_and_comes_back(
    own_server: TemporaryPostgres, make_fleet: FleetMaker
) -> None:
    fleet = make_fleet(own_server.url("jobs"), worker_loss_limit="1000")
    fleet.scale(2)
    with steady_load(fleet):
        for _ in range(3):
            fleet.wait_for_starts(200)
            own_server.restart("immediate")
        fleet.wait_for_starts(200)
    finish(fleet, own_server)


def test_a_server_that_stays_away_longer_than_the_lease(
    own_server: TemporaryPostgres, make_fleet: FleetMaker
) -> None:
    fleet = make_fleet(own_server.url("jobs"), worker_loss_limit="1000")
    workers = fleet.scale(2)
    gate = fleet.gate("open")
    handle = fleet.submit(fleet.jobs.gated.submit(str(gate)))
    fleet.wait_for("start", job=handle.id)
    own_server.stop("immediate")
    eventually(lambda: any("the session is lost" in worker.log for worker in workers))
    own_server.start()
    fleet.submit_quick(100)
    fleet.wait_for("start", job=handle.id, count=2)
    gate.touch()
    finish(fleet, own_server)


def test_every_connection_is_cut_again_and_again(
    own_server: TemporaryPostgres, make_fleet: FleetMaker
) -> None:
    fleet = make_fleet(own_server.url("jobs"), worker_loss_limit="1000")
    fleet.scale(2)
    with steady_load(fleet):
        for _ in range(5):
            fleet.wait_for_starts(100)
            own_server.terminate_backends("jobs")
    finish(fleet, own_server)


def test_a_server_that_becomes_read_only_and_writable_again(
    own_server: TemporaryPostgres, make_fleet: FleetMaker
) -> None:
    fleet = make_fleet(own_server.url("jobs"), worker_loss_limit="1000")
    workers = fleet.scale(2)
    with steady_load(fleet):
        fleet.wait_for_starts(200)
        own_server.set_read_only(True)
        eventually(lambda: all("read-only" in worker.log for worker in workers), what=fleet.logs)
        own_server.set_read_only(False)
        fleet.wait_for_starts(200)
    finish(fleet, own_server)


def test_a_submission_whose_reply_is_lost_makes_one_job(
    server: TemporaryPostgres, database: str, make_fleet: FleetMaker
) -> None:
    with CuttingProxy(str(server.directory), server.port) as proxy:
        fleet = make_fleet(proxy.url(database))
        fleet.start(url=server.url(database))
        for number in range(5):
            # The worker may have run it before it is sent again.
            proxy.cut_after_commit(containing="insert into foliot.jobs")
            handle = fleet.submit(fleet.jobs.quick.submit(number))
            assert proxy.cut.is_set()
            assert handle.result(timeout=30) == number
        proxy.cut_after_commit(containing="insert into foliot.jobs")
        fleet.submit_quick(1000)
        assert proxy.cut.is_set()
        fleet.wait_until_done()
        fleet.check_all_succeeded()
        assert sum(fleet.count().values()) == 1005
        assert len(fleet.events("start")) == 1005


@pytest.mark.parametrize("words", ["foliot.history", "set state = 'running'"])
def test_a_worker_that_loses_replies_runs_nothing_twice(
    server: TemporaryPostgres,
    database: str,
    make_fleet: FleetMaker,
    words: str,
) -> None:
    """Its session lives on: what it finished counts once, what it claimed unknowingly is given back."""
    with CuttingProxy(str(server.directory), server.port) as proxy:
        fleet = make_fleet(server.url(database))
        worker = fleet.start(url=proxy.url(database))
        fleet.wait_for_session(worker)
        for _ in range(6):
            proxy.cut_after_commit(containing=words)
            fleet.submit_quick(100)
            eventually(proxy.cut.is_set, what=fleet.logs)
        fleet.wait_until_done()
        fleet.check_all_succeeded()
        assert len(fleet.events("start")) == 600


def test_a_slow_way_to_the_store_costs_no_lease(
    server: TemporaryPostgres, database: str, make_fleet: FleetMaker
) -> None:
    with CuttingProxy(str(server.directory), server.port) as proxy:
        fleet = make_fleet(server.url(database))
        proxy.delay(0.1)
        worker = fleet.start(url=proxy.url(database))
        fleet.submit_quick(500)
        handle = fleet.submit(fleet.jobs.nap.submit(2.5))
        assert handle.result(timeout=30) == 1
        fleet.wait_until_done()
        fleet.check_all_succeeded()
        assert "lost" not in worker.log


def test_a_batch_over_many_partitions_that_is_cut_in_the_middle_makes_each_job_once(
    make_fleet: FleetMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reached the first partitions may have run before the whole batch is sent again."""
    fleet = make_fleet(partitions=8)
    fleet.start()
    store = fleet.ask(_itself)
    submit, broken = store.jobs.submit, threading.Event()

    async def submit_or_break(partition: int, *arguments: Any, **options: Any) -> Any:
        if partition == 7 and not broken.is_set():
            broken.set()
            await asyncio.to_thread(fleet.wait_for, "end", count=1)
            raise StoreUnavailable("no connection could be made")
        return await submit(partition, *arguments, **options)

    monkeypatch.setattr(store.jobs, "submit", submit_or_break)
    calls = [fleet.jobs.quick.options(key=str(n)).prepare(n) for n in range(100)]
    fleet.submitted += [handle.id for handle in fleet.jobs.app.submit_many(calls)]
    assert broken.is_set()
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    assert len(fleet.events("start")) == 100


async def _itself(store: Store) -> Store:
    return store


@pytest.mark.chaos
def test_a_long_storm_of_cuts_and_restarts(
    own_server: TemporaryPostgres, make_fleet: FleetMaker
) -> None:
    chance = random.Random()
    with CuttingProxy(str(own_server.directory), own_server.port) as proxy:
        fleet = make_fleet(own_server.url("jobs"), worker_loss_limit="1000")
        fleet.scale(2)
        fleet.scale(2, url=proxy.url("jobs"))
        with steady_load(fleet):
            for _ in range(30):
                fleet.wait_for_starts(50)
                match chance.randrange(4):
                    case 0:
                        own_server.restart("immediate")
                    case 1:
                        own_server.terminate_backends("jobs")
                    case 2:
                        proxy.cut_after_commit(chance.randrange(1, 4))
                    case 3:
                        proxy.cut_all()
        finish(fleet, own_server)

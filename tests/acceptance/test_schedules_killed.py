"""Schedulers that are killed or stopped at the worst moment: nothing fires twice, and nothing is left out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptance.conftest import FleetMaker
from acceptance.test_schedules_many import make_schedules
from foliot.testing.postgres import TemporaryPostgres
from support.calendar_checker import CalendarChecker
from support.fire_gate import FireGate, named
from support.fleet import Fleet, WorkerProcess, eventually
from support.proxy import CuttingProxy


class Replicas:
    """Schedulers with names, on one partition: one of them fires, the others stand by."""

    def __init__(self, fleet: Fleet, gate: FireGate) -> None:
        self.fleet = fleet
        self.gate = gate
        self.names = make_schedules(fleet, 12)
        self.checker = CalendarChecker(fleet)
        self.processes: dict[str, WorkerProcess] = {}
        fleet.start("--no-scheduler")

    def start(self, name: str, url: str | None = None) -> None:
        self.processes[name] = self.fleet.start_scheduler(url=named(url or self.fleet.url, name))

    def wait_for_fires(self, more: int = 10) -> None:
        aim = self._fires() + more
        eventually(lambda: self._fires() >= aim, what=self.fleet.logs)

    def check(self) -> None:
        self.checker.check(self.names)

    def _fires(self) -> int:
        return sum(map(len, self.checker.runs().values()))


@pytest.fixture
def replicas(make_fleet: FleetMaker) -> Iterator[Replicas]:
    fleet = make_fleet(scheduler_term="1100ms")
    with FireGate(fleet.url) as gate:
        replicas = Replicas(fleet, gate)
        yield replicas
        for process in replicas.processes.values():
            process.kill()  # none may hold the tables that the gate leaves


def test_whoever_fires_is_killed_before_inside_and_after_its_transaction(
    replicas: Replicas, server: TemporaryPostgres
) -> None:
    gate = replicas.gate
    with CuttingProxy(str(server.directory), server.port) as proxy:
        replicas.start("c", proxy.url("jobs_1"))
        replicas.wait_for_fires(1)
        for name in ("a", "b", "d"):
            replicas.start(name)
        replicas.wait_for_fires()
        proxy.cut_after_commit(containing="SET cursor = f.upper")
        assert proxy.cut.wait(20)
        replicas.processes["c"].kill()
    gate.shut_before()
    replicas.processes[gate.wait_for_one_before()].kill()
    gate.open_before()
    replicas.wait_for_fires(1)
    gate.shut()
    replicas.processes[gate.wait_for_one()].kill()
    gate.open()
    replicas.wait_for_fires()
    assert len([one for one in replicas.processes.values() if one.alive]) == 1
    replicas.check()


def test_one_that_is_stopped_past_its_lease_inside_its_transaction_fires_nothing_twice(
    replicas: Replicas,
) -> None:
    gate = replicas.gate
    replicas.start("a")
    replicas.wait_for_fires(1)
    replicas.start("b")
    replicas.wait_for_fires()
    gate.shut()
    stopped = replicas.processes[gate.wait_for_one()]
    stopped.pause()
    gate.open()
    replicas.wait_for_fires()
    stopped.resume()
    eventually(lambda: "the session is lost" in stopped.log, what=replicas.fleet.logs)
    replicas.fleet.wait_for_session(stopped)
    replicas.wait_for_fires()
    replicas.check()

"""kill -9 between the end of a job and its hook, in the hook, and in the middle of delivering: the hook is told."""

from __future__ import annotations

from collections import Counter
from functools import partial

import msgspec
import pytest

from acceptance.conftest import FleetMaker
from acceptance.listening import SHUT, TOLD, Told
from foliot import JobState
from foliot.testing.postgres import TemporaryPostgres
from support.fire_gate import DeliveryGate, named
from support.fleet import Fleet, WorkerProcess, eventually
from support.proxy import CuttingProxy

APP = "acceptance.listening:app"
WITHOUT_DUTIES = "--no-scheduler"


def told(fleet: Fleet, hook: str, phase: str = "end") -> list[Told]:
    path = fleet.folder / TOLD
    if not path.exists():
        return []
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    found = [msgspec.json.decode(line, type=Told) for line in whole.splitlines()]
    return [one for one in found if one.hook.startswith(f"on.{hook}") and one.phase == phase]


def outbox(fleet: Fleet) -> int:
    return fleet.ask(lambda store: store.transfer.count("outbox"))


def hooks(fleet: Fleet) -> tuple[int, int]:
    """How many jobs there are of the hook that is told of successes, and how many of these have succeeded."""
    kind = "kind:on.job.succeeded.write_down"
    count = fleet.jobs.app.count
    return int(count(kind)), int(count(f"{kind} state:succeeded"))


def test_a_hook_is_told_although_everybody_died_between_the_end_of_the_job_and_it(
    any_fleet: Fleet,
) -> None:
    fleet = any_fleet
    worker = fleet.start(WITHOUT_DUTIES, app=APP)
    handle = fleet.submit(fleet.jobs.leave.submit(3))
    eventually(lambda: handle.status() is JobState.DEAD, what=fleet.logs)
    worker.kill()
    assert (outbox(fleet), told(fleet, "job.dead")) == (1, [])
    fleet.start(app=APP)
    [heard] = eventually(lambda: told(fleet, "job.dead"), what=fleet.logs)
    assert (heard.event.subject, heard.event.kind) == (handle.id, "leave")
    assert heard.event.data["error"] == "SystemExit: 3"
    assert (outbox(fleet), heard.attempt) == (0, 1)


def test_a_hook_whose_worker_is_killed_in_the_middle_is_told_again(any_fleet: Fleet) -> None:
    fleet = any_fleet
    shut = fleet.gate("unused").with_name(SHUT)
    shut.touch()
    worker = fleet.start(app=APP)
    handle = fleet.submit(fleet.jobs.quick.submit(1))
    eventually(lambda: told(fleet, "job.succeeded", "start"), what=fleet.logs)
    fleet.wait_until_named(1)
    worker.kill()
    shut.unlink()
    fleet.start(app=APP)
    [heard] = eventually(lambda: told(fleet, "job.succeeded"), what=fleet.logs)
    first, second = told(fleet, "job.succeeded", "start")
    assert heard.event == first.event == second.event
    assert heard.event.subject == handle.id
    # And of the worker too, with what it ran then.
    [lost] = eventually(lambda: told(fleet, "worker.lost"), what=fleet.logs)
    assert lost.event.data["pid"] == worker.pid
    [hook] = fleet.jobs.app.jobs("kind:on.job.succeeded.write_down")
    assert lost.event.data["jobs"] == [hook.id]


def test_a_hook_that_fails_is_tried_again_like_any_job(fleet: Fleet) -> None:
    fleet.start(app=APP)
    handle = fleet.jobs.quick.options(delay=3600).submit(1)
    fleet.wait_for_session(fleet.workers[0])
    handle.cancel()
    [heard] = eventually(lambda: told(fleet, "job.cancelled"), what=fleet.logs)
    assert (heard.attempt, heard.event.data["reason"]) == (3, "requested")
    assert [one.attempt for one in told(fleet, "job.cancelled", "start")] == [1, 2, 3]


class Deliverers:
    """Schedulers with names, on one partition: one of them delivers."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.processes: dict[str, WorkerProcess] = {}

    def start(self, name: str, url: str | None = None) -> None:
        self.processes[name] = self.fleet.start_scheduler(url=named(url or self.fleet.url, name))

    def run_jobs(self, count: int) -> None:
        self.fleet.submit_quick(count)
        self.fleet.wait_until_done()

    def check(self) -> None:
        """Each was told once."""
        count = len(self.fleet.submitted)
        eventually(lambda: hooks(self.fleet) == (count, count), what=self.fleet.logs)
        heard = Counter(one.event.subject for one in told(self.fleet, "job.succeeded"))
        assert heard == Counter(self.fleet.submitted)
        assert outbox(self.fleet) == 0


@pytest.fixture
def deliverers(make_fleet: FleetMaker) -> Deliverers:
    fleet = make_fleet(scheduler_term="1100ms")
    fleet.start(WITHOUT_DUTIES, app=APP)
    fleet.wait_for_session(fleet.workers[0])
    return Deliverers(fleet)


def test_whoever_delivers_is_killed_inside_its_transaction_and_nobody_is_told_twice(
    deliverers: Deliverers,
) -> None:
    fleet = deliverers.fleet
    with DeliveryGate(fleet.url) as gate:
        gate.shut()
        for name in ("a", "b"):
            deliverers.start(name)
        deliverers.run_jobs(30)
        deliverers.processes[gate.wait_for_one()].kill()
        assert outbox(fleet) == 30
        assert hooks(fleet) == (0, 0)
        gate.open()
        deliverers.check()
        for process in deliverers.processes.values():
            process.kill()  # none may hold the tables that the gate leaves


def test_an_answer_that_is_lost_after_delivering_tells_nobody_twice(
    deliverers: Deliverers, server: TemporaryPostgres
) -> None:
    with CuttingProxy(str(server.directory), server.port) as proxy:
        deliverers.start("a", proxy.url("jobs_1"))
        proxy.cut_after_commit(containing="DELETE FROM foliot.outbox")
        deliverers.run_jobs(30)
        assert proxy.cut.wait(20)
        deliverers.check()
        deliverers.processes["a"].kill()


@pytest.mark.parametrize(("engine", "count"), [("postgres", 800), ("sqlite", 400)])
def test_workers_that_are_killed_again_and_again_leave_no_end_untold(
    make_fleet: FleetMaker, sqlite_url: str, engine: str, count: int
) -> None:
    url = None if engine == "postgres" else sqlite_url
    fleet = make_fleet(url, worker_loss_limit="1000")
    workers = [fleet.start(app=APP) for _ in range(2)]
    for worker in workers:
        fleet.wait_for_session(worker)
    fleet.submit_quick(count)
    for aim in (0, 0.05, 0.2, 0.4, 0.6):  # of all that is to be told
        eventually(partial(_begun, fleet, round(aim * count)), what=fleet.logs)
        workers.pop(0).kill()
        workers.append(fleet.start(app=APP))
    fleet.wait_until_done()
    eventually(lambda: hooks(fleet) == (count, count), timeout=90, what=fleet.logs)
    heard = {one.event.subject for one in told(fleet, "job.succeeded")}
    assert heard == set(fleet.submitted)


def _begun(fleet: Fleet, hooks: int) -> bool:
    return fleet.started() > hooks and len(told(fleet, "job.succeeded", "start")) >= hooks

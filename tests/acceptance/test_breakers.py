"""A service that fails, behind a breaker, with four workers and a kill -9 in each of its states."""

from __future__ import annotations

import time
from pathlib import Path

from acceptance.conftest import FleetMaker
from acceptance.downstream import PROBES, RATE, REST, Shop, service
from acceptance.jobs import Event
from foliot import JobState
from foliot.model.breaker import Breaker, State
from foliot.model.job import Job
from support.fleet import Fleet, WorkerProcess, eventually

JOBS = 100


class Scene:
    """A fleet whose jobs call the bank, and how that is."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.killed: dict[int, float] = {}  # when, by process
        self._shop = Shop(fleet.url)
        self._service = service(Path(fleet.environment()["ACCEPTANCE_LOG"]))
        self.switch("up")
        self.workers = [self.start() for _ in range(4)]

    def start(self) -> WorkerProcess:
        return self.fleet.start(app="acceptance.downstream:app")

    def switch(self, state: str) -> None:
        """At once: nobody reads half of it."""
        new = self._service.with_suffix(".new")
        new.write_text(state)
        new.rename(self._service)

    def submit(self, count: int) -> None:
        kinds = (self._shop.charge, self._shop.refund)
        calls = [kinds[number % 2].prepare(number) for number in range(count)]
        self.fleet.submitted += [handle.id for handle in self._shop.app.submit_many(calls)]

    def kill(self, worker: WorkerProcess) -> None:
        """And start another in its place."""
        self.killed[worker.pid] = time.monotonic()
        worker.kill()
        self.workers.remove(worker)
        self.workers.append(self.start())

    def breaker(self) -> Breaker:
        [found] = self.fleet.ask(lambda store: store.breakers.all(most=1))
        return found.breaker

    def wait_for(self, state: State, *, after: Breaker | None = None) -> Breaker:
        since = 0.0 if after is None else after.since

        def look() -> Breaker | None:
            one = self.breaker()
            return one if one.state is state and one.since > since else None

        found = eventually(look, what=self.fleet.logs)
        assert found is not None
        return found

    def close(self) -> None:
        self._shop.app.close()


def test_a_breaker_goes_through_all_its_states_while_workers_are_killed(
    make_fleet: FleetMaker,
) -> None:
    fleet = make_fleet(partitions=4, worker_loss_limit="10")
    scene = Scene(fleet)
    try:
        opened = _close_to_open(scene)
        tried = _half_open_and_back(scene, opened)
        _busy(scene, tried)
        recovering, closed = _recover(scene)
    finally:
        scene.close()
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    _check_rate(fleet.ended(), recovering, closed)


def _close_to_open(scene: Scene) -> Breaker:
    fleet = scene.fleet
    for worker in scene.workers:
        fleet.wait_for_session(worker)
    scene.submit(40)
    fleet.wait_until_done()
    assert (scene.breaker().state, scene.breaker().tallies) == (State.CLOSED, ())
    scene.kill(scene.workers[0])
    scene.switch("failing")
    scene.submit(JOBS)
    opened = scene.wait_for(State.OPEN)
    assert opened.reason is not None
    assert "503" in opened.reason
    return opened


def _half_open_and_back(scene: Scene, opened: Breaker) -> Breaker:
    """Nothing runs while it is open, one at a time while it is half open."""
    fleet = scene.fleet
    eventually(lambda: fleet.count().get(JobState.RUNNING, 0) == 0)
    before = fleet.started()
    scene.kill(scene.workers[0])
    scene.switch("silent")
    assert scene.breaker() == opened, "too late to look at"
    half_open = scene.wait_for(State.HALF_OPEN)
    fleet.wait_for_starts(than=before)
    first = fleet.events("start")[before]
    assert first.wall >= half_open.since, "it started although the breaker was open"
    [owner] = [worker for worker in scene.workers if worker.pid == first.pid]
    scene.kill(owner)
    fleet.wait_for_starts(2, than=before)
    scene.switch("failing")
    again = scene.wait_for(State.OPEN, after=opened)
    assert again.openings == opened.openings + 1
    _check_probes(fleet.events()[_index(fleet, first) :], scene)
    return again


def _busy(scene: Scene, tried: Breaker) -> None:
    """The service says itself when to come back."""
    scene.switch("busy")
    rests = scene.wait_for(State.OPEN, after=tried)
    assert rests.until is not None
    assert abs(rests.until - rests.since - REST) < 0.001
    scene.switch("up")


def _recover(scene: Scene) -> tuple[Breaker, Breaker]:
    recovering = scene.wait_for(State.RECOVERING)
    than = scene.fleet.started()
    scene.fleet.wait_for_starts(3, than=than)
    scene.kill(scene.workers[0])
    return recovering, scene.wait_for(State.CLOSED, after=recovering)


def _index(fleet: Fleet, event: Event) -> int:
    return fleet.events().index(event)


def _check_probes(events: list[Event], scene: Scene) -> None:
    """At no moment more than may try. An attempt ends with what it writes, or with its process."""
    running: dict[tuple[str, int], Event] = {}
    for event in sorted(events, key=lambda one: one.at):
        killed = {key for key, one in running.items() if _killed_before(scene, one, event.at)}
        running = {key: one for key, one in running.items() if key not in killed}
        if event.event == "start":
            running[event.job, event.fence] = event
        else:
            running.pop((event.job, event.fence), None)
        assert len(running) <= PROBES, list(running.values())


def _killed_before(scene: Scene, event: Event, at: float) -> bool:
    return scene.killed.get(event.pid, float("inf")) <= at


def _check_rate(jobs: list[Job], recovering: Breaker, closed: Breaker) -> None:
    """Of any two starts, those between them are no more than the rate and the burst allow."""
    told = (job.started_at.timestamp() for job in jobs if job.started_at is not None)
    starts = sorted(at for at in told if recovering.since < at < closed.since)
    assert len(starts) > JOBS // 2, "it is not about many"
    gate = recovering.gate
    assert gate is not None
    for first, begin in enumerate(starts):
        for last, end in enumerate(starts[first:], start=1):
            assert last <= gate.burst + RATE * (end - begin) + 0.01, (begin, end, last)

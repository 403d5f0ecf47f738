"""kill -9 wherever a workflow is made, grown, joined or stopped: it is there whole or not at all, and it ends."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from acceptance.conftest import FleetMaker
from acceptance.graphs import ALWAYS, Graphs
from acceptance.victims import Draw, queue_of
from foliot import JobState, WorkflowState
from foliot.client.workflow import Flow
from foliot.ids import JobId, workflow_id
from foliot.model.workflow import Policy
from foliot.testing.postgres import TemporaryPostgres
from support.fleet import Fleet, WorkerProcess, eventually
from support.flow_checker import FlowChecker
from workflows.reference import Reference, Shape

RULES = ("all_succeeded", "all_done", "any_succeeded", "any_failed", "none_failed")
FAN = 6  # steps, when it is submitted
TOTAL = {"total": 6}  # its result


class Flows:
    """Workflows on one store, and the workers that run them."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        fleet.app = "acceptance.graphs:app"
        self.graphs = Graphs(fleet.jobs.app)
        self.checker = FlowChecker(fleet)

    def kill_one_after_the_other(self, *cases: str) -> dict[str, list[str]]:
        """The queues of those that were killed, and last of the one that was spared."""
        self.fleet.jobs.app.workflows()  # the tables are there
        running = {case: self._launch(case) for case in cases}
        eventually(lambda: not any(process.alive for process in running.values()))
        killed = {case: int(process.log.splitlines()[-1]) for case, process in running.items()}
        return {case: [queue_of(case, n + 1) for n in range(killed[case] + 1)] for case in cases}

    def stop_before(self, case: str, number: int) -> WorkerProcess:
        """A worker that is stopped before this statement about a workflow of its own."""
        return self._launch(case, str(number))

    def submit(self, draw: Draw, queue: str) -> Flow:
        flow = self.graphs.app.workflow("victim", key=queue)
        draw(flow, queue)
        return flow.submit()

    def gated(self, gate: Path) -> tuple[Flow, JobId, JobId]:
        """A parent that runs until the gate is open, and its child."""
        with self.graphs.app.workflow("gated") as flow:
            parent = flow.add(self.graphs.double.prepare(1, str(gate)))
            child = flow.add(self.graphs.step.prepare(), name="child", after=[parent])
        return flow, parent.id, child.id

    def live(self, queue: str) -> int:
        """Jobs in it."""
        [(count,)] = self.checker.tables.ask(f"SELECT count(*) FROM @jobs WHERE queue = '{queue}'")
        return int(count)

    def state(self, queue: str) -> WorkflowState | None:
        flow = self.checker.get(id_of(queue))
        return None if flow is None else flow.state

    def result(self, queue: str) -> dict[str, int]:
        return self.graphs.app.get_workflow(id_of(queue)).result(timeout=1)

    def _launch(self, *arguments: str) -> WorkerProcess:
        return self.fleet.launch([sys.executable, "-m", "acceptance.victims", *arguments])


@pytest.fixture
def flows(any_fleet: Fleet) -> Flows:
    return Flows(any_fleet)


def id_of(queue: str) -> JobId:
    return workflow_id("default", "victim", queue)


def test_a_client_killed_at_any_statement_leaves_a_whole_graph_or_none(flows: Flows) -> None:
    queues = flows.kill_one_after_the_other("submit", "follow", "cancel")
    assert min(map(len, queues.values())) > 6
    flows.checker.check_books()
    submitted, followed, cancelled = queues.values()
    assert {(flows.state(one), flows.live(one)) for one in submitted[:-1]} == {(None, 0)}
    assert (flows.state(submitted[-1]), flows.live(submitted[-1])) == ("running", FAN)
    assert [flows.live(one) for one in followed] == [*[1] * (len(followed) - 1), 2]
    assert {(flows.state(one), flows.live(one)) for one in cancelled[:-1]} == {("running", FAN)}
    assert (flows.state(cancelled[-1]), flows.live(cancelled[-1])) == ("cancelled", 0)
    # Whoever does not know whether it is there submits it again.
    again = [flows.submit(flows.graphs.fan, one) for one in submitted]
    assert [(flow.id, flows.live(one)) for flow, one in zip(again, submitted, strict=True)] == [
        (id_of(one), FAN) for one in submitted
    ]
    flows.fleet.start()
    flows.checker.settle()
    flows.checker.check()
    assert all(flows.result(one) == TOTAL for one in (*submitted, *cancelled[:-1]))


def test_a_worker_killed_at_any_statement_about_a_step_leaves_nothing_undone(flows: Flows) -> None:
    queues = flows.kill_one_after_the_other("map", "add", "end", "stop")
    assert min(map(len, queues.values())) > 8
    flows.checker.check_books()
    flows.fleet.start()
    flows.checker.settle()
    flows.checker.check()
    assert all(flows.result(one) == TOTAL for one in queues["map"])
    assert all(flows.result(one) == {"join": 0} for one in (*queues["add"], *queues["end"]))
    assert {flows.state(one) for one in queues["stop"]} == {"failed"}


def test_workers_killed_at_random_moments_end_every_workflow_as_its_rules_say(
    make_fleet: FleetMaker, server: TemporaryPostgres
) -> None:
    before = len(server.log_text())
    # Innocent steps may be hit more than once here: that is no reason to bury them.
    kill_at_random(Flows(make_fleet(worker_loss_limit="1000")), rounds=7, workflows=280)
    assert "deadlock detected" not in server.log_text()[before:]


def test_workers_on_one_file_killed_at_random_moments_end_every_workflow_as_its_rules_say(
    make_fleet: FleetMaker, sqlite_url: str
) -> None:
    fleet = make_fleet(sqlite_url, worker_loss_limit="1000")
    kill_at_random(Flows(fleet), rounds=4, workflows=120)


def kill_at_random(flows: Flows, *, rounds: int, workflows: int) -> None:
    chance, fleet = random.Random(), flows.fleet
    workers = fleet.scale(2)
    expected: dict[JobId, dict[str, str]] = {}
    fans: list[str] = []
    lost = False
    for _ in range(4):  # once, mostly: until one was killed while it ran something
        for _ in range(rounds):
            before = fleet.started()
            for number in range(workflows // rounds):
                if number % 4 == 0:
                    fans.append(f"fan-{len(fans)}")
                    flows.submit(flows.graphs.fan, fans[-1])
                elif number % 2:
                    flow, states = draw_any(flows.graphs, chance, "continue")
                    expected[flow.submit().id] = states
                else:
                    draw_any(flows.graphs, chance, "fail_fast")[0].submit()
            fleet.wait_for_starts(chance.randint(1, workflows // rounds), than=before)
            victim = chance.randrange(len(workers))
            workers[victim] = fleet.replace(workers[victim])
        flows.checker.settle(60)
        flows.checker.check()
        lost = bool(
            flows.checker.tables.ask("SELECT 1 FROM @attempts WHERE outcome = 'worker_lost'")
        )
        if lost:
            break
    assert lost
    for id, states in expected.items():
        assert {step.name: step.state for step in flows.checker.steps(id)} == states
    assert all(flows.result(one) == TOTAL for one in fans)


def draw_any(graphs: Graphs, chance: random.Random, policy: Policy) -> tuple[Flow, dict[str, str]]:
    """Some graph, and how its steps end if a failure stops no others."""
    flow = graphs.app.workflow("any", policy=policy)
    shapes: list[Shape] = []
    ends = {}
    for number in range(chance.randint(2, 7)):
        name = f"s{number}"
        parents = chance.sample([shape.name for shape in shapes], min(number, chance.randint(0, 3)))
        rule = chance.choice(RULES) if parents else RULES[0]
        failures = chance.choice([0, 0, 0, 0, 1, ALWAYS])
        call = graphs.step.prepare(failures, chance.random() / 20)
        flow.add(call, name=name, after=parents, rule=rule)
        shapes.append(Shape(name, tuple(parents), rule))
        ends[name] = "dead" if failures == ALWAYS else "succeeded"
    reference = Reference(shapes, "continue")
    while reference.remaining:
        claimed = reference.claimable()
        reference.claim(claimed)
        reference.end({name: ends[name] for name in claimed})
    return flow, reference.states


def test_a_zombie_that_reports_a_parent_late_starts_no_second_child(flows: Flows) -> None:
    fleet = flows.fleet
    sleeper = fleet.start()
    flow, parent, child = flows.gated(gate := fleet.gate("open"))
    fleet.wait_until_named(1)
    sleeper.pause()
    fleet.start()
    fleet.wait_for("start", job=parent, count=2)
    gate.touch()
    assert flow.result(timeout=30) == {"child": 0}
    sleeper.resume()
    eventually(lambda: "the session is lost" in sleeper.log, what=fleet.logs)
    fleet.wait_for_session(sleeper)
    flows.checker.check()
    assert len(fleet.events("start", job=child)) == 1
    assert fleet.attempts(child) == []
    assert [(lost.fence, lost.outcome) for lost in fleet.attempts(parent)] == [(1, "worker_lost")]
    [row] = [job for job in fleet.ended() if job.id == parent]
    assert (row.fence, row.state) == (2, JobState.SUCCEEDED)


def test_a_worker_stopped_with_the_lock_of_a_workflow_holds_it_not_for_long_and_changes_nothing_later(
    fleet: Fleet,
) -> None:
    flows = Flows(fleet)
    stopped = flows.stop_before("end", 4)
    eventually(lambda: stopped.stopped, what=fleet.logs)
    fleet.start()
    flows.checker.settle()
    stopped.resume()
    eventually(lambda: "the session is lost" in stopped.log, what=fleet.logs)
    fleet.wait_for_session(stopped)
    flows.checker.check()
    assert flows.result(queue_of("end", 4)) == {"join": 0}

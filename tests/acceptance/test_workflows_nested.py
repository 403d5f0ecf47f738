"""Workflows within workflows, at random: failures, cancels, pauses, signals and retries, while workers are killed."""

from __future__ import annotations

import random
import time

from acceptance.conftest import FleetMaker
from acceptance.graphs import Graphs
from acceptance.nests import SIGNALS, Nest, Nests
from foliot import InvalidValue, NotRunning, WorkflowState
from foliot.client.workflow import Flow
from foliot.client.workflow_handle import WorkflowHandle
from foliot.ids import JobId
from foliot.model.workflow import WORKFLOW_KIND
from foliot.testing.postgres import TemporaryPostgres
from support.fleet import Fleet, eventually
from support.flow_checker import FlowChecker

ACTS = ("pause", "resume", "resume", "signal", "signal")
HARSH = (*ACTS, "cancel", "retry", "retry", "cancel_inner")
AWAITED = """
SELECT DISTINCT s.workflow, s.signal FROM @steps s JOIN @jobs j ON j.id = s.job
WHERE s.signal IS NOT NULL AND j.state = 'held'
"""


class Wilderness:
    """Nests on one store: half of them are only paused, resumed and sent signals, so that their ends are known."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self.fleet = fleet
        fleet.app = "acceptance.graphs:app"
        self.gate = fleet.gate("mended")
        self.chance = random.Random(seed)
        self.app = fleet.jobs.app
        self.nests = Nests(Graphs(self.app), self.chance, str(self.gate))
        self.checker = FlowChecker(fleet)
        self.calm: list[tuple[Flow, Nest]] = []
        self.harsh: list[Flow] = []
        self.again: dict[JobId, float] = {}  # when those were last retried

    @property
    def roots(self) -> list[WorkflowHandle]:
        return [*(flow for flow, _ in self.calm), *self.harsh]

    def run(self, seconds: float, *, workflows: int) -> None:
        workers = self.fleet.scale(2)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if len(self.roots) < workflows:
                self._submit()
            for _ in range(4):
                if self.chance.random() < 0.4:
                    self._act(self.chance.choice(self.calm)[0], self.chance.choice(ACTS))
                else:
                    self._act(self.chance.choice(self.harsh), self.chance.choice(HARSH))
            if self.chance.random() < 0.15:
                victim = self.chance.randrange(len(workers))
                workers[victim] = self.fleet.replace(workers[victim])
            time.sleep(0.1)

    def settle(self) -> None:
        """Nothing is asked for any more but what somebody waits for. What is being cancelled ends by itself."""
        for root in self.roots:
            if not root.get().cancel_requested:
                self._act(root, "resume")

        def over() -> bool:
            for id, signal in self.checker.tables.ask(AWAITED):
                self._act(self.app.get_workflow(str(id)), "signal", str(signal))
            return not self.checker.tables.ask("SELECT 1 FROM @workflows WHERE state = 'running'")

        eventually(over, what=self._left)
        self.checker.settle()

    def check(self) -> None:
        self.checker.check(again=self._again_inside())

    def check_calm(self) -> None:
        """Of those that nobody interfered with: as the reference says, level by level."""
        ids = {flow.waiter: flow.id for flow in self.app.workflows(limit=1000) if flow.waiter}
        for flow, nest in self.calm:
            self._check_like(nest, flow.id, ids)

    def mend(self) -> None:
        """Nothing fails any more, and what has failed is tried again."""
        self.gate.touch()
        for root in self.roots:
            if root.status() is not WorkflowState.SUCCEEDED:
                root.retry()
                self.again[root.id] = time.time()

    def _left(self) -> str:
        running = self.app.workflows(state="running", limit=1000)
        told = [
            f"{flow.name} {step.name} {step.job}: {step.state} {step.reason}, {self.app.get(step.job).explain()}"
            for flow in running
            for step in self.checker.steps(flow.id)
            if not step.state.final
        ]
        return "\n".join([*map(str, running), *told])

    def _submit(self) -> None:
        number = len(self.roots)
        self.calm.append(self.nests.draw(f"calm{number}", ("continue",)))
        flow, _ = self.nests.draw(f"harsh{number}", ("continue", "fail_fast"))
        self.harsh.append(flow)
        for one in (self.calm[-1][0], flow):
            one.submit()

    def _act(self, flow: WorkflowHandle, act: str, signal: str | None = None) -> None:
        """What is refused changes nothing: it has ended, or it is just being cancelled."""
        try:
            if act == "signal":
                flow.signal(signal or self.chance.choice(SIGNALS), early=True)
            elif act == "cancel_inner":
                self._cancel_inside(flow)
            elif act == "retry":
                flow.retry()
                self.again[flow.id] = time.time()
            else:
                getattr(flow, act)()
        except (NotRunning, InvalidValue):
            return

    def _cancel_inside(self, flow: WorkflowHandle) -> None:
        steps = {step.id for step in flow.steps() if step.kind == WORKFLOW_KIND}
        inside = [one for one in self.app.workflows(limit=1000) if one.waiter in steps]
        if inside:
            self.app.get_workflow(self.chance.choice(inside).id).cancel()

    def _again_inside(self) -> dict[JobId, float]:
        """A retry goes into the workflows that are steps."""
        found = dict(self.again)
        flows = self.app.workflows(limit=1000)
        homes = {step.job: flow.id for flow in flows for step in self.checker.steps(flow.id)}
        for flow in flows:
            outer: JobId | None = flow.id
            waiter = flow.waiter
            while waiter is not None:
                outer = homes[waiter]
                waiter = next(one.waiter for one in flows if one.id == outer)
            if outer in self.again:
                found[flow.id] = self.again[outer]
        return found

    def _check_like(self, nest: Nest, id: JobId, ids: dict[JobId, JobId]) -> None:
        expected = nest.expected()
        steps = self.checker.steps(id)
        assert {step.name: step.state.value for step in steps} == expected.states, id
        flow = self.checker.get(id)
        assert flow is not None
        assert flow.state.value == expected.state, id
        for step in steps:
            if step.name in nest.inside and step.state.value in ("succeeded", "dead"):
                self._check_like(nest.inside[step.name], ids[step.job], ids)


def test_workflows_in_workflows_end_as_their_rules_say_whatever_is_asked_and_killed(
    make_fleet: FleetMaker, server: TemporaryPostgres
) -> None:
    before = len(server.log_text())
    run_wild(make_fleet(worker_loss_limit="1000"))
    assert "deadlock detected" not in server.log_text()[before:]


def test_workflows_in_workflows_on_one_file_end_as_their_rules_say_whatever_is_asked_and_killed(
    make_fleet: FleetMaker, sqlite_url: str
) -> None:
    run_wild(make_fleet(sqlite_url, worker_loss_limit="1000"))


def run_wild(fleet: Fleet) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # shown when it fails
    wild = Wilderness(fleet, seed)
    wild.run(6, workflows=40)
    wild.settle()
    wild.check_calm()
    wild.check()
    wild.mend()
    wild.settle()
    wild.check()
    assert {root.status() for root in wild.roots} == {WorkflowState.SUCCEEDED}

"""What became of workflows, held against their rules: once more from the ends of all parents, and from the log that
the jobs wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from foliot.ids import JobId
from foliot.model.workflow import BUILTIN_KINDS, WORKFLOW_KIND, Step, Workflow
from support.calendar_checker import Tables
from support.fleet import PATIENCE, Fleet, eventually
from workflows.reference import ENDED, FAILED, FOR_FAILURES, Reference, Shape

# What has to be the same, whoever counts it.
UNBALANCED = """
SELECT w.id, w.state, w.total, w.remaining, w.failed, count(s.job), count(s.state) FROM @workflows w
LEFT JOIN @steps s ON s.partition = w.partition AND s.workflow = w.id
GROUP BY w.partition, w.id, w.state, w.total, w.remaining, w.failed
HAVING w.total <> count(s.job) OR w.remaining <> count(s.job) - count(s.state)
    OR w.failed <> sum(CASE WHEN s.state IN ('dead', 'cancelled') THEN 1 ELSE 0 END)
    OR (w.state = 'running') <> (w.remaining > 0)
"""
HOMELESS = """
SELECT 'step', s.job FROM @steps s WHERE NOT EXISTS (SELECT 1 FROM @workflows w WHERE w.id = s.workflow)
UNION ALL
SELECT 'job', j.id FROM @jobs j
WHERE j.workflow IS NOT NULL AND NOT EXISTS (SELECT 1 FROM @steps s WHERE s.job = j.id AND s.workflow = j.workflow)
UNION ALL
SELECT 'no job', s.job FROM @steps s
WHERE s.state IS NULL AND NOT EXISTS (SELECT 1 FROM @jobs j WHERE j.id = s.job AND j.workflow = s.workflow)
"""


OTHERWISE = ("skipped", *FAILED)


class Runs(msgspec.Struct, frozen=True):
    """When each job first started, and when it was over for its children."""

    began: dict[str, float]
    over: dict[str, float]


class FlowChecker:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.tables = Tables(fleet.url)

    def ids(self) -> list[JobId]:
        """Of all workflows, chains as well."""
        return [JobId(str(row[0])) for row in self.tables.ask("SELECT id FROM @workflows")]

    def get(self, id: JobId) -> Workflow | None:
        return self._fleet.ask(lambda store: store.workflows.get(id))

    def steps(self, id: JobId) -> list[Step]:
        return self._fleet.ask(lambda store: store.workflows.steps(id))

    def settle(self, timeout: float = PATIENCE) -> None:
        """Wait until nothing is left to do."""
        running = "SELECT id FROM @workflows WHERE state = 'running' UNION ALL SELECT id FROM @jobs"
        eventually(
            lambda: not self.tables.ask(running), timeout=timeout, what=lambda: self._left(running)
        )

    def check_books(self) -> None:
        """Workflows, steps and jobs know of each other. Of a store in which nothing is under way."""
        assert self.tables.ask(UNBALANCED) == []
        assert self.tables.ask(HOMELESS) == []

    def check(self, *, again: Mapping[JobId, float] = {}) -> None:
        """All has ended as the rules say and in their order; nothing ran twice without a reason that was recorded.
        `again`: workflows that were retried, and until when at the latest."""
        self.check_books()
        found = {id: self.steps(id) for id in self.ids()}
        alone = self.tables.ask("SELECT id FROM @history WHERE workflow IS NULL")
        self._fleet.submitted = [JobId(str(row[0])) for row in alone]
        self._fleet.submitted += [
            step.job for steps in found.values() for step in steps if step.kind not in BUILTIN_KINDS
        ]
        self._fleet.check()
        flows = {id: flow for id in found if (flow := self.get(id)) is not None}
        assert flows.keys() == found.keys()
        runs = {since: self._runs(since) for since in {0.0, *again.values()}}
        for id, steps in found.items():
            since = again.get(id, 0.0)
            check_ends(flows[id], steps, before=self._begun_before(steps, since))
            check_order(steps, runs[since])
        check_inside(flows, found)

    def _begun_before(self, steps: Sequence[Step], since: float) -> frozenset[JobId]:
        if not since:
            return frozenset()
        """One that waits for a signal may have waited for it since then: its job does not say so."""
        ids = [step.job for step in steps if step.signal is None]
        ended = self._fleet.ask(lambda store: store.jobs.ended(ids))
        began = ((job.id, job.started_at or job.finished_at) for job in ended)
        return frozenset(
            [
                *(id for id, at in began if at is not None and at.timestamp() <= since),
                *(step.job for step in steps if step.signal is not None),
            ]
        )

    def _runs(self, since: float) -> Runs:
        """What began before that saw the ends that there were before."""
        began: dict[str, float] = {}
        over: dict[str, float] = {}
        last: dict[str, int] = {job.id: job.fence for job in self._fleet.ended()}
        for event in self._fleet.events():
            if event.wall >= since:
                began.setdefault(event.job, event.at)
            if (
                event.fence == last[event.job]
            ):  # an attempt that was lost tells its children nothing
                over[event.job] = event.at
        return Runs(began, over)

    def _left(self, statement: str) -> str:
        return f"{self.tables.ask(statement)[:10]}\n{self._fleet.logs()}"


def check_ends(
    flow: Workflow, steps: Sequence[Step], *, before: frozenset[JobId] = frozenset()
) -> None:
    """Each step's from those of its parents, the workflow's from all. What began `before` a retry and succeeded has
    done so by ends that may be others by now."""
    drawn = [Shape(step.job, step.parents, step.rule.value) for step in steps]
    reference = Reference(drawn, flow.policy)
    states = reference.states = {step.job: step.state.value for step in steps}
    for shape, step in zip(drawn, steps, strict=True):
        parents = [states[id] for id in step.parents]
        told = reference._verdict(shape)
        spared = shape.rule in FOR_FAILURES or not reference.failing
        story = f"{step.name} of {flow.id} ({flow.policy}), {step.rule}: {parents}, {step.state}"
        assert states[step.job] in ENDED, story
        if step.state == "skipped":
            assert told == "never" or not spared, story
        elif step.state == "cancelled":
            assert not spared or flow.cancel_requested, story
        elif step.state != "succeeded" or step.job not in before:
            assert told == "now", story
    reference.cancelled = flow.cancel_requested
    assert flow.state == reference.state, flow


def check_inside(flows: Mapping[JobId, Workflow], found: Mapping[JobId, Sequence[Step]]) -> None:
    """A step that stands for a workflow ends as that does, and not before it."""
    inside = {flow.waiter: flow for flow in flows.values() if flow.waiter is not None}
    assert len(inside) == sum(flow.waiter is not None for flow in flows.values())
    for step in (step for steps in found.values() for step in steps if step.kind == WORKFLOW_KIND):
        inner = inside.pop(step.job, None)
        story = f"{step.name}, {step.state} at {step.finished_at}: {inner}"
        if inner is None:
            assert step.state != "succeeded", story
            continue
        # A cancel may come between the two ends.
        well = ("succeeded", "cancelled", "skipped") if inner.state == "succeeded" else OTHERWISE
        assert step.state in well, story
        assert inner.finished_at is not None, story
        assert step.finished_at is not None, story
        assert inner.finished_at <= step.finished_at, story
    assert not inside, "that stand for nothing"


def check_order(steps: Sequence[Step], runs: Runs) -> None:
    """None began before those ends of its parents that let it."""
    states = {step.job: step.state for step in steps}
    for step in steps:
        if step.job not in runs.began:
            continue
        over = [runs.over.get(id, 0.0) for id in step.parents]
        if step.rule in ("any_succeeded", "any_failed"):
            wanted = ("succeeded",) if step.rule == "any_succeeded" else FAILED
            over = [runs.over.get(id, 0.0) for id in step.parents if states[id] in wanted]
            over = [min(over)]
        assert all(at <= runs.began[step.job] for at in over), f"{step.name} began too early"

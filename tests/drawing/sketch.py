"""Workflows to be drawn, written down in a line or two."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import and_
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from foliot.ids import JobId
from foliot.model.job import JobState
from foliot.model.workflow import FAILED, Rule, Step, Workflow, WorkflowState

START = datetime(2026, 11, 18, 9, 0, tzinfo=UTC)
NOW = START + timedelta(minutes=1)
ID = JobId("01a1eec5-800d-7994-8000-006174ab789f")


def job_id(number: int) -> JobId:
    return JobId(f"01a1eec5-800d-7994-8000-{number + 1:012x}")


def sketch(*arrows: str, **changes: Any) -> list[Step]:
    """Steps from lines such as "extract > clean, check > load": all of one are parents of all of the next. What is said
    of a step by its name is changed: a state, or several fields."""
    parents: dict[str, list[str]] = {}
    for line in arrows:
        before: list[str] = []
        for part in line.split(" > "):
            names = [name.strip() for name in part.split(",")]
            for name in names:
                parents.setdefault(name, []).extend(before)
            before = names
    return steps_of(parents, changes)


def steps_of(
    parents: Mapping[str, Iterable[str]], changes: Mapping[str, Any] | None = None
) -> list[Step]:
    number = {name: index for index, name in enumerate(parents)}
    children: dict[str, list[JobId]] = {name: [] for name in parents}
    for name, above in parents.items():
        for parent in dict.fromkeys(above):
            children[parent].append(job_id(number[name]))
    return [
        _step(name, index, parents[name], number, children[name], (changes or {}).get(name, {}))
        for name, index in number.items()
    ]


def _step(
    name: str,
    index: int,
    parents: Iterable[str],
    number: Mapping[str, int],
    children: list[JobId],
    change: Any,
) -> Step:
    fields = change if isinstance(change, dict) else {"state": change}
    state = JobState(fields.get("state", JobState.SUCCEEDED))
    begun = state in (JobState.RUNNING, JobState.SUCCEEDED, JobState.DEAD)
    return Step(
        **{
            "job": job_id(index),
            "number": index,
            "name": name,
            "kind": re.split(r"[-\[]", name, maxsplit=1)[0],
            "rule": Rule.ALL_SUCCEEDED,
            "parents": tuple(job_id(number[parent]) for parent in dict.fromkeys(parents)),
            "children": tuple(children),
            "started_at": START if begun else None,
            "finished_at": START + timedelta(milliseconds=1500) if state.final else None,
            **fields,
            "state": state,
        }
    )


def workflow_of(steps: Iterable[Step], **fields: Any) -> Workflow:
    states = [step.state for step in steps]
    remaining = sum(not state.final for state in states)
    failed = sum(state in FAILED for state in states)
    state = WorkflowState.RUNNING
    if not remaining:
        state = WorkflowState.FAILED if failed else WorkflowState.SUCCEEDED
    return Workflow(
        **{
            "id": ID,
            "name": "etl",
            "namespace": "default",
            "state": state,
            "policy": "fail_fast",
            "total": len(states),
            "remaining": remaining,
            "failed": failed,
            "created_at": START,
            "finished_at": None if remaining else NOW,
            **fields,
        }
    )


def edges_of(steps: list[Step]) -> set[tuple[str, str]]:
    names = {step.job: step.name for step in steps}
    return {(names[parent], step.name) for step in steps for parent in step.parents}


# Whatever the machine is busy with.
many = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def graphs(draw: st.DrawFn, most: int = 10) -> list[Step]:
    """Any graph, with steps in any states."""
    count, sparse = draw(st.integers(1, most)), draw(st.integers(1, 3))
    parents: dict[str, list[str]] = {}
    for number in range(count):
        bits = st.integers(0, 2**number - 1)  # one for each step before
        linked = reduce(and_, [draw(bits) for _ in range(sparse)])
        parents[f"n{number}"] = [f"n{one}" for one in range(number) if linked >> one & 1]
    states = st.sampled_from(list(JobState))
    return steps_of(parents, {name: draw(states) for name in parents})

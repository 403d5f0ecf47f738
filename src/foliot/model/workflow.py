"""Workflow: a graph of jobs. Each of its jobs is a step; a step's rule says which ends of its parents let it run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal

import msgspec

from foliot.ids import JobId
from foliot.model.job import JobState, NewJob

LONGEST_NAME: Final = 200


class WorkflowState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"  # no step failed
    FAILED = "failed"  # a step was cancelled or is dead, or the deadline has passed
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        return self is not WorkflowState.RUNNING


class Rule(StrEnum):
    """Which ends of its parents let a step run. As soon as they rule it out, it is skipped."""

    ALL_SUCCEEDED = "all_succeeded"
    ALL_DONE = "all_done"  # however they ended
    ANY_SUCCEEDED = "any_succeeded"  # as soon as one has
    ANY_FAILED = "any_failed"  # as soon as one has
    NONE_FAILED = "none_failed"  # all have ended, and were skipped or succeeded


# What a failed step does to the others: those that have not begun are skipped, unless they are there for failures
# (all_done, any_failed), and those that run are asked to end; or nothing, beyond what the rules say.
Policy = Literal["fail_fast", "continue"]
Verdict = Literal["run", "skip", "wait"]
FAILED: Final = (JobState.DEAD, JobState.CANCELLED)
AFTER_FAILURE: Final = (Rule.ALL_DONE, Rule.ANY_FAILED)  # what fail_fast leaves alone

# Kinds that every worker knows.
WORKFLOW_KIND: Final = "foliot.workflow"  # a workflow as a job: of a schedule, or a step of another
MAP_KIND: Final = "foliot.map"  # makes a step of each element of a list
SLEEP_KIND: Final = "foliot.sleep"
SIGNAL_KIND: Final = "foliot.signal"  # never runs: a signal ends it
BUILTIN_KINDS: Final = (MAP_KIND, SIGNAL_KIND, SLEEP_KIND, WORKFLOW_KIND)

# Why a step is held.
HELD_FOR_SIGNAL: Final = "signal"
HELD_BY_PAUSE: Final = "paused"
HELD_FOR_WORKFLOW: Final = "workflow"  # a workflow as a job, while that runs


class Counts(msgspec.Struct, frozen=True):
    """How the parents of a step stand."""

    parents: int = 0
    pending: int = 0
    succeeded: int = 0
    failed: int = 0


def count(states: Iterable[JobState | None]) -> Counts:
    """Of parents in these states; None: it has not ended."""
    all_ = list(states)
    return Counts(
        len(all_),
        sum(state is None for state in all_),
        sum(state is JobState.SUCCEEDED for state in all_),
        sum(state in FAILED for state in all_),
    )


def counts_as(state: JobState | None, rule: Rule, *, is_map: bool) -> JobState | None:
    """The end of a parent. A map that is done has made its elements: where one success is enough, it is none."""
    done = is_map and state is JobState.SUCCEEDED and rule is Rule.ANY_SUCCEEDED
    return JobState.SKIPPED if done else state


def decide(rule: Rule, counts: Counts, *, failing: bool = False) -> Verdict:
    """What becomes of a step that has not begun. `failing`: a step has failed, and the policy is fail_fast, which does
    not leave this one alone (is_spared)."""
    pending, succeeded, failed = counts.pending, counts.succeeded, counts.failed
    if failing:
        return "skip"
    match rule:
        case Rule.ALL_SUCCEEDED:
            impossible, possible = succeeded + pending < counts.parents, pending == 0
        case Rule.ALL_DONE:
            impossible, possible = False, pending == 0
        case Rule.ANY_SUCCEEDED:
            impossible, possible = (
                succeeded == 0 and pending == 0 < counts.parents,
                (succeeded > 0 or not counts.parents),
            )
        case Rule.ANY_FAILED:
            impossible, possible = failed == 0 and pending == 0, failed > 0
        case Rule.NONE_FAILED:
            impossible, possible = failed > 0, pending == 0
    return "skip" if impossible else "run" if possible else "wait"


def is_spared(rule: Rule, map_rule: Rule | None = None) -> bool:
    """Whether fail_fast leaves a step alone: an element if it does its map, whose rule has let it run."""
    return (rule if map_rule is None else map_rule) in AFTER_FAILURE


class NewStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step as it is submitted. Its job's id is its own; `delay` and `expires_in` of that job count from when the
    step may run."""

    name: str
    job: NewJob
    rule: Rule = Rule.ALL_SUCCEEDED
    parents: tuple[JobId, ...] = ()
    # Steps that have not begun and wait for this one as well. None: those that wait for the step that adds it.
    into: tuple[JobId, ...] | None = ()
    signal: str | None = None  # it ends when this signal comes
    mapped: JobId | None = None  # the map step of which it is one element
    added_by: JobId | None = None  # the step that added it while it ran
    # Not None: the name is chosen as it is added, of name, name-2, name-3 the first that nobody else has, from this
    # number on, and none of these, which the same attempt has given before.
    besides: frozenset[str] | None = None
    since: int = 1


def numbered(name: str, number: int) -> str:
    """Of several steps that would have this name."""
    return name if number == 1 else f"{name}-{number}"


def number_in(found: str, name: str) -> int:
    return 1 if found == name else int(found[len(name) + 1 :])


class AddedStep(msgspec.Struct, frozen=True):
    """A step that was added to a workflow that runs."""

    name: str
    id: JobId


class NewWorkflow(msgspec.Struct, frozen=True, kw_only=True):
    """A graph as it is submitted, in one partition. Parents come before their children in `steps`."""

    id: JobId
    name: str
    steps: tuple[NewStep, ...]
    namespace: str = "default"
    policy: Policy = "fail_fast"
    deadline: float | None = None  # seconds from its start until it is cancelled
    fingerprint: str = ""  # of the graph: the same key with another one is an error
    waiter: JobId | None = None  # the job that stands for it in a schedule or in another workflow
    chain: bool = False  # not drawn by anybody: jobs that were submitted with `after`


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow as users read it."""

    id: JobId
    name: str
    namespace: str
    state: WorkflowState
    policy: Policy
    total: int
    remaining: int  # steps that have not ended
    failed: int
    created_at: datetime
    deadline_at: datetime | None = None
    finished_at: datetime | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    note: str | None = None
    reason: str | None = None  # deadline, requested
    cancel_requested: bool = False
    waiter: JobId | None = None
    chain: bool = False
    deadline: float | None = None
    fingerprint: str = ""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step as users read it."""

    job: JobId
    number: int  # its place in the order of submission
    name: str
    kind: str
    rule: Rule
    state: JobState  # of its job, live or ended
    parents: tuple[JobId, ...] = ()
    children: tuple[JobId, ...] = ()
    signal: str | None = None
    mapped: JobId | None = None
    added_by: JobId | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    result: bytes | None = None
    reason: str | None = None
    job_template: NewJob | None = None  # as it was submitted


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """A step among the others of its workflow: what decides whether it runs."""

    step: Step
    parents: Sequence[Step] = ()  # those to be named: the first of each state at least
    left: int = 0  # parents that have not ended
    ended: Mapping[JobState, int] = {}  # parents that have, by how they did
    failed: Step | None = None  # the first of the others that did


class Advance(msgspec.Struct, frozen=True):
    """What the ends of some steps led to."""

    lanes: tuple[tuple[int, JobState], ...] = ()  # of steps that may run now
    more: tuple[JobId, ...] = ()  # workflows with something left to carry out
    ended: tuple[JobId, ...] = ()  # workflows that have ended

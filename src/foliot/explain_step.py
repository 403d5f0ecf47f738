"""Why a step of a workflow waits, or will not run: what there is to know around it, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from foliot.model.job import JobState
from foliot.model.workflow import FAILED, Around, Rule, Step, Workflow

MOST_NAMED: Final = 10
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_FAIL_FAST: Final = "fail_fast"
_DEADLINE: Final = "deadline"


class StepFacts(Around, frozen=True, kw_only=True):
    workflow: Workflow

    @property
    def pending(self) -> list[Step]:
        """Those to be named."""
        return [parent for parent in self.parents if not parent.state.final]

    def count(self, states: Container[JobState]) -> int:
        """Parents that have ended so."""
        return sum(number for state, number in self.ended.items() if state in states)


def facts_around(workflow: Workflow, around: Around) -> StepFacts:
    return StepFacts(workflow=workflow, **msgspec.structs.asdict(around))


def facts_among(workflow: Workflow, step: Step, steps: Sequence[Step]) -> StepFacts:
    """Of one of these steps: all of them, or at least its parents and those that failed."""
    by_id = {one.job: one for one in steps}
    parents = [by_id[id] for id in step.parents if id in by_id]
    ended = Counter(parent.state for parent in parents if parent.state.final)
    failed = [one for one in steps if one.state in FAILED and one.job != step.job]
    return StepFacts(
        workflow=workflow,
        step=step,
        parents=parents,
        left=len(parents) - ended.total(),
        ended=ended,
        failed=min(failed, key=lambda one: (one.finished_at or _NEVER, one.number), default=None),
    )


def say_waiting(facts: StepFacts) -> tuple[str, list[str]]:
    """For which parents, and what is known of the others."""
    done = sum(facts.ended.values())
    count = facts.left + done
    if not facts.left:
        return "its parents have ended", []
    pending = _name(facts.pending, facts.left)
    why = f"{done:,} of its {count:,} parents have ended, not yet: {pending}"
    if count == 1:
        why = f"its parent has not ended: {pending}"
    ended = [parent for parent in facts.parents if parent.state.final]
    rule = facts.step.rule
    return why, [
        f"ended: {_name(ended, done)}" if ended else "",
        "" if rule is Rule.ALL_SUCCEEDED else f"its rule is {rule}",
    ]


def say_until(facts: StepFacts) -> str:
    """What of its parents its rule waits for."""
    match facts.step.rule:
        case Rule.ANY_SUCCEEDED:
            return "one of them succeeds, or all have ended"
        case Rule.ANY_FAILED:
            return "one of them fails, or all have ended"
    return "they have ended"


def say_skipped(facts: StepFacts) -> str:
    """What ruled it out."""
    if facts.step.reason == _FAIL_FAST:
        return say_policy(facts) or "a step of its workflow failed, and the policy is fail_fast"
    return f"{ruled_out_by(facts)}, and its rule is {facts.step.rule}"


def say_policy(facts: StepFacts) -> str | None:
    """The failure that ends the others; None if failures do not."""
    if facts.failed is None or facts.workflow.policy != _FAIL_FAST:
        return None
    return f"step {facts.failed.name} is {facts.failed.state}, and the policy is fail_fast"


def why_cancelled(workflow: Workflow, step: Step) -> str | None:
    """In few words: what is asked for, nobody may have asked for."""
    if step.reason == "expired" and step.signal is not None:
        return f"the signal {step.signal} did not come in time"
    return reason_of(workflow, step)


def reason_of(workflow: Workflow, step: Step) -> str | None:
    """Its own; of one that the deadline of its workflow has ended, that."""
    if step.reason != "requested" or workflow.reason != _DEADLINE:
        return step.reason
    ended, deadline = step.finished_at, workflow.deadline_at
    before = ended is not None and deadline is not None and ended < deadline
    return step.reason if before else _DEADLINE


def ruled_out_by(facts: StepFacts) -> str:
    """The ends of parents that its rule does not allow."""
    match facts.step.rule:
        case Rule.ANY_FAILED:
            return "no parent failed"
        case Rule.ANY_SUCCEEDED:
            return "no parent succeeded"
        case Rule.NONE_FAILED:
            states: Container[JobState] = FAILED
        case _:
            states = facts.ended.keys() - {JobState.SUCCEEDED}
    first = next((parent for parent in facts.parents if parent.state in states), None)
    if first is None:
        return "its parents ended otherwise"
    rest = facts.count(states) - 1
    return f"{first.name} is {first.state}" + (f", and {rest:,} more" if rest else "")


def _name(steps: Sequence[Step], number: int) -> str:
    """With their states; there may be more of them than these."""
    named = [f"{step.name} ({step.state})" for step in steps[:MOST_NAMED]]
    if number > len(named):
        named.append(f"and {number - len(named):,} more")
    return ", ".join(named)

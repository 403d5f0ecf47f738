"""Why a step of a workflow waits, or will not run: what there is to know around it, in words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from foliot.model.job import JobState
from foliot.model.workflow import FAILED, Rule, Step, Workflow

_MOST_NAMED: Final = 10
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_FAIL_FAST: Final = "fail_fast"
_DEADLINE: Final = "deadline"


class StepFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A step among the others of its workflow."""

    workflow: Workflow
    step: Step
    parents: Sequence[Step] = ()
    failed: Step | None = None  # the first of the others that did

    @property
    def pending(self) -> list[Step]:
        return [parent for parent in self.parents if not parent.state.final]


def facts_among(workflow: Workflow, step: Step, steps: Sequence[Step]) -> StepFacts:
    """Of one of these steps: all, or at least those that matter to it."""
    by_id = {one.job: one for one in steps}
    failed = [one for one in steps if one.state in FAILED and one.job != step.job]
    return StepFacts(
        workflow=workflow,
        step=step,
        parents=[by_id[id] for id in step.parents if id in by_id],
        failed=min(failed, key=lambda one: (one.finished_at or _NEVER, one.number), default=None),
    )


def say_waiting(facts: StepFacts) -> tuple[str, list[str]]:
    """For which parents, and what is known of the others."""
    pending, count = facts.pending, len(facts.parents)
    if not pending:
        return "its parents have ended", []
    ended = [parent for parent in facts.parents if parent.state.final]
    why = f"{len(ended):,} of its {count:,} parents have ended, not yet: {name_steps(pending)}"
    if count == 1:
        why = f"its parent has not ended: {name_steps(pending)}"
    rule = facts.step.rule
    return why, [
        f"ended: {name_steps(ended)}" if ended else "",
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
    if step.reason == "requested" and workflow.reason == _DEADLINE:
        return _DEADLINE
    return step.reason


def ruled_out_by(facts: StepFacts) -> str:
    """The ends of parents that its rule does not allow."""
    parents = facts.parents
    match facts.step.rule:
        case Rule.ANY_FAILED:
            return "no parent failed"
        case Rule.ANY_SUCCEEDED:
            return "no parent succeeded"
        case Rule.NONE_FAILED:
            found = [one for one in parents if one.state in FAILED]
        case _:
            found = [one for one in parents if one.state.final]
            found = [one for one in found if one.state is not JobState.SUCCEEDED]
    if not found:
        return "its parents ended otherwise"
    first, *rest = found
    return f"{first.name} is {first.state}" + (f", and {len(rest):,} more" if rest else "")


def name_steps(steps: Sequence[Step]) -> str:
    """With their states."""
    named = [f"{step.name} ({step.state})" for step in steps[:_MOST_NAMED]]
    if len(steps) > _MOST_NAMED:
        named.append(f"and {len(steps) - _MOST_NAMED:,} more")
    return ", ".join(named)

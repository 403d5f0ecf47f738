"""How a job has ended, in words."""

from __future__ import annotations

from foliot.explain_facts import Answer, Facts, last_failure, say_attempt
from foliot.explain_gate import show_time
from foliot.explain_step import say_policy, say_skipped
from foliot.explain_worker import count
from foliot.model.job import STOPPED, Job
from foliot.model.workflow import MAP_KIND


def say_succeeded(facts: Facts) -> Answer:
    flow = facts.flow
    if flow is not None and flow.step.signal is not None:
        return f"the signal {flow.step.signal!r} came{_at(facts.job)}", []
    if flow is not None and facts.job.kind == MAP_KIND:
        made = f"{say_attempt(facts.job)} made its elements{_at(facts.job)}"
        return made, [f"how they are: foliot workflows show {flow.workflow.id}"]
    return f"{say_attempt(facts.job)} succeeded{_at(facts.job)}", []


def say_dead(facts: Facts) -> Answer:
    job = facts.job
    last = f"{say_attempt(job)} was the last"
    if job.reason == "worker_lost":
        last = f"{count(job.losses, 'worker')} were lost while it ran, the last"
    why = f"{last}{_at(job)}: {job.reason or 'failed'}"
    again = f"foliot dead retry {job.id}"
    if facts.flow is not None:
        again = f"foliot workflows retry {facts.flow.workflow.id} --step {facts.flow.step.name}"
    return why, [last_failure(facts), f"try it again with: {again}"]


def say_cancelled(facts: Facts) -> Answer:
    job, failure = facts.job, facts.failure
    match job.reason:
        case "requested" if failure is not None and failure.outcome in STOPPED:
            return f"{_who_ended(facts)}; {say_attempt(job)} was {failure.outcome}{_at(job)}", []
        case "requested":
            early = "" if job.attempt else ", before it had started"
            return f"{_who_ended(facts)}; ended{_at(job)}{early}", [last_failure(facts)]
        case "expired" if facts.flow is not None and facts.flow.step.signal is not None:
            return (
                f"the signal {facts.flow.step.signal!r} did not come in time; ended{_at(job)}",
                [],
            )
        case "expired":
            return f"it had not started when it expired; ended{_at(job)}", [last_failure(facts)]
        case "handler" | None:
            return f"its function ended it{_at(job)}", []
    return f"its function ended it{_at(job)}: {job.reason}", []


def _who_ended(facts: Facts) -> str:
    """Who asked for its end: of a step, mostly the workflow."""
    flow = facts.flow
    if flow is None:
        return "somebody asked for its end"
    if flow.workflow.reason == "deadline":
        return "the deadline of its workflow passed"
    if flow.workflow.cancel_requested:
        return "its workflow was cancelled"
    return say_policy(flow) or "somebody asked for its end"


def say_ruled_out(facts: Facts) -> Answer:
    why = facts.job.reason or "a parent ended otherwise"
    if facts.flow is not None:
        why = say_skipped(facts.flow)
    return f"ended{_at(facts.job)}: {why}", []


def _at(job: Job) -> str:
    return "" if job.finished_at is None else f" at {show_time(job.finished_at)}"

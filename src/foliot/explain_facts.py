"""What there is to know around a job whose state is explained; and what is said of it in more than one state."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from foliot.explain_gate import GateFacts, Reason, say_shut, show_time
from foliot.explain_step import StepFacts
from foliot.explain_worker import count, missing_duties, missing_worker
from foliot.model.job import Attempt, Job
from foliot.model.search import Standing
from foliot.model.session import Claim, Session
from foliot.model.workflow import Workflow
from foliot.store.queueing import Queue

MOST_AHEAD: Final = 10_000  # jobs before it that are counted

Answer = tuple[str | Reason, list[str | Reason]]  # the most decisive reason, and the others


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to know around a job. The sessions may be of any state; the failure is the last one."""

    job: Job
    now: datetime
    sessions: Sequence[Session] = ()
    queue: Queue | None = None
    standing: Standing = Standing(0, [])
    failure: Attempt | None = None
    flow: StepFacts | None = None  # if it is a step of a workflow
    inner: Workflow | None = None  # that it stands for
    signal_payload: str = ""  # the option that says what the signal brings that it waits for
    gate: GateFacts | None = None  # the limit or breaker that it is held for
    gates: Sequence[GateFacts] = ()  # the others that it will be asked at when it is claimed
    claim: Claim | None = None  # if it is running: how far its worker has come with it
    pace: float | None = None  # about how many jobs of its queue end a second

    @property
    def live(self) -> list[Session]:
        return [session for session in self.sessions if session.live]

    @property
    def workers(self) -> list[Session]:
        """Those that run jobs: not who only does the scheduler's duties."""
        return [session for session in self.live if session.kinds]

    @property
    def waits_since(self) -> datetime:
        """When it was due, or else when what it ran as before was lost."""
        due = max(self.job.created_at, self.job.run_at)
        return due if self.failure is None else max(due, self.failure.finished_at)


def in_order(first: str | Reason, *others: str | Reason) -> Answer:
    return first, [*others]


def waits(facts: Facts, why: str, change: str | None = None) -> Reason:
    """What is so since it waits."""
    return Reason(why, since=facts.waits_since, change=change)


def obstacles(facts: Facts) -> list[Reason]:
    """What would keep the job from being claimed if it were ready and the first."""
    found = paused_queue(facts)
    if missing := missing_worker(facts.job, facts.sessions, facts.waits_since, facts.now):
        found.append(missing)
    if facts.job.cancel_requested:
        found.append(Reason("it was asked to end"))
    return found


def shut_by_hand(facts: Facts) -> list[Reason]:
    """Limits and breakers that let nobody in until somebody changes them: who waits for something else first will still
    meet them."""
    since = facts.waits_since if facts.waits_since <= facts.now else None
    return say_shut([gate for gate in facts.gates if gate.shut], since=since)


def stopped_by_hand(facts: Facts) -> list[Reason]:
    return [*paused_queue(facts), *shut_by_hand(facts)]


def paused_queue(facts: Facts) -> list[Reason]:
    queue = facts.queue
    if queue is None or queue.paused_at is None:
        return []
    by = f" by {queue.paused_by}" if queue.paused_by else ""
    note = f": {queue.note}" if queue.note else ""
    why = f"the queue {queue.name!r} was paused{by} at {show_time(queue.paused_at)}{note}"
    return [Reason(why, since=queue.paused_at, change=f"foliot queues resume {queue.name}")]


def paused_workflow(workflow: Workflow) -> list[Reason]:
    if workflow.paused_at is None:
        return []
    by = f" by {workflow.paused_by}" if workflow.paused_by else ""
    note = f": {workflow.note}" if workflow.note else ""
    why = f"workflow {workflow.name} was paused{by} at {show_time(workflow.paused_at)}{note}"
    change = f"foliot workflows resume {workflow.id}"
    return [Reason(why, since=workflow.paused_at, change=change)]


def no_duties(facts: Facts, since: datetime | None = None) -> list[Reason]:
    """`since`: when there came to be something to do, if not since it waits."""
    nobody = missing_duties(facts.sessions, since or facts.waits_since, facts.now)
    return [] if nobody is None else [nobody]


def soon(facts: Facts, why: str, then: str, since: datetime | None = None) -> list[Reason]:
    """What is so, and what those who do the scheduler's duties are about to do; or first that nobody does them."""
    nobody = no_duties(facts, since)
    return [*nobody, Reason(why if nobody else why + then, since=since or facts.waits_since)]


def last_failure(facts: Facts) -> str:
    failure = facts.failure
    if failure is None:
        return ""
    return f"last failure: {failure.outcome}" + (f": {failure.error}" if failure.error else "")


def say_attempt(job: Job) -> str:
    """By the number that it has everywhere. Those whose workers were lost do not count against the most."""
    if not job.losses or job.max_attempts is None:
        return f"attempt {job.attempt}" + (f" of {job.max_attempts}" if job.max_attempts else "")
    counted = f"{job.attempt - job.losses} of {job.max_attempts}"
    return f"attempt {job.attempt} ({counted}, not counting {count(job.losses, 'loss', 'losses')})"

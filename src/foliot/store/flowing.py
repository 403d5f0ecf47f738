"""What the ends of steps lead to: written once, for both stores, as conversations with them.

Everything here runs inside one transaction, after the rows of the workflows concerned were locked (`lock`). A step's
end is first written down (`mark_steps`), then told to its children, level by level: they count it, and
model/workflow.py decides which of them may run and which are skipped. Ends that were written down and not told are
found (`take_untold_steps`), so that whoever comes next goes on where somebody stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final, Protocol

import msgspec

from foliot.ids import JobId
from foliot.model.job import JobState, NewJob
from foliot.model.workflow import (
    FAILED,
    HELD_BY_PAUSE,
    HELD_FOR_SIGNAL,
    Advance,
    Counts,
    Rule,
    counts_as,
    decide,
    is_spared,
)
from foliot.store.reply import Reply, Rows

_MAPPED: Final = "mapped"  # how a map has ended that is done: its elements have not
_LEVELS: Final = 50  # in one transaction; a longer chain of skips is carried on in the next
encode_template: Final = msgspec.json.Encoder().encode
_decode_template: Final = msgspec.json.Decoder(NewJob).decode
_decode_lists: Final = msgspec.json.Decoder(list[list[JobId]]).decode


class Talk(Protocol):
    """A transaction of a store, on one partition."""

    async def ask(self, name: str, /, **values: object) -> Rows:
        """One of the statements of workflows.sql, steps.sql, steering.sql or events.sql."""
        ...

    def say(self, name: str, /, **values: object) -> Reply:
        """The same, with the next question or the commit: in one round trip with what else is said."""
        ...

    async def hear(self) -> None:
        """Until there is a reply to everything that was said."""
        ...

    def expect(self, steps: int) -> None:
        """So many are to be thought of between two questions, which takes its time."""
        ...

    async def insert(self, jobs: Sequence[NewJob]) -> None: ...

    async def cancel(self, ids: Sequence[str], flows: Sequence[str]) -> None:
        """Of jobs that were asked to end, those that do not run."""
        ...


class Locked(msgspec.Struct, frozen=True):
    """A workflow whose row this transaction has locked."""

    id: JobId
    state: str
    policy: str
    cancel_requested: bool
    stopped: bool
    paused: bool
    chain: bool
    total: int
    failures: int  # that count
    edges: int

    @property
    def running(self) -> bool:
        return self.state == "running" and not self.cancel_requested

    @property
    def failing(self) -> bool:
        return self.policy == "fail_fast" and self.failures > 0


class Progress:
    """What has come of it so far, in one transaction."""

    def __init__(self) -> None:
        self._admitted: list[Reply] = []
        self.more: set[JobId] = set()
        self.ended: list[JobId] = []

    def admit(self, jobs: Reply) -> None:
        """Rows of their lanes and states."""
        self._admitted.append(jobs)

    @property
    def advance(self) -> Advance:
        """When all that was said has been heard."""
        found = [row for reply in self._admitted for row in reply.rows]
        lanes = tuple((lane, JobState(state)) for lane, state in found)
        return Advance(lanes, tuple(sorted(self.more)), tuple(self.ended))


def to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def template_of(job: NewJob) -> str:
    return encode_template(msgspec.structs.replace(job, id=JobId(""), payload=b"")).decode()


def decode_ids(lists: str) -> tuple[JobId, ...]:
    """Parents or children: those that a step was submitted with, and those that it has got since."""
    return tuple(chain.from_iterable(_decode_lists(lists)))


def job_of(id: JobId, template: str, payload: bytes) -> NewJob:
    return msgspec.structs.replace(_decode_template(template), id=id, payload=payload)


async def lock(talk: Talk, ids: Iterable[str]) -> dict[JobId, Locked]:
    named = sorted(set(ids))
    if not named:
        return {}
    found = await talk.ask("lock_workflows", ids=to_json(named))
    locked = {JobId(row[0]): _locked(*row) for row in found}
    talk.expect(sum(flow.total for flow in locked.values()))
    return locked


def _locked(id: str, state: str, policy: str, *told: Any) -> Locked:
    cancelled, stopped, paused, *counts, chain = told
    flags = (bool(cancelled), bool(stopped), bool(paused), bool(chain))
    return Locked(JobId(id), state, policy, *flags, *counts)


async def end(talk: Talk, flows: Sequence[str], ids: Sequence[str]) -> Progress:
    """These steps may have ended in this transaction. What was said last of it is not heard yet."""
    if ids:
        talk.say("mark_steps", ids=to_json(list(ids)), flows=to_json(list(flows)))
    progress = Progress()
    await _tell(talk, flows, progress)
    return progress


async def tell(talk: Talk, flows: Sequence[str], progress: Progress) -> None:
    await _tell(talk, flows, progress)
    await talk.hear()


async def _tell(talk: Talk, flows: Sequence[str], progress: Progress) -> None:
    for _ in range(_LEVELS):
        told = await talk.ask("take_untold_steps", ids=to_json(list(flows)))
        if not told:
            return
        settled = _settle(talk, told)
        ended = _below(told)
        found = await talk.ask("read_steps", ids=to_json(sorted(ended))) if ended else []
        await talk.hear()
        standing = _stand(talk, settled.rows, progress)
        if not await _decide(talk, found, ended, standing, progress):
            return
    progress.more.update(JobId(flow) for flow in flows)


def _below(told: Rows) -> dict[str, list[str]]:
    """Children, with how their parents have ended."""
    ended: dict[str, list[str]] = {}
    for _, _, state, is_map, children in told:
        how = _MAPPED if is_map and state == JobState.SUCCEEDED else state
        for child in decode_ids(children) if children != "[[]]" else ():
            ended.setdefault(child, []).append(how)
    return ended


async def flush(talk: Talk, id: JobId) -> None:
    """Until every end has been told: who looks at states then counts none twice."""
    progress = Progress()
    progress.more.add(id)
    while id in progress.more:
        progress.more.clear()
        await tell(talk, [id], progress)


async def settle(talk: Talk, id: JobId, progress: Progress) -> None:
    """Of one that was reopened and has nothing left to run: it ends as if its last step had ended now."""
    settled = talk.say("settle_workflows", rows=to_json([(id, 0, 0)]))
    await talk.hear()
    _stand(talk, settled.rows, progress)
    await talk.hear()


class _Standing(msgspec.Struct, frozen=True):
    cancelled: bool
    paused: bool
    failing: bool


def _settle(talk: Talk, told: Rows) -> Reply:
    """Count the ends of steps in their workflows."""
    steps: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for workflow, _, state, *_ in told:
        steps[workflow] += 1
        failed[workflow] += state in FAILED
    rows = [(flow, number, failed[flow]) for flow, number in sorted(steps.items())]
    return talk.say("settle_workflows", rows=to_json(rows))


def _stand(talk: Talk, settled: Rows, progress: Progress) -> dict[str, _Standing]:
    """How these workflows stand; one whose last step this was has ended."""
    standing: dict[str, _Standing] = {}
    waiters = []
    for id, state, policy, cancelled, stopped, paused, failures, waiter in settled:
        failing = policy == "fail_fast" and failures > 0
        standing[id] = _Standing(bool(cancelled), bool(paused), failing)
        if state != "running":
            progress.ended.append(JobId(id))
            progress.more.discard(JobId(id))
            if waiter is not None:
                waiters.append(id)
                if cancelled:  # perhaps with the job that it ran for, which ends now
                    progress.more.add(JobId(id))
        elif failing and not stopped:
            progress.more.add(JobId(id))
    if waiters:
        progress.admit(talk.say("release_waiters", ids=to_json(waiters)))
    return standing


async def _decide(
    talk: Talk,
    found: Rows,
    ended: dict[str, list[str]],
    standing: dict[str, _Standing],
    progress: Progress,
) -> bool:
    """Which of the children may run. Whether others are to be told of the end of some."""
    counted, begun, skipped = [], [], []
    for job, flow, rule, map_rule, parents, pending, succeeded, failed, signal, template in found:
        states = [
            counts_as(JobState.SUCCEEDED, Rule(rule), is_map=True)
            if state == _MAPPED
            else JobState(state)
            for state in ended[job]
        ]
        counts = Counts(
            parents,
            pending - len(states),
            succeeded + states.count(JobState.SUCCEEDED),
            failed + sum(state in FAILED for state in states),
        )
        stands = standing[flow]
        spared = is_spared(Rule(rule), None if map_rule is None else Rule(map_rule))
        verdict = decide(Rule(rule), counts, failing=stands.failing and not spared)
        if stands.cancelled and verdict == "run":
            verdict = "skip"
        run, skip = verdict == "run", verdict == "skip"
        counted.append((job, counts.pending, counts.succeeded, counts.failed, run, skip))
        if run:
            begun.append((job, flow, signal, template, stands.paused))
        elif skip:
            skipped.append(job)
    if counted:
        talk.say("count_steps", rows=to_json(counted))
    if skipped:
        talk.say("skip_steps", ids=to_json(sorted(skipped)), reason="parents")
    signalled = await _begin(talk, sorted(begun), progress) if begun else False
    return bool(skipped) or signalled


async def _begin(
    talk: Talk, begun: Sequence[tuple[str, str, str | None, str, bool]], progress: Progress
) -> bool:
    """Whether one of them has ended at once: its signal had come."""
    rows = []
    for job, _, signal, template, paused in begun:
        known = _decode_template(template)
        expires = None if known.more is None else known.more.expires_in
        rows.append((job, hold_of(known, signal, paused=paused), known.delay, expires))
    progress.admit(talk.say("begin_steps", rows=to_json(rows)))
    return await hand_over(talk, [(job, flow, signal) for job, flow, signal, *_ in begun if signal])


def hold_of(job: NewJob, signal: str | None, *, paused: bool) -> str | None:
    """What a step is held for that may run. A pause does not hold one with an ordering key: of these one is active, and
    it would be that."""
    if signal is not None:
        return HELD_FOR_SIGNAL
    ordered = job.more is not None and job.more.ordering_key is not None
    return HELD_BY_PAUSE if paused and not ordered else None


async def hand_over(talk: Talk, waiting: Sequence[tuple[str, str, str]]) -> bool:
    """Steps that now wait for a signal, and those signals that have come already. Whether any has."""
    if not waiting:
        return False
    names = sorted({(flow, signal) for _, flow, signal in waiting})
    come = {
        (flow, name): bytes(payload).decode()
        for flow, name, payload in await talk.ask("take_signals", rows=to_json(names))
    }
    rows = [(job, come[flow, name]) for job, flow, name in waiting if (flow, name) in come]
    if rows:
        talk.say("end_signalled", rows=to_json(rows))
        flows = sorted({flow for _, flow, _ in waiting})
        ids = [job for job, _ in rows]
        talk.say("mark_steps", ids=to_json(ids), flows=to_json(flows))
    return bool(rows)

"""Trying a workflow again, from the steps that failed, as a conversation with a store: see flowing.py."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

import msgspec

from foliot.errors import InvalidValue, NotRunning
from foliot.ids import JobId
from foliot.model.job import Extras, JobState, More, NewJob
from foliot.model.workflow import (
    FAILED,
    MAP_KIND,
    WORKFLOW_KIND,
    Advance,
    Counts,
    Rule,
    Verdict,
    count,
    counts_as,
    decide,
    is_spared,
)
from foliot.store.flowing import (
    Locked,
    Progress,
    Talk,
    decode_ids,
    flush,
    hand_over,
    hold_of,
    job_of,
    lock,
    settle,
    tell,
    to_json,
)
from foliot.store.growing import Family, as_inserted, link_steps
from foliot.store.reply import Rows


async def retry(talk: Talk, id: JobId, only: Sequence[JobId]) -> tuple[list[JobId], Advance]:
    flow = (await lock(talk, [id])).get(id)
    if flow is None:
        return [], Advance()
    await flush(talk, id)
    graph = await _read(talk, id)
    if flow.state == "running":
        _check_ended(flow, graph)
    chosen = _choose(flow, graph, only)
    if chosen is None:
        return [], Advance()
    failing = flow.policy == "fail_fast" and bool(graph.failed - chosen)
    failed = len(graph.failed & chosen)
    again = graph.decide_anew(chosen, failing=failing)
    lives = {JobId(row[0]): (row[18], row[19] + 1) for row in graph.rows}
    graph.states.update(dict.fromkeys(again))  # their ends are still to be told
    last = await _as_they_were(talk, [row for row in graph.rows if row[0] in again])
    rows, jobs, waiting = [], [], []
    for row in graph.rows:
        job = JobId(row[0])
        if job not in again:
            continue
        counts, begun = graph.count(job), again[job] == "run"
        told = (counts.pending, counts.succeeded, counts.failed, begun, lives[job][1])
        rows.append((job, *told))
        known = _as_new(last[job], id)
        hold = hold_of(known, row[7], paused=flow.paused)
        jobs.append(as_inserted(known, waits=not begun, hold=hold))
        if begun and row[7] is not None:
            waiting.append((job, id, row[7]))
    await _live_again(talk, jobs, lives)
    await talk.ask("reset_steps", rows=to_json(rows))
    await talk.ask("count_steps", rows=to_json(graph.recount(again)))
    await link_steps(talk, id, graph.find_unknown(again))
    await talk.ask("reopen_workflow", id=id, number=len(rows), failed=failed)
    await talk.ask("note_began", id=id)
    if ruled_out := [job for job, verdict in again.items() if verdict == "skip"]:
        await talk.ask("skip_steps", ids=to_json(ruled_out), reason="parents")
        await talk.ask("mark_steps", ids=to_json(ruled_out), flows=to_json([id]))
    progress = Progress()
    await hand_over(talk, waiting)
    await (tell(talk, [id], progress) if jobs else settle(talk, id, progress))
    return [job.id for job in jobs], progress.advance


def _choose(flow: Locked, graph: _Graph, only: Sequence[JobId]) -> set[JobId] | None:
    """None: there is nothing to do. No step, and not None: it was late or cancelled, and all has succeeded even so."""
    chosen = graph.failed & {*only} | graph.find_anew(only) if only else graph.failed
    unspoilt = flow.state in ("failed", "cancelled") and not graph.has_failed
    return chosen if chosen or (unspoilt and not only) else None


def _check_ended(flow: Locked, graph: _Graph) -> None:
    """What was asked to end while it ran would do so in the middle of what is tried again."""
    if flow.cancel_requested:
        raise NotRunning(flow.id, "being cancelled: retry it when it has ended")
    if flow.stopped and graph.is_ending:
        raise NotRunning(flow.id, "ending what runs after a failure: retry it when that has ended")


def _as_new(job: NewJob, id: JobId) -> NewJob:
    """Its workflow may have become part of this one since it was submitted. What it stands for has not begun."""
    more = job.more or More()
    extras = None if more.extras is None else msgspec.structs.replace(more.extras, began=None)
    more = msgspec.structs.replace(more, workflow=id, extras=extras)
    return msgspec.structs.replace(job, more=more)


async def _as_they_were(talk: Talk, rows: Rows) -> dict[JobId, NewJob]:
    """The jobs of these steps when they ended: as they were submitted, or what they were changed to since then."""
    jobs = {JobId(row[0]): job_of(JobId(row[0]), row[12], bytes(row[13])) for row in rows}
    for id, *told in await talk.ask("find_changed_jobs", ids=to_json(sorted(jobs))):
        jobs[id] = _changed(jobs[id], *told)
    if keyed := sorted(id for id, job in jobs.items() if job.key is not None):
        for id, key in await talk.ask("find_last_keys", ids=to_json(keyed)):
            jobs[id] = msgspec.structs.replace(jobs[id], key=key)
    return jobs


def _changed(job: NewJob, queue: str, priority: int, payload: bytes, text: str) -> NewJob:
    told = msgspec.json.decode(text, type=More)
    extras = told.extras or Extras()
    if (changed := extras.changed) is None:
        return job  # another word in them
    more = msgspec.structs.replace(
        job.more or More(),
        tags=told.tags,
        ordering_key=told.ordering_key,
        fair_key=told.fair_key,
        requires=changed.requires,
        extras=extras,
    )
    return msgspec.structs.replace(
        job,
        payload=bytes(payload),
        lane=changed.lane,
        queue=queue,
        priority=priority,
        max_attempts=changed.max_attempts,
        timeout=changed.timeout,
        more=more,
    )


async def _live_again(
    talk: Talk, jobs: Sequence[NewJob], lives: Mapping[JobId, tuple[int, int]]
) -> None:
    """Under their ids. Fences are carried on, so that nobody who once held one of them can write to it; from the steps,
    as the jobs may have been purged or pruned."""
    await talk.ask("remove_ended_jobs", ids=to_json([job.id for job in jobs]))
    # With keys in one order, as whoever else inserts some: two would wait for each other crosswise.
    keyed = sorted(
        (job for job in jobs if job.key is not None), key=lambda job: (job.kind, job.key)
    )
    await talk.insert([*keyed, *(job for job in jobs if job.key is None)])
    await _check_keys(talk, keyed)
    await talk.ask("carry_fences", rows=to_json([(job.id, *lives[job.id]) for job in jobs]))


async def _check_keys(talk: Talk, keyed: Sequence[NewJob]) -> None:
    """One whose unique key is another's by now was not inserted: then none of them is tried again."""
    if not keyed:
        return
    rows = [(job.id, job.namespace, job.kind, job.key) for job in keyed]
    own = {job.id for job in keyed}
    for id, key, holder in await talk.ask("find_taken_keys", rows=to_json(rows)):
        problem, hint = f"is the unique key of {id}, and ", "retry it when that has ended"
        if holder is None:
            problem, hint = f"{problem}was another job's until this moment", "retry it once more"
        elif holder in own:
            problem, hint = f"{problem}of {holder} as well", "retry one after the other"
        else:
            problem += f"belongs to job {holder} now"
        raise InvalidValue("key", key, problem, hint=hint)


class _Graph(msgspec.Struct, frozen=True):
    """All steps of a workflow, and how they stand."""

    rows: Rows
    states: dict[JobId, JobState | None]
    parents: dict[JobId, tuple[JobId, ...]]
    rules: dict[JobId, Rule]
    maps: dict[JobId, JobId]  # of elements
    map_steps: set[JobId]

    @property
    def failed(self) -> set[JobId]:
        """One that had ended before it became a step is not this workflow's to retry."""
        own = {JobId(row[0]) for row in self.rows if row[12] != "{}"}
        return {job for job in own if self.states[job] in FAILED}

    @property
    def has_failed(self) -> bool:
        """Whether any step has, also one that is not this workflow's to retry."""
        return any(row[15] in FAILED for row in self.rows)

    @property
    def is_ending(self) -> bool:
        """Of one that was stopped: whether there are steps that were asked to end and have not, whatever they do."""
        return any(row[20] and not self._is_spared(JobId(row[0])) for row in self.rows)

    def find_anew(self, named: Iterable[JobId]) -> set[JobId]:
        """Those of these that succeeded, and all that has ended after them. Raises InvalidValue where that cannot be
        done over: the same names stand for the steps that were made, and a workflow that succeeded has its result."""
        rows = {JobId(row[0]): row for row in self.rows}
        found = {job for job in named if self.states.get(job) is JobState.SUCCEEDED}
        for job in TopologicalSorter(self.parents).static_order() if found else ():
            if job in rows and found.intersection(self.parents[job]):
                found.add(job)
        for job in sorted(found):
            row = rows[job]
            if why := _why_not_anew(row, is_map=job in self.map_steps):
                hint = "submit all of it again: foliot workflows rerun"
                raise InvalidValue("step", row[2], f"cannot be run anew: it {why}", hint=hint)
        return {job for job in found if self.states[job] not in (None, JobState.SKIPPED)}

    def decide_anew(self, failed: set[JobId], *, failing: bool) -> dict[JobId, Verdict]:
        """These, whatever else has failed; and of those that were skipped the ones that may run after all."""
        now = self.states | dict.fromkeys(failed)
        found: dict[JobId, Verdict] = {}
        # Parents first: a step that was added later may be one of a step that was there before.
        for job in TopologicalSorter(self.parents).static_order():
            skipped = job in self.rules and self.states[job] is JobState.SKIPPED
            if job not in failed and not skipped:
                continue
            counts = self._count(job, now)
            stopped = failing and job not in failed and not self._is_spared(job)
            verdict = decide(self.rules[job], counts, failing=stopped)
            now[job] = JobState.SKIPPED if verdict == "skip" else None
            if verdict != "skip" or job in failed:
                found[job] = verdict
        return found

    def _is_spared(self, job: JobId) -> bool:
        return is_spared(self.rules[job], self.rules.get(self.maps.get(job, job)))

    def count(self, job: JobId) -> Counts:
        return self._count(job, self.states)

    def _count(self, job: JobId, states: Mapping[JobId, JobState | None]) -> Counts:
        above, rule = self.parents[job], self.rules[job]
        return count(counts_as(states[id], rule, is_map=id in self.map_steps) for id in above)

    def recount(self, again: Container[JobId]) -> list[tuple[object, ...]]:
        """As count_steps reads it: steps that wait, and have counted ends that will come once more."""
        found: list[tuple[object, ...]] = []
        for job in self._waiting_for(again):
            counts = self.count(job)
            found.append((job, counts.pending, counts.succeeded, counts.failed, False, False))
        return found

    def _waiting_for(self, again: Container[JobId]) -> list[JobId]:
        return [
            JobId(row[0])
            for row in self.rows
            if not (row[14] or row[15]) and any(p in again for p in self.parents[JobId(row[0])])
        ]

    def find_unknown(self, again: Collection[JobId]) -> Family:
        """Children that wait for parents which do not know of them. These had ended in another chain when they were
        followed; it has become a part of this one, and they live again."""
        children = {JobId(row[0]): {*decode_ids(row[6])} for row in self.rows}
        found: dict[JobId, list[JobId]] = {}
        for job in [*again, *self._waiting_for(again)]:
            for parent in self.parents[job]:
                if self.states[parent] is None and job not in children[parent]:
                    found.setdefault(parent, []).append(job)
        return Family(set(), {}, found, {})


def _why_not_anew(row: tuple[Any, ...], *, is_map: bool) -> str | None:
    template, begun, ended = row[12], row[14], row[15]
    if begun and ended is None:
        return "has begun, and not ended"
    if template == "{}":
        return "had ended before it became a step"
    if is_map:
        return "has made its elements"
    if row[8] is not None or row[9] is not None:
        return "was made while the workflow ran"
    if WORKFLOW_KIND in template and job_of(JobId(row[0]), template, b"").kind == WORKFLOW_KIND:
        return "stands for a workflow that succeeded"
    return None


async def _read(talk: Talk, id: JobId) -> _Graph:
    rows = await talk.ask("list_steps", id=id)
    states = {JobId(row[0]): None if row[15] is None else JobState(row[15]) for row in rows}
    parents = {JobId(row[0]): decode_ids(row[5]) for row in rows}
    rules = {JobId(row[0]): Rule(row[3]) for row in rows}
    maps = {JobId(row[0]): JobId(row[8]) for row in rows if row[8] is not None}
    # Steps of workflows that had ended when they were followed are parents here as they ended; one that is no longer
    # known has let its children run before.
    if elsewhere := {one for above in parents.values() for one in above} - {*parents}:
        states |= dict.fromkeys(elsewhere, JobState.SUCCEEDED)
        found = await talk.ask("find_parents", ids=to_json(sorted(elsewhere)))
        states |= {JobId(row[0]): JobState(row[1]) for row in found}
    jobs = {JobId(row[0]): row[12] for row in rows if MAP_KIND in row[12]}
    map_steps = {id for id, template in jobs.items() if job_of(id, template, b"").kind == MAP_KIND}
    return _Graph(rows, states, parents, rules, maps, map_steps)

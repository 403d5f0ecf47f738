"""Slots: which claimed jobs may be executed now, and which wait for a slot, a thread or a child process.

Async functions run on the event loop, sync ones in threads, isolated ones and suspects in child processes. Every job
that comes in leaves as exactly one Outcome. Nothing starts once the lease is no longer trusted.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from foliot.config import Settings
from foliot.ids import Ids, JobId
from foliot.model.job import ClaimedJob, End, Outcome
from foliot.registry import Registry
from foliot.worker.attempts import Attempts
from foliot.worker.breakers import Breakers
from foliot.worker.context import Place
from foliot.worker.invoke import Recipe, recipes
from foliot.worker.stage import DEFAULT_STAGE, Stage

log = logging.getLogger("foliot.worker")
_UNKNOWN: Final = "unknown_kind"
_WAIT: Final = 2.0  # seconds that a claimed job may wait here; then others shall have it


class Slots:
    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        place: Place,
        *,
        ids: Ids,
        target: str | None,
        trusted: Callable[[], bool],
        on_done: Callable[[Outcome], None],
        breakers: Breakers | None = None,
        stage: Stage = DEFAULT_STAGE,
    ) -> None:
        self._recipes = recipes(registry)
        self._most_threads = settings.worker.threads
        self.concurrency = _concurrency(registry, settings)
        self._clock = place.clock
        self._trusted = trusted
        self._on_done = on_done
        self._breakers = breakers
        self._may_stop = breakers is not None and breakers.any_kinds
        # Those that are to be told how they end: most apps have none.
        self._stoppable = breakers.started if breakers is not None else {}
        self._open = True
        self.attempts = Attempts(
            settings, place, ids=ids, target=target, on_end=self._on_end, stage=stage
        )
        self.executing = self.attempts.executing
        self._threads = self.attempts.threads
        self._has_sync = any(not (one.is_async or one.isolated) for one in registry)
        self._has_isolated = any(one.isolated for one in registry)
        self._backlog: deque[ClaimedJob] = deque()
        self._sync_backlog: deque[ClaimedJob] = deque()
        self._isolated: deque[ClaimedJob] = deque()
        self._suspects: deque[ClaimedJob] = deque()
        self._waits_since: dict[JobId, float] = {}
        self._crowded_until = 0.0  # what was claimed had to be given back: claim what can start

    def add(self, jobs: Sequence[ClaimedJob], *, since: float) -> None:
        """Jobs that were asked for at `since`, on the monotonic clock."""
        self._backlog.extend(jobs)
        for job in jobs:
            self._waits_since[job.id] = since
        if self._open:
            self._fill()
        else:
            self.release_waiting()

    def room(self, prefetch: int) -> int:
        """How many more jobs to claim, so that `prefetch` of them wait here for a slot."""
        if len(self._sync_backlog) > prefetch or len(self._isolated) > prefetch:
            return 0  # what comes in cannot start: threads or children are the limit, not slots
        # Suspects wait for a child, not for a slot: some of them must not keep everybody else out.
        suspects = max(0, len(self._suspects) - self.concurrency)
        waiting = len(self._backlog) + len(self._sync_backlog) + len(self._isolated) + suspects
        limit = self._limit
        free = limit - len(self.executing) - waiting
        if self._clock.monotonic() >= self._crowded_until:
            return free + prefetch if limit > 0 else 0
        if self._has_sync:
            free = min(free, self._threads.free)
        return min(free, len(self.attempts.children)) if self._has_isolated else free

    @property
    def holds_any(self) -> bool:
        return bool(self.executing) or any(self._backlogs)

    @property
    def waiting(self) -> int:
        """Claimed, and not yet started."""
        return sum(len(backlog) for backlog in self._backlogs)

    @property
    def stuck_threads(self) -> int:
        return self.attempts.stuck_threads

    @property
    def worn_out(self) -> bool:
        """So much is left behind that nothing can start here any more, or no sync function."""
        return self._limit <= 0 or self.stuck_threads >= self._most_threads

    def ids(self) -> set[JobId]:
        """All that is here, executing or waiting."""
        return {*self.executing, *(job.id for backlog in self._backlogs for job in backlog)}

    def cancel(self, ids: set[JobId]) -> None:
        """Somebody asked for the end of these. What has not started is given back, and the store ends it: unless a
        workflow runs for it, which ends before."""
        # Before those that run: these make room as they end, and what waits would start.
        for backlog in self._backlogs:
            for job in [job for job in backlog if job.id in ids]:
                backlog.remove(job)
                self._waits_since.pop(job.id, None)
                self._let_go(Outcome(job.id, job.fence, End.RELEASE, reason="cancelled"))
        for id in ids:
            if id in self.executing:
                self.attempts.cancel(id)

    def start_no_more(self) -> None:
        """Give back what has not started, and whatever a claim that is under way will bring."""
        self._open = False
        self.release_waiting()

    def release_waiting(self) -> None:
        for backlog in self._backlogs:
            while backlog:
                self._release(backlog.popleft())

    def tend(self) -> None:
        """Once in a while: give back what waits in vain, and force what does not end."""
        now = self._clock.monotonic()
        for backlog in self._backlogs:
            for job in [job for job in backlog if now - self._waits_since.get(job.id, 0.0) > _WAIT]:
                backlog.remove(job)
                self._release(job)
                self._crowded_until = now + _WAIT
        self.attempts.tend()

    def look_at_the_clock(self) -> None:
        """By hand: end what is late now. Otherwise a timer does."""
        self.attempts.look_at_the_clock()

    async def close(self) -> None:
        await self.attempts.close()

    @property
    def _limit(self) -> int:
        """What is left behind occupies its slot."""
        return self.concurrency - len(self.attempts.behind)

    @property
    def _backlogs(self) -> tuple[deque[ClaimedJob], ...]:
        return (self._backlog, self._sync_backlog, self._isolated, self._suspects)

    def _on_end(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            if self._stoppable:
                self._let_go(outcome)
            else:
                self._on_done(outcome)
        self._fill()

    def _let_go(self, outcome: Outcome) -> None:
        if self._breakers is not None:
            self._breakers.see(outcome)
        self._on_done(outcome)

    def _fill(self) -> None:
        backlog, executing, limit = self._backlog, self.executing, self._limit
        while backlog and len(executing) < limit:
            self._start(backlog.popleft())
        while self._sync_backlog and len(executing) < limit and self._threads.free:
            self._start(self._sync_backlog.popleft())
        while self._isolated and len(executing) < limit and self.attempts.children:
            self._start(self._isolated.popleft())
        while self._suspects and len(executing) < limit and self.attempts.cells:
            self._start(self._suspects.popleft())

    def _start(self, job: ClaimedJob) -> None:
        try:
            if not self._trusted():
                self._release(job)  # by now it may belong to another
                return
            # A plain job of an app without breakers is not asked about one.
            if (self._may_stop or job.more is not None) and self._is_stopped(job):
                return
            recipe = self._recipes.get(job.kind)
            if recipe is None:
                self._hold(job)
                return
            definition = recipe.definition
            if (definition.isolated or job.losses) and self.attempts.can_isolate:
                self._start_in_child(job, recipe)
            elif definition.is_async:
                self._waits_since.pop(job.id, None)
                self.attempts.start_on_loop(job, recipe)
            else:
                self._start_in_thread(job, recipe)
        except Exception:
            log.exception("job %s could not be started: released", job.id)
            self._crowded_until = self._clock.monotonic() + _WAIT
            if not self.attempts.give_back(job.id):
                self._release(job)

    def _hold(self, job: ClaimedJob) -> None:
        log.warning("job %s is held: this worker does not know its kind, %s", job.id, job.kind)
        self._waits_since.pop(job.id, None)
        self._let_go(Outcome(job.id, job.fence, End.HOLD, reason=_UNKNOWN))

    def _is_stopped(self, job: ClaimedJob) -> bool:
        if self._breakers is None:
            return False
        outcome = self._breakers.stop(job, self._waits_since.get(job.id, 0.0))
        if outcome is not None:
            self._waits_since.pop(job.id, None)
            self._let_go(outcome)
        return outcome is not None

    def _start_in_thread(self, job: ClaimedJob, recipe: Recipe) -> None:
        if self._threads.free:
            self._waits_since.pop(job.id, None)
            self.attempts.start_in_thread(job, recipe)
        else:
            self._sync_backlog.append(job)

    def _start_in_child(self, job: ClaimedJob, recipe: Recipe) -> None:
        isolated = recipe.definition.isolated
        free = self.attempts.children if isolated else self.attempts.cells
        if free:
            self._waits_since.pop(job.id, None)
            self.attempts.start_in_child(job, recipe, free)
        else:
            (self._isolated if isolated else self._suspects).append(job)

    def _release(self, job: ClaimedJob) -> None:
        self._waits_since.pop(job.id, None)
        self._let_go(Outcome(job.id, job.fence, End.RELEASE))


def _concurrency(registry: Registry, settings: Settings) -> int:
    """What an app of sync functions alone claims beyond its threads would only wait here; of isolated ones likewise."""
    own = settings.worker
    if any(one.is_async and not one.isolated for one in registry):
        return own.concurrency
    threads = own.threads if any(not one.isolated for one in registry) else 0
    children = own.children if any(one.isolated for one in registry) else 0
    return min(own.concurrency, max(1, threads + children))

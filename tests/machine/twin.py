"""A store and the model of it, asked the same: a different answer, or different rows, is an error."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from foliot.ids import JobId, SessionId
from foliot.model.job import ClaimedJob, End, Facts, NewJob, Outcome
from foliot.store.admission import Admitted
from foliot.store.port import Cycle, RunningJob, Share
from machine.invariants import Checker
from machine.lab import LEASE, LOSS_LIMIT, Lab
from machine.model import Model
from machine.stage import Stage

T = TypeVar("T")


class Twin:
    """Emptied to begin with. Every event is checked against the invariants as it happens."""

    def __init__(self, stage: Stage) -> None:
        stage.reader.clear()
        self.clock = stage.clock
        self.model = Model(stage.clock.now)
        self.lab = Lab(stage.store, stage.reader, stage.ids, stage.clock.now, checker=Checker())
        self.broken = False
        self._loop = stage.loop

    def submit(
        self, home: int, jobs: tuple[NewJob, ...], *, answered: bool, resend: bool = False
    ) -> None:
        ids = self._run(self.lab.submit(*jobs, partition=home, resend=resend, reply=answered))
        self.same(ids, self.model.submit(home, jobs, resend=resend))

    def cancel(self, home: int, ids: Sequence[JobId]) -> None:
        found = self._run(self.lab.cancel(*ids, partition=home))
        self.same(found, self.model.cancel(home, ids))

    def pause(self, queue: str) -> None:
        self._run(self.lab.pause(queue))
        self.model.paused.add(queue)

    def resume(self, queue: str) -> None:
        self._run(self.lab.resume(queue))
        self.model.paused.discard(queue)

    def serve_in_turns(self) -> None:
        self._run(self.lab.serve_in_turns())

    def open(self) -> SessionId:
        session = self._run(self.lab.open())
        self.model.open(session, lease=LEASE)
        return session

    def extend(self, session: SessionId, executing: Sequence[JobId]) -> bool:
        extended = self.guard(lambda: self.lab.extend(session, executing))
        self.same(extended, self.model.extend(session, executing, lease=LEASE))
        return extended

    def close_session(self, session: SessionId) -> None:
        self._run(self.lab.close_session(session))
        self.model.close_session(session)

    def prune_sessions(self) -> None:
        self.same(self._run(self.lab.prune_sessions()), self.model.prune_sessions())

    def cycle(
        self,
        session: SessionId,
        home: int,
        outcomes: Sequence[Outcome] = (),
        shares: Sequence[Share] = (),
        room: int = 0,
    ) -> Cycle:
        cycle = self._run(
            self.lab.cycle(session, *outcomes, partition=home, shares=shares, room=room)
        )
        self.same(sorted(cycle.refused), sorted(self.model.finish(session, outcomes)))
        orders = [outcome.order for outcome in outcomes if outcome.order is not None]
        self._same_admitted(cycle.admitted, self.model.admission.admit_next(home, orders))
        expected = self.model.claim(home, session, shares, room)
        self.same(_without_form(cycle.claimed), _without_form(expected))
        return cycle

    def settled(
        self, home: int, outcomes: Sequence[Outcome], refused: Sequence[JobId]
    ) -> set[JobId]:
        """At least what took effect and left a trace, at most what nobody will accept any more."""
        settled = self._run(self.lab.store.jobs.settled(home, outcomes))
        least = {
            outcome.id
            for outcome in outcomes
            if outcome.id not in refused and outcome.end not in (End.RELEASE, End.HOLD)
        }
        self.same(least - settled, set())
        self.same(settled - self.model.over(outcomes), set())
        return settled

    def running(self, session: SessionId) -> list[RunningJob]:
        rows = sorted(self._run(self.lab.store.jobs.running(session)), key=lambda row: row.id)
        self.same(rows, sorted(self.model.running(session), key=lambda row: row.id))
        return rows

    def admit(self, home: int, *, limit: int) -> None:
        lanes = self._run(self.lab.admit(home, limit=limit))
        self.same(sorted(lanes), sorted(self.model.admit(home, limit=limit)))

    def admit_kinds(self, home: int, kinds: Sequence[str]) -> None:
        lanes = self._run(self.lab.admit_kinds(kinds, partition=home))
        self.same(sorted(lanes), sorted(self.model.admit_kinds(home, kinds)))

    def look(self, home: int, *, limit: int) -> None:
        admitted = self._run(self.lab.look(home, limit=limit))
        self._same_admitted(admitted, self.model.admission.look(home, limit=limit))

    def walk(self, home: int, *, limit: int) -> None:
        walk = self._run(self.lab.walk(home, limit=limit))
        expected = self.model.admission.walk(home, limit=limit)
        self._same_admitted(walk.admitted, expected.admitted)
        self.same(walk.after, expected.after)

    def retry_dead(self, home: int, ids: Sequence[JobId]) -> None:
        retried = self._run(self.lab.retry(*ids, partition=home))
        self.same(retried, self.model.retry_dead(home, ids))

    def _same_admitted(self, real: Sequence[Admitted], expected: Sequence[Admitted]) -> None:
        self.same(*(sorted((one.lane, one.state) for one in some) for some in (real, expected)))

    def find_lost(self) -> dict[int, list[SessionId]]:
        lost = self._run(self.lab.store.jobs.find_lost())
        found = {home: set(sessions) for home, sessions in lost.items()}
        self.same(found, self.model.find_lost())
        return lost

    def reap(self, home: int, sessions: Sequence[SessionId], *, limit: int) -> None:
        lost = self.model.reapable(home, sessions)
        reaped = self._run(self.lab.reap(sessions, partition=home, limit=limit))
        # Which of them, if not all, is not said.
        running = [row.id for row in self.lab.content.live if row.state == "running"]
        taken = [id for id in lost if id not in running]
        self.same(len(taken), min(limit, len(lost)))
        self.same(reaped, self.model.reap(taken, sessions, loss_limit=LOSS_LIMIT))

    def peek(self) -> None:
        peek = self._run(self.lab.store.jobs.peek())
        self.same(len(peek.ready), len(set(peek.ready)))
        self.same(set(peek.ready), self.model.ready_lanes())
        self.same(peek.due_in, self.model.due_in())
        self.same(peek.ordered, self.model.ordered())

    def count(self) -> None:
        self._run(self.lab.count())

    def compare(self) -> None:
        self.same(self.lab.content, self.model.content())

    def same(self, real: object, expected: object) -> None:
        if real != expected:
            self.broken = True
            raise AssertionError(f"the store: {real}\nthe model: {expected}")

    def guard(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except BaseException:
            self.broken = True
            raise

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.guard(lambda: self._loop.run(work))


def _without_form(jobs: Sequence[ClaimedJob]) -> list[tuple[ClaimedJob, Facts]]:
    """What is said of each, however a store writes it."""
    return [(replace(job, more=None), job.facts) for job in jobs]

"""The state machine: workers that come, go, die and come back from the dead, on a store and on the model of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from msgspec.structs import replace

from foliot.ids import JobId, SessionId
from foliot.model.job import ClaimedJob, End, NewJob, Outcome
from foliot.store.port import Cycle, Share
from machine.admitting import ATTEMPTS, MOST_JOBS, WHERE, WHICH, AdmittingMachine
from machine.lab import ALL_QUEUES, QUEUES, lane, worker_outcome
from machine.reached import reached
from machine.stage import Stage

_MOST_WORKERS: Final = 4

END = st.sampled_from(["fail", "succeed", "release", "lose", "cancel", "hold"])
DELAY = st.sampled_from([0.0, 3.0, 20.0])
QUEUE = st.sampled_from(QUEUES)
PAUSED = st.sampled_from(ALL_QUEUES)
TIMEOUT = st.sampled_from([None, 5.0])
LANES = st.sampled_from([ALL_QUEUES, QUEUES[:1], ALL_QUEUES[::-1]])


class Worker(msgspec.Struct):
    session: SessionId
    held: dict[JobId, ClaimedJob] = msgspec.field(default_factory=dict)


class StoreMachine(AdmittingMachine):
    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.workers: list[Worker] = []
        self.zombies: list[Worker] = []
        self.claims: list[tuple[SessionId, ClaimedJob]] = []
        self.unknown: list[tuple[int, tuple[NewJob, ...]]] = []
        self.lost: dict[int, list[SessionId]] = {}

    @initialize(count=st.integers(1, 3), timeout=TIMEOUT, max_attempts=ATTEMPTS)
    def begin(self, count: int, timeout: float | None, max_attempts: int) -> None:
        """Two workers and something to do, so that no run is spent on getting there."""
        self.open()
        self.open()
        self.submit(count, 0, QUEUES[0], 2, None, None, max_attempts, timeout, "answered")

    # -- what clients do

    @precondition(lambda self: len(self.known) < MOST_JOBS)
    @rule(
        count=st.integers(1, 3),
        where=WHERE,
        queue=QUEUE,
        priority=st.integers(1, 3),
        after=st.sampled_from([None, None, None, -5, 5, 20]),
        key=st.sampled_from([None, None, "a", "b"]),
        max_attempts=ATTEMPTS,
        timeout=TIMEOUT,
        fate=st.sampled_from(["answered", "answered", "answered", "unanswered", "unsent"]),
    )
    def submit(
        self,
        count: int,
        where: int,
        queue: str,
        priority: int,
        after: int | None,
        key: str | None,
        max_attempts: int,
        timeout: float | None,
        fate: str,
    ) -> None:
        home = self._home(where)
        run_at = None if after is None else self.clock.now() + timedelta(seconds=after)
        jobs = tuple(
            self.lab.new_job(
                home,
                kind=("echo", "copy")[number % 2],
                queue=queue,
                priority=priority,
                run_at=run_at,
                key=key,
                max_attempts=max_attempts,
                timeout=timeout,
            )
            for number in range(count)
        )
        self.known += [(home, job.id) for job in jobs]
        if fate == "unsent":
            self.lab.submit_in_vain(*jobs)
        else:
            self.twin.submit(home, jobs, answered=fate == "answered")
        if fate != "answered":
            self.unknown.append((home, jobs))

    @precondition(lambda self: self.unknown)
    @rule(which=WHICH, answered=st.booleans())
    def resend(self, which: int, answered: bool) -> None:
        home, jobs = self.unknown[which % len(self.unknown)]
        self.twin.submit(home, jobs, answered=answered, resend=True)
        if answered:
            self.unknown.remove((home, jobs))

    @precondition(lambda self: self.known)
    @rule(which=WHICH, other=WHICH)
    def cancel(self, which: int, other: int) -> None:
        """Any one, beside one that runs or has ended."""
        home, id = self._pick(self.known, which)
        taken = [row.id for row in self.model.live.values() if row.session] + [*self.model.history]
        others = [id for id in taken if self._home_of(id) == home] or [id]
        self.twin.cancel(home, list(dict.fromkeys([id, self._pick(others, other)])))

    @precondition(lambda self: not self.model.paused and self.model.live)
    @rule(queue=PAUSED)
    def pause(self, queue: str) -> None:
        self.twin.pause(queue)

    @precondition(lambda self: self.model.paused)
    @rule(queue=PAUSED)
    def resume(self, queue: str) -> None:
        self.twin.resume(queue)

    # -- what workers do

    @precondition(lambda self: len(self.workers) < _MOST_WORKERS)
    @rule()
    def open(self) -> None:
        self.workers.append(Worker(self.twin.open()))

    @precondition(lambda self: self.workers and self.model.ready_lanes())
    @rule(which=WHICH, where=WHERE, room=st.integers(1, 4))
    def claim(self, which: int, where: int, room: int) -> None:
        self.work(which, where, [], 0.0, ALL_QUEUES, room, room, answered=True)

    @precondition(lambda self: any(worker.held for worker in self.workers))
    @rule(which=WHICH, end=END, delay=DELAY)
    def finish(self, which: int, end: str, delay: float) -> None:
        busy = [worker for worker in self.workers if worker.held]
        worker = self._pick(busy, which)
        where = self.homes.index(self._home_of(next(iter(worker.held))))
        self.work(self.workers.index(worker), where, [end], delay, ALL_QUEUES, 1, 0, answered=True)

    @precondition(lambda self: self.workers and self.model.live)
    @rule(ends=st.lists(END, min_size=1, max_size=3), delay=DELAY, rounds=st.integers(1, 4))
    def take_turns(self, ends: list[str], delay: float, rounds: int) -> None:
        """Every worker ends all that it holds and claims some more, again and again."""
        for _ in range(rounds):
            for which, worker in enumerate(self.workers):
                for where in range(len(self.homes)):
                    many = ends * len(worker.held)
                    self.work(which, where, many, delay, ALL_QUEUES, 2, 2, answered=True)
            self.tick()

    @precondition(lambda self: self.workers and self.model.live)
    @rule(
        which=WHICH,
        where=WHERE,
        ends=st.lists(END, max_size=3),
        delay=DELAY,
        queues=LANES,
        quota=st.integers(1, 3),
        room=st.integers(0, 4),
        answered=st.booleans(),
    )
    def work(
        self,
        which: int,
        where: int,
        ends: list[str],
        delay: float,
        queues: Sequence[str],
        quota: int,
        room: int,
        answered: bool,
    ) -> None:
        """Finish some of what it holds, claim some more."""
        worker, home = self._pick(self.workers, which), self._home(where)
        mine = [job for job in worker.held.values() if self._home_of(job.id) == home]
        outcomes = [worker_outcome(job, end, delay) for job, end in zip(mine, ends, strict=False)]
        shares = [Share(lane(queue), quota) for queue in queues] if room else []
        cycle = self._cycle(worker.session, home, outcomes, shares, room)
        if answered:
            for outcome in outcomes:
                worker.held.pop(outcome.id, None)
            worker.held.update({job.id: job for job in cycle.claimed})
            return
        for id in self.twin.settled(home, outcomes, cycle.refused) if outcomes else ():
            worker.held.pop(id, None)

    @precondition(lambda self: self._unaware())
    @rule(which=WHICH)
    def reconcile(self, which: int) -> None:
        """Release what the store thinks is ours and we do not hold; hear of cancelled ones."""
        worker = self._pick(self._unaware(), which)
        for row in self.twin.running(worker.session):
            held = worker.held.get(row.id)
            if held is None or held.fence != row.fence:
                outcome = Outcome(row.id, row.fence, End.RELEASE)
                self._cycle(worker.session, row.partition, [outcome])

    @precondition(lambda self: self.workers)
    @rule(which=WHICH, mask=st.integers(0, 7))
    def extend(self, which: int, mask: int) -> None:
        worker = self._pick(self.workers, which)
        executing = [id for bit, id in enumerate(worker.held) if mask >> (bit % 3) & 1]
        if not self.twin.extend(worker.session, executing):
            self._bury(worker)

    @precondition(lambda self: self.workers)
    @rule(mask=st.integers(0, 7), seconds=st.sampled_from([16, 4, 1]))
    def beat(self, mask: int, seconds: int) -> None:
        """Time passes, and all live on."""
        for which in reversed(range(len(self.workers))):
            self.extend(which, mask)
        self.clock.advance(seconds)

    @precondition(lambda self: self.workers)
    @rule(which=WHICH, mask=st.integers(0, 7), noticed=st.booleans())
    def crash(self, which: int, mask: int, noticed: bool) -> None:
        """One is gone after a last beat, the others live on until everybody can see it."""
        worker = self._pick(self.workers, which)
        self.clock.advance(1)
        self.extend(self.workers.index(worker), mask)
        if worker in self.workers:
            self._bury(worker)
        if noticed:
            self.beat(mask, 16) if self.workers else self.clock.advance(16)
            self.beat(mask, 16) if self.workers else self.clock.advance(16)
            self.tick()

    @precondition(lambda self: len(self.workers) > 1)
    @rule(which=WHICH)
    def leave(self, which: int) -> None:
        """In good order: what it holds is given back, then its session is closed."""
        worker = self._pick(self.workers, which)
        for home in self.homes:
            mine = [job for job in worker.held.values() if self._home_of(job.id) == home]
            outcomes = [Outcome(job.id, job.fence, End.RELEASE) for job in mine]
            if outcomes:
                self._cycle(worker.session, home, outcomes)
        self.twin.close_session(worker.session)
        worker.held.clear()
        self._bury(worker)

    @precondition(lambda self: any(worker.held for worker in self.zombies))
    @rule(which=WHICH, where=WHERE, ends=st.lists(END, max_size=3), room=st.integers(0, 1))
    def come_back(self, which: int, where: int, ends: list[str], room: int) -> None:
        """A worker that was thought dead goes on where it stopped."""
        worker = self._pick([worker for worker in self.zombies if worker.held], which)
        home = self._home(where)
        mine = [job for job in worker.held.values() if self._home_of(job.id) == home]
        outcomes = [worker_outcome(job, end, 3.0) for job, end in zip(mine, ends, strict=False)]
        shares = [Share(lane(QUEUES[0]), 1)] if room else []
        cycle = self._cycle(worker.session, home, outcomes, shares, room)
        worker.held.update({job.id: job for job in cycle.claimed})

    @precondition(lambda self: self.claims)
    @rule(which=WHICH, end=END, wrong=st.sampled_from(["fence", "session", "time"]))
    def speak_out_of_turn(self, which: int, end: str, wrong: str) -> None:
        """Of what runs, with another fence or under another name; or an old outcome once more."""
        live = {(row.id, row.fence, row.session) for row in self.model.live.values()}
        current = [(s, job) for s, job in self.claims if (job.id, job.fence, s) in live]
        session, job = self._pick(self.claims, which)
        if wrong != "time" and current:
            session, job = self._pick(current, which)
        if wrong == "fence":
            job = replace(job, fence=job.fence - 1)
        elif wrong == "session" or (session, job) in current:
            session = self._pick([SessionId(job.id), *(w.session for w in self.workers)], which)
        if (job.id, job.fence, session) not in live:
            self._cycle(session, self._home_of(job.id), [worker_outcome(job, end, 3.0)])

    # -- what the duties do

    @rule(seconds=st.sampled_from([4, 16, 31]))
    def advance(self, seconds: int) -> None:
        """Time passes, and nobody beats."""
        self.clock.advance(seconds)

    @precondition(lambda self: self.model.due_in())
    @rule(where=WHERE, limit=st.sampled_from([100, 1, 2]))
    def admit(self, where: int, limit: int) -> None:
        self.twin.admit(self._home(where), limit=limit)

    @precondition(lambda self: any(row.hold for row in self.model.live.values()))
    @rule(where=WHERE, kinds=st.sampled_from([["echo"], ["copy", "echo"], ["copy", "copy"]]))
    def admit_kinds(self, where: int, kinds: list[str]) -> None:
        self.twin.admit_kinds(self._home(where), kinds)

    @precondition(lambda self: self.model.find_lost())
    @rule()
    def find_lost(self) -> None:
        """What it finds may be used much later: a lost session stays lost."""
        self.lost = self.twin.find_lost()

    @precondition(lambda self: self.lost and self.model.find_lost())
    @rule(limit=st.sampled_from([100, 1]))
    def reap(self, limit: int) -> None:
        for home, sessions in self.lost.items():
            self.twin.reap(home, sessions, limit=limit)

    @precondition(lambda self: self.model.find_lost() or self.model.due_in())
    @rule()
    def tick(self) -> None:
        """All duties, as a scheduler does them."""
        self.twin.peek()
        self.find_lost()
        self.reap(100)
        for home in self.homes:
            self.admit(self.homes.index(home), 100)
            self.admit_all(self.homes.index(home))

    @precondition(lambda self: self.model.expired())
    @rule()
    def prune_sessions(self) -> None:
        self.twin.prune_sessions()

    # -- what must be so

    @invariant()
    def the_same_rows(self) -> None:
        self.twin.compare()

    def teardown(self) -> None:
        try:
            if not self.twin.broken:
                self._come_to_rest()
        finally:
            self.lab.close()
        self.stage.reached.update(reached(self.lab.history))

    def _come_to_rest(self) -> None:
        """No more faults: everything must end."""
        self.clock.advance(1000)
        for queue in ALL_QUEUES:
            self.twin.resume(queue)
        self.tick()
        self.end_all()
        self.twin.guard(self.lab.rest)
        self.twin.count()
        self.twin.same(self.lab.content.live, ())
        self.twin.compare()

    def _unaware(self) -> list[Worker]:
        """Those that do not know of all that the store thinks they run."""
        return [
            worker
            for worker in self.workers
            if {row.id for row in self.model.running(worker.session)} - set(worker.held)
        ]

    def _cycle(
        self,
        session: SessionId,
        home: int,
        outcomes: Sequence[Outcome],
        shares: Sequence[Share] = (),
        room: int = 0,
    ) -> Cycle:
        cycle = self.twin.cycle(session, home, outcomes, shares, room)
        self.claims += [(session, job) for job in cycle.claimed]
        return cycle

    def _bury(self, worker: Worker) -> None:
        self.workers.remove(worker)
        self.zombies.append(worker)

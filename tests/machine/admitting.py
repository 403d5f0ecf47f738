"""The part of the state machine in which jobs wait for each other or for their turns, and the dead live again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from foliot.ids import JobId, partition_of
from foliot.model.job import More, Outcome
from foliot.store.port import Share
from machine.lab import ALL_QUEUES, IN_TURNS, lane
from machine.stage import Stage
from machine.twin import Twin

T = TypeVar("T")
MOST_JOBS: Final = 40

WHICH = st.integers(0, 11)  # of whatever there is, modulo how many there are
WHERE = st.integers(0, 1)  # the first partition or the last
ATTEMPTS = st.sampled_from([2, 1, 3])
LIMIT = st.sampled_from([100, 1, 2])
ORDERING_KEY = st.sampled_from(["a", "b"])
FAIR_KEY = st.sampled_from(["heavy", "light", None])
AFTER = st.sampled_from([None, None, None, 5])


class AdmittingMachine(RuleBasedStateMachine):
    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage
        self.twin = Twin(stage)
        self.lab, self.model, self.clock = self.twin.lab, self.twin.model, stage.clock
        self.homes = sorted({0, stage.store.partitions - 1})
        self.known: list[tuple[int, JobId]] = []

    @initialize()
    def serve_in_turns(self) -> None:
        self.twin.serve_in_turns()

    # -- what clients do

    @precondition(lambda self: len(self.known) < MOST_JOBS)
    @rule(
        count=st.integers(1, 3),
        where=WHERE,
        queue=st.sampled_from(["default", IN_TURNS]),
        ordering_key=ORDERING_KEY,
        after=AFTER,
        max_attempts=ATTEMPTS,
    )
    def submit_ordered(
        self,
        count: int,
        where: int,
        queue: str,
        ordering_key: str,
        after: int | None,
        max_attempts: int,
    ) -> None:
        more = More(ordering_key=ordering_key, fair_key="light" if queue == IN_TURNS else None)
        self._submit_more([more] * count, where, queue, after, max_attempts)

    @precondition(lambda self: len(self.known) < MOST_JOBS)
    @rule(
        keys=st.lists(FAIR_KEY, min_size=1, max_size=4),
        where=WHERE,
        after=AFTER,
        max_attempts=ATTEMPTS,
        seen=st.booleans(),
    )
    def submit_fair(
        self,
        keys: list[str | None],
        where: int,
        after: int | None,
        max_attempts: int,
        seen: bool,
    ) -> None:
        more = [More(fair_key=key) for key in keys]
        self._submit_more(more, where, IN_TURNS, after, max_attempts)
        if seen:
            self.look(where, 100)

    def _submit_more(
        self, more: list[More], where: int, queue: str, after: int | None, max_attempts: int
    ) -> None:
        home = self._home(where)
        run_at = None if after is None else self.clock.now() + timedelta(seconds=after)
        jobs = tuple(
            self.lab.new_job(home, queue=queue, run_at=run_at, max_attempts=max_attempts, more=one)
            for one in more
        )
        self.known += [(home, job.id) for job in jobs]
        self.twin.submit(home, jobs, answered=True)

    @precondition(lambda self: self.model.dead)
    @rule(which=WHICH, count=st.integers(1, 2))
    def retry_dead(self, which: int, count: int) -> None:
        """Some dead ones, those first that share an ordering key, and one that is not dead."""
        rows = sorted(self.model.dead.values(), key=lambda row: (row.ordering_key is None, row.id))
        dead = [row.id for row in rows]
        home = self._home_of(self._pick(dead, which))
        some = [id for id in dead if self._home_of(id) == home][:count]
        others = [id for id in self.model.live if self._home_of(id) == home][:1]
        self.twin.retry_dead(home, some + others)

    # -- what the duties do

    @precondition(lambda self: self.model.unseen())
    @rule(where=WHERE, limit=LIMIT)
    def look(self, where: int, limit: int) -> None:
        self.twin.look(self._home(where), limit=limit)

    @precondition(lambda self: self.model.ordered())
    @rule(where=WHERE, limit=LIMIT)
    def walk(self, where: int, limit: int) -> None:
        self.twin.walk(self._home(where), limit=limit)

    def admit_all(self, where: int) -> None:
        """As the duty does it."""
        home = self._home(where)
        while home in self.model.unseen():
            self.look(where, 100)
        if home in self.model.ordered():
            self.walk(where, 100)
        while home in self.model.unseen():
            self.look(where, 100)

    def end_all(self) -> None:
        """The next of a key comes with the end of the one before it, or with another look."""
        session = self.twin.open()
        shares = [Share(lane(queue), 1000) for queue in ALL_QUEUES]
        for where, home in enumerate(self.homes):
            self.twin.admit_kinds(home, ["echo", "copy"])
            outcomes: list[Outcome] = []
            for _ in range(2 * MOST_JOBS):
                self.admit_all(where)
                claimed = self.twin.cycle(session, home, outcomes, shares, 1000).claimed
                outcomes = [Outcome(o.id, o.fence, result=b"1", order=o.order) for o in claimed]
                if home not in {row.partition for row in self.model.live.values()}:
                    break

    def _home(self, where: int) -> int:
        return self.homes[where % len(self.homes)]

    def _home_of(self, id: JobId) -> int:
        return partition_of(id, self.stage.store.partitions)

    def _pick(self, some: Sequence[T], which: int) -> T:
        return some[which % len(some)]

"""A function's statements and its job's end: both or neither, whatever happens to the worker, and once in all."""

from __future__ import annotations

import itertools
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from acceptance.payments import POINTS, Payments
from foliot import JobState
from support.callers import path_of
from support.fleet import Fleet, WorkerProcess, eventually

APP = "acceptance.payments:app"
KINDS = ("pay", "apay", "pay_apart", "apay_apart")


class Till:
    """A fleet for payments, with their table in the store's own database."""

    def __init__(self, fleet: Fleet) -> None:
        fleet.jobs.app.close()
        fleet.jobs = self.jobs = Payments(fleet.url)
        self.fleet = fleet
        fleet.count()  # opens the store, which makes the file
        self.ask("CREATE TABLE IF NOT EXISTS effects (job text, fence integer)")
        self.ask("DELETE FROM effects")

    def start(self, *flags: str) -> WorkerProcess:
        return self.fleet.start(*flags, app=APP)

    def effects(self) -> Counter[str]:
        return Counter(row[0] for row in self.ask("SELECT job FROM effects"))

    def ask(self, statement: str) -> list[Any]:
        if self.fleet.url.startswith("sqlite"):
            file = sqlite3.connect(path_of(self.fleet.url), timeout=20)
            try:
                with file:
                    return file.execute(statement).fetchall()
            finally:
                file.close()
        with psycopg.connect(self.fleet.url) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def check(self) -> None:
        """Every job has succeeded, and has had its effect once: that of the attempt that counts."""
        self.fleet.check_all_succeeded()
        assert self.effects() == Counter(self.fleet.submitted)
        fences = dict(self.ask("SELECT job, fence FROM effects"))
        assert fences == {job.id: job.fence for job in self.fleet.ended()}


@pytest.fixture
def till(any_fleet: Fleet) -> Till:
    return Till(any_fleet)


def test_a_worker_killed_at_any_point_leaves_both_or_neither(till: Till) -> None:
    """Each kills the worker of its queue, at its point; then one worker runs what they left."""
    workers = [till.start("--queues", point) for point in POINTS]
    handles = {}
    for point, kind in zip(POINTS, itertools.cycle(KINDS), strict=False):
        job = getattr(till.jobs, kind).options(queue=point)
        handles[point] = till.fleet.submit(job.submit(point))
    for worker in workers:
        worker.wait()
    done = {"committed", "after"}
    assert till.effects() == Counter(handles[point].id for point in done)
    assert {point for point in POINTS if handles[point].status().final} == done
    till.start()
    till.fleet.wait_until_done()
    till.check()
    assert {handle.result(timeout=5) for handle in handles.values()} == {"paid"}


def test_workers_killed_at_random_moments_leave_both_or_neither(any_fleet: Fleet) -> None:
    kill_at_random(any_fleet, rounds=3, kinds=KINDS[:2])


@pytest.mark.chaos
def test_workers_killed_many_times_leave_both_or_neither(any_fleet: Fleet) -> None:
    kill_at_random(any_fleet, rounds=25, kinds=KINDS)


def kill_at_random(any_fleet: Fleet, *, rounds: int, kinds: Sequence[str]) -> None:
    any_fleet.settings["worker.loss_limit"] = "1000"
    till = Till(any_fleet)
    chance = random.Random()
    workers = [till.start() for _ in range(2)]
    for _ in range(rounds):
        calls = [
            getattr(till.jobs, chance.choice(kinds)).prepare("", chance.random() * 0.01)
            for _ in range(40)
        ]
        before = till.fleet.started()
        handles = till.jobs.app.submit_many(calls)
        till.fleet.submitted += [handle.id for handle in handles]
        till.fleet.wait_for_starts(than=before)
        time.sleep(chance.random() * 0.2)
        victim = chance.randrange(2)
        workers[victim].kill()
        workers[victim] = till.start()
    till.fleet.wait_until_done(90)
    till.check()


def test_a_lost_lease_rolls_both_back(till: Till) -> None:
    # On SQLite a transaction keeps all others from writing, so it must not have begun while its worker sleeps.
    first = not till.fleet.url.startswith("sqlite")
    gate = till.fleet.gate("open")
    sleeper = till.start()
    handle = till.fleet.submit(till.jobs.pay_late.submit(str(gate), first=first))
    till.fleet.wait_for("inside")
    till.fleet.wait_until_named(1)
    sleeper.pause()
    till.start()
    till.fleet.wait_for("inside", count=2)
    gate.touch()
    assert handle.result(timeout=30) == 2
    sleeper.resume()
    eventually(lambda: "belongs to another attempt" in sleeper.log, what=till.fleet.logs)
    till.check()


def test_what_a_function_does_after_its_transaction_cannot_fail_its_job(till: Till) -> None:
    worker = till.start()
    failing = till.fleet.submit(till.jobs.pay_and_fail.submit())
    twice = till.fleet.submit(till.jobs.pay_twice.submit())
    retried = till.fleet.submit(till.jobs.pay_by_retry.submit())
    assert failing.result(timeout=20) == "paid"
    assert "one transaction" in str(twice.result(timeout=20))
    assert retried.result(timeout=20) == 2
    eventually(lambda: "too late to matter" in worker.log)
    eventually(lambda: worker.log.count("after its transaction") == 2)
    assert "of another attempt" not in worker.log
    till.check()


def test_jobs_submitted_in_a_transaction_come_with_it(till: Till) -> None:
    till.start()
    for number in range(2):
        till.fleet.submit(till.jobs.pay_and_pass_on.submit(number))
    till.fleet.wait_until_done()
    # Two that passed something on, and one that was passed on by each; nothing of the attempt that failed.
    eventually(lambda: till.fleet.count().get(JobState.SUCCEEDED) == 4)
    eventually(lambda: sum(till.effects().values()) == 4)
    assert set(till.effects().values()) == {1}

"""A job that ends the process it runs in: it takes no neighbour with it for good, and it ends itself."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from foliot import JobState
from support.fleet import Fleet, alive, all_gone, children_of, eventually, kill


@pytest.mark.parametrize(
    ("store", "how"),
    [("postgres", "signal"), ("postgres", "0"), ("postgres", "7"), ("sqlite", "signal")],
)
def test_a_job_that_kills_its_process_ends_dead_and_its_neighbours_succeed(
    make_fleet: Callable[..., Fleet], sqlite_url: str, how: str, store: str
) -> None:
    fleet = make_fleet(sqlite_url if store == "sqlite" else None)
    parent = fleet.start(supervised=True)
    gate = fleet.gate("open")
    neighbours = [fleet.submit(fleet.jobs.gated.submit(str(gate))) for _ in range(5)]
    fleet.wait_until_named(5)
    poison = fleet.submit(fleet.jobs.poison.submit(how))
    fleet.wait_for("start", job=poison.id)
    gate.touch()
    fleet.wait_until_done()
    fleet.check()
    assert poison.status() is JobState.DEAD
    assert poison.job().reason == "worker_lost"
    assert [attempt.outcome for attempt in fleet.attempts(poison.id)] == ["worker_lost"] * 3
    assert {handle.status() for handle in neighbours} == {JobState.SUCCEEDED}
    # The first time it took its worker along, afterwards only a child of its own.
    starts = fleet.events("start", job=poison.id)
    assert len(starts) == 3
    workers = {event.pid for event in fleet.events("start") if event.kind == "quick"}
    fleet.submit_quick(5)
    fleet.wait_until_done()
    workers = {event.pid for event in fleet.events("start") if event.kind == "quick"}
    assert not workers & {event.pid for event in starts}
    assert parent.log.count("starting another") == 1, fleet.logs()
    assert parent.stop() == 0


def test_a_suspect_fails_and_asks_for_a_retry_like_any_other_job(fleet: Fleet) -> None:
    worker = fleet.start()
    handle = fleet.submit(fleet.jobs.doubtful.submit(str(fleet.gate("never"))))
    fleet.wait_until_named(1)
    worker = fleet.replace(worker)
    assert handle.result(timeout=30) == 4
    starts = fleet.events("start", job=handle.id)
    assert worker.pid not in {event.pid for event in starts}
    assert starts[2].at - starts[1].at >= 0.2
    _, asked, failed = fleet.attempts(handle.id)
    assert (asked.outcome, asked.error) == ("failed", "Retry: not yet")
    assert (failed.outcome, failed.error) == ("failed", "ValueError: not this time")
    assert failed.traceback is not None and "in doubtful" in failed.traceback
    fleet.wait_until_done()
    fleet.check_all_succeeded()


def test_a_suspect_ends_with_the_worker_that_is_killed(fleet: Fleet) -> None:
    gate = fleet.gate("open")
    worker = fleet.start()
    handle = fleet.submit(fleet.jobs.gated_sync.submit(str(gate)))
    fleet.wait_until_named(1)
    worker = fleet.replace(worker)
    alone = fleet.wait_for("start", job=handle.id, count=2).pid
    assert alone != worker.pid
    assert alone in children_of(worker.pid)
    worker.kill()
    eventually(lambda: not alive(alone), timeout=10)
    gate.touch()
    fleet.start()
    fleet.wait_until_done()
    fleet.check_all_succeeded()


def test_a_suspect_in_its_child_process_can_be_cancelled(fleet: Fleet) -> None:
    worker = fleet.start()
    handle = fleet.submit(fleet.jobs.gated_sync.submit(str(fleet.gate("never"))))
    fleet.wait_until_named(1)
    fleet.replace(worker)
    alone = fleet.wait_for("start", job=handle.id, count=2).pid
    handle.cancel()
    eventually(lambda: handle.status() is JobState.CANCELLED)
    # It ended by itself: it was told where it stood, unless it had seen it before.
    seen = handle.job().reason == "seen"
    assert seen or fleet.attempts(handle.id)[-1].outcome == "cancelled"
    assert alive(alone), "its child is there for the next"
    fleet.check()


def test_a_suspect_that_waits_for_its_turn_takes_no_second_loss(fleet: Fleet) -> None:
    """Only what was executing when a worker was lost counts as lost, however often workers are."""
    gate = fleet.gate("open")
    worker = fleet.start()
    handles = [fleet.submit(fleet.jobs.gated.submit(str(gate))) for _ in range(12)]
    fleet.wait_until_named(12)
    for number in (1, 2):
        worker = fleet.replace(worker)
        fleet.wait_for("start", count=12 + 4 * number)
        eventually(fleet.beat_has_seen_all)
        fleet.wait_until_named(4)
        assert len(fleet.events("start")) == 12 + 4 * number
    gate.touch()
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    assert sum(handle.job().losses for handle in handles) == 16


def test_a_suspect_that_waits_for_its_turn_says_so(fleet: Fleet) -> None:
    """Also while it is claimed and given back, again and again."""
    gate = fleet.gate("open")
    worker = fleet.start()
    handles = [fleet.submit(fleet.jobs.gated.submit(str(gate))) for _ in range(20)]
    fleet.wait_until_named(20)
    fleet.replace(worker)
    fleet.wait_for("start", count=24)
    alone = {event.job for event in fleet.events("start")[20:]}
    since = set()
    until = time.monotonic() + 5  # longer than a claimed job waits, and many beats
    while time.monotonic() < until:
        for handle in handles:
            explanation = handle.explain()
            says = explanation.why
            if handle.id in alone:
                assert says.startswith("attempt 2 (1 of 5, not counting 1 loss) runs on "), says
                assert handle.job().attempt == 2
            else:
                assert says.startswith(
                    "suspect: a worker was lost while it ran; it waits to run alone"
                )
                since.add((handle.id, explanation.reasons[0].since))
    assert len(since) == 16, "since when it waits does not slide"
    assert len(fleet.events("start")) == 24
    gate.touch()
    fleet.wait_until_done()
    fleet.check_all_succeeded()


def test_as_many_suspects_run_at_once_as_there_may_be_children(
    make_fleet: Callable[..., Fleet],
) -> None:
    fleet = make_fleet(worker_children="7")
    gate = fleet.gate("open")
    worker = fleet.start()
    for _ in range(9):
        fleet.submit(fleet.jobs.gated.submit(str(gate)))
    fleet.wait_until_named(9)
    fleet.replace(worker)
    fleet.wait_for("start", count=16)
    eventually(fleet.beat_has_seen_all)
    assert len(fleet.events("start")) == 16
    gate.touch()
    fleet.wait_until_done()
    fleet.check_all_succeeded()


def test_what_a_job_has_started_ends_with_it(fleet: Fleet) -> None:
    """Also where it holds the pipe to the worker open."""
    worker = fleet.start()
    handle = fleet.submit(fleet.jobs.forking.submit())
    fleet.wait_for("start", job=handle.id)
    fleet.wait_until_named(1)
    worker = fleet.replace(worker)
    fleet.submit_quick(3)
    fleet.wait_until_done()
    assert handle.status() is JobState.DEAD
    left = {event.pid for event in fleet.events("forked")}
    assert len(left) == 3
    eventually(lambda: all_gone([event.pid for event in fleet.events("forked")[1:]]))
    for event in fleet.events("forked"):
        kill(event.pid)
    assert worker.alive

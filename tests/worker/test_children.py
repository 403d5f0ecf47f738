"""Jobs in child processes: what they can do, and how they are ended, with their neighbours unaffected."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from foliot import JobCancelled, JobFailed, JobState
from foliot.life import Role
from foliot.process import Process
from support.fleet import alive, children_of, eventually
from worker.conftest import MakeShop
from worker.isolated import MIB, Isolated
from worker.shop import Shop

GIB = 1 << 30


@pytest.fixture
def note(tmp_path: Path) -> Path:
    return tmp_path / "note"


def reason_of(handle: Any) -> tuple[str | None, str | None]:
    """Of a job that is dead: why, and what its last attempt says."""
    with pytest.raises(JobFailed):
        handle.result(timeout=30)
    return handle.job().reason, handle.attempts()[-1].error


def pids(note: Path) -> list[int]:
    text = eventually(lambda: note.read_text() if note.exists() else "")
    return [int(word) for word in text.split()]


def test_children_are_used_again(make_shop: MakeShop) -> None:
    shop = make_shop(
        children=1
    )  # of several, one that another test has cancelled may come back meanwhile
    found = {shop.jobs.who.submit().result(timeout=30) for _ in range(5)}
    assert len(found) == 1
    assert os.getpid() not in found
    assert shop.jobs.who_here.submit().result(timeout=30) == os.getpid()


def test_several_children_run_jobs_at_the_same_time(make_shop: MakeShop, tmp_path: Path) -> None:
    shop = make_shop(children=3)
    notes = [tmp_path / str(number) for number in range(3)]
    handles = [shop.jobs.polite.submit(str(note)) for note in notes]
    for note in notes:
        eventually(note.exists)
    for handle in handles:
        handle.cancel()


@pytest.mark.parametrize("how", ["hog", "hog_shared", "hog_elsewhere"])
def test_memory_beyond_the_limit_ends_the_attempt_and_no_other(
    shop: Shop, note: Path, how: str
) -> None:
    neighbour = shop.jobs.polite.submit(str(note))
    eventually(note.exists)
    reason, error = reason_of(getattr(shop.jobs, how).submit(GIB))
    assert reason == "memory_exceeded", error
    assert error is not None and "256 MiB" in error
    assert neighbour.status() is JobState.RUNNING
    assert shop.jobs.who_here.submit().result(timeout=30) == os.getpid()
    neighbour.cancel()


def test_memory_within_the_limit_is_no_matter_and_none_is_limited_without(shop: Shop) -> None:
    assert shop.jobs.hog.submit(100 * MIB).result(timeout=30) == 100 * MIB
    assert shop.jobs.who.submit().result(timeout=30)


def test_a_timeout_kills_the_whole_process_group(shop: Shop, note: Path) -> None:
    handle = shop.jobs.sleep.submit(str(note))
    group = pids(note)
    reason, error = reason_of(handle)
    assert reason == "timed_out"
    assert error is not None and "its process was killed" in error
    eventually(lambda: not any(alive(pid) for pid in group))


def test_a_slow_start_of_the_child_is_not_a_job_s_own_time(
    make_shop: MakeShop, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither here nor in the store, where deadlines count from the claim."""
    monkeypatch.setenv("SLOW_START", "1.5")
    monkeypatch.setattr("foliot.worker.starts._LATE", 0.2)
    for module in ("sqlite.claim", "sqlite.jobs", "postgres.jobs"):
        monkeypatch.setattr(f"foliot.store.{module}.DEADLINE_GRACE", 0.2)
    shop = make_shop(children=1)
    handle = shop.jobs.nap.options(timeout=1.2).submit(0.8)
    assert handle.result(timeout=30) == 0.8
    assert not handle.attempts()


@pytest.mark.parametrize("how", ["signal", "0"])
def test_a_child_that_dies_is_a_loss_and_the_third_is_the_end(
    shop: Shop, note: Path, how: str
) -> None:
    neighbour = shop.jobs.polite.submit(str(note))
    eventually(note.exists)
    handle = shop.jobs.die.submit(how)
    reason, error = reason_of(handle)
    assert reason == "worker_lost"
    assert error is not None and "its process died" in error
    assert [attempt.outcome for attempt in handle.attempts()] == ["worker_lost"] * 3
    assert neighbour.status() is JobState.RUNNING
    neighbour.cancel()


def test_a_child_that_is_killed_from_outside_gives_its_job_back(shop: Shop, note: Path) -> None:
    handle = shop.jobs.polite.submit(str(note))
    eventually(note.exists)
    note.unlink()
    for pid in children_of(os.getpid()):
        if str(pid) in _children_of_pool(shop):
            os.kill(pid, signal.SIGKILL)
    eventually(note.exists)
    handle.cancel()
    with pytest.raises(JobCancelled):
        handle.result(timeout=30)
    assert [attempt.outcome for attempt in handle.attempts()] == ["worker_lost", "cancelled"]


def _children_of_pool(shop: Shop) -> set[str]:
    """Those that run Python with the app in it."""
    found = set()
    for pid in children_of(os.getpid()):
        with suppress(FileNotFoundError):  # it has ended meanwhile
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"foliot.worker.child" in command:
                found.add(str(pid))
    return found


@pytest.mark.parametrize("kind", ["polite", "polite_async"])
def test_a_cancelled_job_is_told_and_ends_by_itself(shop: Shop, note: Path, kind: str) -> None:
    handle = getattr(shop.jobs, kind).submit(str(note))
    eventually(note.exists)
    handle.cancel()
    with pytest.raises(JobCancelled, match="requested"):
        handle.result(timeout=30)
    assert note.read_text() == "told"
    [attempt] = handle.attempts()
    assert (attempt.outcome, attempt.error) == ("cancelled", "it was asked to end, and did")


def test_one_that_does_not_listen_is_killed_after_the_grace(shop: Shop, note: Path) -> None:
    handle = shop.jobs.rude.submit(str(note))
    eventually(note.exists)
    handle.cancel()
    with pytest.raises(JobCancelled, match="requested"):
        handle.result(timeout=30)
    [attempt] = handle.attempts()
    assert attempt.outcome == "killed"
    assert shop.jobs.who.submit().result(timeout=30)


def test_a_kind_has_a_grace_of_its_own(make_shop: MakeShop, tmp_path: Path) -> None:
    shop = make_shop(cancel_grace=0.05, grace=0)
    patient, other = tmp_path / "patient", tmp_path / "other"
    handle = shop.jobs.rude_for_long.submit(str(patient))
    eventually(patient.exists)
    handle.cancel()
    usual = shop.jobs.rude.submit(str(other))
    eventually(other.exists)
    usual.cancel()
    eventually(lambda: usual.status() is JobState.CANCELLED)
    assert handle.status() is JobState.RUNNING, "it was asked first, and has more time"


def test_a_kind_that_gets_no_grace_is_killed_at_once(make_shop: MakeShop, note: Path) -> None:
    shop = make_shop(cancel_grace=60)
    handle = shop.jobs.rude_in_short.submit(str(note))
    eventually(note.exists)
    handle.cancel()
    with pytest.raises(JobCancelled):
        handle.result(timeout=30)
    assert [attempt.outcome for attempt in handle.attempts()] == ["killed"]


@pytest.mark.parametrize("kind", ["tidy", "tidy_async", "tidy_here", "tidy_group"])
def test_at_its_soft_timeout_a_function_is_told(shop: Shop, kind: str) -> None:
    assert getattr(shop.jobs, kind).submit().result(timeout=30) == "tidied up"


@pytest.mark.parametrize("kind", ["chat", "chat_by_logging"])
def test_a_function_that_talks_all_the_time_is_told_between_its_words(
    make_shop: MakeShop, kind: str
) -> None:
    """What it says is never cut in the middle, and what it is told is not lost in `logging`."""
    shop = make_shop(log_line=MIB, children=1)
    handles = [getattr(shop.jobs, kind).submit(10 * MIB) for _ in range(3)]
    told = [handle.result(timeout=30) for handle in handles]
    assert told == ["told"] * 3
    assert [len(handle.attempts()) for handle in handles] == [0] * 3


def test_a_soft_timeout_that_is_not_caught_ends_the_attempt(shop: Shop) -> None:
    reason, error = reason_of(shop.jobs.careless.submit())
    assert (reason, error) == ("timed_out", "SoftTimeout: the soft timeout is over")


def test_after_the_soft_timeout_comes_the_hard_one(shop: Shop) -> None:
    reason, error = reason_of(shop.jobs.stubborn_softly.submit())
    assert (reason, error) == (
        "timed_out",
        "TimedOut: it ran longer than its timeout of 0.5 s, its process was killed",
    )


@pytest.mark.parametrize("kind", ["facts", "facts_async", "facts_in_thread", "facts_on_loop"])
def test_current_job_knows_the_same_everywhere(
    shop: Shop, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    options = {"key": "order-42", "priority": 1, "fair_key": "ada", "delay": 0.05}
    function = getattr(shop.jobs, kind).options(**options)
    handle = function.submit()
    found = handle.result(timeout=30)
    session = found.pop("session")
    trail = found.pop("trail")
    assert datetime.fromisoformat(found.pop("run_at")) == handle.job().run_at
    assert found == {
        "id": handle.id,
        "kind": kind,
        "queue": "facts",
        "namespace": "default",
        "key": "order-42",
        "tags": ["vip"],
        "priority": 1,
        "attempt": 1,
        "max_attempts": 5,
        "fence": 1,
        "cancelled": False,
        "timed_out": False,
        "remaining": True,
        "deadline": True,
        "fair_key": "ada",
        "pool": "open",
    }
    assert session == shop.process.session
    asynchronous = kind in ("facts_async", "facts_on_loop")
    around = [f"async {kind}"] if asynchronous else [f"outer {kind}", "inner"]
    assert trail[-len(around) :] == around
    eventually(lambda: len(handle.logs()) >= 2)
    lines = handle.logs()
    assert [(line.level, line.logger, line.message) for line in lines] == [
        ("warning", "job", "by hand"),
        ("info", "shop", f"said {kind}"[:20] + (" [2 characters cut]" if len(kind) > 15 else "")),
    ]


def test_a_child_comes_back_although_its_job_was_given_to_the_worker_once_more(
    make_shop: MakeShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sqlite.claim", "postgres.gates"):
        monkeypatch.setattr(f"foliot.store.{module}.DEADLINE_GRACE", -99.9)
    shop = make_shop(children=2)
    handle = shop.jobs.nap.options(timeout=100, max_attempts=2).submit(1.0)
    assert reason_of(handle) == ("timed_out", "it ran past its deadline")
    assert len(handle.attempts()) == 2, "both in this worker, at the same time"
    monkeypatch.undo()
    notes = [tmp_path / str(number) for number in range(2)]
    others = [shop.jobs.polite.submit(str(note)) for note in notes]
    for note in notes:
        eventually(note.exists)
    for other in others:
        other.cancel()


def test_failures_are_judged_where_they_happen(shop: Shop) -> None:
    handle = shop.jobs.fail.submit("retry")
    assert reason_of(handle)[0] == "failed"
    assert [a.error for a in handle.attempts()] == ["Retry: not yet"] * 3
    handle = shop.jobs.fail.submit("value")
    assert reason_of(handle) == ("failed", "ValueError: broken")
    last = handle.attempts()[-1]
    assert last.traceback is not None and "in fail" in last.traceback
    assert last.worker is not None and last.worker.endswith(f":{os.getpid()}")
    handle = shop.jobs.fail.submit("key")
    assert reason_of(handle) == ("not_retried", "KeyError: 'broken'")
    assert len(handle.attempts()) == 1
    handle = shop.jobs.fail.submit("cancel")
    with pytest.raises(JobCancelled, match="enough"):
        handle.result(timeout=30)


def test_a_child_is_replaced_after_its_share_of_jobs(make_shop: MakeShop) -> None:
    shop = make_shop(recycle_jobs=3, children=1)
    found = [shop.jobs.who.submit().result(timeout=30) for _ in range(6)]
    assert len(set(found[:3])) == len(set(found[3:])) == 1
    assert found[0] != found[3]


def test_children_shut_down_in_good_order(
    make_shop: MakeShop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    note = tmp_path / "ends"
    monkeypatch.setenv("SHUTDOWN_NOTE", str(note))
    shop = make_shop()
    child = shop.jobs.who.submit().result(timeout=30)
    shop.close()
    assert sorted(note.read_text().splitlines()) == sorted([f"{child} open", f"{os.getpid()} open"])


def test_a_worker_that_nobody_can_load_again_says_so(tmp_path: Path) -> None:
    jobs = Isolated(f"sqlite:///{tmp_path}/foliot.db")
    role = Role(jobs.app.registry)
    process = Process(role, jobs.app.settings, clock=jobs.app.clock, ids=jobs.app.ids)
    with pytest.raises(ValueError, match="foliot worker module:app"):
        asyncio.run(process.run())
    jobs.app.close()

"""Rows about jobs that run and jobs that are looked at: logs, progress, tags, expiry, ids, acts on many."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from client.conftest import run_in_thread
from corpus.conftest import Foliot_
from corpus.rows import row
from foliot import Foliot, JobState, current_job
from foliot.errors import InvalidValue


@pytest.fixture
def run(app: Foliot) -> Callable[..., Any]:
    """A job that does this, to its end, and what it returned."""

    def run(function: Callable[..., Any], *args: Any) -> Any:
        job = app.job(max_attempts=1)(function)
        stop = run_in_thread(app)
        try:
            handle = job.submit(*args)
            handle.result(timeout=30)
        finally:
            stop()
        return handle

    return run


@row("P57", "P58")
def test_a_log_line_is_cut_and_made_fit(run: Callable[..., Any], foliot: Foliot_) -> None:
    def talk() -> None:
        current_job().log("x" * 10_000_000)
        current_job().log("\udcff and \0")

    handle = run(talk)
    first, second = handle.logs()
    assert len(first.message) < 10_000
    assert first.message.endswith("characters cut]")
    assert second.message == r"\udcff and \0"


@row("P59")
def test_of_too_many_log_lines_the_first_are_kept_and_it_is_said(run: Callable[..., Any]) -> None:
    def chatter() -> None:
        for number in range(20_000):
            current_job().log(f"line {number}")

    lines = run(chatter).logs()
    assert len(lines) <= 1001
    assert lines[0].message == "line 0"
    assert "more" in lines[-1].message or "lines" in lines[-1].message


@row("P61")
def test_progress_out_of_bounds_is_told_and_the_job_goes_on(run: Callable[..., Any]) -> None:
    def work() -> int:
        refused = 0
        for fraction in (-1, 101, float("nan"), True, "half"):
            try:
                current_job().progress(fraction)  # type: ignore[arg-type]
            except InvalidValue:
                refused += 1
        current_job().progress(1, "done")
        return refused

    assert run(work).result() == 5


@row("P63", "P70")
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"tags": [f"tag{n}" for n in range(100)]}, "tags"),
        ({"tags": ["x" * 300]}, "tags"),
        ({"tags": ["a\nb"]}, "tags"),
        ({"tags": [""]}, "tags"),
        ({"tags": "vip"}, "tags"),
        ({"delay": 60, "expires": 30}, "expires"),
        (
            {
                "run_at": datetime.now(UTC) + timedelta(days=2),
                "expires": datetime.now(UTC) + timedelta(days=1),
            },
            "expires",
        ),
    ],
    ids=["many", "long", "control", "empty", "text", "delay", "run_at"],
)
def test_tags_and_expiry_that_make_no_sense(app: Foliot, options: Any, field: str) -> None:
    @app.job
    def work() -> None: ...

    with pytest.raises(InvalidValue) as refused:
        work.options(**options).submit()
    assert refused.value.field == field


@row("P50")
def test_a_payload_that_no_longer_fits_is_held_and_said(app: Foliot) -> None:
    """Held and visible until somebody decides, not failed: nothing was run."""

    @app.job(kind="ship")
    def ship(order: int) -> None: ...

    with Foliot(app.settings.store.url) as newer:

        @newer.job(kind="ship")
        def ship_now(order: int, country: str) -> None: ...

        stop = run_in_thread(newer)
        try:
            handle = ship.submit(1)
            while handle.status() is not JobState.HELD:
                pass
        finally:
            stop()
    job = handle.job()
    assert job.reason == "unfitting_payload"
    assert handle.attempts() == []


@row("L38", "L39", "L75")
def test_ids_that_are_none_or_several(app: Foliot, foliot: Foliot_) -> None:
    @app.job
    def work() -> None: ...

    handles = app.submit_many([work.prepare() for _ in range(2)])
    url = app.settings.store.url
    for command in (["jobs", "show"], ["jobs", "logs"], ["jobs", "explain"], ["jobs", "cancel"]):
        answer = foliot(*command, str(app.ids.job()), "--url", url)
        assert answer.code == 1, command
        assert "no job has the id" in answer.err
        answer = foliot(*command, "42", "--url", url)
        assert (answer.code, "is not a job's id" in answer.err) == (2, True), command
    answer = foliot("jobs", "show", handles[0].id[:8], "--url", url)
    assert answer.code == 2
    assert "is the beginning of several ids" in answer.err
    assert all(handle.id in answer.err for handle in handles)
    assert foliot("jobs", "logs", handles[0].id, "--url", url).code == 0


@row("L45")
def test_interrupting_who_follows_a_log_leaves_the_job_alone(app: Foliot, tmp_path: Path) -> None:
    @app.job
    def work() -> None: ...

    handle = work.submit()
    command = [sys.executable, "-m", "foliot", "jobs", "logs", handle.id, "--follow"]
    with subprocess.Popen(
        [*command, "--url", app.settings.store.url], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert handle.status() is JobState.READY


@row("L49", "L50", "A67")
def test_acts_on_many_name_them_and_are_confirmed(app: Foliot, foliot: Foliot_) -> None:
    @app.job
    def work() -> None: ...

    handles = app.submit_many([work.prepare() for _ in range(20)])
    url = app.settings.store.url
    answer = foliot("jobs", "cancel", "--url", url)
    assert (answer.code, "name jobs, or a filter" in answer.err) == (2, True)
    answer = foliot("jobs", "cancel", "--filter", "kind:work", "--url", url)
    assert (answer.code, "--yes" in answer.err) == (2, True)
    assert handles[0].status() is JobState.READY
    answer = foliot("jobs", "cancel", "--filter", "kind:work", "--dry-run", "--url", url)
    assert (answer.code, "20" in answer.out) == (0, True)
    assert handles[0].status() is JobState.READY
    answer = foliot("jobs", "retry", handles[0].id, "--url", url)
    assert answer.code in (1, 2)
    answer = foliot("jobs", "cancel", "--filter", "kind:work", "--yes", "--url", url)
    assert answer.code == 0
    assert {handle.status() for handle in handles} == {JobState.CANCELLED}

"""A number counts only if every job was called once and is in history once. Here it is not, in every way."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from threading import Event

import psycopg
import pytest

from foliot.bench.count import check_once, tally
from foliot.bench.jobs import count_async
from foliot.bench.probe_postgres import PostgresProbe
from foliot.bench.sheet import Sheet, calls
from foliot.bench.stage import Stage, open_stage
from foliot.bench.workers import Workers
from foliot.cli.main import main
from foliot.config import Settings
from foliot.errors import FoliotError

JOBS = 200


def test_a_call_too_many_a_call_too_few_and_a_lost_row_are_noticed(settings: Settings) -> None:
    with open_stage(settings, force=False, say=print) as stage:
        sheet = stage.new_sheet(JOBS)
        stage.fill(count_async, sheet, JOBS)
        with stage.workers() as workers:
            stage.wait(sheet, JOBS, workers)
        stage.check(sheet, JOBS, workers)

        calls(str(sheet.path))[7] += 1
        with pytest.raises(FoliotError, match="job 7: called 2 times, in history 1 times"):
            stage.check(sheet, JOBS, workers)
        calls(str(sheet.path))[7] -= 2
        with pytest.raises(FoliotError, match="job 7: called 0 times, in history 1 times"):
            stage.check(sheet, JOBS, workers)
        calls(str(sheet.path))[7] = 1
        stage.check(sheet, JOBS, workers)

        forget_one(stage.url)
        with pytest.raises(FoliotError, match="of 200 jobs 1 were not"):
            stage.check(sheet, JOBS, workers)


def forget_one(url: str) -> None:
    """Take one row from history."""
    if url.startswith("sqlite:"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as file:
            file.execute(
                "DELETE FROM foliot_history WHERE rowid = (SELECT min(rowid) FROM foliot_history)"
            )
        file.close()
        return
    with psycopg.connect(url) as server:
        server.execute(
            "DELETE FROM foliot.history WHERE id = (SELECT id FROM foliot.history LIMIT 1)"
        )


def test_a_bench_that_miscounts_fails(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wait = Stage.wait

    def tamper(self: Stage, sheet: Sheet, jobs: int, workers: Workers) -> None:
        wait(self, sheet, jobs, workers)
        calls(str(sheet.path))[3] += 1

    monkeypatch.setattr(Stage, "wait", tamper)
    arguments = ["--jobs", "50", "--runs", "1", "--processes", "1", "--url", settings.store.url]
    assert main(["bench", "drain", *arguments]) == 1
    said = capsys.readouterr()
    assert "job 3: called 2 times, in history 1 times" in said.err
    assert "jobs_per_second" not in said.out


def test_workers_that_cannot_start_fail_the_bench(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foliot.bench.workers.TARGET", "foliot.bench.nowhere:app")
    with open_stage(settings, force=False, say=print) as stage, stage.workers() as workers:
        sheet = stage.new_sheet(1)
        stage.fill(count_async, sheet, 1)
        with pytest.raises(FoliotError, match="exit code 2") as failure:
            stage.wait(sheet, 1, workers)
        assert "foliot.bench.nowhere" in str(failure.value)


def test_only_one_and_one_is_right() -> None:
    check_once(b"\1\1\1", b"\1\1\1")
    for said, rows in ((b"\1\1\2", b"\1\1\1"), (b"\1\1\1", b"\1\0\1"), (b"\0", b"\0")):
        with pytest.raises(FoliotError, match="exactly once"):
            check_once(said, rows)


def test_a_number_that_was_never_submitted_is_noticed() -> None:
    assert tally(3, [2, 0, 2]) == b"\1\0\2"
    with pytest.raises(FoliotError, match="job number 3"):
        tally(3, [3])


def test_a_sheet_knows_what_is_missing(tmp_path: Path) -> None:
    sheet = Sheet(tmp_path / "sheet", 10)
    assert sheet.missing(0) == 0
    assert sheet.missing(4) == 4
    for n in (0, 1, 3):
        calls(str(sheet.path))[n] += 1
    assert sheet.missing(4) == 1
    assert sheet.missing(10) == 7
    calls(str(sheet.path))[2] += 1
    assert sheet.missing(4) == 0
    assert sheet.missing(10) == 6
    assert sheet.calls(4) == b"\1\1\1\1"


def test_a_bench_that_is_told_to_end_leaves_nothing_behind(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "foliot", "bench", "latency", "--jobs", "100000"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "FOLIOT_URL": settings.store.url}
    scratch = tmp_path.glob
    with subprocess.Popen(command, env=environment) as process:
        while not any(calls_made(path) for path in scratch("foliot-bench-*/sheet*")):
            assert process.poll() is None
            Event().wait(0.02)
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert not list(scratch("foliot-bench-*"))
    with open_stage(settings, force=False, say=print) as stage:
        assert not stage.probe.busy()
        assert list(stage.probe.finished()) == []
    capsys.readouterr()
    assert main(["stats", "--json", "--url", settings.store.url]) == 0
    assert json.loads(capsys.readouterr().out)["total"]["ended"] == 0


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_bench_that_is_told_to_end_within_a_statement_leaves_nothing_behind(
    settings: Settings,
) -> None:
    with open_stage(settings, force=False, say=print):
        probe = PostgresProbe(settings.store.url)
        probe._connection.pgconn.send_query(b"SELECT pg_sleep(60)")
        probe.leave()


def calls_made(path: Path) -> bool:
    return any(path.read_bytes())

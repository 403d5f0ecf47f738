"""A worker on the event loop of somebody else's program."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from foliot import Foliot, FoliotError
from foliot.bench import jobs
from foliot.target import place_of_app
from foliot.testing import Harness

pytestmark = pytest.mark.anyio


async def test_a_worker_lives_as_long_as_the_block(tmp_path: Path) -> None:
    async with Foliot(f"sqlite:///{tmp_path}/foliot.db") as app:

        @app.job
        async def add(a: int, b: int) -> int:
            return a + b

        @app.job
        def multiply(a: int, b: int) -> int:
            return a * b

        async with app.worker():
            assert await (await add.asubmit(1, 2)).aresult(timeout=20) == 3
            assert await (await multiply.asubmit(3, 4)).aresult(timeout=20) == 12
        late = await add.asubmit(1, 2)
        await asyncio.sleep(0.05)
        assert await late.astatus() == "ready"


async def test_what_runs_at_the_end_of_the_block_may_finish(tmp_path: Path) -> None:
    async with Foliot(f"sqlite:///{tmp_path}/foliot.db") as app:
        started = asyncio.Event()

        @app.job
        async def slow() -> str:
            started.set()
            await asyncio.sleep(0.2)
            return "done"

        async with app.worker():
            handle = await slow.asubmit()
            await started.wait()
        assert await handle.aresult(timeout=0) == "done"


async def test_a_store_that_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "foliot.db").write_bytes(b"this is no database" * 100)
    app = Foliot(f"sqlite:///{tmp_path}/foliot.db")
    with pytest.raises(FoliotError):
        async with app.worker():
            pytest.fail("there is nothing to work with")


async def test_where_jobs_run_by_hand_there_is_no_worker(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    app = Foliot(f"sqlite:///{tmp_path}/foliot.db")
    with caplog.at_level(logging.INFO), Harness(app):
        async with app.worker():
            pass
    assert "ready" not in caplog.text


def test_child_processes_find_the_app_where_it_is_imported_from() -> None:
    assert place_of_app(jobs.app) == "foliot.bench.jobs:app"

"""A job's function is a function: it can be called, with a current_job() where it asks for one."""

from __future__ import annotations

import asyncio

import pytest

from foliot import Foliot, FoliotError, current_job
from foliot.testing import as_job


def test_a_function_that_asks_for_its_job_can_be_called_in_a_test(foliot_app: Foliot) -> None:
    @foliot_app.job
    def describe(what: str) -> str:
        job = current_job()
        return f"{what} {job.kind} {job.attempt} {job.cancelled}"

    with as_job(describe, attempt=2) as job:
        assert describe("first") == "first describe 2 False"
        job.cancelled = True
        assert describe("then") == "then describe 2 True"
    with pytest.raises(FoliotError, match="as_job"):
        describe("outside")


def test_the_job_has_what_start_up_functions_would_have_made() -> None:
    with as_job("report", state={"pool": [1, 2]}, timeout=60) as job:
        assert current_job().state.pool == [1, 2]
        assert 59 < (job.remaining() or 0) <= 60
        job.progress(0.5, "rows")
        job.log("half of it")


def test_an_async_function_too() -> None:
    async def describe() -> str:
        await asyncio.sleep(0)
        return current_job().kind

    async def main() -> str:
        with as_job("report"):
            return await describe()

    assert asyncio.run(main()) == "report"

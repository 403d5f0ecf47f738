"""A test may have a store of its own kind, where memory is not enough."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from foliot import Fixed, Foliot, FoliotError, current_job
from foliot.testing import Harness, ManualClock
from support.stores import Place

pytestmark = pytest.mark.parametrize("place", ["sqlite-1", "postgres-1"], indirect=True)


@pytest.fixture
def foliot(foliot_app: Foliot, place: Place, clock: ManualClock) -> Iterator[Harness]:
    with Harness(foliot_app, clock=clock, url=place.settings.url) as harness:
        yield harness


@pytest.mark.anyio
async def test_jobs_run_by_the_clock_of_the_test(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job(retry=Fixed(60))
    async def second_time() -> int:
        if current_job().attempt == 1:
            raise ValueError
        return current_job().attempt

    handle = await second_time.options(delay=timedelta(days=1)).asubmit()
    assert await foliot.arun_until_idle() == 0
    assert await foliot.aadvance("1 day") == 1
    assert await foliot.aadvance("1 minute") == 1
    assert await handle.aresult() == 2
    with pytest.raises(FoliotError, match="cannot be cleared"):
        foliot.clear()


@pytest.mark.anyio
async def test_a_job_and_its_statements_commit_together(
    foliot: Harness, foliot_app: Foliot
) -> None:
    @foliot_app.job(max_attempts=1)
    def keep(n: int) -> list[int]:
        with current_job().transaction() as tx:
            tx.execute("CREATE TABLE IF NOT EXISTS kept (n integer)")
            tx.execute(f"INSERT INTO kept VALUES ({n})")
            tx.result = [row[0] for row in tx.execute("SELECT n FROM kept ORDER BY n")]
            if n == 2:
                raise ValueError
        return []  # does not count: the job has ended

    @foliot_app.job
    async def count() -> list[int]:
        async with current_job().transaction() as tx:
            tx.result = [row[0] for row in await tx.execute("SELECT count(*) FROM kept")]
        return []

    handles = [await keep.asubmit(n) for n in (1, 2, 3)]
    last = await count.asubmit()
    await foliot.arun_until_idle()
    assert [await handle.astatus() for handle in handles] == ["succeeded", "dead", "succeeded"]
    assert await handles[2].aresult() == [1, 3]
    assert await last.aresult() == [2]

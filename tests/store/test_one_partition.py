"""The trigger of the runs with eight partitions bites: without it, those runs would prove nothing."""

from __future__ import annotations

import psycopg
import pytest

from foliot.model.job import End, Outcome
from support.stores import Databases, World

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("table", ["jobs", "history", "dead", "attempts"])
@pytest.mark.parametrize("act", ["UPDATE foliot.{} SET fence = fence", "DELETE FROM foliot.{}"])
@pytest.mark.parametrize("place", ["postgres-8"], indirect=True)
async def test_a_transaction_that_touches_two_partitions_is_refused(
    world: World, table: str, act: str
) -> None:
    session = await world.open_session()
    for partition in (0, 1):
        world.partition = partition
        for end in (End.SUCCEED, End.BURY):
            job = await world.run(session, queue=end)
            await world.finish(session, Outcome(job.id, job.fence, end))
        await world.submit()
    with (
        psycopg.connect(world.place.direct) as connection,
        pytest.raises(psycopg.errors.RaiseException, match="touches the partitions"),
    ):
        connection.execute(act.format(table))


async def test_two_transactions_may_touch_two_partitions(databases: Databases) -> None:
    insert = """
        INSERT INTO foliot.attempts (partition, job, fence, attempt, outcome, finished_at)
        VALUES (%s, gen_random_uuid(), 1, 1, 'failed', now())"""
    async with databases.borrow(8) as name:
        with psycopg.connect(databases.server.url(name), autocommit=True) as connection:
            for partition in (0, 1):
                connection.execute(insert, (partition,))

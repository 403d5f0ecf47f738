"""Transactions of jobs on the store in memory that tests run on."""

from __future__ import annotations

import pytest

from foliot import Fixed, Foliot, FoliotError, JobState, current_job


@pytest.fixture
def app() -> Foliot:
    return Foliot(inline=True)


def test_a_function_has_its_transaction_in_memory_too(app: Foliot) -> None:
    @app.job
    def make() -> int:
        with current_job().transaction() as tx:
            tx.execute("CREATE TABLE notes (text text)")
            tx.result = 1
        return 0

    @app.job
    def write(text: str) -> int:
        with current_job().transaction() as tx:
            tx.connection.row_factory = dict
            tx.execute("INSERT INTO notes VALUES (?)", [text])
            tx.submit(count.prepare())
            tx.result = 2
        raise ValueError("after its end")

    @app.job
    async def count() -> int:
        async with current_job().transaction() as tx:
            [(tx.result,)] = await tx.execute("SELECT count(*) FROM notes")
        return 0

    with app:
        assert make.submit().result() == 1
        assert write.submit("one").result() == 2
        assert count.submit().result() == 1
        kinds = [job.kind for job in app.jobs("state:succeeded")]
        assert sorted(kinds) == ["count", "count", "make", "write"]


def test_an_exception_rolls_back_in_memory_too(app: Foliot) -> None:
    @app.job(max_attempts=2, retry=Fixed(1))
    def write() -> int:
        with current_job().transaction() as tx:
            tx.execute("CREATE TABLE notes (text text)")
            if current_job().attempt == 1:
                raise ValueError("not yet")
            with pytest.raises(FoliotError, match="one transaction"):
                current_job().transaction()
            tx.result = 5
        return 0

    with app:
        handle = write.submit()
        assert handle.result() == 5
        assert handle.job().attempt == 2
        assert handle.status() is JobState.SUCCEEDED

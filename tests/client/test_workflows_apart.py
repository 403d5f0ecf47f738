"""Jobs after others, and ordering keys of steps, in a store with several partitions: what is refused, and what it says
to do instead does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.conftest import run_in_thread
from foliot import Foliot, Handle, InvalidValue, current_job
from foliot.ids import partition_of
from support.stores import make_sqlite

PARTITIONS = 8


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[Foliot]:
    with Foliot(asyncio.run(make_sqlite(tmp_path, partitions=PARTITIONS))) as app:
        yield app


@pytest.fixture
def echo(wide: Foliot) -> Any:
    @wide.job
    def echo(value: int) -> int:
        return value

    return echo


def apart(echo: Any) -> list[Handle[int]]:
    """Two jobs of different partitions."""
    first = other = echo.submit(1)
    while partition_of(other.id, PARTITIONS) == partition_of(first.id, PARTITIONS):
        other = echo.submit(2)
    return [first, other]


def test_who_comes_after_jobs_of_different_partitions_is_told_what_to_do_instead(
    wide: Foliot, echo: Any
) -> None:
    with pytest.raises(InvalidValue, match="are jobs of different partitions") as refused:
        echo.options(after=apart(echo)).submit(3)
    assert refused.value.hint == (
        "make them steps of a workflow, submit one with after=[other], or both with one ordering_key"
    )
    for number in range(PARTITIONS * 2):  # by chance they might be in one
        with wide.workflow("one") as flow:
            both = [flow.add(echo.prepare(1)), flow.add(echo.prepare(2))]
            flow.add(echo.prepare(3), after=both)
        first = echo.submit(1)
        echo.options(after=[first, echo.options(after=[first]).submit(2)]).submit(3)
        ordered = echo.options(ordering_key=f"order-{number}")
        echo.options(after=[ordered.submit(1), ordered.submit(2)]).submit(3)


def test_a_step_submits_the_job_that_has_an_ordering_key(wide: Foliot, echo: Any) -> None:
    with (
        pytest.raises(InvalidValue, match="several partitions") as refused,
        wide.workflow("keyed") as flow,
    ):
        flow.add(echo.options(ordering_key="account-7").prepare(1))
    assert refused.value.hint == "submit a job with this key from the step"

    @wide.job
    def move() -> str:
        assert current_job().workflow is not None
        return str(echo.options(ordering_key="account-7").submit(1).id)

    with wide.workflow("keyed") as flow:
        flow.add(move.prepare())
    stop = run_in_thread(wide)
    assert wide.get(flow.result(timeout=30)["move"]).result(timeout=30) == 1
    stop()

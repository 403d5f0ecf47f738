"""Open stores for the tests of one module: each kind once, emptied whenever it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from machine.stage import Stage, Stages, make_place, open_stage


@pytest.fixture(scope="module")
def stages(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stages]:
    known: dict[tuple[str, int], Stage] = {}
    stack = AsyncExitStack()
    with asyncio.Runner() as loop:

        async def prepare(engine: str, partitions: int) -> Stage:
            directory = tmp_path_factory.mktemp(engine)
            place = make_place(request, directory, engine, partitions)
            opened = open_stage(await stack.enter_async_context(place), loop)
            return await stack.enter_async_context(opened)

        def get(engine: str, partitions: int = 1) -> Stage:
            if (engine, partitions) not in known:
                known[engine, partitions] = loop.run(prepare(engine, partitions))
            stage = known[engine, partitions]
            stage.reader.clear()
            return stage

        yield get
        loop.run(stack.aclose())

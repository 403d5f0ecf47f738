"""Waiting for a job in a terminal, at moments that only luck would meet from outside."""

from __future__ import annotations

import pytest

from foliot.cli.waiting import Wait
from foliot.ids import JobId
from foliot.model.note import LogLine, NewLine
from support.stores import World

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("place", ["sqlite-1", "postgres-8"], indirect=True),
]


async def test_a_line_that_is_written_after_the_end_is_shown(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session = await world.open_session()
    job = await world.run(session)
    await world.end(session, job)
    logs = world.store.logs
    read = logs.all

    async def read_before_it_is_written(id: JobId) -> list[LogLine]:
        found = await read(id)
        line = NewLine(id, job.fence, 1, 1, world.clock.now(), "warning", "shop", "sold out")
        await logs.write(world.partition, [line])
        return found

    monkeypatch.setattr(logs, "all", read_before_it_is_written)
    assert await Wait(world.store, job.id, json=False).run() == 0
    said = capsys.readouterr().err.splitlines()
    assert said == [f"submitted {job.id}", "warning: sold out"]

"""Waiting for a job in a terminal, at moments that only luck would meet from outside."""

from __future__ import annotations

import pytest

from foliot.cli.waiting import Wait
from foliot.cli.workflow_watch import Watch
from foliot.ids import JobId
from foliot.model.job import Attempt
from foliot.model.note import LogLine, NewLine
from support.flows import Drawing
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


@pytest.mark.parametrize("attempts", [1, 2])
async def test_a_worker_that_was_lost_is_said_of_the_step_that_it_ran(
    world: World, capsys: pytest.CaptureFixture[str], attempts: int
) -> None:
    """And the attempts of a step that ended are asked for only if there was more than one."""
    flow = Drawing(world, await world.open_session())
    await flow.submit(flow.step("a"))
    for _ in range(attempts - 1):
        assert await flow.claim() == {"a"}
        world.clock.advance(1)
        world.beat(flow.session, flow.claimed["a"].id)
        world.expire()
        assert (await world.reap(flow.session)).lost == 1
        flow.session = await world.open_session()
    assert await flow.claim() == {"a"}
    await flow.end("a")
    asked = []
    read = world.store.jobs.attempts

    async def ask(id: JobId) -> list[Attempt]:
        asked.append(id)
        return await read(id)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.store.jobs, "attempts", ask)
        await Watch(world.store, flow.id).run()
    said = [line.split(" ", 2)[2] for line in capsys.readouterr().out.splitlines()]
    lost = [line for line in said if line.startswith("a attempt 1 of ")]
    assert [line.split(": ")[0].split()[-1] for line in lost] == ["worker_lost"] * (attempts - 1)
    assert said[-1] == "a succeeded" and len(asked) == attempts - 1

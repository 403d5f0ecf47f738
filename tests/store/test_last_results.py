"""A run of a schedule that carries its result finds that of the last run that succeeded."""

from __future__ import annotations

import msgspec
import pytest

from foliot.ids import schedule_id
from foliot.model.job import Extras, More
from support.stores import World

pytestmark = pytest.mark.anyio
SCHEDULE = schedule_id("default", "count")


def carrying(world: World) -> More:
    return More(schedule=SCHEDULE, extras=Extras(schedule="count", carry=True))


async def test_a_run_is_given_the_last_result(world: World) -> None:
    session = await world.open_session()
    await world.submit(more=carrying(world))
    [first] = await world.claim(session)
    assert first.facts.last_result is None
    await world.end(session, first, result=b'{"count":1}')
    await world.submit(more=carrying(world))
    [second] = await world.claim(session)
    assert msgspec.json.decode(second.facts.last_result or "") == {"count": 1}
    assert second.facts.extras.schedule == "count"

"""Which hooks of its app a worker runs: all but those whose names live workers of other modules have."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from foliot import Event, Foliot
from foliot.hook_sync import modules_of
from foliot.ids import SessionId
from foliot.model.session import NewSession
from foliot.registry import Registry
from foliot.worker.hearing import Hearing
from support.stores import World

pytestmark = pytest.mark.anyio
HOOK, OWN = "on.job.dead.page", "on.job.dead.note"


def _app_of(module: str, *hooks: str) -> Registry:
    def hear(event: Event) -> None: ...

    hear.__module__ = module
    app = Foliot(inline=True)
    for hook in hooks:
        app.on("job.dead", name=hook.rpartition(".")[2])(hear)
    return app.registry


def _make(
    world: World, registry: Registry, told: list[Sequence[str]]
) -> tuple[NewSession, Hearing]:
    session = NewSession(
        id=world.ids.session(),
        host="here",
        pid=1,
        version="0",
        queues=(),
        kinds=registry.runnable,
        modules=modules_of(registry),
        duties=False,
    )
    hearing = Hearing(
        world.store, session.id, registry, clock=world.clock, ids=world.ids, know=told.append
    )
    return session, hearing


async def _start(
    world: World, registry: Registry, told: list[Sequence[str]]
) -> tuple[SessionId, Hearing]:
    session, hearing = _make(world, registry, told)
    await hearing.sync(opened=False)
    await world.store.sessions.open(session, lease=1000)
    await hearing.sync()
    return session.id, hearing


def _note(hearing: Hearing) -> str | None:
    return hearing.note


async def _announced(world: World, session: SessionId) -> set[str]:
    [one] = [one for one in await world.store.sessions.all() if one.id == session]
    return {kind for kind in one.kinds if kind.startswith("on.")}


async def test_a_worker_leaves_a_hook_to_the_module_that_has_it_until_that_is_gone(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Sequence[str]] = []
    first, hearing = await _start(world, _app_of("billing", HOOK), [])
    assert _note(hearing) is None
    second, hearing = await _start(world, _app_of("mail", HOOK, OWN), told)
    assert await _announced(world, second) == {OWN}
    assert _note(hearing) == f"hooks of names that another module has: {HOOK}"
    await hearing.tick()
    assert [HOOK in kinds for kinds in told] == [False]
    assert [one.levelname for one in caplog.records].count("ERROR") == 1
    await world.store.sessions.close(first)
    await hearing.tick()
    assert await _announced(world, second) == {OWN, HOOK}
    assert [HOOK in kinds for kinds in told] == [False, True]
    assert _note(hearing) is None
    assert {one.origin for one in await world.store.events.listeners()} == {"mail"}


async def test_of_two_that_start_at_once_one_has_the_hook(world: World) -> None:
    """Neither sees the other before it listens."""
    started = [_make(world, _app_of(module, HOOK), []) for module in ("billing", "mail")]
    for _, hearing in started:
        await hearing.sync(opened=False)
    for session, _ in started:
        await world.store.sessions.open(session, lease=1000)
    for _, hearing in started:
        await hearing.sync()
    assert [bool(hearing.note) for _, hearing in started] == [True, False]
    assert [await _announced(world, session.id) for session, _ in started] == [set(), {HOOK}]
    [listener] = await world.store.events.listeners()
    assert listener.origin == "mail"

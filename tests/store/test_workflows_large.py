"""Workflows of many thousand steps in PostgreSQL, where a server waits for whoever thinks about them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from foliot.errors import StoreUnavailable
from foliot.model.job import End
from foliot.store import growing, retrying
from foliot.store.postgres import connection as postgres_connection
from foliot.store.postgres import gates
from foliot.store.postgres.connection import Ask, Step
from support.flows import Drawing, draw
from support.stores import World

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("place", ["postgres-1"], indirect=True),
]
SHORT: Final = ("BEGIN", "SET LOCAL idle_in_transaction_session_timeout = '100ms'")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that waits a moment, and a second longer for each step."""
    monkeypatch.setattr(postgres_connection, "_BEGIN", SHORT)
    monkeypatch.setattr(postgres_connection, "_IN_A_SECOND", 1)


def think(seconds: float) -> None:
    """And do nothing else: the event loop is blocked."""
    time.sleep(seconds)


def slowly(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    """What is there is done, once, after much thought."""
    act: Callable[..., Any] = getattr(module, name)
    thoughts = [0.5]

    def act_slowly(*args: Any, **fields: Any) -> Any:
        think(thoughts.pop() if thoughts else 0)
        return act(*args, **fields)

    monkeypatch.setattr(module, name, act_slowly)


async def test_a_conversation_that_the_server_has_ended_says_why(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is cut, and the driver says that the server may have crashed."""
    monkeypatch.setattr(postgres_connection, "_BEGIN", SHORT)
    connections = world.store.jobs._connections  # type: ignore[attr-defined]
    read = Step(gates.SQL["read_version"], {})

    async def talk(ask: Ask) -> None:
        await ask(read)
        think(1)
        await ask(read)

    with pytest.raises(StoreUnavailable, match="said nothing for too long") as caught:
        await connections.converse(talk)
    assert not caught.value.unknown


@pytest.mark.usefixtures("impatient")
async def test_the_server_waits_longer_for_who_submits_many_steps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await draw(world)
    slowly(monkeypatch, growing, "template_of")
    await flow.submit(flow.step("a"), flow.step("b", "a"))
    assert await flow.states() == {"a": "ready", "b": "waiting"}


@pytest.mark.usefixtures("impatient")
async def test_the_server_waits_longer_for_who_adds_many_steps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await _begun(world)
    slowly(monkeypatch, growing, "template_of")
    step = flow.step("b", "a", added_by="a")
    await flow.store.add(world.partition, flow.id, [step])
    assert await flow.states() == {"a": "running", "b": "waiting"}


@pytest.mark.usefixtures("impatient")
async def test_the_server_waits_longer_for_who_retries_many_steps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await _begun(world)
    await flow.end("a", End.BURY)
    slowly(monkeypatch, retrying, "as_inserted")
    again, _ = await flow.store.retry(world.partition, flow.id)
    assert again == [flow.ids["a"]]


async def _begun(world: World) -> Drawing:
    flow = await draw(world)
    await flow.submit(flow.step("a"))
    assert await flow.claim() == {"a"}
    return flow

"""Definitions: what apps announce of their kinds, and submitting with nothing but that."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from foliot import Exponential, Fixed, commands
from foliot.config import LimitSettings
from foliot.errors import InvalidValue, UnknownKind
from foliot.model.definition import Defaults
from foliot.options import Options
from foliot.registry import Registry, define
from foliot.schema import check_fit, stored_definition
from support.stores import World

pytestmark = pytest.mark.anyio


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Address(msgspec.Struct):
    street: str
    number: int | None = None


def order(  # noqa: PLR0917 - one of each type
    to: Address,
    items: list[str],
    size: Size = Size.SMALL,
    weight: float = 1.0,
    at: datetime | None = None,
    prices: dict[str, int] | None = None,
    pair: tuple[int, str] = (1, "a"),
    count: Annotated[int, msgspec.Meta(ge=0, le=10)] = 1,
    code: Annotated[str, msgspec.Meta(pattern="^[A-Z]+$", max_length=3)] = "A",
    mode: Literal["fast", "slow"] = "fast",
    anything: Any = None,
    *,
    urgent: bool = False,
) -> None: ...


def send(to: str, copies: int = 1) -> None: ...


async def test_what_is_announced_reads_back(world: World) -> None:
    registry = Registry()
    registry.add(define(send, queue="mail", tags=["m"], timeout=5, retry=Fixed(3), version=2))
    registry.add(define(order, requires={"gpu"}, expires=60, ignore_result=True, namespace="n"))
    await commands.announce(world.store, registry)
    found = {one.kind: one for one in await commands.definitions(world.store)}
    assert list(found) == ["order", "send"]
    assert found["send"].signature == "send(to: str, copies: int = 1) -> None"
    assert (found["send"].queue, found["send"].version) == ("mail", 2)
    assert found["send"].options == Defaults(
        queue="mail", tags=("m",), timeout=5.0, retry=Fixed(3), version=2
    )
    assert found["order"].options == Defaults(
        requires=("gpu",), expires=60.0, ignore_result=True, namespace="n", retry=Exponential()
    )
    assert found["send"].updated_at == world.clock.now()
    schema = msgspec.json.decode(found["send"].schema)
    assert schema["$defs"]["send"]["required"] == ["to"]
    assert await world.store.definitions.get("send") == found["send"]
    assert await world.store.definitions.get("none") is None


async def test_announcing_again_changes_what_has_changed_and_keeps_the_rest(world: World) -> None:
    await commands.announce(world.store, [define(send), define(order)])
    before = world.clock.now()
    world.clock.advance(10)
    await commands.announce(world.store, [define(send, priority=1), define(order)])
    found = {one.kind: one for one in await commands.definitions(world.store)}
    assert (found["send"].options.priority, found["send"].updated_at) == (1, world.clock.now())
    assert found["order"].updated_at == before
    await commands.announce(world.store, [])
    assert len(await commands.definitions(world.store)) == 2


def test_a_fingerprint_is_of_what_fits_and_of_the_version() -> None:
    def other(to: str, copies: int = 1) -> None: ...

    def more(to: str, copies: int) -> None: ...

    first = stored_definition(define(send))
    assert first.fingerprint == stored_definition(define(other, kind="send", queue="x")).fingerprint
    assert first.fingerprint != stored_definition(define(more, kind="send")).fingerprint
    assert first.fingerprint != stored_definition(define(send, version=2)).fingerprint


async def test_a_job_can_be_submitted_by_its_kind_alone(world: World) -> None:
    definition = define(send, queue="mail", priority=4, tags=["m"], timeout=5, max_attempts=2)
    await commands.announce(world.store, [definition])
    id = await commands.submit_kind(world.store, "send", '{"to": "ada"}', ids=world.ids)
    job = await world.get(id)
    assert (job.kind, job.payload, job.queue, job.priority) == ("send", b'{"to":"ada"}', "mail", 4)
    assert (job.tags, job.timeout, job.max_attempts) == (("m",), 5.0, 2)
    options: Options = {"priority": 1, "delay": timedelta(hours=1), "key": "k", "tags": ["x"]}
    id = await commands.submit_kind(
        world.store, "send", {"to": "bob", "copies": 2}, ids=world.ids, options=options
    )
    job = await world.get(id)
    assert (job.priority, job.run_at - job.created_at) == (1, timedelta(hours=1))
    assert job.key == "k"
    assert job.tags == ("x",)
    again = await commands.submit_kind(
        world.store, "send", {"to": "bob"}, ids=world.ids, options={"key": "k"}
    )
    assert again == id


async def test_a_kind_that_nobody_announced_is_refused_with_the_nearest(world: World) -> None:
    await commands.announce(world.store, [define(send)])
    with pytest.raises(UnknownKind, match="did you mean send"):
        await commands.submit_kind(world.store, "sent", "{}", ids=world.ids)


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not an object"),
        ('"x"', "is not an object"),
        ("{}", "payload lacks to"),
        ('{"to": 5}', "payload.to: 5 is not of type string"),
        ('{"to": "a", "copis": 1}', "did you mean copies"),
        ('{"to": "a", "copies": "1"}', "payload.copies: '1' is not of type integer"),
        ('{"to": "a", "copies": true}', "payload.copies: True is not of type integer"),
    ],
)
async def test_a_payload_that_does_not_fit_is_refused(
    world: World, payload: str, said: str
) -> None:
    await commands.announce(world.store, [define(send)])
    with pytest.raises(InvalidValue) as caught:
        await commands.submit_kind(world.store, "send", payload, ids=world.ids)
    assert said in str(caught.value)
    assert await world.count() == {}


async def test_a_payload_that_is_too_large_is_refused(world: World) -> None:
    await commands.announce(world.store, [define(send)])
    with pytest.raises(InvalidValue, match=r"more than limits\.payload, 100"):
        await commands.submit_kind(
            world.store, "send", {"to": "x" * 100}, ids=world.ids, limits=LimitSettings(payload=100)
        )


GOOD: dict[str, Any] = {"to": {"street": "a"}, "items": []}
WRONG: dict[str, dict[str, Any]] = {
    "payload.to lacks street": {"to": {}},
    "payload.to.number: '5' is not of type integer and is not of type null": {
        "to": {"street": "a", "number": "5"}
    },
    "payload.items[1]: 1 is not of type string": {"items": ["a", 1]},
    "payload.size: 'medium' is not one of": {"size": "medium"},
    "payload.weight: 'heavy' is not of type number": {"weight": "heavy"},
    "payload.prices.a: 1.5 is not of type integer": {"prices": {"a": 1.5}},
    "payload.pair has 1 elements": {"pair": [1]},
    "payload.pair[1]: 2 is not of type string": {"pair": [1, 2]},
    "payload.count: 11 is out of bounds": {"count": 11},
    "payload.code: 'a' does not look like": {"code": "a"},
    "payload.code: 'ABCD' has 4 characters": {"code": "ABCD"},
    "payload.mode: 'x' is not one of": {"mode": "x"},
    "payload.urgent: 1 is not of type boolean": {"urgent": 1},
}


@pytest.mark.parametrize("said", WRONG)
def test_every_type_of_a_signature_is_checked(said: str) -> None:
    known = stored_definition(define(order))
    with pytest.raises(InvalidValue) as caught:
        check_fit(known, {**GOOD, **WRONG[said]})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "more",
    [
        {}, {"size": "l"}, {"weight": 2}, {"weight": 1.5}, {"at": "2026-11-18T00:00:00Z"}, {"at": None},
        {"prices": {"a": 1}}, {"pair": [2, "b"]}, {"count": 10}, {"code": "ABC"},
        {"mode": "slow"}, {"anything": [1, {"x": None}]}, {"urgent": True}, {"to": {"street": "b", "number": 5}},
    ],
)  # fmt: skip
def test_what_fits_the_schema_fits_the_function(more: dict[str, Any]) -> None:
    definition = define(order)
    check_fit(stored_definition(definition), {**GOOD, **more})
    definition.decode(msgspec.json.encode({**GOOD, **more}))


def merge(into: object, to: Address, rows: list[int], *, by: str = "id") -> None: ...


def test_an_argument_without_a_schema_leaves_the_others_theirs() -> None:
    known = stored_definition(define(merge))
    fits: dict[str, Any] = {"into": [1, {"x": None}], "to": {"street": "a"}, "rows": []}
    check_fit(known, fits)
    for payload, said in [
        ({**fits, "to": {}}, "payload.to lacks street"),
        ({**fits, "rows": ["a"]}, "payload.rows[0]: 'a' is not of type integer"),
        ({**fits, "bye": "id"}, "payload has bye, which is not known"),
        ({"to": {"street": "a"}, "rows": []}, "payload lacks into"),
    ]:
        with pytest.raises(InvalidValue) as caught:
            check_fit(known, payload)
        assert said in str(caught.value)

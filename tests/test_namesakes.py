"""Kinds of one name in several apps are told of where their jobs meet."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

from foliot.ids import SessionId
from foliot.model.session import Session
from foliot.namesakes import find_namesakes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
_numbers = count(1)


def session(module: str, *kinds: str, **fields: Any) -> Session:
    number = next(_numbers)
    return Session(
        **{
            "id": SessionId(str(number)),
            "host": module,
            "pid": 7,
            "version": "0",
            "queues": (),
            "kinds": (*kinds, "flow.map"),
            "modules": (*(module for _ in kinds), "foliot"),
            "duties": True,
            "started_at": NOW,
            "beat_at": NOW,
            "expires_at": NOW,
            "live": True,
            "executing": 0,
            **fields,
        }
    )


def test_one_app_has_no_namesakes_however_many_workers_it_has() -> None:
    assert find_namesakes([session("shop", "pay"), session("shop", "pay", "ship")]) == []


def test_kinds_of_the_same_modules_are_told_of_together() -> None:
    others = [session("shop", "a", "b", "c"), session("till", "b", "a", "d")]
    told = "a, b are defined by shop (shop:7) and by till (till:7): their jobs go to any of them"
    assert find_namesakes(others) == [told]


def test_a_worker_is_told_of_its_own_kinds_only() -> None:
    mine, other, third = session("shop", "a"), session("till", "a", "b"), session("bank", "b")
    [told] = find_namesakes([mine, other, third], of=mine.id)
    assert told.startswith("a is defined by shop")


def test_where_no_job_can_go_to_both_there_is_nothing_to_tell() -> None:
    mail = session("shop", "a", queues=("mail",))
    assert find_namesakes([mail, session("till", "a", queues=("post",))]) == []
    assert find_namesakes([mail, session("till", "a", queues=("post", "mail"))]) != []
    assert find_namesakes([mail, session("till", "a")]) != []


def test_the_dead_and_those_who_do_not_say_are_not_compared() -> None:
    mine = session("shop", "a")
    assert find_namesakes([mine, session("till", "a", live=False)]) == []
    assert find_namesakes([mine, session("till", "a", modules=())]) == []

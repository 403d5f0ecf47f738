"""Which ends are told, and to whom nothing is told any more."""

from __future__ import annotations

import pytest

from foliot.ids import Ids, JobId, mark_of
from foliot.model.job import End, Outcome
from foliot.testing.clock import ManualClock
from foliot.worker import awaited
from foliot.worker.awaited import Awaited


@pytest.fixture
def ids(clock: ManualClock) -> list[JobId]:
    source = Ids(clock=clock, seed=1)
    return [source.job() for _ in range(20)]


def _outcomes(*ids: JobId, end: End = End.SUCCEED) -> list[Outcome]:
    return [Outcome(id, 1, end) for id in ids]


def test_only_awaited_jobs_are_told_and_each_once(clock: ManualClock, ids: list[JobId]) -> None:
    known = Awaited(clock)
    assert not known
    known.add([mark_of(ids[0]), mark_of(ids[1])])
    assert known.ended(_outcomes(ids[1], ids[2])) == (mark_of(ids[1]),)
    assert known.ended(_outcomes(ids[1])) == ()
    assert known.ended(_outcomes(ids[0])) == (mark_of(ids[0]),)
    assert not known


@pytest.mark.parametrize("end", list(End))
def test_an_end_is_what_does_not_come_back(clock: ManualClock, ids: list[JobId], end: End) -> None:
    known = Awaited(clock)
    known.add([mark_of(ids[0])])
    told = known.ended(_outcomes(ids[0], end=end))
    assert bool(told) is (end in (End.SUCCEED, End.CANCEL, End.BURY))


def test_who_no_longer_asks_is_forgotten(clock: ManualClock, ids: list[JobId]) -> None:
    known = Awaited(clock)
    known.add([mark_of(ids[0])])
    clock.advance(20)
    known.add([mark_of(ids[1])])
    clock.advance(20)
    known.add([mark_of(ids[2])])
    assert known.ended(_outcomes(*ids[:2])) == (mark_of(ids[1]),)
    clock.advance(40)
    assert known.ended(_outcomes(ids[2])) == ()
    assert not known


def test_it_does_not_grow_for_ever(
    clock: ManualClock, ids: list[JobId], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "_MOST", 5)
    known = Awaited(clock)
    known.add(mark_of(id) for id in ids)
    assert known.ended(_outcomes(*ids)) == tuple(mark_of(id) for id in ids[-5:])

"""Limits by themselves: which a job is under, who passes the door, and how much may be claimed uncounted."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from foliot.ids import JobId
from foliot.model.door import Candidate, Door
from foliot.model.limit import Limit, Rules, Traits, Use, allowance, gate_of_key

WORDS = ("a", "b", "ab", "a:b")
names = st.sampled_from(
    [f"{scope}:{word}" for scope in ("queue", "kind", "namespace", "key") for word in WORDS]
    + ["key:*", "key:a*", "key:a:*"]
)
limits = st.builds(
    Limit,
    name=names,
    concurrency=st.none() | st.integers(0, 4),
    rate=st.none() | st.sampled_from([0.5, 1.0, 7.0]),
    period=st.sampled_from([1.0, 60.0]),
    burst=st.integers(1, 5),
)
rule_sets = st.lists(limits, max_size=6, unique_by=lambda limit: limit.name)
traits = st.builds(
    Traits,
    queue=st.sampled_from(WORDS),
    kind=st.sampled_from(WORDS),
    namespace=st.sampled_from(["default", "a"]),
    limit_key=st.none() | st.sampled_from(WORDS),
)
crowds = st.lists(st.tuples(traits, st.booleans()), max_size=25)


def _crowd(told: list[tuple[Traits, bool]]) -> list[Candidate]:
    return [
        Candidate(JobId(f"{number:03}"), number, one, fits)
        for number, (one, fits) in enumerate(told)
    ]


# --- which limits a job is under -------------------------------------------------------------------------------------


def test_a_job_is_under_the_limits_of_its_queue_kind_namespace_and_key() -> None:
    every = [Limit(name=f"{scope}:a") for scope in ("queue", "kind", "namespace", "key")]
    rules = Rules(1, every)
    assert rules.gates(Traits("a", "b", "default")) == ("queue:a",)
    assert rules.gates(Traits("b", "a", "default", "a")) == ("kind:a", "key:a")
    assert rules.gates(Traits("b", "b", "a", "a")) == ("namespace:a", "key@a@a")
    assert rules.gates(Traits("b", "b", "default", "b")) == ()


@pytest.mark.parametrize(
    ("key", "name"),
    [("a:b", "key:a:b"), ("a:c", "key:a:*"), ("ab", "key:a*"), ("a", "key:a*"), ("b", "key:*")],
)
def test_the_key_itself_counts_before_patterns_and_the_longest_pattern_before_others(
    key: str, name: str
) -> None:
    every = ["key:*", "key:a*", "key:a:*", "key:a:b"]
    for rules in (Rules(1, map(_plain, every)), Rules(1, map(_plain, reversed(every)))):
        for namespace in ("default", "shop"):
            found = rules.limit(gate_of_key(key, namespace))
            assert found is not None
            assert found.name == name


def _plain(name: str) -> Limit:
    return Limit(name=name, concurrency=1)


def test_keys_with_odd_characters_are_found_again_in_every_namespace() -> None:
    rules = Rules(1, [Limit(name="key:*", concurrency=1), Limit(name="key:a@b:c", concurrency=2)])
    for namespace in ("default", "shop"):
        found = rules.limit(gate_of_key("a@b:c", namespace))
        assert found is not None
        assert found.concurrency == 2


@given(rule_sets, traits)
def test_every_gate_of_a_job_has_a_limit(some: list[Limit], job: Traits) -> None:
    rules = Rules(1, some)
    gates = rules.gates(job)
    assert len(set(gates)) == len(gates)
    assert all(rules.limit(gate) is not None for gate in gates)
    assert gates == rules.gates(job), "also when it is remembered"
    assert not gates or rules.concern(job.queue)


def _any_number(crowd: list[Candidate]) -> dict[int, int]:
    return {one.lane: len(crowd) for one in crowd}


def test_no_more_of_a_lane_pass_than_its_share() -> None:
    crowd = [Candidate(JobId(f"{n}"), n % 2, Traits("a", "a")) for n in range(6)]
    passage = Door(Rules(1, [_plain("kind:b")]), [], 0.0).decide(crowd, 4, {0: 1, 1: 2})
    assert [id for id, _ in passage.enter] == ["0", "1", "3"]
    assert passage.pass_on == ["2", "4", "5"], "to be asked again, by who has room for them"


def test_limits_that_are_not_counted_are_no_gates() -> None:
    rules = Rules(1, [Limit(name="queue:a", concurrency=9, counted=False)])
    assert rules.gates(Traits("a", "a")) == ()
    assert [limit.name for limit in rules.open] == ["queue:a"]
    assert not rules


# --- the door --------------------------------------------------------------------------------------------------------


@given(rule_sets, crowds, st.integers(0, 30))
def test_the_door_lets_as_many_in_as_there_is_room_and_says_of_everybody_what_becomes_of_him(
    some: list[Limit], told: list[tuple[Traits, bool]], room: int
) -> None:
    rules, crowd = Rules(1, some), _crowd(told)
    passage = Door(rules, [], 0.0).decide(crowd, room, _any_number(crowd))
    entered = [id for id, _ in passage.enter]
    waiting = [id for id, _ in passage.wait]
    assert sorted([*entered, *waiting, *passage.pass_on]) == [one.id for one in crowd]
    assert entered == sorted(entered)
    assert waiting == sorted(waiting)
    assert len(entered) <= room
    by_id = {one.id: one for one in crowd}
    assert passage.lanes == [by_id[id].lane for id in waiting]
    assert all(gates == rules.gates(by_id[id].traits) for id, gates in passage.enter)
    assert all(gate in rules.gates(by_id[id].traits) for id, gate in passage.wait)
    assert not {by_id[id].fits for id in entered} - {True}


@given(rule_sets, crowds, st.dictionaries(names, st.integers(0, 3)))
def test_no_more_pass_a_gate_than_it_has_slots_and_tokens(
    some: list[Limit], told: list[tuple[Traits, bool]], used: dict[str, int]
) -> None:
    rules, crowd = Rules(1, some), _crowd(told)
    passage = Door(rules, [Use(name, number) for name, number in used.items()], 0.0).decide(
        crowd, len(crowd), _any_number(crowd)
    )
    through = Counter(gate for _, gates in passage.enter for gate in gates)
    for gate, number in through.items():
        limit = rules.limit(gate)
        assert limit is not None
        if limit.concurrency is not None:
            assert number <= max(0, limit.concurrency - used.get(gate, 0))
        if limit.rate is not None:
            assert number <= limit.burst
    told_uses = {use.name: use.used for use in passage.uses}
    assert told_uses == {gate: used.get(gate, 0) + n for gate, n in through.items()}


@given(rule_sets, crowds)
def test_nobody_waits_for_a_gate_that_is_open(
    some: list[Limit], told: list[tuple[Traits, bool]]
) -> None:
    """Who passes takes a slot at all gates or at none: so what is named as full is full."""
    rules, crowd = Rules(1, some), _crowd(told)
    door = Door(rules, [], 0.0)
    passage = door.decide(crowd, len(crowd), _any_number(crowd))
    assert all(door.room(gate) == 0 for _, gate in passage.wait)


@given(rule_sets, crowds, st.dictionaries(names, st.integers(0, 9)))
def test_a_recount_goes_by_what_runs_and_by_nothing_else(
    some: list[Limit], told: list[tuple[Traits, bool]], before: dict[str, int]
) -> None:
    rules = Rules(1, some)
    running = Counter(one for one, _ in told)
    door = Door(rules, [Use(name, number) for name, number in before.items()], 0.0)
    door.recount(running)
    after = {**before, **{use.name: use.used for use in door.changed()}}
    right = Counter(gate for one, _ in told for gate in rules.gates(one))
    assert {name: number for name, number in after.items() if number} == right


def test_slots_that_were_given_back_are_free() -> None:
    rules = Rules(1, [Limit(name="queue:a", concurrency=2)])
    door = Door(rules, [Use("queue:a", 2)], 0.0)
    door.leave({"queue:a": 1})
    crowd = _crowd([(Traits("a", "a"), True)] * 3)
    passage = door.decide(crowd, 9, _any_number(crowd))
    assert len(passage.enter) == 1
    assert passage.uses == [Use("queue:a", 2, None, 0.0)]


# --- rates -----------------------------------------------------------------------------------------------------------


@given(
    st.sampled_from([0.3, 1.0, 10.0, 250.0]),
    st.sampled_from([1.0, 60.0]),
    st.integers(1, 20),
    st.lists(st.tuples(st.floats(0, 5), st.integers(0, 30)), min_size=1, max_size=30),
)
def test_starts_in_any_window_are_at_most_the_burst_and_what_the_rate_brings(
    rate: float, period: float, burst: int, arrivals: list[tuple[float, int]]
) -> None:
    limit = Limit(name="queue:a", rate=rate, period=period, burst=burst)
    rules, now, use = Rules(1, [limit]), 1_000_000.0, Use("queue:a")
    starts: list[tuple[float, int]] = []
    for pause, number in arrivals:
        now += pause
        door = Door(rules, [use], now)
        crowd = _crowd([(Traits("a", "a"), True)] * number)
        passage = door.decide(crowd, number, _any_number(crowd))
        assert len(passage.enter) == number or door.room("queue:a") == 0
        starts.append((now, len(passage.enter)))
        use = passage.uses[0] if passage.uses else use
        assert use.tokens is None or -1e-6 <= use.tokens <= burst
    for first in range(len(starts)):
        total = 0
        for at, number in starts[first:]:
            total += number
            window = at - starts[first][0]
            assert total <= burst + window * rate / period + 1e-6 * (len(starts) + 1)


@given(st.floats(0.01, 100), st.integers(1, 5))
def test_after_the_wait_that_was_told_one_more_may_start(rate: float, burst: int) -> None:
    rules = Rules(1, [Limit(name="queue:a", rate=rate, burst=burst)])
    crowd = _crowd([(Traits("a", "a"), True)] * (burst + 1))
    door = Door(rules, [], 1000.0)
    passage = door.decide(crowd, 99, _any_number(crowd))
    assert len(passage.enter) == burst
    wait = door.wait("queue:a")
    assert wait is not None
    assume(wait > 0.001)
    assert Door(rules, passage.uses, 1000.0 + wait * 0.99).room("queue:a") == 0
    assert Door(rules, passage.uses, 1000.0 + wait).room("queue:a") == 1


def test_a_clock_that_was_set_back_brings_no_tokens_and_takes_none() -> None:
    rules = Rules(1, [Limit(name="queue:a", rate=1.0, burst=3)])
    door = Door(rules, [Use("queue:a", 0, 1.5, 1000.0)], 900.0)
    assert door.room("queue:a") == 1


def test_time_alone_frees_no_slot() -> None:
    rules = Rules(1, [Limit(name="queue:a", concurrency=1, rate=1.0)])
    assert Door(rules, [Use("queue:a", 1, 0.0, 0.0)], 0.0).wait("queue:a") is None
    assert Door(rules, [Use("queue:a", 0, 0.0, 0.0)], 0.0).wait("queue:a") == pytest.approx(1.0)


# --- what may be claimed uncounted -----------------------------------------------------------------------------------


@given(
    st.integers(1, 6),
    st.integers(100, 4000),
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 400), st.sampled_from(["claim", "end"])),
        max_size=200,
    ),
)
def test_sessions_that_keep_to_their_allowances_never_exceed_the_limit(
    sessions: int, most: int, acts: list[tuple[int, int, str]]
) -> None:
    """Each claims what it is allowed, and looks again when it needs more; they end jobs as they like."""
    limit = Limit(name="queue:a", concurrency=most)
    left = [0] * sessions
    running = [0] * sessions
    for which, number, act in acts:
        who = which % sessions
        if act == "end":
            running[who] -= min(running[who], number)
            continue
        if left[who] < number:
            share = allowance(limit, sum(running), sessions)
            if share is None:
                break  # from then on it is counted
            left[who] = share
        given_now = min(number, left[who])
        left[who] -= given_now
        running[who] += given_now
        assert sum(running) <= most


def test_an_allowance_is_worth_its_look_or_there_is_none() -> None:
    limit = Limit(name="queue:a", concurrency=1000)
    assert allowance(limit, 0, 1) == 500
    assert allowance(limit, 500, 5) == 100
    assert allowance(limit, 501, 5) is None
    assert allowance(limit, 0, 6) is None
    assert allowance(Limit(name="queue:a", concurrency=0), 0, 1) is None

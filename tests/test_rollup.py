"""Roll-ups by themselves: parts add up in any order, and a percentile is right to a bucket."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from foliot.model.rollup import (
    BOUNDS,
    BUCKETS,
    Ended,
    Histogram,
    Key,
    Rollup,
    add_up,
    bounds_of,
    bucket_of,
    merge,
    percentile,
)

lengths = st.lists(st.floats(0, 2e6), min_size=1, max_size=60)
histograms = st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(1, 10**9), max_size=6)
keys = st.builds(
    Key,
    st.sampled_from(["default", "a"]),
    st.just("mail"),
    st.sampled_from(["send", "fetch"]),
    st.sampled_from(Ended),
)
rollups = st.lists(
    st.builds(
        Rollup,
        st.sampled_from([0, 60, 120]),
        keys,
        st.integers(1, 10**9),
        st.integers(1, 2**60 - 1),
        histograms,
        histograms,
    ),
    max_size=12,
)


def histogram_of(lengths: list[float]) -> Histogram:
    return dict(Counter(map(bucket_of, lengths)))


def facts(merged: list[Rollup]) -> dict[tuple[int, Key], tuple[object, ...]]:
    return {(one.minute, one.key): (one.count, one.seconds, one.waits, one.runs) for one in merged}


def test_buckets_are_ten_to_a_factor_of_ten_without_a_gap() -> None:
    assert BOUNDS[:3] == (1e-5, 1.25e-5, 1.6e-5)
    assert (BOUNDS[-1], len(BOUNDS), BUCKETS) == (8e5, 110, 111)
    assert all(low < high <= 1.3 * low for low, high in pairwise(BOUNDS))
    for bucket in range(1, BUCKETS - 1):
        low, high = bounds_of(bucket)
        assert (bucket_of(low), bucket_of(math.nextafter(high, 0))) == (bucket, bucket)
    assert bounds_of(0) == (0.0, 1e-5)
    assert bounds_of(BUCKETS - 1) == (8e5, 8e5)
    assert (bucket_of(-3.0), bucket_of(0.0), bucket_of(1e9)) == (0, 0, BUCKETS - 1)


@given(lengths, st.floats(0, 1))
def test_a_percentile_is_in_the_bucket_of_the_true_one(lengths: list[float], share: float) -> None:
    found = percentile(histogram_of(lengths), share)
    true = sorted(lengths)[max(0, math.ceil(share * len(lengths)) - 1)]
    low, high = bounds_of(bucket_of(true))
    assert found is not None and low <= found <= high


@given(lengths, st.floats(0, 1), st.floats(0, 1))
def test_percentiles_rise_with_their_share(lengths: list[float], one: float, other: float) -> None:
    found = [percentile(histogram_of(lengths), share) for share in sorted((one, other))]
    assert found[0] is not None and found[1] is not None and found[0] <= found[1]


def test_nothing_has_no_percentile() -> None:
    assert percentile({}, 0.5) is None


@given(rollups, rollups, rollups)
def test_it_does_not_matter_what_is_merged_first(
    some: list[Rollup], others: list[Rollup], more: list[Rollup]
) -> None:
    first = merge([*merge([*some, *others]), *more])
    last = merge([*more, *merge([*others, *some])])
    assert facts(first) == facts(last) == facts(merge([*some, *others, *more]))


@given(rollups)
def test_merging_leaves_one_of_each_and_loses_nothing(some: list[Rollup]) -> None:
    merged = merge(some)
    places = [(one.minute, one.key) for one in merged]
    assert places == sorted(set(places)) and set(places) == {(one.minute, one.key) for one in some}
    assert sum(one.count for one in merged) == sum(one.count for one in some)
    for name in ("waits", "runs"):
        assert add_up(getattr(one, name) for one in merged) == add_up(
            getattr(one, name) for one in some
        )


def test_seconds_in_which_two_were_busy_count_once() -> None:
    key = Key("default", "mail", "send", Ended.SUCCEEDED)
    [merged] = merge([Rollup(60, key, 3, 0b0111, {1: 3}, {}), Rollup(60, key, 1, 0b1100, {}, {})])
    assert (merged.count, merged.seconds) == (4, 0b1111)

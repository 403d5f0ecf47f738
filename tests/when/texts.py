"""Cron expressions of every kind, for properties."""

from __future__ import annotations

from hypothesis import strategies as st

MONTH_NAMES = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()  # noqa: SIM905 - easier to read
DAY_NAMES = "SUN MON TUE WED THU FRI SAT".split()  # noqa: SIM905


def _item(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(sorted)
    wide = span.filter(lambda ends: ends[1] > ends[0])
    stepped = wide.flatmap(
        lambda ends: st.integers(1, ends[1] - ends[0]).map(
            lambda step: f"{ends[0]}-{ends[1]}/{step}"
        )
    )
    return st.one_of(number.map(str), span.map(lambda ends: f"{ends[0]}-{ends[1]}"), stepped)


def _field(low: int, high: int, *more: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    star = st.just("*") | st.integers(1, high - low).map(lambda step: f"*/{step}")
    items = st.lists(st.one_of(_item(low, high), *more), min_size=1, max_size=4).map(",".join)
    return star | items


def _weekday() -> st.SearchStrategy[str]:
    return st.integers(0, 7).map(str)


PLAIN = {
    "second": _field(0, 59),
    "minute": _field(0, 59),
    "hour": _field(0, 23),
    "day": _field(1, 31, st.sampled_from(["L", "LW"])),
    "month": _field(1, 12, st.sampled_from(MONTH_NAMES)),
    "weekday": _field(
        0,
        6,
        st.sampled_from(DAY_NAMES),
        _weekday().map(lambda day: f"{day}L"),
        st.tuples(_weekday(), st.integers(1, 5)).map(lambda pair: f"{pair[0]}#{pair[1]}"),
    ),
}
SPECIAL_DAYS = _field(
    1,
    31,
    st.sampled_from(["L", "LW"]),
    st.integers(1, 30).map(lambda back: f"L-{back}"),
    st.integers(1, 31).map(lambda day: f"{day}W"),
)

five = st.tuples(*(PLAIN[name] for name in ("minute", "hour", "day", "month", "weekday"))).map(
    " ".join
)
six = st.tuples(PLAIN["second"], five).map(" ".join)
with_all_days = st.tuples(
    *(PLAIN["minute"], PLAIN["hour"], SPECIAL_DAYS, PLAIN["month"], PLAIN["weekday"])
).map(" ".join)

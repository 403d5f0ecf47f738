"""Durations and sizes as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foliot.units import LONGEST, read_duration, read_size, show_duration, show_size


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("15s", 15),
        ("5m", 300),
        ("2h", 7200),
        ("7d", 604_800),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1m250ms", 60.25),
        ("1.5h", 5400),
        ("15", 15),
        ("0.5", 0.5),
        (" 15s ", 15),
        (15, 15),
        (0.25, 0.25),
        ("0s", 0),
        (timedelta(minutes=2), 120),
    ],
)
def test_a_duration_is_read_in_seconds(given: object, seconds: float) -> None:
    assert read_duration(given) == seconds


@pytest.mark.parametrize(
    "given",
    [
        "",
        "5x",
        "s",
        "5 s",
        "5S",
        "1e99s",
        "1e3",
        "30m1h",
        "5s5s",
        "\u0661\u0665s",
        "1_000s",
        "15sec",
        ".5s",
        True,
        None,
        [],
        float("nan"),
        "nan",
        "inf",
        "9" * 5000,
    ],
    ids=lambda given: repr(given)[:20],
)
def test_what_is_no_duration_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        read_duration(given)


@pytest.mark.parametrize("given", ["-5s", "-1", -1, -0.5, timedelta(seconds=-1), float("-inf")])
def test_a_negative_duration_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match="is negative"):
        read_duration(given)


@pytest.mark.parametrize("given", [float("inf"), 10**400, "36501d", LONGEST + 1], ids="abcd")
def test_an_endless_duration_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match="is longer than 36500d"):
        read_duration(given)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (15, "15s"),
        (5400, "1h30m"),
        (0.25, "250ms"),
        (604_800, "7d"),
        (0.0001, "0.0001s"),
    ],
)
def test_a_duration_is_shown_as_people_write_it(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


@given(st.integers(0, int(LONGEST) * 1000))
def test_a_shown_duration_reads_back(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert read_duration(show_duration(seconds)) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ("256KiB", 262_144),
        ("1MiB", 1 << 20),
        ("2GiB", 2 << 30),
        ("512B", 512),
        ("100", 100),
        (7, 7),
    ],
)
def test_a_size_is_read_in_bytes(given: object, size: int) -> None:
    assert read_size(given) == size


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("10Mb", "use MiB"),
        ("10MB", "use MiB"),
        ("1k", "use KiB"),
        ("1G", "use GiB"),
        ("1.5MiB", "is not a size"),
        ("1TB", "is not a size"),
        ("", "is not a size"),
        (True, "is not a size"),
        (1.5, "is not a size"),
        (-1, "is negative"),
    ],
)
def test_a_doubtful_size_is_refused(given: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_size(given)


@given(st.integers(0, 1 << 40))
def test_a_shown_size_reads_back(size: int) -> None:
    assert read_size(show_size(size)) == size

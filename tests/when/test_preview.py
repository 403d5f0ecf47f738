"""What an expression will do, shown before it is saved."""

from __future__ import annotations

import pytest

from foliot.errors import InvalidValue
from foliot.when import DstGap, DstOverlap, Preview, parse, preview
from when.brute import utc


def shown(
    text: str, zone: str, after: str, gap: DstGap | None = None, overlap: DstOverlap | None = None
) -> Preview:
    expression = parse(text, timezone=zone)
    return preview(expression, after=utc(after), count=3, dst_gap=gap, dst_overlap=overlap)


@pytest.mark.parametrize(
    ("zone", "gap", "local", "note"),
    [
        (
            "America/New_York",
            None,
            "03:00",
            "clocks go forward: 02:30 does not exist, runs at 03:00",
        ),
        (
            "America/New_York",
            "shift",
            "03:30",
            "clocks go forward: 02:30 does not exist, runs at 03:30",
        ),
    ],
)
def test_a_moved_fire_says_why(zone: str, gap: DstGap | None, local: str, note: str) -> None:
    result = shown("30 2 * * *", zone, "2026-03-07T00:00", gap)
    assert [fire.note for fire in result.fires] == [None, note, None]
    assert f"{result.fires[1].local:%H:%M}" == local
    assert result.fires[1].at == result.fires[1].local
    (change,) = result.changes
    assert (change.before, change.after) == (-5 * 3600, -4 * 3600)
    assert change.english == "clocks go forward from 2026-03-08 02:00 to 2026-03-08 03:00"


def test_a_midnight_that_does_not_exist_runs_at_one() -> None:
    result = shown("0 0 * * *", "Asia/Beirut", "2026-03-28T12:00")
    assert f"{result.fires[0].local:%Y-%m-%d %H:%M}" == "2026-03-29 01:00"


def test_of_two_equal_times_it_is_said_which() -> None:
    notes = {
        "first": ["clocks go back: first of two 01:30"],
        "second": ["clocks go back: second of two 01:30"],
        "both": ["clocks go back: first of two 01:30", "clocks go back: second of two 01:30"],
    }
    overlaps: tuple[DstOverlap, ...] = ("first", "second", "both")
    for overlap in overlaps:
        result = shown("30 1 * * *", "America/New_York", "2026-11-01T04:00", None, overlap)
        assert [fire.note for fire in result.fires if fire.note] == notes[overlap]
        assert len(result.changes) == (1 if overlap != "second" else 0)


def test_what_may_surprise_is_said() -> None:
    assert shown("*/7 * * * *", "UTC", "2026-01-01T00:00").warnings == [
        "a step of 7 is uneven at the hour"
    ]
    assert shown("*/15 * * * *", "UTC", "2026-01-01T00:00").warnings == []
    assert shown("0 0 29 2 *", "UTC", "2026-06-01T00:00").warnings == ["next: 2028-02-29"]
    for zone in ("EST", "MST"):
        said = shown("0 9 * * *", zone, "2026-06-01T00:00").warnings
        assert said == [f"{zone} is a fixed offset, without summer time"]


def test_elapsed_time_has_changes_but_no_notes() -> None:
    result = shown("PT1H", "America/New_York", "2026-11-01T04:30")
    assert [f"{fire.local:%H:%M}" for fire in result.fires] == ["01:00", "01:00", "02:00"]
    assert [fire.note for fire in result.fires] == [None] * 3
    assert len(result.changes) == 1


def test_what_never_fires_again_has_an_empty_preview() -> None:
    result = shown("2026-01-01T00:00:00Z", "UTC", "2026-06-01T00:00")
    assert (result.fires, result.changes) == ([], [])


@pytest.mark.parametrize("count", [0, -1, 10_001, True, 2.5])
def test_a_preview_has_a_sensible_length(count: int) -> None:
    with pytest.raises(InvalidValue, match="is not a whole number from 1 to 10,000"):
        preview(parse("0 9 * * *"), after=0, count=count)

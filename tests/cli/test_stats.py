"""`foliot stats`: charts and tables that fit, numbers that can be read."""

from __future__ import annotations

import re

import pytest

from cli.conftest import Shell
from foliot.cli.chart import bars, length, number, resample, share
from foliot.cli.stats import page
from foliot.clock import SystemClock
from foliot.ids import Ids
from foliot.model.rollup import Ended, Key, Rollup, bucket_of
from foliot.stats import BY, By, Stats, read_stats

KEYS = [
    ("default", "mail", "send_email"),
    ("shop", "mail", "fetch"),
    ("default", "reports", "a.kind:with-a-long-name"),
]


def fill(shell: Shell, minutes: int = 60) -> None:
    """Every minute 600 of each key, of which a tenth failed; and in minutes to come, for it gets later."""
    now = int(SystemClock().now().timestamp()) // 60 * 60
    rollups = [
        Rollup(
            now - 60 * ago,
            Key(*key, outcome),
            count,
            (1 << 60) - 1,
            {bucket_of(0.004): count},
            {bucket_of(2.0): count},
        )
        for ago in range(-5, minutes)
        for key in KEYS
        for outcome, count in ((Ended.SUCCEEDED, 540), (Ended.FAILED, 60))
    ]
    shell.ask(lambda store: store.rollups.write(Ids().session(), 1, rollups))


def read(shell: Shell, *by: By, minutes: int = 60) -> Stats:
    now = SystemClock().now()
    return shell.ask(lambda store: read_stats(store, now=now, minutes=minutes, by=by))


def test_a_row_for_each_queue_and_a_chart_of_all(shell: Shell) -> None:
    fill(shell)
    answer = shell("stats")
    assert answer.code == 0 and not answer.err
    lines = answer.out.splitlines()
    assert re.fullmatch(r"108,000 ended, \d\d\.\d/s: 97,200 succeeded, 10,800 failed", lines[1])
    assert lines[3].split()[0].endswith("/s") and "█" in lines[3]
    assert lines[9].endswith(" UTC")
    head, *rows = lines[11:]
    assert " ".join(head.split()) == "queue ended /s failed wait p50, p95 run p50, p95 over time"
    assert [row.split()[0] for row in rows] == ["mail", "reports"]
    assert [row.split()[1] for row in rows] == ["72,000", "36,000"]
    assert [(row.count("10.0 %"), row[-1]) for row in rows] == [(1, "█"), (1, "▄")]


@pytest.mark.parametrize("width", [160, 80, 60, 40])
@pytest.mark.parametrize("by", [["queue"], ["queue", "kind"], list(BY)], ids=len)
def test_a_page_fits(shell: Shell, width: int, by: list[By]) -> None:
    fill(shell)
    lines = [
        line.plain
        for line in page(read(shell, *by), by, url="sqlite:///x.db", minutes=60, width=width)
    ]
    assert max(map(len, lines)) <= width
    charts = [line for line in lines if "│" in line]
    assert len(charts) == 5
    assert len({line.index("│") for line in charts}) == 1


@pytest.mark.parametrize("width", [80, 40, 20])
def test_what_does_not_fit_goes_on_in_the_next_line(shell: Shell, width: int) -> None:
    fill(shell)
    url = f"postgresql://foliot@{'h' * 100}/jobs"
    lines = page(read(shell, *BY), BY, url=url, minutes=60, width=width)
    text = "".join(line.plain for line in lines).replace(" ", "")
    assert url in text and "a.kind:with-a-long-name" in text
    assert "…" not in text


def test_where_there_is_no_terminal_all_numbers_are_there_in_one_line_each(shell: Shell) -> None:
    fill(shell)
    answer = shell("stats", "--by", ",".join(BY))
    assert "…" not in answer.out
    [heads] = [line for line in answer.out.splitlines() if line.startswith("namespace")]
    words = ("ended", "/s", "failed", "wait p50, p95", "run p50, p95")
    assert [word for word in words if word in heads] == list(words)
    assert len([line for line in answer.out.splitlines() if "a.kind:with-a-long-name" in line]) == 2


def test_a_wide_page_gives_each_minute_more_than_one_column(shell: Shell) -> None:
    fill(shell)
    drawn = {}
    for width in (80, 160):
        lines = page(read(shell, "queue"), ["queue"], url="x", minutes=60, width=width)
        [axis] = [line.plain for line in lines if "└" in line.plain]
        drawn[width] = axis.count("─")
    assert drawn == {80: 60, 160: 120}


def test_where_there_is_little_room_numbers_come_before_charts(shell: Shell) -> None:
    fill(shell)
    heads = {}
    for width in (120, 80, 60):
        lines = page(
            read(shell, "queue", "kind"), ["queue", "kind"], url="x", minutes=60, width=width
        )
        [heads[width]] = [line.plain.split() for line in lines if line.plain.startswith("queue ")]
    assert heads[120][-5:] == ["run", "p50,", "p95", "over", "time"]
    assert "run" not in heads[80] and "wait" in heads[80]
    assert "wait" not in heads[60] and "failed" in heads[60]


def test_what_is_asked_for_is_shown_and_nothing_else(shell: Shell) -> None:
    fill(shell)
    told = shell(
        "stats", "--by", "kind,outcome", "--queue", "mail", "--minutes", "2", "--json"
    ).json
    rows = [(row["kind"], row["outcome"], row["ended"], row["series"]) for row in told["rows"]]
    assert rows == [
        ("fetch", "succeeded", 1080, [540, 540]),
        ("send_email", "succeeded", 1080, [540, 540]),
        ("fetch", "failed", 120, [60, 60]),
        ("send_email", "failed", 120, [60, 60]),
    ]
    assert told["total"]["outcomes"] == {"succeeded": 2160, "failed": 240}
    assert shell("stats", "--namespace", "shop", "--json").json["total"]["ended"] == 36_000
    assert shell("stats", "--kind", "send_email", "--json").json["total"]["ended"] == 36_000


def test_an_empty_store_has_nothing_to_show(shell: Shell) -> None:
    answer = shell("stats")
    assert answer.code == 0
    assert answer.out.splitlines()[1:] == [
        "no attempt is counted in that time; counts arrive every five seconds"
    ]
    assert shell("stats", "--json").json["rows"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--minutes", "0"],
        ["--minutes", "10081"],
        ["--minutes", "1.5"],
        ["--by", "day"],
        ["--by", ""],
        ["--queue", "a b"],
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_refused(shell: Shell, arguments: list[str]) -> None:
    answer = shell("stats", *arguments)
    assert answer.code == 2
    assert answer.err.startswith("error: ") and not answer.out


def test_columns_share_neighbours_or_repeat_them() -> None:
    assert resample([1, 2, 3], 3) == [1, 2, 3]
    assert resample([1, 2, 3], 7) == [1, 1, 2, 2, 3, 3]
    assert resample([1, 3, 5, 7, 9, 11], 3) == [2, 6, 10]
    assert resample([1, 3, 5, 7, 9], 2) == [2, 7]


def test_bars_fill_from_below_and_the_least_is_seen() -> None:
    assert bars([0, 0.01, 2, 4, 6, 8], 2, 8) == ["    ▄█", " ▁▄███"]
    assert bars([0, 0], 1, 0) == ["  "]


def test_numbers_are_short() -> None:
    shown = [number(value) for value in (0, 0.001, 0.25, 9.99, 12.34, 4510.4)]
    assert shown == ["0", "<0.01", "0.25", "9.99", "12.3", "4,510"]
    assert [share(value) for value in (0, 0.0004, 0.02, 1)] == ["0 %", "<0.1 %", "2.0 %", "100.0 %"]
    shown = [length(value) for value in (None, 0.0, 8e-5, 0.0031, 0.25, 4.0, 75, 7800)]
    assert shown == ["-", "0µs", "80µs", "3.1ms", "250ms", "4.0s", "1m15s", "2h10m"]

"""What schedules did, held against a calendar: every nominal time is answered once, by a job or by a reason.

The calendar is worked out here, by looking at every second, and jobs are read from their tables: nothing of what is
tested decides what is right.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import psycopg

from foliot.model.schedule import Answer
from support.callers import path_of
from support.fleet import Fleet, eventually

STARTED = {"jobs": "claimed_at", "history": "started_at", "dead": "started_at"}
RANGES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_EVERY = re.compile(r"every (\d+) seconds?")


class Run(msgspec.Struct, frozen=True):
    """A job that says it is of a schedule. Times are seconds since 1970, on the store's clock."""

    id: str
    nominal: int | None
    made_at: float
    started_at: float | None


class Span(msgspec.Struct, frozen=True):
    """What a schedule is or was: from `since` on, before `until`."""

    since: float
    until: float | None
    expression: str
    timezone: str


class Tables:
    """The tables of a store, read and changed behind its back."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._file = url.startswith("sqlite")

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """With @ before the names of tables."""
        text = statement.replace("@", "foliot_" if self._file else "foliot.")
        with self._connect() as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []

    def seconds(self, column: str) -> str:
        """A column that is a time, as seconds since 1970."""
        return f"{column} / 1e6" if self._file else f"extract(epoch FROM {column})::float8"

    def earlier(self, column: str, seconds: int) -> str:
        """The same column so much earlier."""
        return f"{column} - {seconds}000000" if self._file else f"{column} - interval '{seconds} s'"

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        if self._file:
            file = sqlite3.connect(path_of(self._url), timeout=20)
            try:
                with file:
                    yield file
            finally:
                file.close()
        else:
            with psycopg.connect(self._url) as connection:
                yield connection


class CalendarChecker:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.tables = Tables(fleet.url)

    def now(self) -> float:
        return self._fleet.ask(lambda store: store.schedules.now()).timestamp()

    def settle(self) -> float:
        """Wait until all that is due now is done; when that was."""
        now = self.now()
        late = (
            f"SELECT 1 FROM @triggers WHERE {self.tables.seconds('next_fire_at')} <= {now}"
            " UNION ALL SELECT 1 FROM @gaps WHERE NOT done"
        )
        eventually(lambda: not self.tables.ask(late), what=self._fleet.logs)
        return now

    def check(
        self, names: Iterable[str], *, until: float | None = None
    ) -> dict[str, dict[int, Answer]]:
        """Of each schedule every nominal time up to `until` has one answer, which the jobs bear out. Returns them."""
        until = self.settle() if until is None else until
        runs = self.runs()
        return {name: self._check(name, runs[name], until) for name in names}

    def runs(self) -> dict[str, list[Run]]:
        """By the names of their schedules."""
        found: dict[str, list[Run]] = defaultdict(list)
        seconds = self.tables.seconds
        # In one statement: a job that ends meanwhile is in one table, or in the other.
        looks = (
            f"SELECT id, extras, {seconds('created_at')}, {seconds(started)} FROM @{table}"
            for table, started in STARTED.items()
        )
        for id, extras, made_at, started_at in self.tables.ask(" UNION ALL ".join(looks)):
            told = msgspec.json.decode(extras or "{}")
            if "schedule" in told:
                run = Run(str(id), told.get("nominal"), made_at, started_at)
                found[told["schedule"]].append(run)
        return found

    def check_runs(self, runs: Iterable[Run], nominal: Iterable[int]) -> dict[int, Run]:
        """No nominal time has two jobs, none of them is of another time, none was made or started early."""
        times, known = set(nominal), dict[int, Run]()
        for run in runs:
            if run.nominal is None:
                continue  # by hand
            assert run.nominal in times, f"{_shown(run.nominal)} is no time of it: {run}"
            assert run.nominal not in known, f"twice: {run} and {known[run.nominal]}"
            assert run.made_at >= run.nominal, f"made early: {run}"
            assert run.started_at is None or run.started_at >= run.nominal, f"early: {run}"
            known[run.nominal] = run
        return known

    def spans(self, name: str) -> list[Span]:
        """Its versions, first first; each begins where the one before ends."""
        seconds = self.tables.seconds
        [(id, since, rules)] = self.tables.ask(
            f"SELECT id, {seconds('since')}, rules FROM @schedules WHERE name = '{name}'"
        )
        old = self.tables.ask(
            f"SELECT {seconds('active_from')}, {seconds('until')}, rules"
            f" FROM @versions WHERE schedule = '{id}' ORDER BY version"
        )
        found = []
        for begin, end, text in [*old, (since, None, rules)]:
            told = msgspec.json.decode(text)
            found.append(Span(begin, end, told["expression"], told.get("timezone", "UTC")))
        for one, next in pairwise(found):
            assert one.until == next.since, f"{name}: {one} is not followed by {next}"
        return found

    def _check(self, name: str, runs: list[Run], until: float) -> dict[int, Answer]:
        spans = self.spans(name)
        nominal = [at for span in spans for at in times_of(span, until=self.now())]
        assert sorted(set(nominal)) == nominal
        jobs = self.check_runs(runs, nominal)
        wanted = [at for at in nominal if at <= until]
        handle = self._fleet.jobs.app.get_schedule(name)
        said = handle.fires(to=datetime.fromtimestamp(until, UTC), limit=10_000)
        times = [int(answer.nominal.timestamp()) for answer in said]
        assert times == wanted, _differ(name, times, wanted)
        answers = dict(zip(times, said, strict=True))
        for at, answer in answers.items():
            assert (answer.job is None) is not (answer.reason is None), f"{name}: {answer}"
            made = jobs[at].id if at in jobs else None
            assert answer.job == made, f"{name}, {_shown(at)}: {answer}, and the job is {made}"
        return answers


def times_of(span: Span, *, until: float) -> Iterator[int]:
    """The nominal times of a span, up to a moment."""
    end = until if span.until is None else min(until, span.until)
    zone = ZoneInfo(span.timezone)
    matches = _reader(span.expression)
    at = -int(-span.since // 1)
    while at <= end and (span.until is None or at < span.until):
        if matches(at, datetime.fromtimestamp(at, zone)):
            yield at
        at += 1


def _reader(expression: str) -> Any:
    if repeated := _EVERY.fullmatch(expression):
        step = int(repeated[1])
        return lambda at, _: at % step == 0
    words = expression.split()
    if len(words) == 5:
        words = ["0", *words]
    second, minute, hour, day, month, weekday = (
        _values(word, *bounds) for word, bounds in zip(words, RANGES, strict=True)
    )
    assert "*" in (words[3], words[5]), f"{expression} is too much for this calendar"

    def matches(_: int, local: datetime) -> bool:
        return (
            local.second in second
            and local.minute in minute
            and local.hour in hour
            and local.day in day
            and local.month in month
            and (local.isoweekday() in weekday or local.isoweekday() % 7 in weekday)
        )

    return matches


def _values(word: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in word.split(","):
        reach, _, step = part.partition("/")
        first, _, last = reach.partition("-")
        begin = low if first == "*" else int(first)
        end = high if first == "*" else int(last or first)
        found |= set(range(begin, end + 1, int(step or 1)))
    return found


def _differ(name: str, times: list[int], wanted: list[int]) -> str:
    missing, more = sorted(set(wanted) - set(times)), sorted(set(times) - set(wanted))
    return (
        f"{name}: no answer for {[*map(_shown, missing)]}, and one too many for"
        f" {[*map(_shown, more)]}; answered {len(times)}, different {len(set(times))}"
    )


def _shown(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()

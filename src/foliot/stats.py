"""Stats: what the roll-ups say: how many attempts ended, how many a second, how many of them failed, how long jobs had
waited and run; over the last minutes, and lately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

import msgspec

from foliot.checks import check_name, check_whole
from foliot.errors import InvalidValue
from foliot.model.rollup import MINUTE, STEP, Ended, Rollup, Sum, add_up, bucket_of, percentile
from foliot.shown import did_you_mean
from foliot.store.port import Store

By = Literal["namespace", "queue", "kind", "outcome"]
BY: Final[tuple[By, ...]] = get_args(By)
MOST_MINUTES: Final = 7 * 1440
MOST_STEPS: Final = 240  # in a series
_SLICE: Final = 60 * MINUTE  # seconds that are read at once
# Of a fleet most of what is read for a pace is read in vain if its jobs are short.
_LATELY: Final = 2 * MINUTE
_SHORT: Final = MINUTE / 5  # seconds
_LONG_AGO: Final = 5 * MINUTE  # for jobs that take longer
_IDLE: Final = (
    10  # seconds without an end after which a queue was idle, if its jobs do not take that long
)
_LATE: Final = 10  # seconds after which what has ended is here
_TOLD: Final = (
    7  # seconds after which those have told who were not late: they do so every four to six
)
_LEAST: Final = 5  # seconds that a pace is of: when the first began is not known
_WAITED: Final = 1.0  # seconds: who waited so long was kept by others
_MOST: Final = 0.8
_FAILED: Final = (Ended.FAILED, Ended.DEAD)


class Stat(msgspec.Struct, frozen=True, kw_only=True):
    """What belongs together; a name that is None stands for all of them. Lengths of time are in seconds, right to a
    quarter."""

    namespace: str | None = None
    queue: str | None = None
    kind: str | None = None
    outcome: Ended | None = None
    ended: int = 0  # attempts
    outcomes: dict[Ended, int] = {}
    per_second: float = 0.0
    failed: float = 0.0  # the share of them that failed
    wait_p50: float | None = None  # from when the job was due to when its function was called
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None
    series: tuple[int, ...] = ()  # how many ended in each step

    @property
    def name(self) -> tuple[str, ...]:
        """What tells it from the others."""
        names = (self.namespace, self.queue, self.kind, self.outcome)
        return tuple(str(name) for name in names if name is not None)


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    since: datetime
    until: datetime  # in the middle of a step: the last one is not over
    step: int  # seconds
    total: Stat
    rows: list[Stat]  # those with the most ends first


async def read_stats(
    store: Store,
    *,
    now: datetime,
    minutes: int = 60,
    by: By | Sequence[By] = "queue",
    namespace: str | None = None,
    queue: str | None = None,
    kind: str | None = None,
) -> Stats:
    """Of the last minutes, this one included, of what is named, a row for each of what it is asked `by`. What workers
    have counted is there after some seconds."""
    check_whole("minutes", minutes, 1, MOST_MINUTES, example="minutes=60")
    wanted = _check_by(by)
    named = {"namespace": namespace, "queue": queue, "kind": kind}
    for field, name in named.items():
        if name is not None:
            check_name(field, name, example=f'{field}="mail"')
    span = _Span(now, minutes)
    total, sums = _Sum(span), dict[tuple[object, ...], _Sum]()
    for start in range(span.since, span.end, _SLICE):
        for one in await store.rollups.read(start, min(start + _SLICE, span.end), **named):
            names = tuple(getattr(one.key, name) for name in wanted)
            if names not in sums:
                sums[names] = _Sum(span)
            sums[names].add(one)
            total.add(one)
    rows = [one.stat(dict(zip(wanted, names, strict=True))) for names, one in sums.items()]
    return Stats(
        since=datetime.fromtimestamp(span.since, UTC),
        until=now,
        step=span.step,
        total=total.stat({}),
        rows=sorted(rows, key=lambda row: (-row.ended, row.name)),
    )


async def read_pace(store: Store, queue: str, *, now: datetime) -> float | None:
    """About how many attempts of a queue's jobs end a second. None: none has ended for a while."""
    second = int(now.timestamp())
    found = await store.rollups.sums(second - _LATELY, second + MINUTE, queue=queue)
    if not found or _longest(found) > _SHORT:
        found = await store.rollups.sums(second - _LONG_AGO, second + MINUTE, queue=queue)
    return pace_of(found, now=now.timestamp())


def pace_of(sums: Iterable[Sum], *, now: float) -> float | None:
    """One for each step. Of the last in which most had waited, since it was idle for a while; without that which its
    workers are still telling of: some have, most have not. It is known in which seconds something ended, and how many
    in each step; within one, they are taken to lie evenly. None: it is idle now; or most had not waited, so that it was
    as fast as those who submit, and nobody knows how fast its workers are; or it was not busy for long enough."""
    found = [(one, one.ends) for one in sums]
    ends = sorted({second for _, seconds in found for second in seconds})
    if not ends:
        return None
    longest = _longest(one for one, _ in found)
    idle = max(_IDLE, 2 * longest)
    if now - ends[-1] > idle + _LATE:
        return None
    first = _busy_since(ends, idle)
    late = [(one, seconds) for one, seconds in found if seconds and seconds[-1] >= first]
    told = [(one, seconds) for one, seconds in late if one.minute + STEP + _TOLD <= now]
    if not told or not all(_waited(one) for one, _ in late if one.minute > told[-1][0].minute):
        return None
    last = max(seconds[-1] for _, seconds in told)
    begin = _crowded_since((one for one, _ in told), last - max(MINUTE, 5 * longest))
    if begin is None:
        return None
    begin = max(first, begin)
    counted = sum(
        one.count * sum(at >= begin for at in seconds) / len(seconds) for one, seconds in told
    )
    # Jobs that take minutes and end together have begun together.
    usual = percentile(add_up(one.runs for one, _ in found), 0.5) or 0.0
    seen = max(last - begin + 1, usual)
    return counted / seen if seen >= _LEAST else None


def _longest(sums: Iterable[Sum]) -> float:
    """How long all but a few have run."""
    return percentile(add_up(one.runs for one in sums), 0.95) or 0.0


def _busy_since(ends: Sequence[int], idle: float) -> int:
    """Since when nothing ended for longer than this."""
    first = ends[-1]
    for second in reversed(ends):
        if first - second > idle:
            break
        first = second
    return first


def _crowded_since(sums: Iterable[Sum], earliest: float) -> int | None:
    """The first of the last steps in which most had waited, not much before the earliest; without the one in which they
    began to, if there is another."""
    since: list[int] = []
    for one in sorted(sums, key=lambda one: one.minute, reverse=True):
        if not _waited(one):
            since = since[:-1] or since
            break
        since.append(one.minute)
        if one.minute <= earliest:
            break
    return since[-1] if since else None


def _waited(one: Sum) -> bool:
    """Whether most of those had waited."""
    waited = sum(count for bucket, count in one.waits.items() if bucket >= bucket_of(_WAITED))
    return waited >= _MOST * sum(one.waits.values())


class _Span:
    """Whole minutes, to the end of this one, in steps of which there are not too many."""

    def __init__(self, now: datetime, minutes: int) -> None:
        self.now = now.timestamp()
        self.end = int(self.now) // MINUTE * MINUTE + MINUTE
        self.since = self.end - minutes * MINUTE
        self.step = -(-minutes // MOST_STEPS) * MINUTE
        self.steps = -(-(self.end - self.since) // self.step)

    @property
    def seconds(self) -> float:
        return max(1.0, self.now - self.since)


class _Sum:
    """Of some roll-ups, as they come in."""

    def __init__(self, span: _Span) -> None:
        self._span = span
        self._outcomes: Counter[Ended] = Counter()
        self._waits: Counter[int] = Counter()
        self._runs: Counter[int] = Counter()
        self._series = [0] * span.steps

    def add(self, rollup: Rollup) -> None:
        self._outcomes[rollup.key.outcome] += rollup.count
        self._waits.update(rollup.waits)
        self._runs.update(rollup.runs)
        self._series[(rollup.minute - self._span.since) // self._span.step] += rollup.count

    def stat(self, names: dict[By, Any]) -> Stat:
        ended = self._outcomes.total()
        failed = sum(self._outcomes[how] for how in _FAILED)
        return Stat(
            **names,
            ended=ended,
            outcomes={how: self._outcomes[how] for how in Ended if self._outcomes[how]},
            per_second=ended / self._span.seconds,
            failed=failed / ended if ended else 0.0,
            wait_p50=percentile(self._waits, 0.5),
            wait_p95=percentile(self._waits, 0.95),
            run_p50=percentile(self._runs, 0.5),
            run_p95=percentile(self._runs, 0.95),
            series=tuple(self._series),
        )


def _check_by(by: object) -> tuple[By, ...]:
    given = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
    if not given:
        raise InvalidValue("by", by, f"is not one or more of {', '.join(BY)}", example='by="kind"')
    for name in given:
        if name not in BY:
            raise InvalidValue(
                "by",
                name,
                f"is not one of {', '.join(BY)}",
                example='by="kind"',
                hint=did_you_mean(str(name), BY),
            )
    return tuple(dict.fromkeys(given))

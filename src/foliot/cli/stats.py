"""`foliot stats`: how many attempts ended in the last minutes, how they ended, and how long jobs waited and ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.text import Text

from foliot.cli.ask import ask
from foliot.cli.chart import bars, length, number, resample, share
from foliot.cli.options import DEFAULT_OPTIONS, Options, Whole
from foliot.cli.output import print_json
from foliot.cli.sections import Column, Section, render
from foliot.cli.terminal import Screen
from foliot.clock import SystemClock
from foliot.stats import BY, By, Stat, Stats, read_stats
from foliot.store.port import Store

_HEIGHT: Final = 5  # lines of the chart
_USUAL: Final = 80  # columns where there is no terminal
_SHORTEST: Final = 8  # columns of a chart in the table: below, it is left out
_YOUNGEST: Final = 20.0  # seconds that a step must have lasted before it counts for what it is
_COLUMNS: Final = (
    Column("ended", right=True),
    Column("/s", right=True),
    Column("failed", right=True),
    Column("wait p50, p95", right=True, rank=1),
    Column("run p50, p95", right=True, rank=2),
)


def stats(
    *,
    minutes: Whole = 60,
    by: str = "queue",
    queue: str | None = None,
    kind: str | None = None,
    namespace: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Show how many attempts ended in the last minutes, how many failed, and how long jobs waited and ran.

    Counted by the workers, minute by minute; what they counted last is there after some seconds. Percentiles are right
    to a quarter.

    Parameters
    ----------
    minutes
        How far back, from 1 to 10080, which is a week.
    by
        A row for each queue, kind, outcome or namespace; or for each of several: queue,kind.
    queue
        Only jobs of this queue.
    kind
        Only jobs of this kind.
    namespace
        Only jobs of this namespace.
    """
    wanted: list[By] = [name.strip() for name in by.split(",")]  # type: ignore[misc]

    async def read(store: Store) -> tuple[Stats, str]:
        found = await read_stats(
            store,
            now=SystemClock().now(),
            minutes=minutes,
            by=wanted,
            namespace=namespace,
            queue=queue,
            kind=kind,
        )
        return found, store.url

    found, url = ask(options, read)
    if options.json:
        print_json(found)
        return
    screen = Screen()
    names = [name for name in BY if name in wanted]
    width = screen.width if screen.is_terminal else None
    for line in page(found, names, url=url, minutes=minutes, width=width):
        screen.say(line)


def page(
    found: Stats, by: Sequence[By], *, url: str, minutes: int, width: int | None
) -> list[Text]:
    """Lines that fit; what is longer goes on in the next. Without a width there is no terminal, and all is in it."""
    span = f"last {minutes} minutes" if minutes > 1 else "this minute"
    lines = [Text.assemble(("foliot stats", "bold"), f"  {url}  {span}")]
    if not found.total.ended:
        lines.append(Text("no attempt is counted in that time; counts arrive every five seconds"))
    else:
        lines += [_sum(found.total), Text(), *_chart(found, width or _USUAL), Text()]
        lines += render(_table(found, by, width), len(found.rows), width)
    return lines if width is None else [part for line in lines for part in _fold(line, width)]


def _fold(line: Text, width: int) -> Iterable[Text]:
    if line.cell_len <= width:
        return [line]
    return line.wrap(Screen(), width, overflow="fold", no_wrap=False)


def _sum(total: Stat) -> Text:
    said = f"{total.ended:,} ended, {number(total.per_second)}/s"
    counts = [f"{count:,} {how}" for how, count in total.outcomes.items()]
    return Text(f"{said}: {', '.join(counts)}")


def _chart(found: Stats, width: int) -> Iterator[Text]:
    """How many a second in each step. The last one is not over: it counts for as long as it has lasted."""
    paces = [count / found.step for count in found.total.series]
    begun = found.since.timestamp() + found.step * (len(paces) - 1)
    lasted = max(_YOUNGEST, found.until.timestamp() - begun)
    paces[-1] *= found.step / lasted
    label = f"{number(max(paces))}/s"
    columns = resample(paces, max(1, width - len(label) - 2))
    top = max(columns)
    label = f"{number(top)}/s"
    for row, line in enumerate(bars(columns, _HEIGHT, top)):
        yield Text(f"{label if row == 0 else '':>{len(label)}} │{line}")
    yield Text(f"{'0':>{len(label)}} └{'─' * len(columns)}")
    since, until = f"{found.since:%H:%M}", f"{found.until:%H:%M} UTC"
    if found.since.date() != found.until.date():
        since = f"{found.since:%Y-%m-%d %H:%M}"
    gap = max(2, len(columns) - len(since) - len(until))
    yield Text(f"{'':>{len(label)}}  {since}{' ' * gap}{until}")


def _table(found: Stats, by: Sequence[By], width: int | None) -> Section:
    """As many of the numbers as fit, and in what they leave a chart of each row, in one scale for all of them."""
    heads = [*(Column(name, style="bold") for name in by), *_COLUMNS]
    rows = [(*row.name, *_numbers(row)) for row in found.rows]
    left = (width or _USUAL) - _width(heads, rows)
    while width is not None and left < 0 and (most := max(one.rank for one in heads)):
        kept = [at for at, head in enumerate(heads) if head.rank < most]
        heads = [heads[at] for at in kept]
        rows = [tuple(row[at] for at in kept) for row in rows]
        left = width - _width(heads, rows)
    if left >= _SHORTEST:
        charts = [resample(row.series, left) for row in found.rows]
        top = max(max(chart) for chart in charts)
        heads.append(Column("over time"))
        rows = [(*row, bars(chart, 1, top)[0]) for row, chart in zip(rows, charts, strict=True)]
    return Section(tuple(heads), rows, total=len(rows))


def _width(heads: Sequence[Column], rows: Sequence[tuple[str, ...]]) -> int:
    """Of all columns, each with the gap behind it."""
    columns = zip(*([head.header for head in heads], *rows), strict=True)
    return sum(max(map(len, column)) + 2 for column in columns)


def _numbers(row: Stat) -> tuple[str, ...]:
    return (
        f"{row.ended:,}",
        number(row.per_second),
        share(row.failed),
        f"{length(row.wait_p50)}, {length(row.wait_p95):>5}",
        f"{length(row.run_p50)}, {length(row.run_p95):>5}",
    )

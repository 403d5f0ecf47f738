"""Frame: a glance as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from rich.text import Text

from foliot.cli.output import ago
from foliot.cli.sections import Column, Section, render, share
from foliot.cli.workers import remark
from foliot.glance import Glance, Rates
from foliot.model.job import JobState, Progress
from foliot.model.lane import Strategy
from foliot.model.overview import QueueLoad
from foliot.model.session import Session
from foliot.store.queueing import Queue
from foliot.units import show_duration

_BAR: Final = 10
_STYLES: Final = {
    JobState.READY: "yellow",
    JobState.RUNNING: "bold magenta",
    JobState.SCHEDULED: "cyan",
    JobState.HELD: "yellow",
    JobState.DEAD: "bold red",
}


def frame(
    glance: Glance, rates: Rates | None, *, url: str, width: int | None, height: int | None
) -> list[Text]:
    """Lines that fit; without a width or height, all there is."""
    lines = _head(glance, rates, url, width)
    sections = [part for part in _sections(glance, width) if part.rows]
    room = None if height is None else height - len(lines)
    for section, rows in zip(sections, share(room, sections), strict=True):
        lines += [Text(), *render(section, rows, width)]
    for line in lines:
        if width is not None:
            line.truncate(width, overflow="ellipsis")
    return lines if height is None else lines[:height]


def _head(glance: Glance, rates: Rates | None, url: str, width: int | None) -> list[Text]:
    live = sum(session.live for session in glance.sessions)
    first = Text.assemble(
        ("foliot top", "bold"), f"  {url}  {live} worker{'s' * (live != 1)} alive"
    )
    words = [
        Text(f"{state.value} {_count(count, state, glance)}", _STYLES[state] if count else "dim")
        for state, count in glance.states.items()
    ]
    return [first, _spaced(words, width), _pace(rates, width)]


def _pace(rates: Rates | None, width: int | None) -> Text:
    if rates is None:
        return Text("how fast: a moment …", "dim")
    shown = msgspec.structs.asdict(rates).items()
    return _spaced([Text(f"{name} {value:.1f}/s") for name, value in shown], width)


def _spaced(words: list[Text], width: int | None) -> Text:
    """On one line if they fit, closer together if they do not."""
    wide = Text("   ").join(words)
    return wide if width is None or len(wide) <= width else Text(" ").join(words)


def _sections(glance: Glance, width: int | None) -> Iterator[Section]:
    yield Section(
        (
            Column("queue", style="bold"),
            Column("ready", right=True),
            Column("running", right=True),
            Column("scheduled", right=True),
            Column("held", right=True),
            Column("oldest", right=True, rank=1),
            Column("how", rank=2),
        ),
        [_queue(load, queue, glance) for load, queue in glance.by_queue],
        total=len(glance.by_queue),
    )
    yield Section(
        (
            Column("worker", style="bold"),
            Column("load", right=True),
            Column("beat", right=True),
            Column("state"),
            Column("queues", rank=1),
        ),
        [_worker(session) for session in glance.sessions],
        total=len(glance.sessions),
    )
    yield Section(
        (
            Column("running", style="magenta"),
            Column("kind"),
            Column("queue", rank=2),
            Column("attempt", right=True, rank=1),
            Column("for", right=True),
            Column("progress"),
        ),
        [
            (
                _short(job.id, width),
                job.kind,
                job.queue,
                str(job.attempt),
                ago(job.seconds),
                progress_bar(job.progress),
            )
            for job in glance.running
        ],
        total=max(len(glance.running), glance.loads.total(JobState.RUNNING)),
    )
    yield Section(
        (
            Column("failed", style="red"),
            Column("kind"),
            Column("attempt", right=True, rank=1),
            Column("ago", right=True),
            Column("why"),
        ),
        [
            (
                _short(failure.id, width),
                failure.kind or "-",
                str(failure.attempt),
                ago(failure.seconds),
                f"{failure.outcome}: {_last_line(failure.error)}".rstrip(": "),
            )
            for failure in glance.failures
        ],
    )


def _queue(load: QueueLoad, queue: Queue | None, glance: Glance) -> tuple[str, ...]:
    counts = (
        _count(getattr(load, state.value), state, glance)
        for state in (JobState.READY, JobState.RUNNING, JobState.SCHEDULED, JobState.HELD)
    )
    oldest = "-" if load.oldest_ready is None else ago(load.oldest_ready)
    return (load.queue, *counts, oldest, _describe(queue))


def describe_order(queue: Queue) -> str:
    """Its strategy, with what belongs to it."""
    name = queue.strategy.name.lower()
    if queue.strategy is Strategy.AGED:
        return f"{name}, {show_duration(queue.aging)} a step"
    weights = ", ".join(f"{key}={weight:g}" for key, weight in sorted(queue.weights.items()))
    return f"{name}, {weights}" if weights and queue.strategy is Strategy.ROUND_ROBIN else name


def _describe(queue: Queue | None) -> str:
    """What is out of the ordinary with it."""
    if queue is None:
        return ""
    words = [] if queue.strategy is Strategy.PRIORITY else [describe_order(queue)]
    if queue.paused_at is not None:
        words += ["paused", f"by {queue.paused_by}" if queue.paused_by else "", queue.note or ""]
    return " ".join(word for word in words if word)


def _worker(session: Session) -> tuple[str, ...]:
    note = remark(session)
    return (
        f"{session.host}:{session.pid}",
        f"{session.executing}/{session.concurrency}",
        ago(session.silence),
        f"{session.health}: {note}" if note else session.health,
        ",".join(session.queues) or "all",
    )


def progress_bar(progress: Progress | None) -> str:
    if progress is None:
        return ""
    full = round(max(0.0, min(1.0, progress.fraction)) * _BAR)
    bar = "█" * full + "░" * (_BAR - full)
    return f"{bar} {progress.fraction:4.0%} {progress.message or ''}".rstrip()


def _short(id: str, width: int | None) -> str:
    """The end of an id tells jobs apart; where there is room without end, all of it."""
    return id if width is None else id[-8:]


def _count(count: int, state: JobState, glance: Glance) -> str:
    return f"{count}+" if count and state in glance.at_least else str(count)


def _last_line(text: str | None) -> str:
    lines = (text or "").strip().splitlines()
    return lines[-1] if lines else ""

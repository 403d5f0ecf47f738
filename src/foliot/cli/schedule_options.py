"""What can be said of a schedule and of its jobs on the command line."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter

from foliot.cli.given import read_priority, read_time, read_wait
from foliot.cli.options import OptionalWhole

if TYPE_CHECKING:
    from foliot.options import Options as JobOptions
    from foliot.schedule_options import ScheduleOptions

Gap = Literal["skip", "shift", "run_at_transition"]
Repeated = Literal["first", "second", "both"]
Overlapping = Literal[
    "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow"
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Times:
    """When a schedule fires, and what surrounds that."""

    timezone: str | None = None
    """Where its times of day are, for example Europe/Berlin; else UTC."""

    dst_gap: Gap | None = None
    """What happens to times that a clock change leaves out; else once, at the change."""

    dst_overlap: Repeated | None = None
    """Which of times that a clock change repeats; else the first."""

    after_completion: str | None = None
    """Instead of an expression: so long after the end of the last run, for example 10m."""

    calendars: str | None = None
    """On whose days it does not fire, separated by commas."""

    start: str | None = None
    """Not before this, for example 2027-01-31T09:00+01:00."""

    end: str | None = None
    """Not after this."""

    spread: str | None = None
    """Over how long schedules with the same times are spread, each always at the same place; for example 5m."""

    jitter: str | None = None
    """By how much, at most, each run is put off at random."""

    overlap: Overlapping | None = None
    """What a fire does while an earlier run has not ended; else it is skipped."""

    buffer: OptionalWhole = None
    """With buffer_all: how many runs may wait."""

    misfire: Literal["skip", "latest", "all"] | None = None
    """Which of the times run at which nobody could fire; else the latest."""

    misfire_window: str | None = None
    """Times missed longer ago than this do not run any more, for example 1h."""

    catchup_rate: float | None = None
    """With all: how many missed runs are made in a second."""

    start_deadline: str | None = None
    """A run that has not started so long after its time is not started any more."""

    max_runs: OptionalWhole = None
    """It ends after so many runs."""

    pause_after: OptionalWhole = None
    """It pauses after so many failed runs one after the other."""

    carry_result: bool | None = None
    """Each run sees the result of the last."""

    anchor: str | None = None
    """What an interval is counted from, for example 2027-01-31T09:00Z; else 1970."""

    tags: str | None = None
    """Words to find it by, separated by commas."""

    def given(self) -> ScheduleOptions:
        """What was said, as schedules take it."""
        found: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                found[field.name] = _READERS.get(field.name, _as_it_is)(field.name, value)
        return found  # type: ignore[return-value]  # the fields are named as the keys


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class JobChoices:
    """Options of the jobs of a schedule."""

    priority: str | None = None
    """high, medium, low, or a number from 0 to 9, lower first."""

    queue: str | None = None
    """Another queue than that of the kind."""

    key: str | None = None
    """Of the live jobs of a kind, one has this key."""

    job_tags: str | None = None
    """Words to find the jobs by, separated by commas."""

    timeout: str | None = None
    """How long an attempt may take, for example 30s."""

    max_attempts: OptionalWhole = None
    """How many attempts a job has."""

    expires: str | None = None
    """So long after its time a job is not started any more."""

    ordering_key: str | None = None
    """Jobs that share one run one after the other."""

    fair_key: str | None = None
    """Whose turn a job takes in a queue that is served round robin."""

    def given(self) -> JobOptions:
        found: dict[str, Any] = {
            "priority": read_priority(self.priority),
            "queue": self.queue,
            "key": self.key,
            "tags": None if self.job_tags is None else split(self.job_tags),
            "timeout": read_wait("--timeout", self.timeout),
            "max_attempts": self.max_attempts,
            "expires": read_wait("--expires", self.expires),
            "ordering_key": self.ordering_key,
            "fair_key": self.fair_key,
        }
        return {name: value for name, value in found.items() if value is not None}  # type: ignore[return-value]  # named as the keys


NO_TIMES = Times()
NO_CHOICES = JobChoices()


def split(text: str) -> list[str]:
    """Words between commas; none for an empty text."""
    return [word.strip() for word in text.split(",") if word.strip()]


def _as_it_is(_: str, value: Any) -> Any:
    return value


def _moment(name: str, text: str) -> Any:
    return read_time(f"--{name}", text)


def _words(_: str, text: str) -> list[str]:
    return split(text)


_READERS = {
    "calendars": _words,
    "tags": _words,
    "start": _moment,
    "end": _moment,
    "anchor": _moment,
}

"""Event: what happened to a job, a workflow, a schedule, a worker or a breaker; and who listens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

import msgspec

EventName = Literal[
    "job.succeeded",
    "job.dead",
    "job.cancelled",
    "workflow.succeeded",
    "workflow.failed",
    "workflow.cancelled",
    "schedule.missed",
    "worker.lost",
    "breaker.opened",
    "breaker.closed",
]
EVENTS: Final[tuple[str, ...]] = get_args(EventName)
# What has a kind and a queue, by which those who listen may choose.
OF_KINDS: Final = ("job.succeeded", "job.dead", "job.cancelled", "schedule.missed")
# Kinds of hooks begin with this, and no others. Of their jobs nobody is told: else one hook would call the next.
HOOK_PREFIX: Final = "on."
HOOK_QUEUE: Final = "hooks"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook is told. It may be told twice: then `id` is the same."""

    id: str
    name: str  # "job.dead"
    subject: str  # the id of the job, workflow, schedule or session; the name of the breaker
    at: datetime
    namespace: str = "default"
    kind: str | None = None  # of the job, or of the schedule's jobs
    queue: str | None = None
    data: dict[str, Any] = {}  # what else there is to know: see docs/hooks.md


class Told(msgspec.Struct, frozen=True):
    """The arguments of a hook, whatever its function calls them."""

    event: Event


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it is emitted. It lives, and its hooks run, where the job of the id `home` does."""

    name: str
    home: str
    subject: str
    number: int = 0  # which of those that happen to the subject in the same moment comes first
    namespace: str = "default"
    kind: str | None = None
    queue: str | None = None
    data: dict[str, Any] = {}


class Listens(msgspec.Struct, frozen=True):
    """To what a hook listens. Neither kinds nor queues: to all."""

    event: str
    kinds: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()

    def hears(self, event: Event) -> bool:
        return (
            self.event == event.name
            and (not self.kinds or event.kind in self.kinds)
            and (not self.queues or event.queue in self.queues)
        )


class Listener(msgspec.Struct, frozen=True):
    """A hook as the store knows it."""

    hook: str  # the kind of its jobs
    listens: Listens
    origin: str  # the module that declares it
    template: str  # JSON: the job that is made for each event, without its id and payload
    since: datetime | None = None  # the store's: it is not told what happened before
    absent_since: datetime | None = None  # when it was first seen that no live worker runs it

    @property
    def function(self) -> str:
        """Its name without the event: a function may listen to several."""
        return self.hook.removeprefix(f"{HOOK_PREFIX}{self.listens.event}.")

    def hears(self, event: Event) -> bool:
        return self.listens.hears(event) and (self.since is None or event.at >= self.since)


def told_time(seconds: float) -> str:
    """A time in the data of an event: as JSON has times everywhere."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")

"""Another number of partitions: what both adapters refuse, and where rows go that are of no one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from foliot.errors import FoliotError
from foliot.ids import partition_of, partition_of_slot, slot_of_key
from foliot.model.session import Session
from foliot.store.operator import Record, Value
from foliot.store.tables import PARTED

_MOST_NAMED: Final = 5
_MICROSECOND: Final = timedelta(microseconds=1)


def refuse_live(sessions: Iterable[Session]) -> None:
    live = [f"pid {session.pid} on {session.host}" for session in sessions if session.live]
    if live:
        what = "1 process works" if len(live) == 1 else f"{len(live)} processes work"
        raise FoliotError(
            f"{what} on the store: {_name(live)}",
            hint="let them finish and end with: foliot workers drain --all; stop schedulers and whatever submits "
            "as well. One that was killed counts until its lease has run out",
        )


def refuse_apart(jobs: Sequence[tuple[str, str, str, str]], partitions: int) -> None:
    """Of jobs with an ordering key or a schedule, and a unique key: id, namespace, kind, unique key. A job lives with
    its ordering key or its schedule; there, nobody would see that its unique key is taken elsewhere."""
    apart = [
        id
        for id, namespace, kind, key in jobs
        if partition_of(id, partitions)
        != partition_of_slot(slot_of_key(namespace, kind, key), partitions)
    ]
    if apart:
        raise FoliotError(
            f"{len(apart)} jobs have a key that would not be in one partition with their ordering key or schedule: "
            f"{_name(apart)}",
            hint="let them end first, or cancel them",
        )


def refuse_scattered(steps: Iterable[tuple[str, str]], partitions: int) -> None:
    """Of workflows that run, steps whose ids have another slot: id, workflow. Jobs that were submitted by themselves
    become steps when others follow them; apart from their workflow nobody would hear of their ends."""
    apart = [
        id for id, flow in steps if partition_of(id, partitions) != partition_of(flow, partitions)
    ]
    if apart:
        raise FoliotError(
            f"{len(apart)} jobs that others were submitted after would not be in one partition with those: "
            f"{_name(apart)}",
            hint="let them end first, or cancel them",
        )


def refuse_schedules(keyed: Sequence[str], missed: int, partitions: int) -> None:
    """`keyed`: names of schedules whose jobs have a unique key or an ordering key. These live where the schedule does;
    elsewhere nobody would see them. `missed`: gaps that are to be caught up with, which say of all schedules of a
    trigger in one partition that they were missed."""
    if keyed and partitions > 1:
        raise FoliotError(
            f"{len(keyed)} schedules have a key or an ordering key for their jobs, which only works with one "
            f"partition: {_name(keyed)}",
            hint="delete or change them first",
        )
    if missed:
        raise FoliotError(
            f"{missed} times at which triggers were missed are still to be caught up with",
            hint="let a worker run until it has done so",
        )


class Positions:
    """How far triggers have come: where several become one, it begins with what the slowest has not done, and the
    schedules of the others remember what is done for them."""

    def __init__(self) -> None:
        self._sizes: Counter[tuple[Value, Value]] = Counter()  # by partition and trigger
        self._triggers: dict[tuple[Value, Value], Record] = {}
        self._slowest: dict[Value, datetime] = {}

    def add(self, trigger: Record) -> None:
        id, at = trigger["id"], _time(trigger["next_fire_at"])
        self._triggers[trigger["partition"], id] = trigger
        self._slowest[id] = min(self._slowest.get(id, at), at)

    def settle(self, schedule: Record, partition: int) -> Record:
        """As it is in that partition."""
        trigger = self._triggers.get((schedule["partition"], schedule["trigger"]))
        if trigger is None:
            return schedule | {"partition": partition}
        self._sizes[partition, trigger["id"]] += 1
        cursor = trigger["cursor"]
        begun = cursor is not None and str(schedule["id"]) <= str(cursor)
        done = trigger["next_fire_at" if begun else "fired_at"]
        start = _time(schedule["active_from"])
        if done is not None and _time(done) >= self._slowest[trigger["id"]]:
            start = max(start, _time(done) + _MICROSECOND)
        return schedule | {"partition": partition, "active_from": start}

    def keep(self, trigger: Record) -> Record | None:
        """None: nobody there is attached to it."""
        size = self._sizes[trigger["partition"], trigger["id"]]
        return trigger | {"size": size} if size else None


def taken_twice(told: object) -> FoliotError:
    """While something that submits had the old number, it did not see that a key was taken."""
    return FoliotError(
        f"two live jobs have one key: {told}", hint="cancel one of them, and try again"
    )


def rearrange(name: str, records: Iterable[Record], before: int, now: int) -> list[Record]:
    """All rows of a table that has none of one place."""
    table = PARTED[name]
    spread = [each for record in records for each in table.spread(record, before, now)]
    return list(table.merged(spread))


def _time(value: Value) -> datetime:
    assert isinstance(value, datetime)
    return value


def _name(some: Sequence[str]) -> str:
    more = f" and {len(some) - _MOST_NAMED} more" if len(some) > _MOST_NAMED else ""
    return ", ".join(some[:_MOST_NAMED]) + more

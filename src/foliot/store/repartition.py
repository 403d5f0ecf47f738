"""Another number of partitions: what both adapters refuse, and where rows go that are of no one place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from foliot.errors import FoliotError
from foliot.ids import partition_of, partition_of_slot, slot_of_key
from foliot.model.session import Session
from foliot.store.operator import Record
from foliot.store.tables import PARTED

_MOST_NAMED: Final = 5


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
    """Of jobs with an ordering key and a unique key: id, namespace, kind, unique key. A job lives with its ordering
    key; there, nobody would see that its unique key is taken elsewhere."""
    apart = [
        id
        for id, namespace, kind, key in jobs
        if partition_of(id, partitions)
        != partition_of_slot(slot_of_key(namespace, kind, key), partitions)
    ]
    if apart:
        raise FoliotError(
            f"{len(apart)} jobs have a key and an ordering key that would not be in one partition: {_name(apart)}",
            hint="let them end first, or cancel them",
        )


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


def _name(some: Sequence[str]) -> str:
    more = f" and {len(some) - _MOST_NAMED} more" if len(some) > _MOST_NAMED else ""
    return ", ".join(some[:_MOST_NAMED]) + more

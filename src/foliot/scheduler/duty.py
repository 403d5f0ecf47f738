"""Duty: a loop that sees to the partitions that this process holds."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from foliot.clock import Clock
from foliot.config import Settings
from foliot.ids import Ids
from foliot.loop import Loop
from foliot.scheduler.partitions import Partitions
from foliot.store.port import Store, Wake


class Office(msgspec.Struct, frozen=True):
    """What all duties of a process share."""

    store: Store
    partitions: Partitions
    clock: Clock
    ids: Ids
    settings: Settings = Settings()
    announce: Callable[[Wake], None] = lambda _: None  # to other processes and to this one's worker
    look: Callable[[], None] = lambda: None  # have somebody look at once what is to be done


class Duty(Loop):
    def __init__(self, office: Office) -> None:
        super().__init__(office.clock, office.ids)
        self._store = office.store
        self._partitions = office.partitions
        self._announce = office.announce
        self._look = office.look
        self._batch = office.settings.scheduler.batch

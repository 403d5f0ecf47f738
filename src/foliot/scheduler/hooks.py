"""Hooks: which ones nobody runs is written down; those that no code declares any more are let go."""

from __future__ import annotations

import logging
from typing import Final

from foliot import hook_sync
from foliot.scheduler.duty import Duty

log = logging.getLogger("foliot.scheduler")
_EVERY: Final = 60.0


class Hooks(Duty):
    name = "hooks"

    async def tick(self) -> float:
        held = self._partitions.held
        if 0 in held:  # hooks are of no partition
            gone = await hook_sync.let_absent_go(self._store)
            if gone:
                log.info("hooks that no code declares any more: %s", ", ".join(gone))
        for partition in sorted(held):
            await hook_sync.cancel_unheard(self._store, partition, limit=self._batch)
        return self.ids.jitter(_EVERY)

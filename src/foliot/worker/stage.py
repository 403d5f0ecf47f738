"""Stage: how a worker is driven by hand, and what whoever does it is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from foliot.model.job import ClaimedJob
from foliot.worker.executors.thread import Threads
from foliot.worker.running import Running


def _nothing(*_: object) -> None:
    """Nobody asks."""


class Stage(msgspec.Struct, frozen=True):
    """For who drives a worker by hand: where sync functions run, and who is shown what starts and what fails."""

    threads: Callable[..., Threads[Running]] = Threads
    on_start: Callable[[ClaimedJob], None] = _nothing
    on_failure: Callable[[ClaimedJob, BaseException], None] = _nothing


DEFAULT_STAGE: Final = Stage()

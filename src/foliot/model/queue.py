"""Queue: how its jobs are ordered, as code or the command line says it."""

from __future__ import annotations

import msgspec

from foliot.model.lane import Strategy


class QueueOptions(msgspec.Struct, frozen=True):
    """What is None stays as it is."""

    strategy: Strategy | None = None
    aging: float | None = None  # seconds that one step of priority is worth, for aged
    weights: dict[str, float] | None = None  # of fair keys, for round_robin

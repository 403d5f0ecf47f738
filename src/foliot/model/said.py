"""What code says of limits and queues counts when it is new: what was set by hand since stays."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


def text_of(said: Mapping[str, object]) -> str:
    """The same for who says the same."""
    return msgspec.json.encode(said, order="deterministic").decode()


def is_heard(said: str, *, before: str | None, own: bool, other: bool) -> bool:
    """Whether what code says is to be set. `before`: what it said last; `own`: nobody has changed it by hand since;
    `other`: what is set is not what is said, for a worker that keeps no account of this has set it. The statements
    put_limit and configure_queue decide the same."""
    return said != before or (own and other)

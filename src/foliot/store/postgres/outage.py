"""Outages, told once: that the server takes no connection, and that it does so again.

What psycopg would say of each attempt, and of each connection of ours that was lost, is left out: whoever asked is told
by an error. Connections and pools of others are none of our business, and who sets a level for psycopg hears all.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from psycopg.conninfo import conninfo_to_dict

from foliot.clock import Clock

POOL: Final = "foliot"  # the name of our pools in what psycopg says
_LOGGER, _POOLS = logging.getLogger("psycopg"), logging.getLogger("psycopg.pool")
_UNSET: Final = (logging.NOTSET, logging.WARNING)  # psycopg itself sets this

log = logging.getLogger("foliot.store")


class Outage:
    """Of the server of one pool."""

    def __init__(self, conninfo: str, clock: Clock) -> None:
        self._place = _place_of(conninfo)
        self._clock = clock
        self._since: float | None = None
        for logger in (_LOGGER, _POOLS):
            logger.addFilter(_drop_ours)

    def begins(self, _: Any = None) -> None:
        """A connection could not be made."""
        if self._since is None:
            self._since = self._clock.monotonic()
            log.warning("the store is away, trying again: %s takes no connection", self._place)

    def ends(self) -> None:
        """One was made."""
        if self._since is not None:
            seconds = self._clock.monotonic() - self._since
            self._since = None
            log.warning("the store is back: %s was away for %.1f s", self._place, seconds)


def _drop_ours(record: logging.LogRecord) -> bool:
    if record.levelno >= logging.ERROR or _POOLS.level or _LOGGER.level not in _UNSET:
        return True
    return not any(_is_ours(one) for one in record.args or ())


def _is_ours(subject: object) -> bool:
    """A pool by its name, a connection, or a pipeline of one."""
    connection = getattr(subject, "_conn", subject)
    return subject == POOL or type(connection).__module__.startswith("foliot.")


def _place_of(conninfo: str) -> str:
    given = conninfo_to_dict(conninfo)
    where = [str(given[key]) for key in ("host", "port") if given.get(key)]
    return f"PostgreSQL at {':'.join(where)}" if where else "PostgreSQL"

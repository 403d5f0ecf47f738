"""Claiming in SQLite: the front of each lane in turn, until there is no more room."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Any, Final

import msgspec

from foliot.ids import SessionId
from foliot.model.job import ClaimedJob
from foliot.model.lane import Lane
from foliot.store.port import DEADLINE_GRACE, Share
from foliot.store.sql import JOB_FILES
from foliot.store.sqlite.batches import Parts, Values, execute, load_parts, to_json

SQL: Final = load_parts(*JOB_FILES)
_SMALL: Final = 4096  # bytes; larger payloads do not travel within the JSON of a claim
_decode: Final = msgspec.json.Decoder(list[list[Any]]).decode


class Taken(msgspec.Struct, frozen=True):
    """What was claimed from one lane. It is decoded after the commit, when nobody waits for it."""

    rows: str
    payloads: dict[str, bytes]  # those that are large


class Claim:
    """One claim of several lanes, ready to be applied in a transaction."""

    def __init__(
        self, partition: int, session: SessionId, shares: Sequence[Share], room: int
    ) -> None:
        self.shares = shares
        self.room = room
        self._lanes = to_json([(share.lane.number, share.lane.queue) for share in shares])
        self._common: Values = {
            "partition": partition,
            "session": session,
            "grace": DEADLINE_GRACE,
            "small": _SMALL,
        }

    def find_lanes(self, connection: Connection) -> set[int]:
        """Those with something to claim."""
        values: Values = {**self._common, "lanes": self._lanes}
        return {row[0] for row in execute(connection, SQL["find_ready_lanes"], values)}

    def apply(self, connection: Connection, now: int) -> list[Taken]:
        shares = self.shares
        if len(shares) > 1:
            lanes = self.find_lanes(connection)
            shares = [share for share in shares if share.lane.number in lanes]
        room = self.room
        taken: list[Taken] = []
        for share in shares:
            quota = min(share.quota, room)
            if quota > 0:
                kinds = None if share.kinds is None else to_json(share.kinds)
                values: Values = {"quota": quota, "now": now, "kinds": kinds}
                room -= self._take(connection, share.lane, values, taken)
        return taken

    def _take(self, connection: Connection, lane: Lane, values: Values, taken: list[Taken]) -> int:
        values = {**self._common, **values, "lane": lane.number, "queue": lane.queue}
        select, update = SQL["claim_jobs"]
        found, large = connection.execute(select, values).fetchone()
        if found == "[]":
            return 0
        taken.append(Taken(found, self._read_large(connection, found) if large else {}))
        return connection.execute(update, values).rowcount

    def take(
        self, connection: Connection, parts: Parts, ids: Sequence[str], values: Values
    ) -> list[Taken]:
        """These, whatever their lanes."""
        select, update = parts
        asked = {**self._common, **values, "ids": to_json(list(ids))}
        found, large = connection.execute(select, asked).fetchone()
        connection.execute(update, asked)
        return [Taken(found, self._read_large(connection, found) if large else {})]

    def _read_large(self, connection: Connection, found: str) -> dict[str, bytes]:
        ids = to_json([row[0] for row in _decode(found) if row[3] is None])
        return dict(execute(connection, SQL["list_payloads"], {**self._common, "ids": ids}))


def claimed_jobs(taken: Sequence[Taken]) -> list[ClaimedJob]:
    return [
        ClaimedJob(
            id,
            fence,
            kind,
            some.payloads[id] if payload is None else bytes.fromhex(payload),
            attempt,
            max_attempts,
            losses,
            timeout,
            bool(linked),
            lane,
            priority,
            more,
        )
        for some in taken
        for id, fence, kind, payload, attempt, max_attempts, losses, timeout, linked, lane, priority, more in _decode(
            some.rows
        )
    ]

"""Session: one life of one worker process. Its id is chance, never a host name or a process number."""

from __future__ import annotations

from datetime import datetime

import msgspec

from foliot.ids import SessionId


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    id: SessionId
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]  # none named: all
    kinds: tuple[str, ...]
    duties: bool  # may hold partition leases


class Session(msgspec.Struct, frozen=True, kw_only=True):
    id: SessionId
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    kinds: tuple[str, ...]
    duties: bool
    started_at: datetime
    beat_at: datetime
    expires_at: datetime
    live: bool
    executing: int

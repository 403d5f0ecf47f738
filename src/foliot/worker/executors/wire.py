"""What a worker and its child processes say to each other, over one socket each: frames of a length and msgpack."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import msgspec

from foliot.config import Settings
from foliot.ids import SessionId
from foliot.model.job import ClaimedJob, Outcome
from foliot.model.note import NewLine, NewProgress

_LENGTH: Final = struct.Struct(">I")


class Setup(msgspec.Struct, frozen=True, tag=True):
    """To the child, first of all."""

    session: SessionId
    settings: Settings


class Call(msgspec.Struct, frozen=True, tag=True):
    """To the child: run this."""

    job: ClaimedJob
    queue: str


class Stop(msgspec.Struct, frozen=True, tag=True):
    """To the child: what this job's function is to be told."""

    fence: int
    id: str
    softly: bool  # its soft timeout is over; otherwise somebody asked for its end


class Leave(msgspec.Struct, frozen=True, tag=True):
    """To the child: end in good order."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """From the child: it can run jobs, or why it cannot."""

    error: str | None = None
    traceback: str | None = None


class Done(msgspec.Struct, frozen=True, tag=True):
    """From the child: how the job went."""

    outcome: Outcome


class Said(msgspec.Struct, frozen=True, tag=True):
    """From the child: what the job said."""

    line: NewLine | None = None
    progress: NewProgress | None = None


ToChild = Setup | Call | Stop | Leave
FromChild = Ready | Done | Said

_encode: Final = msgspec.msgpack.Encoder().encode
decode_to_child: Final = msgspec.msgpack.Decoder(ToChild).decode
decode_from_child: Final = msgspec.msgpack.Decoder(FromChild).decode


def frame(message: ToChild | FromChild) -> bytes:
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Bytes in, whole messages out."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._bytes += data
        start = 0
        while len(self._bytes) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes, start)
            end = start + _LENGTH.size + length
            if len(self._bytes) < end:
                break
            yield bytes(self._bytes[start + _LENGTH.size : end])
            start = end
        del self._bytes[:start]

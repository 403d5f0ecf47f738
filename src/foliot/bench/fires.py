"""Fires: what runs of schedules wrote down of themselves, in a file of the directory that their workers run in."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

_NAME: Final = "fires"
_RECORD: Final = struct.Struct("<qqd")


class Record(msgspec.Struct, frozen=True):
    number: int  # of the schedule
    nominal: int
    began: float  # by the monotonic clock that all processes of a machine share


class Fires:
    """The side of the bench."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _NAME
        self._path.write_bytes(b"")
        self._read = 0

    def more(self) -> Iterator[Record]:
        """Those that were not read before."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = len(data) - len(data) % _RECORD.size
        self._read += whole
        return (Record(*one) for one in _RECORD.iter_unpack(data[:whole]))


def note(number: int, nominal: int, began: float) -> None:
    """The side of the jobs: appending is one step, however many processes do it."""
    os.write(_file(), _RECORD.pack(number, nominal, began))


@cache
def _file() -> int:
    return os.open(_NAME, os.O_WRONLY | os.O_APPEND)

"""Memory: how much a process uses, and how to hold one to a limit. Where the system does not tell, nothing is known."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

_PAGE: Final = resource.getpagesize()
_UNLIMITED: Final = resource.RLIM_INFINITY


def resident(pid: int | None = None) -> int:
    """Bytes that a process (None: this one) has in memory; 0 if there is no such process."""
    try:
        return int(Path(f"/proc/{pid or 'self'}/statm").read_bytes().split()[1]) * _PAGE
    except OSError:
        return 0


def resident_tree(pid: int) -> int:
    """The same of a process and all that it has started."""
    return resident(pid) + sum(resident_tree(child) for child in _children(pid))


def limit_data(extra: int | None) -> None:
    """Let this process take at most so many bytes more of data than it has now (None: as many as it likes). One large
    allocation fails at once, before it takes memory from the neighbours."""
    most = _UNLIMITED
    if extra is not None and (used := _data()) is not None:
        most = used + extra
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != _UNLIMITED:
        most = hard if most == _UNLIMITED else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _data() -> int | None:
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[5]) * _PAGE
    except OSError:
        return None


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it has ended meanwhile
            found += [int(word) for word in listing.read_bytes().split()]
    return found

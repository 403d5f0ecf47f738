"""How live sessions share the partitions' duties: each takes its even share and keeps what it has."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import msgspec


class Choice(msgspec.Struct, frozen=True):
    wanted: list[int]  # to renew or take, in order
    surplus: list[int]  # held above the share, to give up


def choose_leases(session: str, holders: Mapping[int, str | None], *, share: int) -> Choice:
    """`holders` says who holds each partition now (None: nobody); `share` is what each may hold."""
    mine = [partition for partition, holder in holders.items() if holder == session]
    free = [partition for partition, holder in holders.items() if holder is None]
    # Rendezvous: everybody prefers different partitions, so two who look at once seldom want the same.
    free.sort(key=lambda p: blake2b(f"{session}/{p}".encode(), digest_size=8).digest())
    return Choice(sorted(mine[:share] + free[: max(0, share - len(mine))]), mine[share:])

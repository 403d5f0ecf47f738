"""Namesakes: kinds of one name that live workers define in several modules. Their jobs go to any of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

from foliot.ids import SessionId
from foliot.model.session import Session
from foliot.registry import Registry
from foliot.schedule_sync import module_of
from foliot.shown import named

_BUILTIN = "foliot"

Homes = Mapping[str, list[Session]]  # by module: who defines a kind there


def modules_of(registry: Registry, kinds: Iterable[str]) -> tuple[str, ...]:
    """Where each of these kinds is defined, in their order."""
    known = {one.kind: module_of(one) for one in registry}
    return tuple(known.get(kind, _BUILTIN) for kind in kinds)


def find_namesakes(sessions: Iterable[Session], *, of: SessionId | None = None) -> list[str]:
    """A sentence for all kinds of the same modules. `of`: only those that this session knows."""
    live = [session for session in sessions if session.live]
    homes: dict[str, dict[str, list[Session]]] = {}
    for session in live:
        for kind, module in zip(session.kinds, session.modules, strict=False):
            homes.setdefault(kind, {}).setdefault(module, []).append(session)
    wanted = {kind for session in live if session.id == of for kind in session.kinds}
    groups: dict[tuple[str, ...], list[str]] = {}
    for kind in sorted(homes if of is None else wanted & set(homes)):
        if _meet(homes[kind]):
            groups.setdefault(tuple(sorted(homes[kind])), []).append(kind)
    return [_tell(kinds, homes[kinds[0]]) for kinds in groups.values()]


def _meet(homes: Homes) -> bool:
    """Who serves no queue that the other does gets none of its jobs."""
    return any(
        not one.queues or not other.queues or bool(set(one.queues) & set(other.queues))
        for first, second in combinations(homes.values(), 2)
        for one in first
        for other in second
    )


def _tell(kinds: list[str], homes: Homes) -> str:
    where = " and by ".join(
        f"{module} ({named(f'{one.host}:{one.pid}' for one in homes[module])})"
        for module in sorted(homes)
    )
    is_, its = ("is", "its") if len(kinds) == 1 else ("are", "their")
    return f"{named(kinds)} {is_} defined by {where}: {its} jobs go to any of them"

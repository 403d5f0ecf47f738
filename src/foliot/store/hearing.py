"""Who listens, as conversations with a store: see flowing.py."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from foliot.model.event import Listener, Listens
from foliot.store.events import Listened
from foliot.store.flowing import Talk, to_json
from foliot.store.reply import Rows

ANY: Final = "*"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def listen(
    talk: Talk, listeners: Sequence[Listener], *, modules: Collection[str], gone: Sequence[str]
) -> Listened:
    hooks = [one.hook for one in listeners]
    own = {*modules, *(one.origin for one in listeners)}
    await talk.ask("lock_listeners", hooks=to_json(sorted({*hooks, *gone})))
    found = await talk.ask("find_taken", hooks=to_json(hooks), modules=to_json(sorted(own)))
    taken: dict[str, str] = dict(found)
    known = {one.hook: one for one in listeners_of(await talk.ask("list_listeners"))}
    changed = [
        one
        for one in listeners
        if one.hook not in taken and not _is_known(one, known.get(one.hook))
    ]
    begun = sorted(one.hook for one in changed)
    if changed or gone:
        rows = to_json(listener_rows(changed))
        await talk.ask("put_listeners", rows=rows)
        await talk.ask("remove_listeners", rows=rows, hooks=to_json([*begun, *gone]))
    return Listened(tuple(begun), taken)


def _is_known(one: Listener, known: Listener | None) -> bool:
    return known is not None and msgspec.structs.replace(known, since=None) == one


async def settle(talk: Talk, hooks: Sequence[str], *, grace: float) -> list[str]:
    """Of these."""
    some = to_json(sorted(hooks))
    await talk.ask("lock_listeners", hooks=some)
    await talk.ask("mark_absent", hooks=some)
    return sorted({row[0] for row in await talk.ask("remove_absent", hooks=some, grace=grace)})


def listeners_of(rows: Rows) -> list[Listener]:
    """A hook has a row for every kind and queue that it chooses."""
    found: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault((row[0], row[1]), []).append(row)
    return [
        Listener(
            hook,
            Listens(event, _chosen(some, 2), _chosen(some, 3)),
            origin=some[0][4],
            template=some[0][5],
            since=None if some[0][6] is None else time_of(some[0][6]),
            absent_since=None if some[0][7] is None else time_of(some[0][7]),
        )
        for (hook, event), some in found.items()
    ]


def time_of(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _chosen(rows: Rows, column: int) -> tuple[str, ...]:
    return tuple(sorted({row[column] for row in rows} - {ANY}))


def listener_rows(listeners: Iterable[Listener]) -> list[tuple[str, ...]]:
    """What put_listeners and remove_listeners read."""
    return [
        (one.hook, one.listens.event, kind, queue, one.origin, one.template)
        for one in listeners
        for kind in one.listens.kinds or (ANY,)
        for queue in one.listens.queues or (ANY,)
    ]

"""Hooks that code declares, made those who listen. What it no longer declares listens no longer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from foliot import queue_commands
from foliot.author import Author
from foliot.bulk import tell_cancelled
from foliot.filter import Filter, Term
from foliot.filter_value import Text
from foliot.ids import JobId, partition_of
from foliot.model.definition import JobDefinition
from foliot.model.event import Listener
from foliot.model.job import JobState
from foliot.options import template_of
from foliot.registry import Registry
from foliot.schedule_sync import module_of
from foliot.search import walk_jobs
from foliot.store.port import Store

_WAITING: Final = tuple(s for s in JobState if not s.final and s is not JobState.RUNNING)


class Heard(msgspec.Struct, frozen=True):
    """What has changed: kinds of hooks."""

    listening: list[str]
    gone: list[str]

    def __str__(self) -> str:
        return "\n".join(
            [*(f"+ {hook}" for hook in self.listening), *(f"- {hook}" for hook in self.gone)]
        )


async def sync_hooks(store: Store, registry: Registry) -> Heard | None:
    """Make the hooks of the app listen. Those that its modules declared once, and do no longer, are gone, unless a live
    worker can run them: its code may be the newer. What modules of other apps declare stays."""
    modules = {module_of(definition) for definition in registry}
    declared = {one.hook: one for one in map(listener_of, registry) if one is not None}
    known = {
        one.hook: msgspec.structs.replace(one, since=None) for one in await store.events.listeners()
    }
    changed = [one for hook, one in declared.items() if known.get(hook) != one]
    gone = [hook for hook, one in known.items() if hook not in declared and one.origin in modules]
    if gone:
        run = {kind for one in await store.sessions.all() if one.live for kind in one.kinds}
        gone = [hook for hook in gone if hook not in run]
    if not changed and not gone:
        return None
    await _cancel_waiting(store, gone)
    await store.events.listen(changed, gone=gone)
    await _cancel_waiting(store, gone)
    return Heard(sorted(one.hook for one in changed), sorted(gone))


async def find_doubts(store: Store, registry: Registry) -> list[str]:
    """Of kinds and queues that hooks of the app have chosen and nobody knows so far."""
    named = sorted(
        ((scope, name), one.hook)
        for one in map(listener_of, registry)
        if one is not None
        for scope, names in (("kind", one.listens.kinds), ("queue", one.listens.queues))
        for name in names
    )
    doubts = await queue_commands.find_doubts(store, [one for one, _ in named])
    return [f"{hook}: {doubts[one]}" for one, hook in named if one in doubts]


async def remove_hook(store: Store, hook: str, *, by: Author) -> bool:
    """By hand, for one whose module is gone altogether. Whether it listened. If some app declares it, it listens again
    when a worker of that starts."""
    if all(one.hook != hook for one in await store.events.listeners()):
        return False
    await _cancel_waiting(store, [hook])
    await store.events.listen([], gone=[hook], record=by.each("remove"))
    await _cancel_waiting(store, [hook])
    return True


async def _cancel_waiting(store: Store, hooks: Sequence[str]) -> None:
    """What they were still to be told: nobody would ever run these jobs. What runs may end. Before they are gone, for
    who comes after one that was killed in between knows nothing of them; and then what was delivered meanwhile."""
    if not hooks:
        return
    wanted = Filter((_any_of("kind", hooks), _any_of("state", _WAITING)))
    async for jobs in walk_jobs(store, wanted, payloads=False):
        by_partition: dict[int, list[JobId]] = {}
        for job in jobs:
            by_partition.setdefault(partition_of(job.id, store.partitions), []).append(job.id)
        for partition, ids in by_partition.items():
            await tell_cancelled(store, partition, await store.jobs.cancel(partition, ids))


def _any_of(field: str, names: Sequence[str]) -> Term:
    return Term(field, ":", tuple(Text((str(name),)) for name in names))


def listener_of(definition: JobDefinition) -> Listener | None:
    """None: it is no hook."""
    if definition.listens is None:
        return None
    listens = msgspec.structs.replace(
        definition.listens,
        kinds=tuple(sorted(definition.listens.kinds)),
        queues=tuple(sorted(definition.listens.queues)),
    )
    template = msgspec.json.encode(template_of(definition.kind, definition.defaults)).decode()
    return Listener(definition.kind, listens, module_of(definition), template)

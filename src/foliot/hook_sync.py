"""Hooks that code declares, made those who listen; and those that no code declares any more, let go."""

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


GRACE: Final = 600.0  # seconds: longer than a deployment, and than an outage after which not all come back at once


class Heard(msgspec.Struct, frozen=True):
    """What has changed: hooks that listen now; and to which modules others belong that the app declares too."""

    listening: tuple[str, ...] = ()
    taken: dict[str, str] = {}

    def __str__(self) -> str:
        return "\n".join(f"+ {hook}" for hook in self.listening)


def modules_of(registry: Registry) -> tuple[str, ...]:
    """Those that declare what the app can run."""
    return tuple(sorted({module_of(definition) for definition in registry}))


async def sync_hooks(store: Store, registry: Registry) -> Heard:
    """Make the hooks of the app listen, as its code says now, but for those that live workers of other modules run. Of
    what it declares no longer it says nothing: others may run newer code."""
    declared = [one for one in map(listener_of, registry) if one is not None]
    if not declared:
        return Heard()
    listened = await store.events.listen(declared, modules=modules_of(registry))
    return Heard(listened.begun, listened.taken)


def own_name(hook: str, taken: Heard, registry: Registry) -> str:
    """What to tell who declares a hook that is another's."""
    definition = registry.find(hook)
    event = definition.listens.event if definition.listens is not None else ""
    return (
        f"hook {hook} of module {module_of(definition)} is not told anything: a live worker runs one of that name of "
        f'module {taken.taken[hook]}; give one of them another: @app.on("{event}", name="another_name")'
    )


async def let_absent_go(store: Store, *, grace: float = GRACE) -> list[str]:
    """Hooks that their code declares no longer: their module is served, and nobody has run them for so long. Returns
    them."""
    gone = await store.events.settle(grace=grace)
    await _cancel_waiting(store, gone)
    return gone


async def cancel_unheard(store: Store, partition: int, *, limit: int) -> int:
    """What hooks were still to be told that listen no longer: nobody would ever run these jobs. Whoever let them go may
    have been killed before it was done, and more may have been delivered meanwhile. Returns how many."""
    cancelled = 0
    while ids := await store.events.unheard(partition, limit=limit):
        found = await store.jobs.cancel(partition, ids)
        await tell_cancelled(store, partition, found)
        cancelled += len(found)
        if len(found) < limit:
            break
    return cancelled


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
    await store.events.listen([], gone=[hook], record=by.each("remove"))
    await _cancel_waiting(store, [hook])
    return True


async def _cancel_waiting(store: Store, hooks: Sequence[str]) -> None:
    """What they were still to be told, wherever it waits. What runs may end."""
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

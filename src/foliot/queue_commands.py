"""Of everything a user may ask (commands.py), what is about queues."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from foliot.author import Author, by_hand
from foliot.checks import check_name, check_note, check_queue_options
from foliot.errors import SearchTimeout
from foliot.filter import Filter, Term
from foliot.filter_value import Text
from foliot.model.job import JobState
from foliot.model.lane import Lane, Strategy
from foliot.model.queue import QueueOptions
from foliot.model.said import is_heard, text_of
from foliot.registry import Registry
from foliot.search import list_jobs
from foliot.shown import did_you_mean
from foliot.store.port import Store, Wake
from foliot.store.queueing import Queue


async def configure_queue(
    store: Store,
    name: str,
    *,
    strategy: str | Strategy | None = None,
    aging: float | None = None,
    weights: Mapping[str, float] | None = None,
    by: Author | str | None = None,
) -> bool:
    """In which order the jobs of a queue run that are submitted from now on. Whether it changed anything. By an author,
    here and below, it is written down."""
    check_name("queue", name, example='"mail"')
    options = check_queue_options(strategy, aging, weights)
    who, record = by_hand(by, "configure", **_told(options))
    return await store.queues.configure(
        name,
        strategy=options.strategy,
        aging=options.aging,
        weights=options.weights,
        by=who,
        record=record,
    )


async def apply_queues(store: Store, queues: Mapping[str, QueueOptions], *, by: str) -> bool:
    """As an app's code says it, where that counts (model/said.py); what it does not say stays. Whether it changed
    anything."""
    known = {one.name: one for one in await store.queues.all()} if queues else {}
    changed = [
        await store.queues.configure(
            name,
            strategy=chosen.strategy,
            aging=chosen.aging,
            weights=chosen.weights,
            by=by,
            said=said,
        )
        for name, chosen in sorted(queues.items())
        if _is_heard(said := text_of(_told(chosen)), chosen, known.get(name), by)
    ]
    return any(changed)


def _is_heard(said: str, chosen: QueueOptions, known: Queue | None, by: str) -> bool:
    return known is None or is_heard(
        said,
        before=known.said,
        own=known.updated_by == by,
        other=any(
            value is not None and value != getattr(known, name)
            for name, value in msgspec.structs.asdict(chosen).items()
        ),
    )


def _told(chosen: QueueOptions) -> dict[str, Any]:
    """What the audit log says of it, and code."""
    strategy = None if chosen.strategy is None else chosen.strategy.name.lower()
    told = {"strategy": strategy, "aging": chosen.aging, "weights": chosen.weights}
    return {name: value for name, value in told.items() if value is not None}


async def pause_queue(
    store: Store, name: str, *, by: Author | str | None = None, note: str | None = None
) -> None:
    """When this returns nothing is taken from the queue; what runs goes on."""
    check_name("queue", name, example='"mail"')
    note = check_note(note, "until the outage is over")
    who, record = by_hand(by, "pause", note=note)
    await store.queues.pause(name, by=who, note=note, record=record)


async def resume_queue(store: Store, name: str, *, by: Author | str | None = None) -> bool:
    """Whether it was paused."""
    check_name("queue", name, example='"mail"')
    _, record = by_hand(by, "resume")
    was_paused = await store.queues.resume(name, record=record)
    store.wake(Wake(due=True))
    return was_paused


Named = tuple[str, str]  # scope, "kind" or "queue", and name


async def named_queues(store: Store) -> set[str]:
    """Of the kinds that apps have announced, and of live workers that serve some by name."""
    announced = {definition.queue for definition in await store.definitions.all()}
    return announced | await _served_queues(store)


async def _served_queues(store: Store) -> set[str]:
    return {queue for one in await store.sessions.all() if one.live for queue in one.queues}


async def find_doubts(store: Store, named: Iterable[Named]) -> dict[Named, str]:
    """Of kinds and queues that nobody knows so far, which may be mistyped: what to tell who named them."""
    asked = {one for one in named if one[0] in ("kind", "queue")}
    definitions = await store.definitions.all() if asked else []
    kinds, queues = {one.kind for one in definitions}, {one.queue for one in definitions}
    if any(scope == "queue" for scope, _ in asked):
        queues |= await _served_queues(store)
        queues |= {lane.queue for _, lane in (await store.jobs.peek()).ready}
    doubts: dict[Named, str] = {}
    for scope, name in asked:
        if scope == "kind" and name not in kinds:
            why = f"no app has announced a kind {name!r} so far"
            doubts[scope, name] = _with_hint(why, name, kinds)
        if scope == "queue" and name not in queues and not await _has_jobs(store, name):
            why = f"no kind goes to queue {name!r} so far, and no live worker serves it by name"
            doubts[scope, name] = _with_hint(why, name, queues)
    return doubts


async def find_doubt(store: Store, scope: str, name: str) -> str | None:
    return (await find_doubts(store, [(scope, name)])).get((scope, name))


def _with_hint(why: str, name: str, known: set[str]) -> str:
    hint = did_you_mean(name, sorted(known))
    return why if hint is None else f"{why}: {hint}"


async def _has_jobs(store: Store, name: str) -> bool:
    """Live ones, among the newest that a search looks at."""
    live = tuple(Text((state.value,)) for state in JobState if not state.final)
    wanted = Filter((Term("queue", ":", (Text((name,)),)), Term("state", ":", live)))
    try:
        return bool((await list_jobs(store, wanted, limit=1, payloads=False)).jobs)
    except SearchTimeout:
        return True  # nobody can say


async def doubt_served(store: Store, registry: Registry, queues: Collection[str]) -> list[str]:
    """What to tell a worker that is to serve these queues by name: which of them nobody knows so far, and that its own
    hooks are left to nobody."""
    if not queues:
        return []
    known = {lane.queue for _, lane in (await store.jobs.peek()).ready}
    known.update(one.queue for one in (*registry, *await store.definitions.all()))
    known.update(registry.queues, (one.name for one in await store.queues.all() if not one.bare))
    doubts = [
        _with_hint(f"no kind goes to queue {name!r} so far", name, known)
        for name in queues
        if name not in known and not await _has_jobs(store, name)
    ]
    workers = [one for one in await store.sessions.all() if one.live and one.kinds]
    for name in sorted({one.queue for one in registry if one.listens is not None} - set(queues)):
        if not any(not one.queues or name in one.queues for one in workers):
            told = f"hooks of this app go to queue {name!r}, which no live worker serves"
            doubts.append(f"{told}: name it in --queues, or start a worker that does")
    return doubts


async def unserved_lanes(store: Store) -> list[Lane]:
    """Lanes with ready jobs that no live worker can take: nobody serves the queue, or has the capabilities."""
    ready = {lane for _, lane in (await store.jobs.peek()).ready}
    workers = [one for one in await store.sessions.all() if one.live and one.kinds]
    return sorted(
        (
            lane
            for lane in ready
            if not any(
                lane.served_by(frozenset(one.queues), frozenset(one.capabilities))
                for one in workers
            )
        ),
        key=lambda lane: (lane.queue, lane.requires, lane.number),
    )

"""Of everything a user may ask (commands.py), what is about queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foliot.author import Author, by_hand
from foliot.checks import check_name, check_note, check_queue_options
from foliot.model.lane import Lane, Strategy
from foliot.model.queue import QueueOptions
from foliot.saying import apply_news
from foliot.shown import did_you_mean
from foliot.store.port import Store, Wake


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
    """As an app's code says it, if it says something else than the last time; what it does not say stays. Whether it
    changed anything."""
    return await apply_news(
        store,
        "queue",
        queues,
        tell=_told,
        apply=lambda name, chosen: store.queues.configure(
            name,
            strategy=chosen.strategy,
            aging=chosen.aging,
            weights=chosen.weights,
            by=by,
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
    who, record = by_hand(by, "resume")
    was_paused = await store.queues.resume(name, by=who, record=record)
    store.wake(Wake(due=True))
    return was_paused


async def named_queues(store: Store) -> set[str]:
    """Of the kinds that apps have announced, and of live workers that serve some by name."""
    announced = {definition.queue for definition in await store.definitions.all()}
    return announced.union(*(one.queues for one in await store.sessions.all() if one.live))


async def find_doubt(store: Store, scope: str, name: str) -> str | None:
    """Of a kind or a queue that nobody knows so far, which may be mistyped: what to tell who named it."""
    if scope == "kind":
        known = {definition.kind for definition in await store.definitions.all()}
        why = f"no app has announced a kind {name!r} so far"
    elif scope == "queue":
        ready = {lane.queue for _, lane in (await store.jobs.peek()).ready}
        known = ready | await named_queues(store)
        why = f"no kind goes to queue {name!r} so far, and no live worker serves it by name"
    else:
        return None
    if name in known:
        return None
    hint = did_you_mean(name, sorted(known))
    return why if hint is None else f"{why}: {hint}"


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

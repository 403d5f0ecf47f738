"""`foliot queues`: what waits where, and stopping a queue for a while."""

from __future__ import annotations

import sys
from typing import Final

import msgspec

from foliot import queue_commands
from foliot.author import Author
from foliot.checks import check_name
from foliot.cli.ask import ask
from foliot.cli.frame import describe_order
from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import ago, print_doubt, print_json, print_table
from foliot.errors import InvalidValue
from foliot.ids import Ids
from foliot.model.job import JobState
from foliot.model.overview import Loads, QueueLoad
from foliot.store.port import Store
from foliot.store.queueing import Queue
from foliot.units import read_duration

_CAP: Final = 1_000_000
_COUNTED: Final = (JobState.READY, JobState.RUNNING, JobState.SCHEDULED, JobState.HELD)


def list_queues(*, options: Options = DEFAULT_OPTIONS) -> None:
    """List the queues: how they are ordered, who paused them, and how many jobs they have.

    Those that have jobs or settings, that a kind is submitted to, or that a live worker serves by name. Counting
    stops at a million; a + says that there are more.
    """

    async def read(store: Store) -> tuple[set[str], list[Queue], Loads]:
        named = await queue_commands.named_queues(store)
        return named, await store.queues.all(), await store.overview.queues(cap=_CAP)

    named, queues, loads = ask(options, read)
    known = {queue.name: queue for queue in queues if not queue.bare}
    counted = {load.queue: load for load in loads.queues}
    names = sorted({*named, *known, *counted})
    if options.json:
        print_json(
            {
                "queues": [
                    {"name": name, **_settings(known.get(name)), **_counts(counted.get(name))}
                    for name in names
                ],
                "at_least": sorted(state.value for state in loads.at_least),
            }
        )
        return
    print_table(
        ("queue", "order", "ready", "running", "scheduled", "held", "oldest ready", "paused"),
        [_row(name, known.get(name), counted.get(name), loads) for name in names],
    )


def configure(
    queue: str,
    *,
    strategy: str | None = None,
    aging: str | None = None,
    weights: str | None = None,
    by: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Say in which order the jobs of a queue run. What is there already keeps its order.

    Parameters
    ----------
    queue
        Its name.
    strategy
        One of priority, fifo, aged, round_robin.
    aging
        For aged: the time that one step of priority is worth, for example 60s.
    weights
        For round_robin: fair keys and their weights, for example vip=3,bulk=0.5; others have weight 1.
    by
        Who says so; else user@host.
    """
    author = Author(Ids(), by)

    async def run(store: Store) -> tuple[bool, Queue | None, str | None]:
        changed = await queue_commands.configure_queue(
            store,
            queue,
            strategy=strategy,
            aging=None if aging is None else _read_aging(aging),
            weights=None if weights is None else _read_weights(weights),
            by=author,
        )
        return changed, await _find(store, queue), await _doubt(store, queue)

    changed, found, doubt = ask(options, run)
    _report(options, queue, found, f"configured {queue}" if changed else f"{queue} is as it was")
    print_doubt(doubt)


def _read_aging(given: str) -> float:
    try:
        return read_duration(given)
    except ValueError as error:
        raise InvalidValue("aging", given, str(error), example="--aging 60s") from None


def _read_weights(given: str) -> dict[str, float]:
    try:
        pairs = [part.rpartition("=") for part in given.split(",") if part.strip()]
        return {key.strip(): float(weight) for key, _, weight in pairs}
    except ValueError:
        problem = "is not a list of keys and weights"
        raise InvalidValue("weights", given, problem, example="--weights vip=3") from None


def pause(
    queue: str,
    *,
    note: str | None = None,
    by: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Stop taking jobs from a queue. What runs goes on, what is submitted waits.

    Parameters
    ----------
    queue
        Its name.
    note
        Why, for those who wonder.
    by
        Who asks for it, for them and for the audit log (else user@host).
    """
    name = check_name("queue", queue, example="foliot queues pause mail")
    author = Author(Ids(), by)

    async def run(store: Store) -> tuple[Queue | None, str | None]:
        await queue_commands.pause_queue(store, name, by=author, note=note)
        return await _find(store, name), await _doubt(store, name)

    found, doubt = ask(options, run)
    _report(options, name, found, f"paused {name}")
    print_doubt(doubt)


def resume(queue: str, *, by: str | None = None, options: Options = DEFAULT_OPTIONS) -> None:
    """Take jobs from a paused queue again.

    Parameters
    ----------
    queue
        Its name.
    by
        Who asks for it, for the audit log (else user@host).
    """
    name = check_name("queue", queue, example="foliot queues resume mail")
    author = Author(Ids(), by)

    async def run(store: Store) -> tuple[bool, Queue | None]:
        was_paused = await queue_commands.resume_queue(store, name, by=author)
        return was_paused, await _find(store, name)

    was_paused, found = ask(options, run)
    if not was_paused:
        print(f"{name} was not paused", file=sys.stderr)
    _report(options, name, found, f"resumed {name}" if was_paused else "")


async def _doubt(store: Store, name: str) -> str | None:
    return await queue_commands.find_doubt(store, "queue", name)


async def _find(store: Store, name: str) -> Queue | None:
    return next((queue for queue in await store.queues.all() if queue.name == name), None)


def _report(options: Options, name: str, queue: Queue | None, words: str) -> None:
    if options.json:
        print_json({"name": name, **_settings(queue)})
    elif words:
        print(words)


def _settings(queue: Queue | None) -> dict[str, object]:
    known = queue or Queue("", None, None, None)
    told: dict[str, object] = msgspec.to_builtins(known)
    told.pop("name")
    return told | {"strategy": known.strategy.name.lower()}


def _counts(load: QueueLoad | None) -> dict[str, object]:
    told: dict[str, object] = msgspec.to_builtins(load or QueueLoad(queue=""))
    told.pop("queue")
    return told


def _row(name: str, queue: Queue | None, load: QueueLoad | None, loads: Loads) -> tuple[str, ...]:
    load = load or QueueLoad(queue=name)
    counts = [
        f"{count}+"
        if (count := getattr(load, state.value)) and state in loads.at_least
        else f"{count}"
        for state in _COUNTED
    ]
    oldest = "-" if load.oldest_ready is None else ago(load.oldest_ready)
    order = describe_order(queue or Queue(name, None, None, None))
    return (name, order, *counts, oldest, _paused(queue))


def _paused(queue: Queue | None) -> str:
    if queue is None or queue.paused_at is None:
        return ""
    since = f"since {queue.paused_at:%Y-%m-%d %H:%M:%S}Z"
    by = f" by {queue.paused_by}" if queue.paused_by else ""
    return f"{since}{by}{': ' + queue.note if queue.note else ''}"

"""How events become jobs of hooks, as a conversation with a store: see flowing.py."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from foliot.ids import event_id, hook_id
from foliot.model.event import Event, Listener, Listens, Told
from foliot.model.job import More, NewJob
from foliot.store.events import Delivered
from foliot.store.flowing import Talk, job_of
from foliot.store.reply import Rows

ANY: Final = "*"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_encode: Final = msgspec.json.Encoder().encode
_decode_data: Final = msgspec.json.Decoder(dict[str, Any]).decode


async def deliver(talk: Talk, *, limit: int) -> Delivered:
    taken = sorted(await talk.ask("take_events", limit=limit))
    if not taken:
        return Delivered(0, 0)
    listeners = listeners_of(await talk.ask("list_listeners"))
    jobs = [job for row in taken for job in _jobs(row, listeners)]
    if jobs:
        await talk.insert(jobs)
    return Delivered(len(taken), len(jobs))


def _jobs(row: tuple[Any, ...], listeners: Iterable[Listener]) -> Iterable[NewJob]:
    """In the order of their ids. What one function hears of a subject it is told one after the other, whatever the
    events; no function waits for another, for that may be one that nobody runs any more."""
    at, number, home, name, subject, namespace, kind, queue, data = row
    event = Event(
        id=event_id(home, at, number, name, subject),
        name=name,
        subject=subject,
        at=_time(at),
        namespace=namespace,
        kind=kind,
        queue=queue,
        data={key: value for key, value in _decode_data(data).items() if value is not None},
    )
    payload = _encode(Told(event))
    for one in listeners:
        if one.hears(event):
            job = job_of(hook_id(event.id, one.hook), one.template, payload)
            key = f"event:{subject}:{one.function}"
            more = msgspec.structs.replace(job.more or More(), ordering_key=key)
            yield msgspec.structs.replace(job, namespace=namespace, more=more)


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
            since=None if some[0][6] is None else _time(some[0][6]),
        )
        for (hook, event), some in found.items()
    ]


def _time(microseconds: int) -> datetime:
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

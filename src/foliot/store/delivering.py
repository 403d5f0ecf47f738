"""How events become jobs of hooks, as a conversation with a store: see flowing.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from foliot.ids import event_id, hook_id
from foliot.model.event import Event, Listener, Told
from foliot.model.job import More, NewJob
from foliot.store.events import Delivered
from foliot.store.flowing import Talk, job_of
from foliot.store.hearing import listeners_of, time_of

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
        at=time_of(at),
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

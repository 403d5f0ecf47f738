"""Copying a store into another one: all that is known of jobs, queues and kinds, whatever the engines.

Ids, fences and attempts stay as they are, so a handle of the old store asks the new one the same questions. Where the
number of partitions differs, a row goes where its job's id says.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from foliot.errors import FoliotError
from foliot.ids import JobId
from foliot.model.job import JobState
from foliot.store.batches import chunks
from foliot.store.operator import Record, Say
from foliot.store.port import Store
from foliot.store.repartition import Positions, refuse_apart, refuse_scattered, refuse_schedules
from foliot.store.tables import TABLES, Table, whole

_BATCH: Final = 500
_decode_more: Final = msgspec.json.Decoder(dict[str, Any]).decode


class Copied(msgspec.Struct, frozen=True):
    """One table: how many rows there were, and how many there are now where they went."""

    table: str
    rows: int
    arrived: int
    complete: bool


async def copy_store(
    source: Store, target: Store, *, say: Say, force: bool = False
) -> list[Copied]:
    """Into an empty store, while nobody works on either; `force` copies although somebody does. A job that is running
    arrives as ready, with its attempt given back. `say` hears of each table how many rows have been copied."""
    await _refuse(source, target, force=force)
    if target.partitions not in (1, source.partitions):
        await _refuse_apart(source, target.partitions)
        await _refuse_scattered(source, target.partitions)
    if target.partitions != source.partitions:
        await _refuse_schedules(source, target.partitions)
    return await _Copy(source, target, say).run()


async def _refuse(source: Store, target: Store, *, force: bool) -> None:
    for table in TABLES:
        if await target.transfer.dump(table, after=None, limit=1):
            raise FoliotError(
                f"{target.url} is not empty: it has rows in {table}",
                hint="copy into a new store; an interrupted copy is begun anew",
            )
    for store in (source, target):
        if not force and (live := [s for s in await store.sessions.all() if s.live]):
            raise FoliotError(
                f"{len(live)} processes work on {store.url}, pid {live[0].pid} on {live[0].host} among them",
                hint="stop them first; --force copies while they work, and what they do meanwhile may be lost",
            )


async def _refuse_apart(source: Store, partitions: int) -> None:
    ordered = [
        (str(one["id"]), str(one["namespace"]), str(one["kind"]), str(one["key"]))
        async for one in _dump(source, "jobs")
        if one["key"] is not None
        and (one["ordering_key"] is not None or one["schedule"] is not None)
    ]
    refuse_apart(ordered, partitions)


async def _refuse_scattered(source: Store, partitions: int) -> None:
    running = {one["id"] async for one in _dump(source, "workflows") if one["state"] == "running"}
    steps = [
        (str(one["job"]), str(one["workflow"]))
        async for one in _dump(source, "steps")
        if one["workflow"] in running
    ]
    refuse_scattered(steps, partitions)


async def _refuse_schedules(source: Store, partitions: int) -> None:
    keyed = [str(one["name"]) async for one in _dump(source, "schedules") if _has_key(one)]
    missed = [one async for one in _dump(source, "gaps") if not one["done"]]
    refuse_schedules(keyed, len(missed), partitions)


def _has_key(schedule: Record) -> bool:
    more = schedule["more"]
    return schedule["key"] is not None or (
        isinstance(more, str) and "ordering_key" in _decode_more(more)
    )


async def _dump(store: Store, table: str) -> AsyncIterator[Record]:
    after: Record | None = None
    while records := await store.transfer.dump(table, after=after, limit=_BATCH):
        after = records[-1]
        for record in records:
            yield record


class _Copy:
    def __init__(self, source: Store, target: Store, say: Say) -> None:
        self._source = source
        self._target = target
        self._say = say
        self._asked: dict[
            int, list[JobId]
        ] = {}  # running jobs that are to be cancelled, by partition
        self._positions: Positions | None = None  # where the number of partitions differs

    async def run(self) -> list[Copied]:
        if self._source.partitions != self._target.partitions:
            self._positions = Positions()
            async for trigger in _dump(self._source, "triggers"):
                self._positions.add(trigger)
        rows = {name: await self._copy(name, table) for name, table in TABLES.items()}
        verified = [await self._verify(name, rows[name]) for name in TABLES]
        # They are ready now, and can end at once.
        for partition, ids in self._asked.items():
            await self._target.jobs.cancel(partition, ids)
        return verified

    async def _copy(self, name: str, table: Table) -> int:
        count = 0
        after: Record | None = None
        while records := await self._source.transfer.dump(name, after=after, limit=_BATCH):
            after = records[-1]
            count += len(records)
            moved = [each for record in records for each in self._move(name, record)]
            for batch in _batches(table.merged(moved)):
                await self._target.transfer.load(name, batch)
            self._say(name, count)
        return count

    def _move(self, name: str, record: Record) -> Iterator[Record]:
        """The row as the target has it: usually once."""
        table = TABLES[name]
        before, now = self._source.partitions, self._target.partitions
        home = table.partition_of(record, now)
        if name == "schedules" and home is not None and self._positions is not None:
            record = self._positions.settle(record, home)
        elif home is not None:
            record = record | {"partition": home}
        if name == "jobs" and record["state"] == JobState.RUNNING:
            record = record | _give_back(record)
            self._remember(record)
        if home is not None or "partition" not in record or before == now:
            yield record
        else:
            for each in table.spread(record, before, now):
                yield from self._keep(name, each)

    def _keep(self, name: str, record: Record) -> Iterator[Record]:
        if name != "triggers" or self._positions is None:
            yield record
        elif (kept := self._positions.keep(record)) is not None:
            yield kept

    def _remember(self, record: Record) -> None:
        if record["cancel_requested"]:
            asked = self._asked.setdefault(whole(record["partition"]), [])
            asked.append(JobId(str(record["id"])))

    async def _verify(self, name: str, rows: int) -> Copied:
        now = await self._source.transfer.count(name)
        arrived = await self._target.transfer.count(name)
        spread = (
            TABLES[name].merge is not None and self._source.partitions != self._target.partitions
        )
        return Copied(name, now, arrived, complete=rows == now and (arrived == now or spread))


def _give_back(record: Record) -> Record:
    """As if it had not been claimed; but the fence stays, so that whoever still runs it is refused."""
    empty: Record = dict.fromkeys(("session", "claimed_at", "deadline_at", "progress"))
    return {
        **empty,
        "state": JobState.READY.value,
        "attempt": max(0, whole(record["attempt"]) - 1),
    }


def _batches(records: Iterable[Record]) -> Iterator[Sequence[Record]]:
    """Each of one partition, and not too large."""
    by_partition: dict[Any, list[Record]] = {}
    for record in records:
        by_partition.setdefault(record.get("partition"), []).append(record)
    for some in by_partition.values():
        yield from chunks(some, _weigh)


def _weigh(record: Record) -> int:
    return sum(len(value) for value in record.values() if isinstance(value, bytes | str))

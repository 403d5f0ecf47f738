"""Acts on every job that a filter means: in batches, at a rate, and in the audit log as one entry.

A batch is one transaction for each partition. The entry is written with the first and brought up to date with every
other, so that it always says what has been done, however the act ends. The walk goes down by the id from the newest
job: what is submitted meanwhile is not touched, and an act that was interrupted goes on when it is asked for again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import ceil
from typing import Final

import msgspec

from foliot.author import Author
from foliot.clock import Clock
from foliot.errors import InvalidValue
from foliot.filter import Filter, Term
from foliot.filter_value import Text
from foliot.ids import JobId, inner_id, mark_of, partition_of
from foliot.model.audit import Deed
from foliot.model.job import JobState
from foliot.model.workflow import Advance
from foliot.search import list_jobs, to_filter
from foliot.store.port import Store, Wake
from foliot.store.searching import Record, Retried
from foliot.workflow_commands import carry_on

BATCH: Final = 500
FASTEST: Final = 1_000_000.0
_MOST_TOLD: Final = 100  # refusals that are named
_LIVE: Final = tuple(state for state in JobState if not state.final)


class Done(msgspec.Struct, frozen=True):
    """How many jobs were changed, how many could not be, and why the first of these could not."""

    changed: int = 0
    refused: int = 0
    reasons: dict[JobId, str] = {}
    running: int = 0  # of the changed: those that were asked to end, and run until they do


Act = Callable[[int, Sequence[JobId], Record], Awaitable[Done]]


class Bulk:
    """One act on many. `limit` is how many jobs it may change, `rate` how many in a second."""

    def __init__(
        self,
        store: Store,
        filter: str | Filter,
        *,
        by: Author,
        clock: Clock,
        limit: int | None = None,
        rate: float | None = None,
    ) -> None:
        self.filter, self._limit, self._rate = self.check(filter, limit=limit, rate=rate)
        self._store = store
        self._by = by
        self._clock = clock

    @staticmethod
    def check(
        filter: str | Filter, *, limit: int | None = None, rate: float | None = None
    ) -> tuple[Filter, int, float | None]:
        """Before anything is asked of the store."""
        wanted = to_filter(filter)
        if not wanted.terms:
            raise InvalidValue(
                "filter", problem="is empty, and would mean every job", example="state:dead kind:*"
            )
        return wanted, _check_limit(limit), _check_rate(rate)

    async def cancel(self) -> Done:
        """Ask for the end of live jobs."""

        async def act(partition: int, ids: Sequence[JobId], record: Record) -> Done:
            found = await self._store.jobs.cancel(partition, ids, record=record)
            running = await tell_cancelled(self._store, partition, found)
            return Done(len(found), running=len(running))

        return await self._walk("cancel", act)

    async def retry(self) -> Done:
        """Try dead jobs again."""

        async def act(partition: int, ids: Sequence[JobId], record: Record) -> Done:
            retried = await self._store.dead.retry(partition, ids, record=record)
            wake_retried(self._store, partition, retried)
            reasons = refusals(retried)
            return Done(len(retried.lanes), len(reasons), reasons)

        return await self._walk("retry", act)

    async def purge(self) -> Done:
        """Forget dead jobs."""

        async def act(partition: int, ids: Sequence[JobId], record: Record) -> Done:
            return Done(len(await self._store.dead.purge(partition, ids, record=record)))

        return await self._walk("purge", act)

    async def _walk(self, action: str, act: Act) -> Done:
        wanted = among(self.filter, states_of(action))
        deed = self._by.deed(action, str(self.filter), filter=str(self.filter))
        batch = BATCH if self._rate is None else max(1, min(BATCH, ceil(self._rate)))
        started, seen = self._clock.monotonic(), 0
        done, after = Done(), None
        while (left := self._limit - done.changed) > 0:
            page = await list_jobs(
                self._store, wanted, limit=min(batch, left), after=after, payloads=False
            )
            for partition, ids in self._by_partition([job.id for job in page.jobs]).items():
                await self._pace(started, seen)
                seen += len(ids)
                done = _add(done, await act(partition, ids, _record(deed, done.changed)))
            after = page.next
            if after is None:
                break
        return done

    def _by_partition(self, ids: Sequence[JobId]) -> dict[int, list[JobId]]:
        found: dict[int, list[JobId]] = {}
        for id in ids:
            found.setdefault(partition_of(id, self._store.partitions), []).append(id)
        return found

    async def _pace(self, started: float, seen: int) -> None:
        """Not before so many are due by the rate."""
        if self._rate is not None:
            early = started + seen / self._rate - self._clock.monotonic()
            if early > 0:
                await self._clock.sleep(early)


def _record(deed: Deed, before: int) -> Record:
    """The same entry with every batch, each time with how many there are by then."""

    def record(ids: Sequence[str]) -> list[Deed]:
        detail = {**deed.detail, "count": before + len(ids)}
        return [msgspec.structs.replace(deed, detail=detail)] if ids else []

    return record


def _add(one: Done, other: Done) -> Done:
    told = list({**one.reasons, **other.reasons}.items())[:_MOST_TOLD]
    return Done(
        one.changed + other.changed,
        one.refused + other.refused,
        dict(told),
        one.running + other.running,
    )


def states_of(action: str) -> tuple[JobState, ...]:
    """Which jobs an act can change."""
    return _LIVE if action == "cancel" else (JobState.DEAD,)


def among(filter: Filter, states: Sequence[JobState]) -> Filter:
    """The jobs that it means in these states."""
    return Filter((*filter.terms, Term("state", ":", tuple(Text((str(s),)) for s in states))))


async def tell_cancelled(
    store: Store, partition: int, found: Mapping[JobId, JobState]
) -> frozenset[JobId]:
    """With the states that they were found in. Returns those that have not ended: they run, or workflows for them do,
    which are asked to end as well."""
    live = {id for id, state in found.items() if state is JobState.RUNNING}
    waiting = [id for id in found if id not in live]
    if waiting and (begun := [*await store.jobs.live(waiting)]):
        await carry_on(store, partition, Advance(more=tuple(map(inner_id, begun))))
        live |= {*await store.jobs.live(begun)}
    ended = tuple(mark_of(id) for id in found if id not in live)
    store.wake(Wake(cancel=bool(live), ended=ended))
    return frozenset(live)


def wake_retried(store: Store, partition: int, retried: Retried) -> None:
    if retried.lanes:
        lanes = {(partition, lane) for lane in retried.lanes.values()}
        # Due: what is held for admission is looked at by who looks at what is due.
        store.wake(Wake(ready=tuple(sorted(lanes)), due=True))


def refusals(retried: Retried) -> dict[JobId, str]:
    steps = {
        id: f"it is a step of workflow {flow}, which is retried as a whole: foliot workflows retry {flow}"
        for id, flow in retried.steps.items()
    }
    return steps | {
        id: f"its unique key belongs to job {holder} now"
        if holder
        else "its unique key belonged to another job until this moment"
        for id, holder in retried.taken.items()
    }


def _check_limit(limit: object) -> int:
    if limit is None:
        return 2**63
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidValue("limit", limit, "is not a whole number above zero", example="limit=1000")
    return limit


def _check_rate(rate: object) -> float | None:
    if rate is None:
        return None
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= FASTEST:
        raise InvalidValue("rate", rate, "is not a number of jobs per second", example="rate=50")
    return max(float(rate), 1e-6)

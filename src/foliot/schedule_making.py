"""Making and changing schedules: each name has one, and what it was before is kept with its span."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar, Unpack

import msgspec

from foliot.author import Author
from foliot.errors import FoliotError, InvalidValue
from foliot.ids import ScheduleId, partition_of
from foliot.model.job import NewJob
from foliot.model.schedule import NewSchedule, Schedule, ScheduleState
from foliot.schedule_draft import Draft, check_draft, trigger_of
from foliot.schedule_jobs import is_same, options_of, template_of
from foliot.schedule_looks import PAGE, get
from foliot.schedule_options import ScheduleOptions
from foliot.shown import shown
from foliot.store.port import Store, Wake
from foliot.store.searching import Record

BATCH: Final = 5000  # created in one transaction
_TRIES: Final = 20
T = TypeVar("T")


class Put(msgspec.Struct, frozen=True):
    """What became of a draft, or would. `before`: the schedule that had its name; `after`: what it is now."""

    name: str
    outcome: Literal["created", "changed", "unchanged"]
    before: Schedule | None = None
    after: NewSchedule | None = None


async def create(
    store: Store, drafts: Sequence[Draft], *, by: Author | str | None = None
) -> list[Put]:
    """Make each the schedule of its name: a new one, or a new version of the one that there is, which stays paused if
    it is. All are checked first; then those of a partition are stored in transactions of some thousands."""
    now = (await store.schedules.now()).timestamp()
    schedules = _checked(store, drafts, now)
    await _refuse_past(store, schedules)
    made: set[ScheduleId] = set()
    first = {one.id: one for one in reversed(schedules)}  # of those that are named twice
    for partition, some in by_partition(store, [*first.values()][::-1], lambda one: one.id):
        for start in range(0, len(some), BATCH):
            made |= await store.schedules.create(partition, some[start : start + BATCH])
    if made:
        store.wake(Wake(due=True))
    if isinstance(by, Author):
        told = [(one.name, one.rules.expression) for one in schedules if one.id in made]
        deeds = [by.deed("create", f"schedule:{name}", expression=text) for name, text in told]
        await store.audit.write(deeds)
    if len(made) == len(schedules):
        return [Put(one.name, "created") for one in schedules]
    puts: list[Put] = []
    for one in schedules:
        puts.append(Put(one.name, "created") if one.id in made else await _put(store, one, by))
        made.discard(one.id)  # named twice: the last one counts
    return puts


async def _refuse_past(store: Store, schedules: Sequence[NewSchedule]) -> None:
    """What people make, and will never fire, is a mistake; what was made before, or is declared, may well be over."""
    over = [one for one in schedules if one.trigger is None and one.origin is None]
    if not over:
        return
    known = {one.id: one for one in await store.schedules.get([one.id for one in over])}
    for one in over:
        if one.id not in known or not is_same(known[one.id], one):
            raise _past(one)


def _past(schedule: NewSchedule) -> InvalidValue:
    rules = schedule.rules
    if rules.end is not None:
        end = datetime.fromtimestamp(rules.end, UTC)
        problem = f"leaves {shown(schedule.name)} no time to fire"
        return InvalidValue("end", end, problem, example="end=datetime(2027, 1, 1, tzinfo=UTC)")
    problem = f"leaves {shown(schedule.name)} no time ahead"
    return InvalidValue("expression", rules.expression, problem, example='"tomorrow at 9am"')


async def compare(store: Store, drafts: Sequence[Draft]) -> list[Put]:
    """What `create` would do, without doing it."""
    schedules = _checked(store, drafts, (await store.schedules.now()).timestamp())
    known: dict[ScheduleId, Schedule] = {}
    for start in range(0, len(schedules), PAGE):
        ids = [one.id for one in schedules[start : start + PAGE]]
        known |= {one.id: one for one in await store.schedules.get(ids)}
    return [_compared(known.get(one.id), one) for one in schedules]


def _compared(before: Schedule | None, new: NewSchedule) -> Put:
    if before is None:
        return Put(new.name, "created")
    return Put(new.name, "unchanged" if is_same(before, new) else "changed", before, new)


def _checked(store: Store, drafts: Sequence[Draft], now: float) -> list[NewSchedule]:
    schedules: list[NewSchedule] = []
    for draft in drafts:
        try:
            schedule = check_draft(draft, now=now)
            if store.partitions > 1:
                _check_home(draft.job)
        except InvalidValue as error:
            if len(drafts) > 1:
                error.message = f"schedule {shown(draft.name)}: {error.message}"
            raise
        schedules.append(schedule)
    return schedules


def _check_home(job: NewJob) -> None:
    """A schedule and its jobs live together; a key may belong elsewhere."""
    ordering_key = None if job.more is None else job.more.ordering_key
    for field, value in (("key", job.key), ("ordering_key", ordering_key)):
        if value is not None:
            raise InvalidValue(
                field,
                value,
                "cannot be kept for the jobs of a schedule in a store with several partitions",
                hint="submit a job with this key from the job that the schedule runs",
            )


async def _put(store: Store, new: NewSchedule, by: Author | str | None) -> Put:
    """Under a name that is taken."""
    partition = partition_of(new.id, store.partitions)
    for _ in range(_TRIES):
        found = await store.schedules.get([new.id])
        if not found:
            if await store.schedules.create(partition, [new]):
                return Put(new.name, "created")
            continue
        before = found[0]
        outcome: Literal["changed", "unchanged"] = "unchanged"
        if not is_same(before, new):
            record = record_of(by, "change", {new.id: new.name}, expression=new.rules.expression)
            changed = await store.schedules.change(
                partition, new, version=before.version, record=record
            )
            if not changed:
                continue
            outcome = "changed"
        if before.state is ScheduleState.PARKED:
            now = await store.schedules.get([new.id])
            await attach(store, partition, [one for one in now if one.state is before.state])
        if outcome == "changed" or before.state is ScheduleState.PARKED:
            store.wake(Wake(due=True))
        return Put(new.name, outcome, before, new)
    raise _contended(new.name)


async def attach(
    store: Store, partition: int, schedules: Sequence[Schedule], record: Record | None = None
) -> list[ScheduleId]:
    """To the triggers of their rules; one that was changed since it was read is read again. Returns those that were
    paused or parked."""
    attached: list[ScheduleId] = []
    left = schedules
    for _ in range(_TRIES):
        if not left:
            return attached
        now = (await store.schedules.now()).timestamp()
        new = [(one.id, trigger_of(one.id, one.rules, now=now), one.version) for one in left]
        done = await store.schedules.resume(partition, new, record=record)
        attached += done
        versions = {one.id: one.version for one in left}
        rest = await store.schedules.get(list(versions.keys() - set(done)))
        left = [one for one in rest if one.version != versions[one.id]]
    raise _contended(left[0].name)


async def update(
    store: Store,
    name: str,
    *,
    expression: str | None = None,
    job: NewJob | None = None,
    namespace: str = "default",
    by: Author | str | None = None,
    **options: Unpack[ScheduleOptions],
) -> Schedule:
    """Change what is named, from now on; None takes an option back. What it was is kept with its span."""
    for _ in range(_TRIES):
        before = await get(store, name, namespace=namespace)
        now = (await store.schedules.now()).timestamp()
        told = before.rules.text or None
        if options.get("after_completion") is not None:
            told = None
        said = ScheduleOptions(**{**options_of(before), **options})  # type: ignore[typeddict-item]
        if expression is not None:
            told = expression
            said.pop("after_completion", None)
        draft = Draft(before.name, job or template_of(before), told, said, before.origin)
        [new] = _checked(store, [draft], now)
        if expression is None and told is not None:
            rules = msgspec.structs.replace(new.rules, expression=before.rules.expression)
            new = msgspec.structs.replace(new, rules=rules)
        if new.trigger is None and (expression is not None or options.get("end") is not None):
            raise _past(new)
        if new.namespace != namespace:
            raise InvalidValue(
                "namespace",
                new.namespace,
                "is not that of the schedule, and cannot be changed",
                hint="delete the schedule and make another",
            )
        partition = partition_of(new.id, store.partitions)
        told_of = {key: str(value) for key, value in options.items()}
        record = record_of(by, "change", {new.id: name}, expression=expression, **told_of)
        if is_same(before, new) or await store.schedules.change(
            partition, new, version=before.version, record=record
        ):
            store.wake(Wake(due=True))
            return await get(store, name, namespace=namespace)
    raise _contended(name)


def by_partition(
    store: Store, things: Sequence[T], id: Callable[[T], str]
) -> list[tuple[int, Sequence[T]]]:
    if store.partitions == 1:
        return [(0, things)] if things else []
    groups: dict[int, list[T]] = {}
    for thing in things:
        groups.setdefault(partition_of(id(thing), store.partitions), []).append(thing)
    return sorted(groups.items())


def record_of(
    by: Author | str | None, action: str, names: dict[ScheduleId, str], **detail: Any
) -> Record | None:
    """What is written down of an act by hand, under the schedules' names."""
    if not isinstance(by, Author):
        return None
    author, told = by, {key: value for key, value in detail.items() if value is not None}

    def record(changed: Sequence[str]) -> list[Any]:
        return [author.deed(action, f"schedule:{names[ScheduleId(id)]}", **told) for id in changed]

    return record


def _contended(name: str) -> FoliotError:
    return FoliotError(f"schedule {shown(name)} is being changed by others all the time")

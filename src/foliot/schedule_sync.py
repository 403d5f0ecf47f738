"""Schedules that code declares, made what it says. What it no longer declares is parked, never deleted."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from foliot.author import Author
from foliot.errors import InvalidValue
from foliot.ids import ScheduleId, partition_of, schedule_id
from foliot.model.definition import JobDefinition
from foliot.model.schedule import NewSchedule, Rules, Schedule, ScheduleState
from foliot.options import template_of
from foliot.registry import Registry, place_of
from foliot.schedule_commands import Draft, Put, ScheduleOptions, create
from foliot.schedule_looks import walk, wanted_of
from foliot.store.port import Store


class Change(msgspec.Struct, frozen=True):
    """One line of a diff. `sign`: + new, ~ changed, > declared again, - parked or deleted."""

    sign: str
    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.sign} {self.name}: {self.what}" if self.what else f"{self.sign} {self.name}"


class Diff(msgspec.Struct, frozen=True):
    """What synchronising has changed, or would. str() of it is text; it is false if that is nothing."""

    changes: list[Change]
    unchanged: int = 0

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) or "nothing to change"


async def sync_registry(store: Store, registry: Registry) -> Diff:
    """All that the functions of an app declare."""
    modules = frozenset(module_of(definition) for definition in registry)
    return await sync(store, drafts_of(registry), modules=modules)


async def sync(
    store: Store,
    declared: Sequence[Draft],
    *,
    modules: frozenset[str],
    by: Author | str | None = "code",
) -> Diff:
    """Make the schedules what is declared. What is not, and was declared by one of these modules, is parked."""
    puts = await create(store, declared, by=by) if declared else []
    changes = [
        line for draft, put in zip(declared, puts, strict=True) if (line := told(draft, put))
    ]
    kept = {schedule_id(draft.job.namespace, draft.name) for draft in declared}
    for module in sorted(modules):
        async for page in walk(store, wanted_of(origin=module)):
            lost = [one for one in page if one.id not in kept]
            parked = await _park(store, lost, by)
            changes += [
                Change("-", one.name, f"parked: {module} declares it no longer")
                for one in lost
                if one.id in parked
            ]
    return Diff(changes, sum(put.outcome == "unchanged" for put in puts))


async def _park(
    store: Store, schedules: Iterable[Schedule], by: Author | str | None
) -> set[ScheduleId]:
    who = by.name if isinstance(by, Author) else by
    groups: dict[int, list[ScheduleId]] = {}
    for one in schedules:
        if one.state is ScheduleState.ACTIVE:
            groups.setdefault(partition_of(one.id, store.partitions), []).append(one.id)
    parked: set[ScheduleId] = set()
    for partition, ids in groups.items():
        parked |= set(
            await store.schedules.pause(partition, ids, state=ScheduleState.PARKED, by=who)
        )
    return parked


def drafts_of(registry: Registry) -> list[Draft]:
    """What the functions of an app declare. Two cannot have one name."""
    drafts: dict[str, tuple[Draft, JobDefinition]] = {}
    for definition in registry:
        template = template_of(definition.kind, definition.defaults)
        for declared in definition.schedules:
            job = msgspec.structs.replace(template, payload=declared.payload)
            options = ScheduleOptions(**declared.options)  # type: ignore[typeddict-item]
            origin = module_of(definition)
            draft = Draft(declared.name, job, declared.expression, options, origin)
            known = drafts.setdefault(declared.name, (draft, definition))
            if known[1] is not definition:
                raise InvalidValue(
                    "schedule",
                    declared.name,
                    f"is the name of a schedule of {place_of(known[1].function)} already and cannot "
                    f"be that of one of {place_of(definition.function)} as well",
                    example='schedule={"name": "another", "expression": "0 9 * * *"}',
                )
    return [draft for draft, _ in drafts.values()]


def module_of(definition: JobDefinition) -> str:
    """Whose code declares it. A script is called the same whether it is started or loaded by a worker."""
    name: str = definition.function.__module__
    if name not in ("__main__", "__foliot_main__"):
        return name
    main = sys.modules.get(name)
    spec = getattr(main, "__spec__", None)
    if name == "__main__" and spec is not None:
        return str(spec.name)  # python -m package.module
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else name


def told(draft: Draft, put: Put) -> Change | None:
    """What is to be said of it; None: nothing."""
    if put.before is None or put.after is None:
        return Change("+", draft.name, f"{draft.job.kind}, {_when(draft)}")
    differences = _differences(put.before, put.after) if put.outcome == "changed" else ""
    if put.before.state is ScheduleState.PARKED:
        return Change(">", draft.name, "; ".join(filter(None, ["declared again", differences])))
    return Change("~", draft.name, differences) if put.outcome == "changed" else None


def _differences(before: Schedule, after: NewSchedule) -> str:
    """One after the other."""
    job = after.template
    pairs = [
        (name, getattr(before.rules, name), getattr(after.rules, name))
        for name in Rules.__struct_fields__
        if name not in ("text", "keyed")
    ]
    pairs += [(name, getattr(before, name), getattr(after, name)) for name in ("tags", "origin")]
    pairs += [
        (name, getattr(before, name), getattr(job, name))
        for name in ("kind", "queue", "priority", "max_attempts", "timeout", "payload", "key")
    ]
    said = [
        f"{name} {_shown(old)} → {_shown(new)}"
        for name, old, new in pairs
        if _shown(old) != _shown(new)
    ]
    return ", ".join(said) or "other options of its job"


def _shown(value: object) -> str:
    if value in (None, "", ()):
        return "none"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, tuple):
        return ", ".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _when(draft: Draft) -> str:
    if draft.expression is None:
        return f"{draft.options.get('after_completion')} after the end of the last run"
    zone = draft.options.get("timezone")
    return f"{draft.expression} {zone}" if zone else draft.expression

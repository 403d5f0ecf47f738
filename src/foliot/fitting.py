"""Which jobs of a store an app could not run: of kinds that it does not define, or with payloads that do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from foliot.bulk import among
from foliot.filter import Filter
from foliot.ids import JobId
from foliot.model.job import Job, JobState
from foliot.model.workflow import BUILTIN_KINDS
from foliot.registry import Registry, upgraded
from foliot.search import LONGEST_PAGE, list_jobs
from foliot.store.port import Store

CHECK_CAP: Final = 100_000  # jobs that are looked at
_MOST_EXAMPLES: Final = 5
_LIVE: Final = tuple(state for state in JobState if not state.final)


class UnfitJobs(msgspec.Struct, frozen=True):
    """Jobs of one kind and version that cannot run for the same reason."""

    kind: str
    version: int
    problem: str
    count: int
    examples: list[JobId]


class Fitting(msgspec.Struct, frozen=True):
    """What was found. Not `complete`: there are more jobs than were looked at."""

    checked: int
    complete: bool
    unfit: list[UnfitJobs]


async def check_fitting(store: Store, registry: Registry, *, dead: bool = False) -> Fitting:
    """Every live job is looked at, newest first, and the dead ones too if asked for; up to the cap."""
    states = (*_LIVE, JobState.DEAD) if dead else _LIVE
    found: dict[tuple[str, int, str], list[JobId]] = {}
    counts: dict[tuple[str, int, str], int] = {}
    checked, after = 0, None
    wanted = among(Filter(), states)
    while checked < CHECK_CAP:
        page = await list_jobs(
            store, wanted, limit=min(LONGEST_PAGE, CHECK_CAP - checked), after=after
        )
        for job in page.jobs:
            problem = problem_of(registry, job)
            if problem is not None:
                group = (job.kind, job.extras.version, problem)
                counts[group] = counts.get(group, 0) + 1
                examples = found.setdefault(group, [])
                if len(examples) < _MOST_EXAMPLES:
                    examples.append(job.id)
        checked += len(page.jobs)
        after = page.next
        if after is None:
            break
    return Fitting(checked, after is None, _groups(found, counts))


def problem_of(registry: Registry, job: Job) -> str | None:
    """Why the app could not run it; None: it could. Whether results of other steps fit, only their run can tell."""
    if job.kind in BUILTIN_KINDS:
        return None
    definition = registry.get(job.kind)
    if definition is None:
        return "unknown kind"
    if job.extras.refs:
        return None
    try:
        definition.decode(upgraded(definition, job.payload, job.extras.version))
    except Exception as error:  # noqa: BLE001 - an upgrade may raise anything
        return f"unfitting payload: {error}"
    return None


def _groups(
    found: dict[tuple[str, int, str], list[JobId]], counts: dict[tuple[str, int, str], int]
) -> list[UnfitJobs]:
    ordered: Sequence[tuple[str, int, str]] = sorted(found)
    return [UnfitJobs(*group, counts[group], found[group]) for group in ordered]

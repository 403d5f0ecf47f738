"""`foliot schedules create NAME EXPRESSION --workflow FILE`: what stands instead of a kind and its arguments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from foliot.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foliot.cli.schedule_options import JobChoices
    from foliot.config import LimitSettings
    from foliot.model.job import NewJob
    from foliot.store.port import Store

_EXAMPLE: Final = 'foliot schedules create nightly "every day at 3am" --workflow etl.toml'


def expression_of(
    words: Sequence[str], payload: str | None, job: JobChoices, *, counts_from_runs: bool
) -> str | None:
    """When it fires: the one word there is besides the name. What is for the jobs of a kind is refused."""
    given = list(job.given())
    if payload is not None:
        given.append("payload")
    for field in given:
        problem = "cannot be given together with --workflow: its steps have their own"
        raise InvalidValue(f"--{field.replace('_', '-')}", problem=problem, example=_EXAMPLE)
    if not (words or counts_from_runs):
        raise InvalidValue("expression", problem="is missing", example=_EXAMPLE)
    for more in words if counts_from_runs else words[1:]:
        problem = "is one word too many: a workflow has neither kind nor arguments"
        raise InvalidValue("words", more, problem, example=_EXAMPLE)
    return None if counts_from_runs else words[0]


async def job_of_file(
    store: Store, source: str | Path, namespace: str, limits: LimitSettings
) -> NewJob:
    """The job that stands for the workflow of a file."""
    import msgspec

    from foliot.workflow_check import check
    from foliot.workflow_draft import job_for
    from foliot.workflow_file import read_draft

    draft = await read_draft(store, source, limits=limits)
    if namespace != "default":
        draft = msgspec.structs.replace(draft, namespace=namespace)
    for warning in check(draft):
        print(f"warning: {warning}", file=sys.stderr)
    return job_for(draft, limits)

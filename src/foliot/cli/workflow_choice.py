"""Which workflow is meant: an id, or the beginning or the end of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from foliot.cli.output import printable
from foliot.errors import FoliotError, InvalidValue, NotRunning

if TYPE_CHECKING:
    from foliot.ids import JobId
    from foliot.store.port import Store

_MOST_NAMED: Final = 5
_SHORTEST: Final = 8  # characters that name a workflow, as they name a job
_PAGE: Final = 1_000
_PAGES: Final = 10  # of the newest workflows, that are looked through


async def resolve_workflow(store: Store, text: str) -> JobId:
    """The id that begins so, else the one that ends so."""
    from foliot.errors import UnknownWorkflow
    from foliot.filter_value import ID_FORM, is_id_prefix, is_id_suffix

    part = text.strip().lower()
    begins, ends = is_id_prefix(part), is_id_suffix(part)
    if not _SHORTEST <= len(part) < len(ID_FORM) or not (begins or ends):
        return _whole(text)
    ids, all_seen = await _newest(store)
    found = _only([id for id in ids if id.startswith(part)], text, "beginning")
    found = found or _only([id for id in ids if id.endswith(part)], text, "end")
    if found is None and not all_seen:
        raise FoliotError(
            f"{printable(text)} names none of the newest {len(ids):,} workflows",
            hint="give the whole id",
        )
    if found is None:
        raise UnknownWorkflow(text)
    return found


def reason_of(error: FoliotError) -> str:
    """Why a workflow is refused, beside its id."""
    if not isinstance(error, NotRunning):
        return str(error)
    return f"it is {error.state}" + (f"; {error.hint}" if error.hint else "")


async def workflows_like(store: Store, part: str) -> list[JobId]:
    """Of the newest, those whose ids begin or end so."""
    ids, _ = await _newest(store)
    return [id for id in ids if id.startswith(part) or id.endswith(part)]


def _whole(text: str) -> JobId:
    """Whoever gives the name of a workflow is told what to give."""
    from foliot.filter_value import is_id_prefix, is_id_suffix
    from foliot.ids import is_job_id
    from foliot.workflow_check import is_step_name
    from foliot.workflow_commands import check_workflow_id

    part = text.strip().lower()
    if not is_job_id(part) and is_step_name(text):
        problem = "is not a workflow's id"
        if len(part) < _SHORTEST and (is_id_prefix(part) or is_id_suffix(part)):
            problem += f": its first or last {_SHORTEST} characters are the least"
        hint = f"ids of workflows with a name: foliot workflows list --name {text}"
        raise InvalidValue("id", text, problem, hint=hint)
    return check_workflow_id(part)


def _only(found: list[JobId], text: str, place: str) -> JobId | None:
    if len(found) > 1:
        names = ", ".join(found[:_MOST_NAMED])
        more = " …" if len(found) > _MOST_NAMED else ""
        raise InvalidValue("id", text, f"is the {place} of several ids: {names}{more}")
    return found[0] if found else None


async def _newest(store: Store) -> tuple[list[JobId], bool]:
    """Their ids, and whether these are all."""
    ids: list[JobId] = []
    for _ in range(_PAGES):
        before = ids[-1] if ids else None
        page = await store.workflows.list(name=None, state=None, limit=_PAGE, before=before)
        ids += [one.id for one in page]
        if len(page) < _PAGE:
            return ids, True
    return ids, False

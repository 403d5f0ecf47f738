"""Which of the submitted jobs a test means, and what to say when there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from foliot.errors import InvalidValue
from foliot.model.definition import JobDefinition
from foliot.model.job import Extras, Job
from foliot.shown import did_you_mean

_MOST_SHOWN: Final = 20
_SPANS: Final = {"delay": "run_at", "expires": "expires_at"}
_EXTRAS: Final = frozenset(Extras.__struct_fields__)
OPTIONS: Final = frozenset(
    {*Job.__struct_fields__, *_SPANS, *_EXTRAS} - {"kind", "payload", "result", "extras"}
)


class Wanted(msgspec.Struct, frozen=True):
    """A kind, some of its arguments, and some of what else is known of a job."""

    kind: str
    arguments: Mapping[str, Any]
    options: Mapping[str, Any]

    def fits(self, job: Job) -> bool:
        if job.kind != self.kind:
            return False
        payload = payload_of(job)
        return all(
            name in payload and _equal(payload[name], value)
            for name, value in self.arguments.items()
        ) and all(_option_fits(job, name, value) for name, value in self.options.items())

    def __str__(self) -> str:
        given = [f"{name}={value!r}" for name, value in {**self.arguments, **self.options}.items()]
        return f"{self.kind} with {', '.join(given)}" if given else self.kind


def read_wanted(
    kind: str,
    definition: JobDefinition | None,
    given: Mapping[str, Any],
    *,
    payload: Mapping[str, Any] | None,
    options: Mapping[str, Any] | None,
) -> Wanted:
    """`given` by name: what the function has a parameter for is an argument, the rest are options."""
    known = set(definition.arguments.__struct_fields__) if definition is not None else set()
    arguments, rest = dict(payload or {}), dict(options or {})
    for name, value in given.items():
        if name in OPTIONS and name not in known:
            rest[name] = value
        else:
            arguments[name] = value
    if definition is not None:
        _check(f"an argument of {kind}", arguments, known, others=OPTIONS)
    _check("an option", rest, OPTIONS)
    return Wanted(kind, arguments, rest)


def list_jobs(jobs: Sequence[Job]) -> str:
    """One line for each."""
    if not jobs:
        return "nothing was submitted"
    lines = [f"  {_line(job)}" for job in jobs[:_MOST_SHOWN]]
    if len(jobs) > _MOST_SHOWN:
        lines.append(f"  … and {len(jobs) - _MOST_SHOWN} more")
    return "\n".join(["submitted were:", *lines])


def payload_of(job: Job) -> dict[str, Any]:
    payload: dict[str, Any] = msgspec.json.decode(job.payload)
    return payload


def _line(job: Job) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in payload_of(job).items())
    told = f"{job.kind}({arguments}) in {job.queue}, {job.state}"
    if job.run_at > job.created_at:
        told += f", due {job.run_at:%Y-%m-%d %H:%M:%S}"
    return told if job.key is None else f"{told}, key {job.key}"


def _check(
    what: str,
    given: Mapping[str, Any],
    known: set[str] | frozenset[str],
    *,
    others: frozenset[str] = frozenset(),
) -> None:
    for name in given:
        if name not in known:
            either = f"is neither {what} nor an option" if others else f"is not {what}"
            raise InvalidValue(
                "assert_submitted()", name, either, hint=did_you_mean(name, known | others)
            )


def _option_fits(job: Job, name: str, value: Any) -> bool:
    """Of tags, some; everything else as it is. A span counts from when the job was submitted."""
    if name == "tags":
        return set(value) <= set(job.tags)
    if name in _SPANS:
        moment: datetime | None = getattr(job, _SPANS[name])
        if moment is None or isinstance(value, datetime):
            return bool(moment == value)
        span = value if isinstance(value, timedelta) else timedelta(seconds=value)
        return moment - job.created_at == span
    return _equal(getattr(job.extras if name in _EXTRAS else job, name), value)


def _equal(found: Any, wanted: Any) -> bool:
    """As it is, for whatever compares itself; or as JSON, which is how arguments are stored."""
    if bool(found == wanted):
        return True
    try:
        return bool(msgspec.to_builtins(found) == msgspec.json.decode(msgspec.json.encode(wanted)))
    except (TypeError, ValueError):
        return False

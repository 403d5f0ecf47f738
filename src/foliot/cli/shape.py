"""Jobs, attempts and audit entries as they are printed: JSON, or text in which data cannot drive the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from foliot.cli.output import print_table, printable
from foliot.model.workflow import WORKFLOW_KIND

if TYPE_CHECKING:
    from foliot.model.audit import Entry
    from foliot.model.job import Attempt, Job
    from foliot.model.note import LogLine

_HEADERS = ("id", "state", "kind", "queue", "attempt", "created", "about")


def job_to_json(job: Job, *, payloads: bool = True) -> dict[str, Any]:
    """All of it; payload and result are the JSON that they are."""
    shape: dict[str, Any] = msgspec.to_builtins(
        msgspec.structs.replace(job, payload=b"", result=None), builtin_types=(datetime,)
    )
    shape["payload"] = msgspec.Raw(job.payload)
    shape["result"] = None if job.result is None else msgspec.Raw(job.result)
    if not payloads:
        del shape["payload"], shape["result"]
    return {**shape, "schedule": job.schedule, "nominal_at": job.nominal_at}


def print_jobs(jobs: Sequence[Job]) -> None:
    print_table(
        _HEADERS,
        [
            (
                job.id,
                job.state,
                job.kind,
                job.queue,
                str(job.attempt),
                show_time(job.created_at),
                about(job),
            )
            for job in jobs
        ],
    )


def about(job: Job) -> str:
    """What is most worth knowing beside the state."""
    if job.state == "scheduled":
        return f"due {show_time(job.run_at)}"
    if job.state == "running":
        asked = ", asked to end" if job.cancel_requested else ""
        return f"since {show_time(job.started_at)}{asked}"
    return job.reason or ("" if job.schedule is None else f"run of {job.schedule}")


def print_job(job: Job, attempts: Sequence[Attempt], audit: Sequence[Entry]) -> None:
    for name, value in _fields(job):
        print(f"{name + ':':<15} {printable(value)}")
    print_payload(job.kind, job.payload)
    if job.result is not None:
        print_document("result", job.result)
    for attempt in attempts:
        said = "" if attempt.error is None else f": {attempt.error}"
        when = show_time(attempt.finished_at)
        print(printable(f"attempt {attempt.attempt} {attempt.outcome} at {when}{said}"))
        for line in (attempt.traceback or "").splitlines():
            print(f"    {printable(line)}")
    for entry in audit:
        print(printable(say_entry(entry)))


def say_entry(entry: Entry) -> str:
    """Who did what by hand, and what was said of it."""
    told = [
        f"{name}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in entry.detail.items()
        if value is not None
    ]
    said = f", {', '.join(told)}" if told else ""
    return f"{entry.action} by {entry.actor} at {show_time(entry.at)}{said}"


def print_payload(kind: str, payload: bytes) -> None:
    """That of a job which stands for a workflow is the whole of it, in a form that is nobody's to read."""
    if kind != WORKFLOW_KIND:
        print_document("payload", payload)
        return
    from foliot.cli.draft_shape import steps_of

    for line in steps_of(payload):
        print(printable(f"{'step:':<15} {line}"))


def print_document(name: str, document: bytes) -> None:
    """JSON, one value a line."""
    try:
        text = msgspec.json.format(document, indent=2).decode()
    except msgspec.DecodeError:
        text = document.decode(errors="backslashreplace")
    first, *rest = text.splitlines()
    print(f"{name + ':':<15} {printable(first)}")
    for line in rest:
        print(f"{'':<15} {printable(line)}")


def print_line(line: LogLine, *, json: bool) -> None:
    """Each as soon as it is known: whoever follows a log wants to see it now."""
    if json:
        print(msgspec.json.encode(line).decode(), flush=True)
        return
    first, *rest = line.message.splitlines() or [""]
    print(printable(f"{show_time(line.at)} {line.level:<8} {line.logger}: {first}"), flush=True)
    for more in rest:
        print(f"    {printable(more)}", flush=True)


def _fields(job: Job) -> Iterator[tuple[str, str]]:
    """Those that the job has, in the order of the struct."""
    shape = msgspec.structs.asdict(job) | _of_schedule(job)
    for name in ("payload", "result"):
        del shape[name]
    for name, value in shape.items():
        match value:
            case None | False | ():
                continue
            case datetime():
                yield name, show_time(value)
            case tuple():
                yield name, ", ".join(value)
            case msgspec.Struct():
                text = msgspec.json.encode(value).decode()
                if text != "{}":
                    yield name, text
            case _:
                yield name, str(value)


def _of_schedule(job: Job) -> dict[str, Any]:
    if job.schedule is None:
        return {}
    return {
        "schedule": job.schedule,
        "nominal_at": job.nominal_at or "none: it was run by hand",
        "extras": msgspec.structs.replace(job.extras, schedule=None, nominal=None),
    }


def show_time(time: datetime | None) -> str:
    if time is None:
        return "-"
    return time.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")

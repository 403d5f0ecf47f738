"""`foliot jobs change`: a job that has not started yet, otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from foliot.cli.ask import ask
from foliot.cli.given import read_priority, read_time, read_wait
from foliot.cli.options import DEFAULT_OPTIONS, OptionalWhole, Options
from foliot.cli.output import print_json
from foliot.cli.selection import resolve
from foliot.errors import InvalidValue

if TYPE_CHECKING:
    from foliot.model.job import JobState
    from foliot.store.port import Store


def change(
    id: str,
    *,
    in_: Annotated[str | None, Parameter(name="--in")] = None,
    at: str | None = None,
    priority: str | None = None,
    queue: str | None = None,
    payload: str | None = None,
    tags: str | None = None,
    timeout: str | None = None,
    max_attempts: OptionalWhole = None,
    expires: str | None = None,
    by: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Change a job that has not started yet.

    Parameters
    ----------
    id
        Its id, or the beginning or the end of it.
    in_
        When it is due, from now on: 10m.
    at
        When it is due: 2027-01-01T09:00+01:00.
    priority
        high, medium, low, or 0 to 9.
    queue
        Another queue.
    payload
        Other arguments, as a JSON object.
    tags
        Other tags, separated by commas.
    timeout
        How long an attempt may take: 30s.
    max_attempts
        How many attempts it has.
    expires
        How long it is worth starting, from now on: 1h.
    by
        Who asks for it, for the audit log (else user@host).
    """
    from foliot import commands
    from foliot.author import Author
    from foliot.ids import Ids
    from foliot.schema import read_payload

    given: dict[str, Any] = {
        "delay": read_wait("--in", in_),
        "run_at": read_time("--at", at),
        "priority": read_priority(priority),
        "queue": queue,
        "payload": None if payload is None else read_payload(payload),
        "tags": None if tags is None else [tag for tag in tags.split(",") if tag],
        "timeout": read_wait("--timeout", timeout),
        "max_attempts": max_attempts,
        "expires": read_wait("--expires", expires),
    }
    wanted: Any = {name: value for name, value in given.items() if value is not None}
    if not wanted:
        raise InvalidValue("change", problem="says nothing to change", example="--priority high")

    async def question(store: Store) -> tuple[str, JobState]:
        known = await resolve(store, id)
        return known, await commands.change(store, known, wanted, by=Author(Ids(), by))

    known, state = ask(options, question)
    if options.json:
        print_json({"id": known, "state": state})
    else:
        print(f"changed: {known} is {state}")

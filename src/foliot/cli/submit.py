"""`foliot submit`: a job of any kind that an app has announced, without its code."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from foliot import commands
from foliot.cli.arguments import read_arguments, type_fields
from foliot.cli.ask import ask
from foliot.cli.options import DEFAULT_OPTIONS, OptionalWhole, Options
from foliot.cli.output import print_json
from foliot.cli.selection import resolve
from foliot.cli.waiting import Wait
from foliot.errors import InvalidValue
from foliot.ids import Ids, JobId
from foliot.model.job import Priority
from foliot.options import Options as JobOptions
from foliot.store.port import Store
from foliot.units import read_duration

Switch = Annotated[bool, Parameter(negative="")]


def submit(
    kind: str,
    *fields: str,
    payload: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    in_: Annotated[str | None, Parameter(name="--in")] = None,
    at: str | None = None,
    priority: str | None = None,
    queue: str | None = None,
    key: str | None = None,
    key_mode: Literal["keep", "replace", "debounce"] | None = None,
    idempotency_key: str | None = None,
    tags: str | None = None,
    timeout: str | None = None,
    max_attempts: OptionalWhole = None,
    expires: str | None = None,
    namespace: str | None = None,
    ordering_key: str | None = None,
    fair_key: str | None = None,
    limit_key: str | None = None,
    after: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    rule: str | None = None,
    wait: Switch = False,
    options: Options = DEFAULT_OPTIONS,
) -> int:
    """Submit a job. With --wait: exit code 1 if it is dead or cancelled in the end.

    Parameters
    ----------
    kind
        Which function runs it, as a worker has announced it.
    fields
        Its arguments: name=value. A value is read as JSON unless the argument is text.
    payload
        Its arguments as one JSON object; - reads it from stdin, @file from a file.
    in_
        How long it is to wait first, for example 10m.
    at
        When it is to run, for example 2027-01-31T09:00+01:00.
    priority
        high, medium, low, or a number from 0 to 9, lower first.
    queue
        Another queue than its own.
    key
        Of the live jobs of a kind, one has this key.
    key_mode
        What happens when one has it already: keep that one, replace it, or put it off.
    idempotency_key
        Submitted again with the same one, it is the same job.
    tags
        Words to find it by, separated by commas.
    timeout
        How long an attempt may take, for example 30s.
    max_attempts
        How many attempts it has.
    expires
        After this, or from this moment on, it is not started any more.
    namespace
        Whose job it is.
    ordering_key
        Jobs that share one run one after the other.
    fair_key
        Whose turn it takes in a queue that is served round robin.
    limit_key
        Jobs that share one share a limit.
    after
        A job that it waits for, by its id or the beginning or end of that; may be given several times.
    rule
        Which of their ends let it run: all_succeeded, all_done, any_succeeded, any_failed or none_failed.
    wait
        Wait for its end, show its progress and print its result.
    """
    given: dict[str, Any] = {
        "delay": None if in_ is None else _seconds("in", in_),
        "run_at": None if at is None else _moment("at", at),
        "priority": None if priority is None else _priority(priority),
        "queue": queue,
        "key": key,
        "key_mode": key_mode,
        "idempotency_key": idempotency_key,
        "tags": None if tags is None else [tag.strip() for tag in tags.split(",")],
        "timeout": None if timeout is None else _seconds("timeout", timeout),
        "max_attempts": max_attempts,
        "expires": None if expires is None else _expiry(expires),
        "namespace": namespace,
        "ordering_key": ordering_key,
        "fair_key": fair_key,
        "limit_key": limit_key,
        "rule": rule,
    }
    chosen: JobOptions = {name: value for name, value in given.items() if value is not None}  # type: ignore[assignment]  # the names are those of the keys
    if rule is not None and not after:
        raise InvalidValue(
            "rule", rule, "needs --after", example="--after 01a1ecf4 --rule all_done"
        )
    limits = options.load().settings.limits
    largest = limits.payload
    arguments = read_arguments(payload, fields, largest)

    async def run(store: Store) -> int:
        typed = await type_fields(store, kind, fields) if fields else arguments
        if after:
            chosen["after"] = [await resolve(store, one) for one in after]
        id = await commands.submit_kind(
            store, kind, typed, ids=Ids(), options=chosen, limits=limits
        )
        if wait:
            return await Wait(store, id, json=options.json).run()
        _tell(id, options)
        return 0

    return ask(options, run)


def _tell(id: JobId, options: Options) -> None:
    if options.json:
        print_json({"id": id})
    else:
        print(id)


def _seconds(field: str, text: str) -> float:
    try:
        return read_duration(text)
    except ValueError as error:
        raise InvalidValue(field, text, str(error), example=f"--{field} 10m") from None


def _moment(field: str, text: str) -> datetime:
    example = f"--{field} 2027-01-31T09:00+01:00"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(field, text, "is not a moment", example=example) from None
    if moment.tzinfo is None:
        raise InvalidValue(field, text, "has no time zone", example=example)
    return moment


def _expiry(text: str) -> float | datetime:
    return _moment("expires", text) if "-" in text.lstrip("-") else _seconds("expires", text)


def _priority(text: str) -> int:
    names = {priority.name.lower(): int(priority) for priority in Priority}
    if text.lower() in names:
        return names[text.lower()]
    if text.isascii() and text.isdigit() and len(text) == 1:
        return int(text)
    raise InvalidValue(
        "priority",
        text,
        "is not high, medium, low or a number from 0 to 9",
        example="--priority high",
    )

"""`foliot schedules create` and `update`: schedules for any kind that an app has announced, without its code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import print_json, printable
from foliot.cli.schedule_options import NO_CHOICES, NO_TIMES, JobChoices, Times, split
from foliot.errors import FoliotError, InvalidValue, UnknownKind
from foliot.shown import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from foliot.config import LimitSettings
    from foliot.model.job import NewJob
    from foliot.model.schedule import Schedule
    from foliot.options import Options as JobOptions
    from foliot.schedule_commands import Put
    from foliot.store.port import Store

    Make = Callable[[Store], Awaitable[NewJob]]

_BY_FILE = 'foliot schedules create … "every day at 3am" --workflow FILE'
_EXAMPLE = 'foliot schedules create standup send_email "every weekday at 9am" to=ada@example.org'


def create(
    name: str,
    kind: str | None = None,
    *words: str,
    workflow: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    payload: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    times: Times = NO_TIMES,
    job: JobChoices = NO_CHOICES,
    namespace: str = "default",
    by: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Make a schedule, or make one that there is what this says.

    Parameters
    ----------
    name
        Its name.
    kind
        Which function its jobs run, as a worker has announced it; with --workflow there is none, and the expression
        follows the name.
    words
        When it fires, in quotes (not with --after-completion); then the arguments of its jobs: name=value.
    payload
        These arguments as one JSON object; - reads it from stdin, @file from a file.
    workflow
        Instead of a kind and its arguments: the file of a workflow, TOML or JSON, which each fire runs; - for stdin.
    namespace
        Whose schedule it is.
    by
        Who asks for it, for the audit log (else user@host).
    """
    from foliot import schedule_commands
    from foliot.author import Author
    from foliot.cli.ask import ask
    from foliot.cli.schedule_shape import schedule_to_json
    from foliot.ids import Ids

    author = Author(Ids(), by)
    counts, limits = times.after_completion is not None, options.load().settings.limits
    if workflow is None:
        expression, make = _of_kind(kind, words, payload, job, namespace, limits, counts=counts)
    else:
        given = words if kind is None else (kind, *words)
        expression, make = _of_file(workflow, given, payload, job, namespace, limits, counts=counts)

    async def run(store: Store) -> tuple[Put, Schedule]:
        template = await make(store)
        draft = schedule_commands.Draft(name, template, expression, times.given())
        [put] = await schedule_commands.create(store, [draft], by=author)
        return put, await schedule_commands.get(store, name, namespace=template.namespace)

    put, schedule = ask(options, run)
    if options.json:
        print_json({"outcome": put.outcome, **schedule_to_json(schedule)})
    else:
        _tell(schedule, put.outcome)


def _of_kind(
    kind: str | None,
    words: tuple[str, ...],
    payload: str | None,
    job: JobChoices,
    namespace: str,
    limits: LimitSettings,
    *,
    counts: bool,
) -> tuple[str | None, Make]:
    from foliot.cli.arguments import read_arguments, type_fields
    from foliot.commands import prepare_kind
    from foliot.ids import Ids

    if kind is None:
        raise InvalidValue("kind", problem="is missing", example=_EXAMPLE)
    expression, fields = _read_words(words, counts_from_runs=counts)
    largest = limits.payload
    arguments = read_arguments(payload, fields, largest)
    chosen: JobOptions = {**job.given(), "namespace": namespace}

    async def make(store: Store) -> NewJob:
        typed = await type_fields(store, kind, fields) if fields else arguments
        try:
            return await prepare_kind(
                store, kind, typed, ids=Ids(), options=chosen, largest=largest
            )
        except UnknownKind as error:
            raise await _of_workflow(store, error) from None

    return expression, make


def _of_file(
    file: str,
    words: tuple[str, ...],
    payload: str | None,
    job: JobChoices,
    namespace: str,
    limits: LimitSettings,
    *,
    counts: bool,
) -> tuple[str | None, Make]:
    from foliot.cli.schedule_workflow import expression_of, job_of_file
    from foliot.cli.workflow_files import source_of

    expression = expression_of(words, payload, job, counts_from_runs=counts)
    source = source_of(file)
    return expression, lambda store: job_of_file(store, source, namespace, limits)


async def _of_workflow(store: Store, error: UnknownKind) -> FoliotError:
    """What was taken for a kind may be the name of a workflow."""
    if not await store.workflows.list(name=error.kind, state=None, limit=1, before=None):
        return error
    problem = f"{shown(error.kind)} is a workflow, not a kind of job: it is scheduled by its file, or in code"
    hint = (
        f'{_BY_FILE}; in code: app.schedule("…", {error.kind}, "every day at 3am"), with that workflow'
        " as drawn"
    )
    return FoliotError(problem, hint=hint)


def update(
    name: str,
    *fields: str,
    expression: str | None = None,
    payload: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    clear: str | None = None,
    times: Times = NO_TIMES,
    priority: str | None = None,
    queue: str | None = None,
    namespace: str = "default",
    by: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Change what is named of a schedule, from now on; its past stays what it was.

    Parameters
    ----------
    name
        Its name.
    fields
        Arguments of its jobs that change: name=value; the others stay.
    expression
        When it fires.
    payload
        All arguments as one JSON object; - reads it from stdin, @file from a file.
    clear
        Options that go back to what they are by default, separated by commas, for example end,calendars.
    priority
        Of its jobs: high, medium, low, or a number from 0 to 9, lower first.
    queue
        Of its jobs.
    namespace
        Whose schedule it is.
    by
        Who asks for it, for the audit log (else user@host).
    """
    from foliot import schedule_commands
    from foliot.author import Author
    from foliot.cli.arguments import read_arguments
    from foliot.cli.ask import ask
    from foliot.cli.given import read_priority
    from foliot.cli.schedule_shape import schedule_to_json
    from foliot.ids import Ids

    largest = options.load().settings.limits.payload
    whole = None if payload is None else read_arguments(payload, fields, largest)
    given: dict[str, Any] = {option.replace("-", "_"): None for option in split(clear or "")}
    given |= times.given()
    level = read_priority(priority)
    author = Author(Ids(), by)
    if not (given or fields or (whole, expression, level, queue) != (None,) * 4):
        raise InvalidValue(
            "change",
            problem="is missing",
            example=f"foliot schedules update {name} --overlap allow",
        )

    async def run(store: Store) -> tuple[Schedule, Schedule]:
        before = await schedule_commands.get(store, name, namespace=namespace)
        job = await _changed_job(store, before, fields, whole, priority=level, queue=queue)
        after = await schedule_commands.update(
            store, name, expression=expression, job=job, namespace=namespace, by=author, **given
        )
        return before, after

    before, schedule = ask(options, run)
    if options.json:
        print_json(schedule_to_json(schedule))
    else:
        _tell(schedule, "unchanged" if before.version == schedule.version else "changed")


async def _changed_job(
    store: Store,
    schedule: Schedule,
    fields: tuple[str, ...],
    payload: dict[str, Any] | None,
    *,
    priority: int | None,
    queue: str | None,
) -> NewJob | None:
    """The template with what was given, checked against what the app announced; None: nothing of it was."""
    import msgspec

    from foliot.cli.arguments import type_fields
    from foliot.commands import prepare_kind
    from foliot.ids import Ids
    from foliot.model.lane import lane_of
    from foliot.model.workflow import WORKFLOW_KIND
    from foliot.schedule_jobs import template_of

    if not fields and (payload, priority, queue) == (None, None, None):
        return None
    if schedule.kind == WORKFLOW_KIND:
        what = f"schedule {schedule.name} fires a workflow, whose steps have arguments and options of their own"
        raise FoliotError(what, hint="schedule it anew under the same name, by its file or in code")
    job = template_of(schedule)
    arguments = payload
    if arguments is None:
        arguments = msgspec.json.decode(schedule.payload, type=dict[str, Any])
        arguments |= await type_fields(store, schedule.kind, fields)
    chosen: JobOptions = {"queue": queue or job.queue}
    if priority is not None:
        chosen["priority"] = priority
    checked = await prepare_kind(store, schedule.kind, arguments, ids=Ids(), options=chosen)
    requires = () if job.more is None else job.more.requires
    return msgspec.structs.replace(
        job,
        payload=checked.payload,
        priority=job.priority if priority is None else checked.priority,
        queue=checked.queue,
        lane=lane_of(checked.queue, requires).number,
    )


def _read_words(
    words: tuple[str, ...], *, counts_from_runs: bool
) -> tuple[str | None, tuple[str, ...]]:
    """The expression, if there is to be one, and the fields."""
    if counts_from_runs:
        return None, words
    if not words:
        raise InvalidValue("expression", problem="is missing", example=_EXAMPLE)
    for word in words[1:]:
        if "=" not in word:
            hint = "an expression with spaces wants quotes: '0 9 * * *'"
            raise InvalidValue(
                "field", word, "is not name=value", example="to=ada@example.org", hint=hint
            )
    return words[0], words[1:]


def _tell(schedule: Schedule, outcome: str) -> None:
    from foliot.cli.schedule_shape import english_of, next_of
    from foliot.model.schedule import ScheduleState

    words = "is as it was" if outcome == "unchanged" else outcome
    match schedule.state:
        case ScheduleState.ACTIVE:
            then = f"next {next_of(schedule)}"
        case ScheduleState.ENDED:
            then = "ended: none of its times is ahead"
        case other:
            then = other.value
    rules = schedule.rules
    print(
        printable(f"{schedule.name} {words}: {english_of(rules)} ({rules.timezone}), {then}"),
    )

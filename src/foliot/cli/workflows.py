"""`foliot workflows`: what there is, and what is done to workflows by hand."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from foliot.cli.options import DEFAULT_OPTIONS, Options, Whole
from foliot.cli.output import print_json, printable
from foliot.errors import InvalidValue

if TYPE_CHECKING:
    from foliot.author import Author
    from foliot.ids import JobId
    from foliot.model.audit import Entry
    from foliot.model.workflow import Step, Workflow
    from foliot.store.port import Store

T = TypeVar("T")
Switch = Annotated[bool, Parameter(negative="")]


def list_workflows(
    *,
    name: str | None = None,
    state: Literal["running", "paused", "succeeded", "failed", "cancelled"] | None = None,
    limit: Whole = 100,
    after: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """List workflows, newest first: how they are, how far they are, and since when.

    Parameters
    ----------
    name
        Only those of this name.
    state
        Only those that are so; of those that run, also the paused ones alone.
    limit
        How many, at most.
    after
        Go on after this id, which the last page gave as `next`.
    """
    from foliot import workflow_commands
    from foliot.cli.ask import ask
    from foliot.cli.workflow_shape import print_workflows, workflow_to_json
    from foliot.clock import SystemClock

    async def read(store: Store) -> list[Workflow]:
        if after is not None:  # after one that is gone there is no telling where to go on
            await workflow_commands.get_workflow(store, after)
        return await workflow_commands.list_workflows(
            store, name=name, state=state, limit=limit, before=after
        )

    found = ask(options, read)
    last = found[-1].id if len(found) == limit else None
    if options.json:
        print_json({"workflows": [workflow_to_json(one) for one in found], "next": last})
        return
    if found:
        print_workflows(found, SystemClock().now())
    if last is not None:
        print(f"there may be more with: --after {last}")
    elif not found:
        print("none")


def show(
    id: str, *, watch: Switch = False, all: Switch = False, options: Options = DEFAULT_OPTIONS
) -> int | None:
    """Draw a workflow, and list its steps: how each is, when it started, how long it took, and why it is so. Exit code
    1: it was watched, and failed or was cancelled.

    Parameters
    ----------
    id
        Its id, or the beginning or the end of it.
    all
        On a terminal, list every step, also of many that are alike; elsewhere all are listed anyhow.
    watch
        Go on until it has ended: drawn anew on a terminal, elsewhere a line for each step that
        changes; in JSON, one object a line.
    """
    from foliot import workflow_commands
    from foliot.cli.ask import ask
    from foliot.model.workflow import WorkflowState
    from foliot.workflow_results import errors_of

    async def read(
        store: Store,
    ) -> tuple[Workflow, list[Step], dict[JobId, str], list[Entry]] | None:
        known = await _resolve(store, id)
        if watch:
            from foliot.cli.workflow_watch import Watch

            await workflow_commands.get_workflow(store, known)
            if await Watch(store, known, json=options.json).run() is None:
                return None
        workflow = await workflow_commands.get_workflow(store, known)
        steps = await workflow_commands.workflow_steps(store, known)
        errors = await errors_of(store, steps)
        audit = await store.audit.list(target=known)
        return workflow, steps, errors, audit[::-1]

    found = ask(options, read)
    if found is None:
        return 130
    if not (watch and options.json):
        _print_one(*found, options, all=all)
    return 1 if watch and found[0].state is not WorkflowState.SUCCEEDED else None


def _print_one(
    workflow: Workflow,
    steps: list[Step],
    errors: dict[JobId, str],
    audit: list[Entry],
    options: Options,
    *,
    all: bool,
) -> None:
    from foliot.cli.terminal import Screen
    from foliot.cli.workflow_shape import print_workflow, steps_to_json, workflow_to_json
    from foliot.clock import SystemClock

    if options.json:
        shapes = steps_to_json(workflow, steps)
        told = [{**shape, "error": errors.get(shape["job"])} for shape in shapes]
        print_json({**workflow_to_json(workflow), "steps": told, "audit": audit})
        return
    screen = Screen()
    print_workflow(
        workflow,
        steps,
        errors,
        audit,
        now=SystemClock().now(),
        width=screen.width,
        colour=screen.is_terminal and not screen.no_color,
        all=all or not screen.is_terminal,
    )


def cancel(*ids: str, by: str | None = None, options: Options = DEFAULT_OPTIONS) -> int:
    """End workflows: steps that do not run are cancelled, running ones are told. Exit code 1: some had ended
    otherwise.

    Parameters
    ----------
    ids
        Their ids, or their beginnings or ends.
    by
        Who asks for it, for the audit log (else user@host).
    """
    from foliot import workflow_commands
    from foliot.author import Author
    from foliot.cli.ask import ask
    from foliot.cli.workflow_choice import reason_of
    from foliot.errors import NotRunning
    from foliot.ids import Ids

    if not ids:
        raise InvalidValue("ids", problem="are missing", example="foliot workflows cancel 01a1ecf4")
    author = Author(Ids(), by)

    async def run(store: Store) -> tuple[list[Workflow], dict[JobId, str]]:
        known = [await _resolve(store, id) for id in ids]
        changed, refused = [], {}
        for id in known:
            try:
                changed.append(await workflow_commands.cancel_workflow(store, id, by=author))
            except NotRunning as error:
                refused[id] = reason_of(error)
        return changed, refused

    changed, refused = ask(options, run)
    _tell_ends(changed, refused, options)
    return 1 if refused else 0


def _tell_ends(changed: list[Workflow], refused: dict[JobId, str], options: Options) -> None:
    running = [one for one in changed if not one.state.final]
    if options.json:
        told = {"changed": len(changed), "ids": [one.id for one in changed]}
        print_json({**told, "still_running": len(running), "refused": refused})
        return
    if len(changed) > len(running) or not (running or refused):
        print(f"cancelled: {len(changed) - len(running):,}")
    for one in running:
        have = "has" if one.remaining == 1 else "have"
        print(f"asked to end: {one.id}, {one.remaining:,} of its steps {have} not ended")
    for id, reason in refused.items():
        print(f"refused: {id}: {printable(reason)}", file=sys.stderr)


def pause(
    id: str, *, note: str | None = None, by: str | None = None, options: Options = DEFAULT_OPTIONS
) -> None:
    """Let nothing more of a workflow start, nor of those that run for its steps, until it is resumed. What runs goes
    on, and so does its deadline.

    Parameters
    ----------
    id
        Its id, or the beginning or the end of it.
    note
        Why, for those who wonder.
    by
        Who asks for it, for the audit log (else user@host).
    """
    from foliot import workflow_commands

    workflow = _act(id, by, options, workflow_commands.pause_workflow, note=note)
    _tell("paused", workflow, options)


def resume(id: str, *, by: str | None = None, options: Options = DEFAULT_OPTIONS) -> None:
    """Let a paused workflow go on, and those that run for its steps.

    Parameters
    ----------
    id
        Its id, or the beginning or the end of it.
    by
        Who asks for it, for the audit log (else user@host).
    """
    from foliot import workflow_commands

    async def go_on(store: Store, known: JobId, *, by: Author) -> tuple[bool, Workflow]:
        before = await workflow_commands.get_workflow(store, known)
        after = await workflow_commands.resume_workflow(store, known, by=by)
        return before.paused_at is not None, after

    was_paused, workflow = _act(id, by, options, go_on)
    _tell("resumed" if was_paused else "it was not paused:", workflow, options)


def rerun(id: str, *, by: str | None = None, options: Options = DEFAULT_OPTIONS) -> None:
    """Submit a workflow once more as it was first submitted, as a new one, and print its id.

    Parameters
    ----------
    id
        Its id, or the beginning or the end of it.
    by
        Who asks for it, for the audit log (else user@host).
    """
    from foliot import workflow_commands
    from foliot.ids import Ids

    limits = options.load().settings.limits
    made = _act(id, by, options, workflow_commands.rerun_workflow, ids=Ids(), limits=limits)
    if options.json:
        print_json({"id": made})
    else:
        print(made)


def signal(
    id: str,
    name: str,
    *,
    payload: Annotated[str, Parameter(allow_leading_hyphen=True)] = "null",
    early: Switch = False,
    by: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Send a signal to a workflow. A step that waits for it ends with the payload as its result; for one that will
    wait, it is kept.

    Parameters
    ----------
    id
        Its id, or the beginning or the end of it.
    name
        The name of the signal.
    payload
        Any value in JSON; - reads it from stdin, @file from a file.
    early
        Also if no step waits for it so far: it is kept for one that is added later.
    by
        Who asks for it, for the audit log (else user@host).
    """
    from foliot import workflow_commands

    largest = options.load().settings.limits.payload
    value = _read_json(payload, largest)

    async def send(store: Store, known: JobId, *, by: Author) -> None:
        await workflow_commands.signal_workflow(
            store, known, name, value, early=early, by=by, largest=largest
        )

    _act(id, by, options, send)
    if options.json:
        print_json({"signal": name})
    else:
        print(f"sent {printable(name)}")


def _read_json(text: str, largest: int) -> Any:
    import msgspec

    from foliot.cli.arguments import read_value

    try:
        return msgspec.json.decode(read_value(text, largest))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValue(
            "payload", text, f"is not JSON: {error}", example="""--payload '{"by": "ada"}'"""
        ) from None


def _act(
    id: str, by: str | None, options: Options, act: Callable[..., Awaitable[T]], **more: Any
) -> T:
    from foliot.author import Author
    from foliot.cli.ask import ask
    from foliot.ids import Ids

    author = Author(Ids(), by)

    async def run(store: Store) -> T:
        return await act(store, await _resolve(store, id), by=author, **more)

    return ask(options, run)


def _tell(done: str, workflow: Workflow, options: Options) -> None:
    from foliot.cli.workflow_shape import workflow_to_json

    if options.json:
        print_json(workflow_to_json(workflow))
    else:
        print(f"{done} {workflow.id}")


async def _resolve(store: Store, id: str) -> JobId:
    from foliot.cli.workflow_choice import resolve_workflow

    return await resolve_workflow(store, id)

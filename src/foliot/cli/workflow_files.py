"""`foliot workflows submit` and `graph`: workflows that are written in a file, and pictures of those and of others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from foliot.cli.given import check_unwritten
from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import print_json
from foliot.errors import InvalidValue
from foliot.units import show_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foliot.config import LimitSettings
    from foliot.model.definition import StoredDefinition
    from foliot.model.workflow import Step, Workflow
    from foliot.store.port import Store

Switch = Annotated[bool, Parameter(negative="")]
_File = Annotated[str, Parameter(allow_leading_hyphen=True)]
_SUFFIXES = (".toml", ".json")
_WRITTEN: Final[dict[str, Literal["mermaid", "svg"]]] = {
    ".svg": "svg",
    ".mmd": "mermaid",
    ".md": "mermaid",
}
_LARGEST = 64 << 20


def submit(
    file: _File,
    *,
    key: str | None = None,
    wait: Switch = False,
    options: Options = DEFAULT_OPTIONS,
) -> int:
    """Submit the workflow of a file, all of it or nothing. With --wait: exit code 1 if it does not succeed.

    Parameters
    ----------
    file
        A file in TOML or JSON; - reads it from stdin.
    key
        One run for each key: with the same steps it is the run that there is, with others an error.
    wait
        Wait for its end, show how it goes and print the results of its last steps.
    """
    import msgspec

    from foliot import workflow_commands
    from foliot.cli.ask import ask
    from foliot.ids import Ids
    from foliot.workflow_check import check
    from foliot.workflow_draft import build
    from foliot.workflow_file import read_draft

    limits = options.load().settings.limits
    source = source_of(file)

    async def run(store: Store) -> int:
        draft = await read_draft(store, source, limits=limits)
        if key is not None:
            draft = msgspec.structs.replace(draft, key=key)
        made = build(draft, Ids(), limits=limits)
        for warning in check(draft):
            print(f"warning: {warning}", file=sys.stderr)
        is_new = await workflow_commands.submit_workflow(store, made)
        if wait:
            from foliot.cli.workflow_watch import wait_for_end

            return await wait_for_end(store, made.id, is_new=is_new, json=options.json)
        if options.json:
            print_json({"id": made.id, "is_new": is_new})
            return 0
        print(made.id)
        if not is_new:
            print("there already, by its key", file=sys.stderr)
        return 0

    return ask(options, run)


def source_of(file: str) -> str | Path:
    """What stdin says, or where the file is."""
    return _read_stdin() if file == "-" else Path(file)


def graph(
    target: _File,
    *,
    format: Literal["mermaid", "svg"] | None = None,
    output: Path | None = None,
    force: Switch = False,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Write the graph of a workflow, with the states of its steps; or that of a file, without a store.

    Parameters
    ----------
    target
        Its id, or the beginning or the end of it; or a file in TOML or JSON, - for stdin.
    format
        As what: else as the name of the --output says, or mermaid.
    output
        The file to write it to, .svg, .mmd or .md; else stdout.
    force
        Overwrite a file that is there already.
    """
    from foliot.clock import SystemClock
    from foliot.drawing import to_mermaid, to_svg

    format = format or _format_for(output)
    if output is not None:
        check_unwritten("output", output, force=force)
    if _is_file(target):
        workflow, steps = _not_submitted(target, options.load().settings.limits)
    else:
        workflow, steps = _submitted(target, options)
    now = SystemClock().now()
    draw = to_svg if format == "svg" else to_mermaid
    drawn = draw(workflow, steps, now=now)
    if output is None and options.json:
        print_json({"format": format, "graph": drawn})
    elif output is None:
        print(drawn.rstrip("\n"))
    else:
        is_page = format == "mermaid" and output.suffix.lower() == ".md"
        _write(output, f"```mermaid\n{drawn}```\n" if is_page else drawn)
        if options.json:
            print_json({"format": format, "file": str(output)})


def _format_for(output: Path | None) -> Literal["mermaid", "svg"]:
    if output is None or not output.suffix:
        return "mermaid"
    found = _WRITTEN.get(output.suffix.lower())
    if found is None:
        problem = "is no .svg, .mmd or .md, which can be written"
        hint = "pictures of other kinds can be made of an .svg"
        raise InvalidValue("output", str(output), problem, hint=hint)
    return found


def _is_file(target: str) -> bool:
    return target == "-" or target.lower().endswith(_SUFFIXES) or Path(target).is_file()


def _submitted(id: str, options: Options) -> tuple[Workflow, Sequence[Step]]:
    from foliot import workflow_commands
    from foliot.cli.ask import ask
    from foliot.cli.workflow_choice import resolve_workflow

    async def read(store: Store) -> tuple[Workflow, list[Step]]:
        known = await resolve_workflow(store, id)
        workflow = await workflow_commands.get_workflow(store, known)
        return workflow, await workflow_commands.workflow_steps(store, known)

    return ask(options, read)


def _not_submitted(file: str, limits: LimitSettings) -> tuple[Workflow, Sequence[Step]]:
    """Whether its kinds exist is not asked: a picture needs no store."""
    from foliot.drawing import not_submitted
    from foliot.ids import Ids
    from foliot.workflow_draft import build
    from foliot.workflow_file import draft_from
    from foliot.workflow_text import form_of, parse, read_file

    if file == "-":
        text = _read_stdin()
        told, format = parse(text), form_of(text)
    else:
        told, format = read_file(Path(file))
    kinds = {kind: _assumed(kind) for kind in _kinds_in(told)}
    draft = draft_from(told, kinds, format=format, limits=limits)
    return not_submitted(build(draft, Ids(), limits=limits))


def _kinds_in(told: object) -> Iterator[str]:
    """Of its steps, and of those of the workflows among them."""
    steps = told.get("steps") if isinstance(told, dict) else None
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict):
            if isinstance(kind := step.get("kind"), str):
                yield kind
            yield from _kinds_in(step.get("workflow"))


def _assumed(kind: str) -> StoredDefinition:
    """A kind that takes whatever it is given, and elements by an argument that nobody gives."""
    from foliot.model.definition import Defaults, StoredDefinition

    return StoredDefinition(
        kind=kind,
        queue="default",
        signature="",
        schema='{"properties": {"element of a list": {}}}',
        fingerprint="",
        version=1,
        options=Defaults(),
    )


def _read_stdin() -> str:
    if sys.stdin is None:
        raise InvalidValue("file", "-", "cannot be read: standard input is closed")
    if sys.stdin.isatty():
        print("reading the workflow, TOML or JSON; end it with Ctrl-D", file=sys.stderr)
    raw = sys.stdin.buffer.read(_LARGEST + 1)
    if len(raw) > _LARGEST:
        raise InvalidValue("file", "-", f"is larger than {show_size(_LARGEST)}")
    if not raw.strip():
        raise InvalidValue(
            "stdin", problem="was empty", hint="give it TOML or JSON, or name a file"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidValue("file", "-", "is not UTF-8 text") from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidValue("output", str(path), f"cannot be written: {reason}") from None

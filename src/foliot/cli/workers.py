"""`foliot workers`: which processes there are, how they are, and letting them finish."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from foliot import commands
from foliot.author import Author
from foliot.cli.ask import ask
from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import ago, print_json, print_table
from foliot.errors import InvalidValue
from foliot.ids import Ids
from foliot.model.session import Session
from foliot.model.workflow import BUILTIN_KINDS

_STILL: Final = 300.0  # seconds without a start or an end, with no room for more
_HEADERS = (
    *("id", "process", "version", "queues", "capabilities"),
    *("kinds", "load", "room", "beat", "state"),
)


def list_workers(
    *,
    kinds: Annotated[bool, Parameter(negative="")] = False,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """List the processes that run jobs or the scheduler's duties, and how they are.

    Parameters
    ----------
    kinds
        Show which kinds each of them knows, not only how many.
    """
    sessions = ask(options, lambda store: commands.workers(store, lost=True))
    if options.json:
        print_json({"workers": [_object(session) for session in sessions]})
        return
    print_table(
        _HEADERS,
        [_row(session, kinds=kinds) for session in sessions],
    )


def drain(
    *workers: str,
    all: Annotated[bool, Parameter(negative="")] = False,
    by: str | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """Ask workers to take no more jobs, finish what they run, and end.

    Parameters
    ----------
    workers
        Which: the beginning of an id, a host, or host:pid.
    all
        All that are alive.
    by
        Who asks for it, for the audit log (else user@host).
    """
    author = Author(Ids(), by)
    if bool(workers) == all:
        raise InvalidValue(
            "workers",
            problem="must be named, or --all",
            example="foliot workers drain web-1:4711",
            hint="see: foliot workers list",
        )
    drained = ask(options, lambda store: commands.drain(store, workers, by=author))
    if options.json:
        print_json({"draining": [session.id for session in drained]})
        return
    for session in drained:
        left = f"{session.executing} running job{'s' if session.executing != 1 else ''}"
        print(f"draining {session.host}:{session.pid}, {left}")


def _object(session: Session) -> dict[str, object]:
    told: dict[str, object] = msgspec.to_builtins(session)
    del told["modules"]  # they go with all kinds, in their order
    return told | {
        "kinds": _own_kinds(session),
        "state": session.health,
        "remark": remark(session) or None,
    }


def _own_kinds(session: Session) -> list[str]:
    """Those of the app: what every worker knows says nothing of this one."""
    return [kind for kind in session.kinds if kind not in BUILTIN_KINDS]


def remark(session: Session) -> str:
    """What is to be said of it beyond one word; nothing, of most."""
    if session.note or not session.live or session.stillness < _STILL:
        return session.note or ""
    still = f"nothing moved for {ago(session.stillness)}"
    return f"{still}, {session.executing} running, {session.waiting} waiting"


def _row(session: Session, *, kinds: bool) -> tuple[str, ...]:
    note, own = remark(session), _own_kinds(session)
    return (
        session.id,
        f"{session.host}:{session.pid}",
        session.version,
        ", ".join(session.queues) or "all",
        ", ".join(session.capabilities) or "-",
        (", ".join(own) or "-") if kinds else str(len(own)),
        f"{session.executing}/{session.concurrency}",
        str(session.room),
        ago(session.silence),
        f"{session.health}: {note}" if note else session.health,
    )

"""What is said of a command line that lacks an argument: which, and a line that has all of them."""

from __future__ import annotations

import inspect
from typing import Final

from cyclopts import MissingArgumentError

_EXAMPLES: Final = {
    "app": "shop.jobs:app",
    "id": "0192f3a4",
    "kind": "send_email",
    "name": "nightly",
    "file": "etl.toml",
    "hook": "on.job.dead.complain",
    "queue": "mail",
    "limit": "queue:mail",
    "breaker": "stripe",
    "partitions": "8",
    "source": "sqlite:///foliot.db",
    "target": "postgresql://host/database",
    "shell": "bash",
    "calendars set name": "holidays",
    "calendars delete name": "holidays",
    "schedules diff file": "schedules.toml",
    "schedules apply file": "schedules.toml",
    "workflows graph target": "etl.toml",
    "workflows signal name": "approval",
}
_REST: Final = {  # without which the line would still not do
    "calendars set": "2026-12-25",
    "jobs change": "--in 10m",
    "limits set": "--concurrency 20",
    "queues configure": "--strategy fifo",
    "schedules create": 'send_email "every day at 3am"',
    "schedules update": "--timezone Europe/Berlin",
}


def describe_missing(error: MissingArgumentError) -> tuple[str, str] | None:
    """The message and the hint, of an argument that has no name before it. None: it is the value of an option."""
    if error.keyword is not None or error.argument is None or error.target is None:
        return None
    command = " ".join(error.command_chain or ())
    needed = [
        one.name
        for one in inspect.signature(error.target).parameters.values()
        if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    missing = error.argument.field_info.name
    if missing not in needed:
        return None
    given = [_EXAMPLES.get(f"{command} {name}") or _EXAMPLES[name] for name in needed]
    line = " ".join(["foliot", command, *given, _REST.get(command, "")]).rstrip()
    return f"foliot {command} needs {missing.upper()}", f"for example: {line}"

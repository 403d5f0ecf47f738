"""The `foliot` command: its table of commands, and how their errors reach the user.

Commands are named by import path and imported when they are called. Exit codes: 0 done, 1 failed,
2 usage or configuration, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from cyclopts import (
    App,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnusedCliTokensError,
)

from foliot import __version__
from foliot.cli.missing import describe_missing
from foliot.cli.typed import message_of, negative_value
from foliot.errors import FoliotError, InvalidValue, UnknownKind
from foliot.shown import did_you_mean

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

GROUPS = {
    "jobs": "Look at jobs, and change them by hand.",
    "dead": "Look at dead jobs, try them again, or forget them.",
    "schedules": "Say what is to run when, and look at what became of it.",
    "workflows": "Run graphs of jobs, and look at how far they are.",
    "calendars": "Days on which schedules do not fire.",
    "hooks": "Look at who is told what happens.",
    "queues": "Look at queues, and stop them for a while.",
    "limits": "Limit how many jobs run at once, or start in a time.",
    "breakers": "Stop jobs from calling a service that fails, and let them again.",
    "workers": "Look at the processes that run jobs, and let them finish.",
    "db": "Create, upgrade and look after the store's tables.",
    "config": "Look at the settings.",
    "bench": "Measure this machine.",
}

# To add a command: one line here, and the function it names.
COMMANDS = {
    "up": ("foliot.cli.up:up", "Run everything in one process."),
    "demo": ("foliot.cli.demo:demo", "Run sample jobs on SQLite and watch them live."),
    "worker": ("foliot.cli.run:worker", "Run the jobs of an application: module:app."),
    "scheduler": ("foliot.cli.run:scheduler", "Do only the scheduler's duties."),
    "jobs list": ("foliot.cli.jobs:list_jobs", "List jobs by a filter."),
    "jobs count": ("foliot.cli.jobs:count", "Count jobs by a filter."),
    "jobs show": ("foliot.cli.jobs:show", "Show all that is known of a job."),
    "jobs explain": ("foliot.cli.jobs:explain", "Say why a job is not running."),
    "jobs logs": ("foliot.cli.jobs:logs", "Show what a job has logged."),
    "jobs change": ("foliot.cli.change:change", "Change a job that has not started yet."),
    "jobs cancel": ("foliot.cli.jobs:cancel", "Ask for the end of jobs."),
    "jobs retry": ("foliot.cli.dead:retry", "Try dead jobs again."),
    "dead list": ("foliot.cli.dead:list_dead", "List dead jobs by a filter."),
    "dead count": ("foliot.cli.dead:count", "Count dead jobs by a filter."),
    "dead show": ("foliot.cli.dead:show", "Show all that is known of a dead job."),
    "dead retry": ("foliot.cli.dead:retry", "Try dead jobs again."),
    "dead purge": ("foliot.cli.dead:purge", "Forget dead jobs."),
    "submit": ("foliot.cli.submit:submit", "Submit a job, and wait for it if wanted."),
    "schedules list": ("foliot.cli.schedules:list_schedules", "List schedules."),
    "schedules explain": (
        "foliot.cli.schedule_times:explain",
        "Say why a schedule fires or does not.",
    ),
    "schedules show": ("foliot.cli.schedules:show", "Show all that is known of a schedule."),
    "schedules create": ("foliot.cli.schedule_making:create", "Make a schedule."),
    "schedules update": ("foliot.cli.schedule_making:update", "Change a schedule."),
    "schedules pause": ("foliot.cli.schedules:pause", "Stop schedules from firing."),
    "schedules resume": ("foliot.cli.schedules:resume", "Let paused schedules fire again."),
    "schedules trigger": ("foliot.cli.schedules:trigger", "Run a schedule once, now."),
    "schedules delete": ("foliot.cli.schedules:delete", "Delete schedules."),
    "schedules preview": ("foliot.cli.previewing:preview", "Show how an expression is read."),
    "schedules backfill": ("foliot.cli.schedules:backfill", "Run a schedule for a span of time."),
    "schedules fires": ("foliot.cli.schedule_times:fires", "Show what became of each time."),
    "schedules forecast": ("foliot.cli.schedule_times:forecast", "Show what will fire when."),
    "schedules diff": ("foliot.cli.schedule_files:diff", "Compare a file with the schedules."),
    "schedules apply": ("foliot.cli.schedule_files:apply", "Make the schedules of a file."),
    "workflows list": ("foliot.cli.workflows:list_workflows", "List workflows."),
    "workflows show": ("foliot.cli.workflows:show", "Draw a workflow, and list its steps."),
    "workflows submit": ("foliot.cli.workflow_files:submit", "Submit the workflow of a file."),
    "workflows cancel": ("foliot.cli.workflows:cancel", "End workflows."),
    "workflows pause": ("foliot.cli.workflows:pause", "Let nothing more of a workflow start."),
    "workflows resume": ("foliot.cli.workflows:resume", "Let a paused workflow go on."),
    "workflows retry": (
        "foliot.cli.workflow_retry:retry",
        "Run the failed steps of workflows again.",
    ),
    "workflows rerun": ("foliot.cli.workflows:rerun", "Submit a workflow once more, as a new one."),
    "workflows signal": ("foliot.cli.workflows:signal", "Send a signal to a workflow."),
    "workflows graph": ("foliot.cli.workflow_files:graph", "Write a graph as Mermaid or SVG."),
    "calendars list": ("foliot.cli.calendars:list_calendars", "List calendars."),
    "calendars set": ("foliot.cli.calendars:set_calendar", "Say which days a calendar has."),
    "calendars delete": ("foliot.cli.calendars:delete", "Delete a calendar."),
    "hooks list": ("foliot.cli.hooks:list_hooks", "List the hooks that listen."),
    "hooks remove": ("foliot.cli.hooks:remove", "Let a hook listen no longer."),
    "workers list": ("foliot.cli.workers:list_workers", "List processes and how they are."),
    "workers drain": ("foliot.cli.workers:drain", "Ask workers to finish and end."),
    "top": ("foliot.cli.top:top", "Watch queues, workers, running jobs and failures."),
    "stats": ("foliot.cli.stats:stats", "Show how many jobs ended lately, how fast and how well."),
    "queues list": ("foliot.cli.queues:list_queues", "List the queues and what waits in them."),
    "queues configure": ("foliot.cli.queues:configure", "Say in which order a queue's jobs run."),
    "queues pause": ("foliot.cli.queues:pause", "Stop taking jobs from a queue."),
    "limits list": (
        "foliot.cli.limits:list_limits",
        "List the limits and how much of them is used.",
    ),
    "limits set": ("foliot.cli.limits:set_limit", "Limit jobs of a queue, kind, namespace or key."),
    "limits delete": ("foliot.cli.limits:delete", "Take a limit away."),
    "breakers list": (
        "foliot.cli.breakers:list_breakers",
        "List the breakers, and what waits for them.",
    ),
    "breakers open": (
        "foliot.cli.breakers:open_breaker",
        "Let no job of a breaker start for a while.",
    ),
    "breakers close": (
        "foliot.cli.breakers:close_breaker",
        "Let the jobs of a breaker start again.",
    ),
    "queues resume": ("foliot.cli.queues:resume", "Take jobs from a paused queue again."),
    "db init": ("foliot.cli.db:init", "Create the tables."),
    "db upgrade": ("foliot.cli.db:upgrade", "Bring the tables to this version."),
    "db status": ("foliot.cli.db:status", "Show the version of the tables."),
    "db prune": ("foliot.cli.db:prune", "Remove history older than its retention."),
    "db repartition": ("foliot.cli.db:repartition", "Change the number of partitions."),
    "db copy": ("foliot.cli.copy:copy", "Copy a store to another place or engine."),
    "doctor": ("foliot.cli.doctor:doctor", "Examine the store: durability, versions, health."),
    "check": ("foliot.cli.check:check", "List jobs that an application could not run."),
    "config show": ("foliot.cli.config:show", "Show every setting and where it came from."),
    "bench drain": ("foliot.cli.bench:drain", "How fast workers empty a full queue."),
    "bench submit": ("foliot.cli.bench:submit", "How fast jobs are submitted."),
    "bench latency": ("foliot.cli.bench:latency", "How soon an idle worker starts a job."),
    "bench waiters": (
        "foliot.cli.bench:waiters",
        "What waiting for results costs, and how soon they are there.",
    ),
    "bench schedules": (
        "foliot.cli.bench:schedules",
        "How fast schedules are made and fired, and how late.",
    ),
    "bench explain": (
        "foliot.cli.bench_explain:explain",
        "How long an explanation takes while many wait.",
    ),
    "bench limits": (
        "foliot.cli.bench_limits:limits",
        "What limits cost, and how busy they are kept.",
    ),
    "bench workflows": (
        "foliot.cli.bench_workflows:workflows",
        "How fast workflows run, wide, many and long.",
    ),
    "bench when": ("foliot.cli.bench:when", "How fast the next fire of an expression is found."),
    "bench idle": ("foliot.cli.bench:idle", "What an idle worker costs, and whether it grows."),
    "completion": ("foliot.cli.completion:completion", "Print a completion script for a shell."),
    "version": ("foliot.cli.version:version", "Show versions."),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    _escape_what_cannot_be_written()
    try:
        code = _run(tokens)
        if sys.stdout is not None:
            sys.stdout.flush()
    except CycloptsError as error:
        return _report(*_usage(error, tokens), code=USAGE)
    except FoliotError as error:
        return _refuse(error, tokens)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_stdout()  # whoever read our output has seen enough
        return OK
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _drop_stdout()
        return _report("the output cannot be written: the disk is full", None, code=FAILED)
    return code


def _run(tokens: list[str]) -> int:
    app = build_app()
    if not tokens or (len(tokens) == 1 and tokens[0] in GROUPS):
        app.help_print(tokens)
        return USAGE
    result = app(tokens, print_error=False, exit_on_error=False, result_action="return_value")
    return result if isinstance(result, int) else OK


def build_app() -> App:
    """The command line, with nothing of the commands imported."""
    app = App(
        name="foliot",
        help="Run work now or later; never lost.",
        version=__version__,
        help_format="plaintext",
    )
    groups = {"": app} | {name: App(name=name, help=help) for name, help in GROUPS.items()}
    for name in GROUPS:
        app.command(groups[name])
    for path, (target, help) in COMMANDS.items():
        group, _, name = path.rpartition(" ")
        groups[group].command(target, name=name, help=help)
    return app


def _usage(error: CycloptsError, tokens: Sequence[str]) -> tuple[str, str | None]:
    """The message and the hint of a wrong command line."""
    chain = " ".join(error.command_chain or ())
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        token = error.unused_tokens[0][:80]
        if token.startswith("-"):
            return f"{token} stands before the command", "options follow it: foliot COMMAND --url …"
        start = f"{chain} " if chain else ""
        below = {path.removeprefix(start) for path in COMMANDS if path.startswith(start)}
        names = sorted({path.partition(" ")[0] for path in below})
        hint = did_you_mean(token, names) or f"commands: {', '.join(names)}"
        return f"there is no command {start}{token}", hint
    if isinstance(error, MissingArgumentError) and (missing := describe_missing(error)):
        return missing
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return (
            f"foliot {chain} does not take {error.unused_tokens[0][:80]!r}",
            f"see: foliot {chain} --help",
        )
    if (found := negative_value(str(error), tokens)) is not None:
        return found
    first, mark, rest = str(error).strip().partition("Did you mean ")
    hint = f"did you mean {rest}" if mark else f"see: foliot {chain} --help".replace("  ", " ")
    return first.strip().rstrip("."), hint


def _refuse(error: FoliotError, tokens: Sequence[str]) -> int:
    if isinstance(error, InvalidValue):
        return _report(message_of(error, build_app(), tokens), error.hint, code=USAGE)
    code = USAGE if isinstance(error, UnknownKind) else FAILED
    return _report(error.message, error.hint, code=code)


def _report(message: str, hint: str | None, *, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    return code


def _escape_what_cannot_be_written() -> None:
    """In an encoding that lacks it; stderr does so anyhow."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_stdout() -> None:
    """Point stdout nowhere, or Python complains again when it flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)

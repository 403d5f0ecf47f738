"""`foliot worker` and `foliot scheduler`: processes that run until they are told to stop."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.clock import SystemClock
from foliot.errors import InvalidValue
from foliot.ids import Ids
from foliot.life import Role
from foliot.serve import leave_threads_behind, serve
from foliot.target import load_app
from foliot.worker.supervisor import Supervisor, child_command

if TYPE_CHECKING:
    from foliot.config import Settings


def worker(
    app: str,
    *,
    processes: str | None = None,
    concurrency: str | None = None,
    threads: str | None = None,
    queues: str | None = None,
    capabilities: str | None = None,
    grace: str | None = None,
    no_scheduler: Annotated[bool, Parameter(negative="")] = False,
    child: Annotated[bool, Parameter(show=False, negative="")] = False,
    parent: Annotated[int | None, Parameter(show=False)] = None,
    options: Options = DEFAULT_OPTIONS,
) -> int:
    """Run the jobs of an application.

    Parameters
    ----------
    app
        Where it is: module:attribute.
    processes
        How many processes to run.
    concurrency
        Jobs running at once in each process.
    threads
        Threads for sync functions in each process.
    queues
        Queues to take from, separated by commas, with weights if wanted: mail=3,reports; none named means all.
    capabilities
        What this worker can do that not all can, separated by commas, for example gpu,region:eu.
    grace
        Time that running jobs get to finish when it stops, for example 25s.
    no_scheduler
        Leave the scheduler's duties to other processes.
    """
    flags: dict[str, object] = {
        "worker.processes": processes,
        "worker.concurrency": concurrency,
        "worker.threads": threads,
        "worker.queues": queues,
        "worker.capabilities": capabilities,
        "worker.grace": grace,
        "worker.scheduler": "false" if no_scheduler else None,
    }
    settings = options.load(flags).settings
    if not child:
        start_logging(settings.log.level)
        return _supervise(settings.worker.processes)
    role, settings = role_of(app, settings, options, duties=settings.worker.scheduler)
    start_logging(settings.log.level)  # unless the app has set up its own
    return run_role(role, settings, parent=parent)


def scheduler(*, options: Options = DEFAULT_OPTIONS) -> int:
    """Do the scheduler's duties, without running jobs."""
    settings = options.load().settings
    start_logging(settings.log.level)
    return run_role(Role(None), settings)


def start_logging(level: str) -> None:
    logging.basicConfig(
        level=level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)-7s %(name)s %(message)s",
    )


def _supervise(processes: int) -> int:
    async def run() -> int:
        command = child_command([*sys.argv[1:], "--child"])
        return await Supervisor(command, processes, clock=SystemClock(), ids=Ids()).run()

    return asyncio.run(run())


def role_of(
    app: str, settings: Settings, options: Options, *, duties: bool = True
) -> tuple[Role, Settings]:
    """To run the jobs of an application, and where."""
    found = load_app(app)
    if not len(found.registry):
        raise InvalidValue(
            "app",
            app,
            "has no jobs",
            example="@app.job above a function",
            hint='if they are in other modules: Foliot(include=["shop.mail"])',
        )
    if options.url is None:
        # What the app's own code says about its store counts more than file and environment.
        settings = msgspec.structs.replace(settings, store=found.settings.store)
    return Role(found.registry, duties=duties, target=app), settings


def run_role(role: Role, settings: Settings, *, parent: int | None = None) -> int:
    """Until it is told to stop, or the process at the other end of `parent`, a socket, is gone."""
    clock = SystemClock()
    line = None if parent is None else socket.socket(fileno=parent)
    serve(role, settings, clock=clock, ids=Ids(clock=clock), parent=line)
    leave_threads_behind()
    return 0

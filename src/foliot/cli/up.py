"""`foliot up`: everything in one process."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.run import start_logging
from foliot.clock import SystemClock
from foliot.errors import InvalidValue
from foliot.ids import Ids
from foliot.life import Role
from foliot.serve import leave_threads_behind, serve
from foliot.target import load_app
from foliot.worker.supervisor import child_command

if TYPE_CHECKING:
    from foliot.config import Settings

Switch = Annotated[bool, Parameter(negative="")]


def up(
    app: str | None = None,
    *,
    reload: Switch = False,
    concurrency: str | None = None,
    threads: str | None = None,
    queues: str | None = None,
    capabilities: str | None = None,
    grace: str | None = None,
    child: Annotated[bool, Parameter(show=False, negative="")] = False,
    parent: Annotated[int | None, Parameter(show=False)] = None,
    options: Options = DEFAULT_OPTIONS,
) -> int:
    """Run everything in one process: the jobs of an application, and the scheduler's duties.

    Parameters
    ----------
    app
        Where it is: module:attribute. Without one, only the scheduler's duties are done.
    reload
        Start again when a file of the project has changed.
    concurrency
        Jobs running at once.
    threads
        Threads for sync functions.
    queues
        Queues to take from, separated by commas; none named means all.
    capabilities
        What it can do that some jobs require, for example gpu,region:eu.
    grace
        Time that running jobs get to finish when it stops or starts again, for example 2s.
    """
    flags: dict[str, object] = {
        "worker.concurrency": concurrency,
        "worker.threads": threads,
        "worker.queues": queues,
        "worker.capabilities": capabilities,
        "worker.grace": grace,
    }
    settings = options.load(flags).settings
    if reload and not child:
        return _reload(app)
    role, settings = _role(app, settings, options)
    start_logging(settings.log.level)  # unless the app has set up its own
    line = None if parent is None else socket.socket(fileno=parent)
    clock = SystemClock()
    serve(role, settings, clock=clock, ids=Ids(clock=clock), parent=line)
    leave_threads_behind()
    return 0


def _role(app: str | None, settings: Settings, options: Options) -> tuple[Role, Settings]:
    if app is None:
        return Role(None), settings
    found = load_app(app)
    if not len(found.registry):
        raise InvalidValue("app", app, "has no jobs", example="@app.job above a function")
    if options.url is None:
        # What the app's own code says about its store counts more than file and environment.
        settings = msgspec.structs.replace(settings, store=found.settings.store)
    return Role(found.registry, target=app), settings


def _reload(app: str | None) -> int:
    from foliot.cli.reload import Reloader, project_of

    async def run() -> int:
        command = child_command([*sys.argv[1:], "--child"])
        return await Reloader(command, project_of(app), clock=SystemClock()).run()

    return asyncio.run(run())

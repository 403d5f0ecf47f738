"""`foliot up`: everything in one process."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

from cyclopts import Parameter

from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.run import role_of, run_role, start_logging
from foliot.clock import SystemClock
from foliot.life import Role
from foliot.worker.supervisor import child_command

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
    role = Role(None)
    if app is not None:
        role, settings = role_of(app, settings, options)
    start_logging(settings.log.level)  # unless the app has set up its own
    return run_role(role, settings, parent=parent)


def _reload(app: str | None) -> int:
    from foliot.cli.reload import Reloader, project_of

    async def run() -> int:
        python, *rest = child_command([*sys.argv[1:], "--child"])
        # Without bytecode: of a file that is changed twice in a second, Python takes what it compiled first.
        command = [python, "-B", *rest]
        return await Reloader(command, project_of(app), clock=SystemClock()).run()

    return asyncio.run(run())

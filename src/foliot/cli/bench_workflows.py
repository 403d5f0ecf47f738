"""`foliot bench workflows`."""

from __future__ import annotations

from foliot.cli.bench import Switch, check_counts, load_settings, say, show
from foliot.cli.options import DEFAULT_OPTIONS, Options, Whole
from foliot.errors import InvalidValue


def workflows(
    *,
    width: Whole = 10_000,
    flows: Whole = 1_000,
    length: Whole = 100,
    processes: str = "2",
    concurrency: str | None = None,
    runs: Whole = 5,
    force: Switch = False,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """How fast workflows run: a wide one, many small ones, and a chain on an idle system.

    Parameters
    ----------
    width
        Steps between the first and the last of the wide one.
    flows
        How many workflows of ten steps, diamonds in a row, are run at once.
    length
        Steps of the chain.
    processes
        How many worker processes to run.
    concurrency
        Jobs running at once in each process.
    runs
        How often; the median counts.
    force
        Run on a store that has jobs in it.
    """
    from foliot.bench.workflows import Plan
    from foliot.bench.workflows import workflows as run_workflows

    check_counts(width=width, flows=flows, length=length, runs=runs)
    if length == 1:
        raise InvalidValue("length", length, "is no chain", example="--length 100")
    plan = Plan(width=width, flows=flows, length=length, runs=runs, force=force)
    show(run_workflows(load_settings(options, processes, concurrency), plan, say), options)

"""`foliot bench explain`."""

from __future__ import annotations

from foliot.cli.bench import Switch, check_counts, load_settings, say, show
from foliot.cli.options import DEFAULT_OPTIONS, Options, Whole


def explain(
    *,
    jobs: Whole = 1_000_000,
    steps: Whole = 9_000,
    asked: Whole = 200,
    runs: Whole = 5,
    force: Switch = False,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """How long `explain` takes while many jobs wait.

    Parameters
    ----------
    jobs
        How many wait.
    steps
        Of a workflow, how many one step waits for; that is asked about as well, and one that waits for a signal.
    asked
        How many of them are asked about, from the first to the last of the line.
    runs
        How often; the median counts.
    force
        Run on a store that has jobs in it.
    """
    from foliot.bench.explaining import Plan, explaining

    check_counts(jobs=jobs, steps=steps, asked=asked, runs=runs)
    plan = Plan(jobs=jobs, steps=steps, asked=asked, runs=runs, force=force)
    show(explaining(load_settings(options, "1", None), plan, say), options)

"""`foliot bench limits`."""

from __future__ import annotations

from foliot.cli.bench import Switch, check_counts, load_settings, say, show
from foliot.cli.options import DEFAULT_OPTIONS, Options, Whole


def limits(
    *,
    jobs: Whole = 100_000,
    keys: Whole = 10_000,
    slots: Whole = 50,
    processes: str = "2",
    concurrency: str | None = None,
    runs: Whole = 5,
    force: Switch = False,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """What limits cost: one that is never reached, one slot for each of many keys, and some slots for one.

    Parameters
    ----------
    jobs
        How many are drained each time.
    keys
        How many keys they have, with one slot each.
    slots
        How many slots the one key has; its jobs take a millisecond each.
    processes
        How many worker processes to run.
    concurrency
        Jobs running at once in each process.
    runs
        How often; the median counts.
    force
        Run on a store that has jobs in it.
    """
    from foliot.bench.limits import Plan
    from foliot.bench.limits import limits as run_limits

    check_counts(jobs=jobs, keys=keys, slots=slots, runs=runs)
    plan = Plan(jobs=jobs, keys=keys, slots=slots, runs=runs, force=force)
    show(run_limits(load_settings(options, processes, concurrency), plan, say), options)

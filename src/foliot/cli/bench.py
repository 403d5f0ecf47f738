"""`foliot bench`: what this machine can do with this store."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from foliot.checks import check_seconds, check_whole
from foliot.cli.given import check_unwritten
from foliot.cli.options import DEFAULT_OPTIONS, Options, Whole
from foliot.cli.output import print_json, print_table
from foliot.errors import InvalidValue

if TYPE_CHECKING:
    from foliot.config import Settings

Switch = Annotated[bool, Parameter(negative="")]


def drain(
    *,
    jobs: Whole = 200_000,
    kind: Literal["async", "sync", "process", "transaction"] = "async",
    processes: str = "2",
    concurrency: str | None = None,
    threads: str | None = None,
    runs: Whole = 5,
    floor: Switch = False,
    backdrop: Whole = 0,
    ordering_keys: Whole = 0,
    fair_keys: Whole = 0,
    force: Switch = False,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """How fast workers empty a full queue. Exit code 1: a job was not run exactly once.

    Parameters
    ----------
    jobs
        How many jobs are in the queue.
    kind
        Async functions, sync ones in threads, functions in child processes, or async ones in transactions of their own.
    processes
        How many worker processes to run.
    concurrency
        Jobs running at once in each process.
    threads
        Threads for sync functions in each process.
    runs
        How often; the median counts.
    floor
        Measure the limit of this machine too, in turns: the shipped statements alone.
    backdrop
        Compare with a store in which so many more jobs are scheduled for next month.
    ordering_keys
        Give the jobs so many ordering keys: those of one run one at a time, in order.
    fair_keys
        Give the jobs so many fair keys, and serve the queue round robin.
    force
        Run on a store that has jobs in it.
    """
    from foliot.bench.drain import Plan
    from foliot.bench.drain import drain as run_drain

    check_counts(jobs=jobs, runs=runs)
    check_whole("backdrop", backdrop, 0, 100_000_000, example="--backdrop 10000000")
    settings = load_settings(options, processes, concurrency, threads)
    for name, keys in (("ordering_keys", ordering_keys), ("fair_keys", fair_keys)):
        check_whole(name, keys, 0, 10_000_000, example="--ordering-keys 1000")
    plan = Plan(
        jobs=jobs,
        kind=kind,
        runs=runs,
        floor=floor,
        backdrop=backdrop,
        ordering_keys=ordering_keys,
        fair_keys=fair_keys,
        force=force,
    )
    show(run_drain(settings, plan, say), options)


def submit(
    *,
    seconds: float = 3.0,
    runs: Whole = 5,
    batch: Whole = 1000,
    threads: Whole = 32,
    sustained: float | None = None,
    processes: str = "2",
    concurrency: str | None = None,
    force: Switch = False,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """How fast jobs are submitted: in batches, one by one, and from many threads.

    Parameters
    ----------
    seconds
        How long each measurement takes.
    runs
        How often; the median counts.
    batch
        Jobs in one submit_many.
    threads
        Threads that submit one by one.
    sustained
        Instead: submit and run at the same time, for so many seconds.
    processes
        Worker processes, for --sustained.
    concurrency
        Jobs running at once in each of them, for --sustained.
    force
        Run on a store that has jobs in it.
    """
    from foliot.bench.submit import Plan
    from foliot.bench.submit import submit as run_submit
    from foliot.bench.sustained import sustained as run_sustained

    check_counts(runs=runs, batch=batch, threads=threads)
    settings = load_settings(options, processes, concurrency)
    if sustained is not None:
        check_seconds("sustained", sustained, least=1, most=86_400, example="--sustained 60")
        show(run_sustained(settings, sustained, say, force=force), options)
        return
    check_seconds("seconds", seconds, least=0.01, most=3600, example="--seconds 3")
    plan = Plan(seconds=seconds, runs=runs, batch=batch, threads=threads, force=force)
    show(run_submit(settings, plan, say), options)


def latency(
    *,
    jobs: Whole = 1000,
    gap: float = 0.0075,
    processes: str = "1",
    concurrency: str | None = None,
    force: Switch = False,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """How soon an idle worker starts a job, from the return of submit.

    Parameters
    ----------
    jobs
        How many jobs are timed.
    gap
        Seconds between two submissions, give or take a third.
    processes
        How many worker processes to run.
    concurrency
        Jobs running at once in each process.
    force
        Run on a store that has jobs in it.
    """
    from foliot.bench.latency import Plan
    from foliot.bench.latency import latency as run_latency

    check_counts(jobs=jobs)
    check_seconds("gap", gap, least=0, most=60, example="--gap 0.0075")
    settings = load_settings(options, processes, concurrency)
    show(run_latency(settings, Plan(jobs=jobs, gap=gap, force=force), say), options)


def waiters(
    *,
    handles: Whole = 1000,
    kind: Literal["async", "sync"] = "async",
    seconds: float = 10.0,
    gap: float = 0.01,
    force: Switch = False,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """What many handles that wait for their results cost the store, and how soon they return.

    Parameters
    ----------
    handles
        How many wait.
    kind
        Tasks that wait, or threads.
    seconds
        How long all of them wait before the first job ends.
    gap
        Seconds between the ends of two jobs.
    force
        Run on a store that has jobs in it.
    """
    from foliot.bench.waiters import Plan
    from foliot.bench.waiters import waiters as run_waiters

    check_whole("handles", handles, 1, 100_000, example="--handles 1000")
    check_seconds("seconds", seconds, least=0.1, most=3600, example="--seconds 10")
    check_seconds("gap", gap, least=0, most=60, example="--gap 0.01")
    settings = load_settings(options, "1", None)
    plan = Plan(handles=handles, kind=kind, seconds=seconds, gap=gap, force=force)
    show(run_waiters(settings, plan, say), options)


def idle(
    *,
    seconds: float = 30.0,
    jobs: Whole = 1_000_000,
    concurrency: str | None = None,
    force: Switch = False,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """What a worker with nothing to do costs, and whether its memory grows with the jobs it has run.

    Parameters
    ----------
    seconds
        How long it is watched doing nothing.
    jobs
        Jobs to run while watching its memory; 0 for none.
    concurrency
        Jobs running at once.
    force
        Run on a store that has jobs in it.
    """
    from foliot.bench.idle import Plan
    from foliot.bench.idle import idle as run_idle

    check_seconds("seconds", seconds, least=0.1, most=86_400, example="--seconds 30")
    check_whole("jobs", jobs, 0, 100_000_000, example="--jobs 1000000")
    settings = load_settings(options, "1", concurrency)
    show(run_idle(settings, Plan(seconds=seconds, jobs=jobs, force=force), say), options)


def schedules(
    *,
    count: Whole = 100_000,
    phases: str = "create,fire,on-time,burst,idle",
    own_triggers: float = 0.1,
    fires: Whole = 1_000_000,
    due_per_second: Whole = 1000,
    seconds: Whole = 10,
    burst: Whole = 10_000,
    runs: Whole = 3,
    plot: str | None = None,
    keep: Switch = False,
    processes: str = "2",
    concurrency: str | None = None,
    force: Switch = False,
    options: Options = DEFAULT_OPTIONS,
) -> None:
    """How many schedules are created and fired in a second, and how late their jobs start. Exit code 1: one was early,
    missing or fired twice.

    Parameters
    ----------
    count
        How many schedules are in the store.
    phases
        What to measure, separated by commas: create, fire, on-time, burst, idle.
    own_triggers
        The share of schedules whose times no other has.
    fires
        How many jobs firing creates at most, of each sort of schedules.
    due_per_second
        How many schedules are due in a second, on time.
    seconds
        How long that is watched, and an idle scheduler.
    burst
        How many schedules are due at one instant.
    runs
        How many bursts; the median counts.
    plot
        Draw how late they were into this file, as SVG.
    keep
        Leave the schedules in the store: the next run with the same count begins with them.
    processes
        How many worker processes to run.
    concurrency
        Jobs running at once in each process.
    force
        Run on a store that has jobs and schedules in it, and overwrite the file of --plot.
    """
    from foliot.bench.population import MOST
    from foliot.bench.schedules import Plan, read_phases
    from foliot.bench.schedules import schedules as run_schedules

    check_counts(fires=fires, due_per_second=due_per_second, burst=burst, runs=runs)
    check_whole("count", count, 1, MOST, example="--count 100000")
    check_whole("seconds", seconds, 1, 3600, example="--seconds 60")
    if not 0 <= own_triggers <= 1:
        raise InvalidValue(
            "own_triggers", own_triggers, "is no share from 0 to 1", example="--own-triggers 0.1"
        )
    if plot is not None:
        check_unwritten("plot", Path(plot), force=force)
    plan = Plan(
        count=count,
        own_triggers=own_triggers,
        phases=read_phases(phases),
        fires=fires,
        due_per_second=due_per_second,
        seconds=seconds,
        burst=burst,
        runs=runs,
        plot=plot,
        keep=keep,
        force=force,
    )
    settings = load_settings(options, processes, concurrency)
    show(run_schedules(settings, plan, say), options)


def when(*, fires: Whole = 200, runs: Whole = 5, options: Options = DEFAULT_OPTIONS) -> None:
    """How fast the next fire of a cron expression is found, beside croniter where that is installed.

    Parameters
    ----------
    fires
        How many fires of each expression are found in a run.
    runs
        How often; the median counts.
    """
    from foliot.bench.when import Plan
    from foliot.bench.when import when as run_when

    check_counts(fires=fires, runs=runs)
    show(run_when(Plan(fires=fires, runs=runs), say), options)


def load_settings(
    options: Options, processes: str, concurrency: str | None, threads: str | None = None
) -> Settings:
    flags: dict[str, object] = {
        "worker.processes": processes,
        "worker.concurrency": concurrency,
        "worker.threads": threads,
    }
    # Told to end, it still stops its workers and removes its jobs.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    return options.load(flags).settings


def check_counts(**counts: int) -> None:
    for name, value in counts.items():
        check_whole(name, value, 1, 100_000_000, example=f"--{name} 1000")


def say(line: str) -> None:
    """Progress, beside the result."""
    print(line, file=sys.stderr, flush=True)


def show(report: dict[str, object], options: Options) -> None:
    if options.json:
        print_json(report)
        return
    import msgspec

    print_table(("measure", "value"), _rows(msgspec.to_builtins(report)))


def _rows(value: object, name: str = "") -> list[tuple[str, str]]:
    """Every number under its full name; of several alike, a line for each."""
    if isinstance(value, dict):
        start = f"{name}." if name else ""
        return [row for key, item in value.items() for row in _rows(item, f"{start}{key}")]
    if not isinstance(value, list):
        return [(name, _text(value))]
    if any(isinstance(item, dict) for item in value):
        return [(name, ", ".join(" ".join(row) for row in _rows(item))) for item in value]
    return [(name, ", ".join(_text(item) for item in value))]


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "-" if value is None else str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"

"""`foliot db`: the store's tables."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

from cyclopts import Parameter

from foliot.checks import check_whole
from foliot.cli.ask import ask, ask_store
from foliot.cli.options import DEFAULT_OPTIONS, Options, Whole
from foliot.cli.output import print_json, print_table
from foliot.errors import InvalidValue
from foliot.scheduler.prune import prune_all
from foliot.shown import redact
from foliot.store.migrate import Migration
from foliot.store.open import read_schema, schema_script, upgrade_store
from foliot.store.port import Store


def init(*, partitions: Whole = 1, options: Options = DEFAULT_OPTIONS) -> None:
    """Create the tables. Running it again does nothing.

    Parameters
    ----------
    partitions
        How many partitions the hot tables have; 1 unless the store will be spread over machines.
    """
    check_whole("partitions", partitions, 1, 1024, example="--partitions 32")
    settings = options.load().settings.store
    applied = asyncio.run(upgrade_store(settings, partitions=partitions))
    found = asyncio.run(read_schema(settings)).partitions
    if not applied and partitions not in (1, found):
        raise InvalidValue(
            "partitions",
            partitions,
            f"differs from the {found} that the store has",
            hint=f"change it with: foliot db repartition {partitions}",
        )
    _report(applied, redact(settings.url), options)


def upgrade(
    *, sql: Annotated[bool, Parameter(negative="")] = False, options: Options = DEFAULT_OPTIONS
) -> None:
    """Bring the tables to this version. Safe to run twice at once, and to interrupt.

    Parameters
    ----------
    sql
        Print what would be run instead of running it.
    """
    settings = options.load().settings.store
    if sql:
        print(asyncio.run(schema_script(settings)))
        return
    _report(asyncio.run(upgrade_store(settings)), redact(settings.url), options)


def status(*, options: Options = DEFAULT_OPTIONS) -> int:
    """Show which version the tables have, and which one is needed. Exit code 1: they differ, or were altered."""
    settings = options.load().settings.store
    schema = asyncio.run(read_schema(settings))
    if options.json:
        print_json(
            {
                "url": redact(settings.url),
                "version": schema.version,
                "needed": schema.needed,
                "partitions": schema.partitions,
                "altered": schema.altered,
                "current": schema.current,
            }
        )
    else:
        print_table(
            ("store", "version", "needed", "partitions", "altered"),
            [
                (
                    redact(settings.url),
                    str(schema.version or "none"),
                    str(schema.needed),
                    str(schema.partitions or "-"),
                    ", ".join(map(str, schema.altered)) or "-",
                )
            ],
        )
    return 0 if schema.current else 1


def prune(*, options: Options = DEFAULT_OPTIONS) -> None:
    """Remove jobs, workflows, log lines, times of schedules and counts older than their retention. Workers do it by
    themselves; this does it now."""
    settings = options.load().settings

    async def work(store: Store) -> int:
        return await prune_all(store, settings.retention, limit=10_000)

    pruned = asyncio.run(ask_store(settings.store, work))
    if options.json:
        print_json({"pruned": pruned})
    else:
        print(f"pruned {pruned}")


def repartition(partitions: Whole, /, *, options: Options = DEFAULT_OPTIONS) -> None:
    """Change the number of partitions, in place. Nobody may work on the store meanwhile, nor submit to it.

    Every row goes where its id or key says, in one transaction: interrupted, nothing has changed. Running it again with
    the same number puts right what a process that was not stopped has submitted.

    Parameters
    ----------
    partitions
        How many partitions the store is to have, from 1 to 1024.
    """
    check_whole("partitions", partitions, 1, 1024, example="foliot db repartition 32")
    done = ask(options, lambda store: store.upkeep.repartition(partitions, say=_say))
    if options.json:
        print_json({"before": done.before, "partitions": partitions, "moved": done.moved})
    else:
        print_table(("table", "moved"), [(name, str(rows)) for name, rows in done.moved.items()])
        print(f"partitions: {partitions}, before: {done.before}")


def _say(table: str, rows: int) -> None:
    """Progress, beside the result."""
    print(f"{table}: {rows}", file=sys.stderr, flush=True)


def _report(applied: list[Migration], url: str, options: Options) -> None:
    if options.json:
        print_json({"url": url, "applied": [migration.number for migration in applied]})
    elif not applied:
        print(f"{url} is up to date")
    else:
        for migration in applied:
            print(f"applied {migration.number:04} {migration.name}")
        print(f"{url} is ready")

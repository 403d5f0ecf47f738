"""`foliot db`: the store's tables."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from foliot.checks import check_whole
from foliot.cli.options import DEFAULT_OPTIONS, Options, Whole
from foliot.cli.output import print_json, print_table
from foliot.clock import SystemClock
from foliot.errors import InvalidValue, redact
from foliot.ids import Ids
from foliot.store.migrate import Migration
from foliot.store.open import open_store, read_schema, schema_script, upgrade_store


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
            "partitions", partitions, f"differs from the {found} that the store was made with"
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
    """Remove history older than its retention. Workers do it by themselves; this does it now."""
    settings = options.load().settings

    async def run() -> int:
        clock = SystemClock()
        store = await open_store(settings.store, clock=clock, ids=Ids(clock=clock), create=False)
        try:
            pruned = 0
            while True:
                some = await store.upkeep.prune(keep=settings.retention.history, limit=10_000)
                pruned += some
                if some < 10_000:
                    await store.sessions.prune()
                    return pruned
        finally:
            await store.close()

    pruned = asyncio.run(run())
    if options.json:
        print_json({"pruned": pruned})
    else:
        print(f"pruned {pruned}")


def _report(applied: list[Migration], url: str, options: Options) -> None:
    if options.json:
        print_json({"url": url, "applied": [migration.number for migration in applied]})
    elif not applied:
        print(f"{url} is up to date")
    else:
        for migration in applied:
            print(f"applied {migration.number:04} {migration.name}")
        print(f"{url} is ready")

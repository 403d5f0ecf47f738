"""`foliot db copy`: a store in another place, or on another engine."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

from cyclopts import Parameter

from foliot.checks import check_whole
from foliot.cli.options import DEFAULT_OPTIONS, OptionalWhole, Options
from foliot.cli.output import print_json, print_table
from foliot.clock import SystemClock
from foliot.config import StoreSettings, load
from foliot.copying import Copied, copy_store
from foliot.errors import InvalidValue
from foliot.ids import Ids
from foliot.shown import redact
from foliot.store.open import open_store, read_schema, upgrade_store


def copy(
    source: str,
    target: str,
    *,
    partitions: OptionalWhole = None,
    force: Annotated[bool, Parameter(negative="")] = False,
    options: Options = DEFAULT_OPTIONS,
) -> int:
    """Copy all jobs, their past, queues and kinds into an empty store. Exit code 1: the counts differ.

    Ids, fences and attempts stay what they are. A job that was running arrives as ready.

    Parameters
    ----------
    source
        The store to copy, which stays as it is: sqlite:///file.db or postgresql://…
    target
        The store to copy into. Its tables are made if there are none.
    partitions
        How many partitions a new target gets; else as many as the source has.
    force
        Copy although processes work on one of them. What they do meanwhile may be lost.
    """
    if partitions is not None:
        check_whole("partitions", partitions, 1, 1024, example="--partitions 32")
    if options.url is not None:
        raise InvalidValue("--url", options.url, "does not fit here: both stores are named")
    there, here = _settings(source, options), _settings(target, options)
    if there.url == here.url:
        raise InvalidValue("target", redact(target), "is the source")
    copied = asyncio.run(_copy(there, here, partitions, force=force))
    complete = all(each.complete for each in copied)
    if options.json:
        urls = {"source": redact(there.url), "target": redact(here.url)}
        print_json({**urls, "complete": complete, "tables": copied})
    else:
        rows = [
            (each.table, str(each.rows), str(each.arrived), "" if each.complete else "incomplete")
            for each in copied
        ]
        print_table(("table", "rows", "copied", ""), rows)
    if not complete:
        print(
            "error: the source has changed meanwhile: copy again, into a new store", file=sys.stderr
        )
    return 0 if complete else 1


def _settings(url: str, options: Options) -> StoreSettings:
    return load(file=options.config, flags={"store.url": url}).settings.store


async def _copy(
    there: StoreSettings, here: StoreSettings, partitions: int | None, *, force: bool
) -> list[Copied]:
    clock = SystemClock()
    ids = Ids(clock=clock)
    source = await open_store(there, clock=clock, ids=ids, create=False)
    try:
        await _prepare(here, source.partitions, partitions)
        target = await open_store(here, clock=clock, ids=ids, create=False)
        try:
            return await copy_store(source, target, say=_say, force=force)
        finally:
            await target.close()
    finally:
        await source.close()


async def _prepare(here: StoreSettings, like: int, partitions: int | None) -> None:
    await upgrade_store(here, partitions=partitions or like)
    found = (await read_schema(here)).partitions
    if partitions not in (None, found):
        raise InvalidValue(
            "partitions", partitions, f"differs from the {found} that the target was made with"
        )


def _say(table: str, rows: int) -> None:
    """Progress, beside the result."""
    if rows % 10_000 == 0:
        print(f"{table}: {rows}", file=sys.stderr, flush=True)

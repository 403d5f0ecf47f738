"""Stage: a store that the bench may use, made ready before and cleaned up after."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import msgspec

from foliot.bench.count import check_once, tally
from foliot.bench.jobs import QUEUE
from foliot.bench.probe import Probe, open_probe
from foliot.bench.sheet import Sheet
from foliot.bench.workers import Workers
from foliot.client.app import Foliot
from foliot.client.function import JobFunction, Prepared
from foliot.config import Settings, StoreSettings
from foliot.errors import FoliotError, InvalidValue, SchemaNewer, SchemaOutdated
from foliot.queue_commands import configure_queue
from foliot.shown import redact
from foliot.store.open import open_store, read_schema, upgrade_store

PAYLOAD = 100  # bytes
BATCH = 1000  # jobs in one submit_many
_STALLED = 60.0  # seconds without a single call
_LOOK = 0.005

Say = Callable[[str], None]
Choose = Callable[[int], dict[str, Any]]  # the options of a job, by its number
pause = Event().wait  # seconds to do nothing


class Stage:
    """One store, an app that submits to it, and a directory for what is counted outside."""

    def __init__(self, settings: Settings, probe: Probe, directory: Path, say: Say) -> None:
        self.settings = settings
        self.probe = probe
        self.client = Foliot(settings=settings)
        self.clock = self.client.clock
        self.ids = self.client.ids
        self.say = say
        self.directory = directory
        self._sheets = 0

    @property
    def url(self) -> str:
        return self.settings.store.url

    def new_path(self, name: str) -> Path:
        self._sheets += 1
        return self.directory / f"{name}{self._sheets}"

    def new_sheet(self, places: int) -> Sheet:
        return Sheet(self.new_path("sheet"), places)

    def workers(
        self,
        url: str | None = None,
        *,
        directory: Path | None = None,
        target: str | None = None,
        **changes: Any,
    ) -> Workers:
        settings = msgspec.structs.replace(self.settings.worker, **changes)
        log = self.new_path("log")
        return Workers(url or self.url, settings, log=log, directory=directory, target=target)

    def fill(
        self,
        function: JobFunction[..., Any, Any],
        sheet: Sheet,
        jobs: int,
        choose: Choose | None = None,
    ) -> None:
        """Submit jobs 0 … jobs - 1, each with the options that are chosen for it."""
        for start in range(0, jobs, BATCH):
            stop = min(jobs, start + BATCH)
            self.client.submit_many(prepare(function, sheet, start, stop, choose))

    def configure(self, strategy: str) -> None:
        """The order in which the bench's queue is served."""

        async def run() -> None:
            store = await open_store(self.settings.store, clock=self.clock, ids=self.ids)
            try:
                await configure_queue(store, QUEUE, strategy=strategy, by="bench")
            finally:
                await store.close()

        asyncio.run(run())

    def wait(self, sheet: Sheet, jobs: int, workers: Workers) -> None:
        """Until all have been called and nothing is left to finish."""
        since, left = self.clock.monotonic(), jobs
        while left or self.probe.busy():
            pause(_LOOK)
            workers.check()
            now, missing = self.clock.monotonic(), sheet.missing(jobs) if left else 0
            if left and missing != left:
                since, left = now, missing
            if now - since > _STALLED:
                raise FoliotError(
                    f"nothing moved for {_STALLED:g} s: {missing} of {jobs} jobs were never called"
                    + workers.said
                )

    def check(self, sheet: Sheet, jobs: int, workers: Workers) -> None:
        """Raises unless each was called once and is in history once; with what the workers said about it."""
        try:
            check_once(sheet.calls(jobs), tally(jobs, self.probe.finished()))
        except FoliotError as error:
            raise FoliotError(error.message + workers.said) from error


def prepare(
    function: JobFunction[..., Any, Any],
    sheet: Sheet,
    start: int,
    stop: int,
    choose: Choose | None = None,
) -> list[Prepared]:
    """Calls number start … stop - 1, each with a payload of about 100 bytes."""
    path = str(sheet.path)
    empty = len(f'{{"n":{stop},"sheet":"{path}","filler":""}}')
    filler = "x" * max(0, PAYLOAD - empty)
    if choose is None:
        return [function.prepare(n, path, filler) for n in range(start, stop)]
    chosen = [(n, function.options(**choose(n))) for n in range(start, stop)]
    return [one.prepare(n, path, filler) for n, one in chosen]


@contextmanager
def open_stage(settings: Settings, *, force: bool, say: Say) -> Iterator[Stage]:
    """Makes the tables if there are none, refuses a store with jobs of others, leaves none of its own."""
    asyncio.run(_make_tables(settings.store))
    probe = open_probe(settings.store.url)
    if not force and probe.others():
        probe.close()
        raise InvalidValue(
            "url",
            redact(settings.store.url),
            "has jobs in it, and a bench would leave its marks",
            hint="name an empty store, or add --force",
        )
    directory = Path(tempfile.mkdtemp(prefix="foliot-bench-"))
    stage = Stage(settings, probe, directory, say)
    try:
        probe.empty()
        yield stage
    finally:
        stage.client.close()
        probe.leave()
        shutil.rmtree(directory, ignore_errors=True)


async def _make_tables(settings: StoreSettings) -> None:
    """Only where there are none: to upgrade a store is not for a bench to decide."""
    schema = await read_schema(settings)
    if schema.version is None:
        await upgrade_store(settings)
    elif schema.version < schema.needed:
        raise SchemaOutdated(schema.version, schema.needed)
    elif schema.version > schema.needed:
        raise SchemaNewer(schema.version, schema.needed)


def at_url(settings: Settings, url: str) -> Settings:
    return msgspec.structs.replace(settings, store=msgspec.structs.replace(settings.store, url=url))

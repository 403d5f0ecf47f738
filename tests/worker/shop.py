"""A worker with child processes, for the jobs of isolated.py."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from foliot.config import LimitSettings, SchedulerSettings, Settings, StoreSettings, WorkerSettings
from foliot.life import Role
from foliot.process import Process
from worker.isolated import Isolated

TARGET = str(Path(__file__).with_name("isolated.py"))


class Shop:
    """The jobs, and a worker for them in a thread of this process."""

    def __init__(self, url: str, *, log_line: int = 20, **worker: Any) -> None:
        settings = Settings(
            store=StoreSettings(url=url),
            worker=WorkerSettings(**{"cancel_grace": 0.5, "poll": 0.05, **worker}),
            scheduler=SchedulerSettings(reap_every=0.1),
            limits=LimitSettings(log_lines=5, log_line=log_line),
        )
        self.url = url
        self.jobs = Isolated(url)
        ready = threading.Event()
        found: list[tuple[asyncio.AbstractEventLoop, Process]] = []

        async def main() -> None:
            app = self.jobs.app
            role = Role(app.registry, target=TARGET)
            process = Process(role, settings, clock=app.clock, ids=app.ids)
            found.append((asyncio.get_running_loop(), process))
            ready.set()
            await process.run()

        self._thread = threading.Thread(target=lambda: asyncio.run(main()))
        self._thread.start()
        ready.wait()
        self._loop, self.process = found[0]

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self.process.stop)
        self._thread.join(30)
        self.jobs.app.close()
        assert not self._thread.is_alive()

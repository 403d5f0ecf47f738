"""An app whose jobs call a service that a test switches: what is in the file beside the run log is how it is."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from acceptance.jobs import LOG_VARIABLE, write
from foliot import Fixed, Foliot

PROBES = 1
RATE = 20  # jobs each second, once the service is back
REST = 3.0  # seconds that it asks for when it is too busy


class ServiceError(Exception):
    def __init__(self, retry_after: float | None = None) -> None:
        super().__init__("503" if retry_after is None else "429")
        self.retry_after = retry_after


def service(log: Path) -> Path:
    return log.parent / "service"


async def call() -> None:
    """Up, failing, busy, or silent: then the call takes until it is something else."""
    log = Path(os.environ[LOG_VARIABLE])
    while (state := service(log).read_text()) == "silent":  # noqa: ASYNC110 - switched by another process
        await asyncio.sleep(0.01)
    if state != "up":
        write("failed")
        raise ServiceError(REST if state == "busy" else None)


async def charge(number: int) -> int:
    write("start")
    await call()
    write("end")
    return number


async def refund(number: int) -> int:
    write("start")
    await call()
    write("end")
    return number


class Shop:
    def __init__(self, url: str | None = None) -> None:
        self.app = Foliot(url)
        self.app.breaker(
            "bank",
            failures=5,
            window=30,
            open_for=4,
            longest=4,
            probes=PROBES,
            release=f"{RATE}/second",
            on=ServiceError,
        )
        again = Fixed(0.5)
        self.charge = self.app.job(breaker="bank", retry=again, max_attempts=20)(charge)
        self.refund = self.app.job(breaker="bank", retry=again, max_attempts=20)(refund)


app = Shop().app

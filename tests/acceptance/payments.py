"""Jobs with an effect in the store's own database, and with ways to die at every point of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from acceptance.jobs import Jobs, is_open, write
from foliot import Foliot, current_job

INSERT = {
    "postgres": "INSERT INTO public.effects (job, fence) VALUES (%s, %s)",
    "sqlite": "INSERT INTO effects (job, fence) VALUES (?, ?)",
}
POINTS = ("before", "inside", "finish", "commit", "committed", "after")


def insert() -> tuple[str, tuple[str, int]]:
    job = current_job()
    engine = "sqlite" if os.environ["FOLIOT_STORE_URL"].startswith("sqlite") else "postgres"
    return INSERT[engine], (job.id, job.fence)


def die(point: str, here: str) -> None:
    """The worker, the first time; from a child of it, both."""
    if point == here and current_job().fence == 1:
        if is_child():
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def is_child() -> bool:
    return str(getattr(sys.modules["__main__"], "__file__", "")).endswith("child.py")


def dying(point: str, here: str, act: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    async def acted(*args: Any) -> Any:
        die(point, here)
        return await act(*args)

    return acted


def watch(work: Any, point: str) -> None:
    """Dies between the statements of the block's end: right before the job's, right before and after the commit."""
    work.ask = dying(point, "finish", work.ask)
    commit = dying(point, "commit", work.commit)

    async def committed() -> None:
        await commit()
        die(point, "committed")

    work.commit = committed


def pay(point: str = "", seconds: float = 0.0) -> str:
    write("start")
    die(point, "before")
    with current_job().transaction() as tx:
        tx.execute(*insert())
        time.sleep(seconds)
        die(point, "inside")
        watch(tx._block.work, point)
        tx.result = "paid"
    die(point, "after")
    write("end")
    return "not this"


async def apay(point: str = "", seconds: float = 0.0) -> str:
    write("start")
    die(point, "before")
    async with current_job().transaction() as tx:
        await tx.execute(*insert())
        await asyncio.sleep(seconds)
        die(point, "inside")
        watch(tx._block.work, point)
        tx.result = "paid"
    die(point, "after")
    write("end")
    return "not this"


def pay_late(gate: str, *, first: bool) -> Any:
    """Waits inside its block, after its first statement or before it."""
    write("start")
    with current_job().transaction() as tx:
        if first:
            tx.execute(*insert())
        write("inside")
        while not is_open(gate):
            time.sleep(0.01)
        if not first:
            tx.execute(*insert())
        tx.result = current_job().fence


def pay_and_fail() -> Any:
    write("start")
    with current_job().transaction() as tx:
        tx.execute(*insert())
        tx.result = "paid"
    raise ValueError("too late to matter")


def pay_twice() -> Any:
    write("start")
    said = []
    with current_job().transaction() as tx:
        try:
            current_job().transaction()
        except Exception as error:  # noqa: BLE001 - it is what this is about
            said.append(str(error))
        tx.execute(*insert())
        tx.result = said
    current_job().transaction()
    return "never"


def pay_by_retry() -> int:
    """A transaction that was rolled back may be followed by another."""
    write("start")
    for turn in range(3):
        try:
            with current_job().transaction() as tx:
                tx.execute(*insert())
                if turn < 2:
                    raise KeyError(turn)
                tx.result = turn
        except KeyError:
            continue
    return -1


def pay_and_pass_on(number: int) -> None:
    write("start")
    with current_job().transaction() as tx:
        tx.execute(*insert())
        tx.submit(payments.pay.prepare())
        if number == 1 and current_job().attempt == 1:
            raise ValueError("not yet")


class Payments(Jobs):
    def __init__(self, url: str | None = None) -> None:
        super().__init__(url)
        self.pay = self.app.job(pay)
        self.apay = self.app.job(apay)
        self.pay_apart = self.app.job(kind="pay_apart", executor="process")(pay)
        self.apay_apart = self.app.job(kind="apay_apart", executor="process")(apay)
        self.pay_late = self.app.job(pay_late)
        self.pay_and_fail = self.app.job(pay_and_fail)
        self.pay_twice = self.app.job(pay_twice)
        self.pay_by_retry = self.app.job(pay_by_retry)
        self.pay_and_pass_on = self.app.job(pay_and_pass_on)


payments = Payments()
app: Foliot = payments.app

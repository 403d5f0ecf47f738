"""Jobs that run in child processes, for test_children.py; loaded by the children themselves as well."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from foliot import Cancel, Fixed, Foliot, Retry, SoftTimeout, current_job

log = logging.getLogger("shop")
MIB = 1 << 20
time.sleep(float(os.environ.get("SLOW_START", "0")))


def who() -> int:
    return os.getpid()


def hog(size: int) -> int:
    """Takes memory and uses it."""
    return len(bytearray(size))


def hog_shared(size: int) -> None:
    """Takes it where no limit of the system counts it."""
    with mmap.mmap(-1, size) as memory:
        for start in range(0, size, MIB):
            memory[start : start + MIB] = b"x" * MIB
        time.sleep(60)


def hog_elsewhere(size: int) -> None:
    """Has other processes take it, none of them more than it may by itself."""
    code = "import time; some = b'x' * (100 << 20); time.sleep(60)"
    command = [sys.executable, "-I", "-S", "-c", code]
    for other in [subprocess.Popen(command) for _ in range(size // (100 * MIB))]:
        other.wait()


def die(how: str) -> None:
    if how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(int(how))


def sleep(note: str, seconds: float = 60) -> None:
    """Starts a process of its own, and waits."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as other:
        Path(note).write_text(f"{os.getpid()} {other.pid}")
        time.sleep(seconds)


def say(words: str) -> None:
    log.warning(words)


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def hold_the_interpreter(note: str) -> None:
    """No other thread of its process runs again."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(note).write_text(f"{os.getpid()} {other.pid}")
    re.match(r"(a+)+$", "a" * 64 + "b")


def polite(note: str) -> str:
    Path(note).touch()
    try:
        time.sleep(60)
    except Cancel:
        Path(note).write_text("told")
        raise
    return "not told"


async def polite_async(note: str) -> str:
    mark = Path(note)
    mark.touch()  # noqa: ASYNC240 - quick enough
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        mark.write_text("told")  # noqa: ASYNC240
        raise
    return "not told"


def rude(note: str) -> None:
    Path(note).touch()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(BaseException):
            time.sleep(1)


def tidy() -> str:
    try:
        time.sleep(60)
    except SoftTimeout:
        assert current_job().timed_out
        return "tidied up"
    return "not told"


async def tidy_async() -> str:
    try:
        async with asyncio.timeout(50):
            await asyncio.gather(asyncio.sleep(60), asyncio.sleep(60))
    except SoftTimeout:
        await asyncio.sleep(0.01)
        return "tidied up"
    return "not told"


async def tidy_group() -> str:
    told = "not told"
    tasks = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(60)) for _ in range(2)]
            await asyncio.sleep(60)
    except* SoftTimeout:
        told = "tidied up"
    assert all(task.cancelled() for task in tasks)
    return told


def stubborn_softly() -> None:
    while True:
        with contextlib.suppress(SoftTimeout):
            time.sleep(60)


def chat(size: int) -> str:
    """Says more than the line to the worker holds, again and again."""
    words = "x" * size
    try:
        while True:
            current_job().progress(0.5, words)
    except SoftTimeout:
        return "told"


def chat_by_logging(size: int) -> str:
    words = "x" * size
    try:
        while True:
            log.info(words)
    except SoftTimeout:
        return "told"


def careless() -> None:
    time.sleep(60)


def facts() -> dict[str, Any]:
    job = current_job()
    job.progress(0.5, "half")
    job.log("by hand", "warning")
    log.info("said %s", job.kind)
    logging.getLogger("foliot.worker").warning("not of the job")
    remaining = job.remaining()
    return {
        "id": job.id,
        "kind": job.kind,
        "queue": job.queue,
        "namespace": job.namespace,
        "key": job.key,
        "tags": job.tags,
        "priority": job.priority,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "fence": job.fence,
        "session": job.session,
        "cancelled": job.cancelled,
        "timed_out": job.timed_out,
        "remaining": None if remaining is None else 0 < remaining <= 30,
        "deadline": None if job.deadline is None else 0 < (job.deadline - job.run_at).seconds < 60,
        "run_at": job.run_at,
        "fair_key": job.fair_key,
        "pool": job.state.pool,
        "trail": list(job.state.trail),
    }


async def facts_async() -> dict[str, Any]:
    return facts()


def fail(how: str) -> None:
    if how == "retry":
        raise Retry(after=0.01, reason="not yet")
    if how == "cancel":
        raise Cancel("enough")
    if how == "key":
        raise KeyError("broken")
    raise ValueError("broken")


async def open_pool(state: Any) -> None:
    state.pool = "open"
    state.trail = []


def note_end(state: Any) -> None:
    note = os.environ.get("SHUTDOWN_NOTE")
    if note is not None:
        with Path(note).open("a") as file:
            file.write(f"{os.getpid()} {state.pool}\n")


def outer(job: Any, call_next: Callable[[], Any]) -> Any:
    job.state.trail.append(f"outer {job.kind}")
    try:
        return call_next()
    finally:
        job.state.trail.append("out")


def inner(job: Any, call_next: Callable[[], Any]) -> Any:
    job.state.trail.append("inner")
    return call_next()


async def around_async(job: Any, call_next: Callable[[], Awaitable[Any]]) -> Any:
    job.state.trail.append(f"async {job.kind}")
    return await call_next()


class Isolated:
    """All of them, for one store."""

    def __init__(self, url: str | None = None) -> None:
        self.app = app = Foliot(url)
        app.on_startup(open_pool)
        app.on_shutdown(note_end)
        app.middleware(outer)
        app.middleware(inner)
        app.middleware(around_async)
        child: dict[str, Any] = {"executor": "process", "max_attempts": 1}
        self.who = app.job(**child)(who)
        limited: dict[str, Any] = {**child, "memory": "256MiB"}
        self.hog = app.job(**limited)(hog)
        self.hog_shared = app.job(**limited)(hog_shared)
        self.hog_elsewhere = app.job(**limited)(hog_elsewhere)
        self.die = app.job(**child)(die)
        self.sleep = app.job(**child, timeout=0.5)(sleep)
        self.sleep_long = app.job(kind="sleep_long", **child)(sleep)
        self.nap = app.job(**child)(nap)
        self.hold = app.job(**child)(hold_the_interpreter)
        self.polite = app.job(**child)(polite)
        self.polite_async = app.job(**child)(polite_async)
        self.rude = app.job(**child)(rude)
        self.rude_for_long = app.job(kind="rude_for_long", **child, cancel_grace=60)(rude)
        self.rude_in_short = app.job(kind="rude_in_short", **child, cancel_grace=0)(rude)
        self.tidy = app.job(**child, soft_timeout=0.2, timeout=20)(tidy)
        self.tidy_async = app.job(**child, soft_timeout=0.2, timeout=20)(tidy_async)
        self.tidy_here = app.job(kind="tidy_here", soft_timeout=0.2)(tidy_async)
        self.tidy_group = app.job(soft_timeout=0.2)(tidy_group)
        self.stubborn_softly = app.job(**child, soft_timeout=0.1, timeout=0.5)(stubborn_softly)
        self.chat = app.job(**child, soft_timeout=0.1, timeout=5)(chat)
        self.chat_by_logging = app.job(**child, soft_timeout=0.1, timeout=5)(chat_by_logging)
        self.careless = app.job(**child, soft_timeout=0.2)(careless)
        told: dict[str, Any] = {"timeout": 30, "queue": "facts", "tags": ["vip"]}
        self.facts = app.job(executor="process", **told)(facts)
        self.facts_in_thread = app.job(kind="facts_in_thread", **told)(facts)
        self.facts_on_loop = app.job(kind="facts_on_loop", **told)(facts_async)
        self.facts_async = app.job(executor="process", **told)(facts_async)
        self.fail = app.job(
            executor="process", max_attempts=3, retry=Fixed(0.01), no_retry=(KeyError,)
        )(fail)
        self.say = app.job(say)
        self.who_here = app.job(kind="who_here")(who)


app = Isolated().app

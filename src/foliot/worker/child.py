"""The child's side of executors/process.py: import the app, then run one job after the other."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import threading
from queue import SimpleQueue

import msgspec

from foliot.errors import Cancel, Retry
from foliot.model.job import ClaimedJob
from foliot.registry import Registry, call
from foliot.target import load_registry
from foliot.worker.context import CURRENT, CurrentJob
from foliot.worker.executors.process import Call, Reply
from foliot.worker.run import describe, reason_of


def main() -> None:
    # The pipe to the parent is for replies alone: whatever the job prints goes to stderr.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    calls: SimpleQueue[bytes] = SimpleQueue()
    # Before the app: loading it may take for ever, and the parent may be gone by then.
    threading.Thread(target=listen, args=(calls,), daemon=True).start()
    loaded = load(sys.argv[1])
    while True:
        job = msgspec.json.decode(calls.get(), type=Call).job
        reply = loaded if isinstance(loaded, Reply) else run(loaded, job)
        replies.write(msgspec.json.encode(reply) + b"\n")
        replies.flush()


def listen(calls: SimpleQueue[bytes]) -> None:
    """Until the parent is gone. Then the job goes too, in the middle of whatever it does: it is given to others."""
    for line in sys.stdin.buffer:
        calls.put(line)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def load(target: str) -> Registry | Reply:
    """The app's jobs, or what to answer to every call: that it cannot be loaded."""
    try:
        return load_registry(target)
    except BaseException as error:  # noqa: BLE001 - a script may do anything when it is loaded
        text, trace = describe(error)
        return Reply(error=f"the app could not be loaded: {text}", traceback=trace)


def run(registry: Registry, job: ClaimedJob) -> Reply:
    CURRENT.set(CurrentJob(job))
    try:
        result = call(registry.find(job.kind), job.payload)
        if inspect.isawaitable(result):
            result = asyncio.run(_wait(result))
        return Reply(result=msgspec.Raw(msgspec.json.encode(result)))
    except Cancel as error:
        return Reply(cancel=reason_of(error))
    except Retry as error:
        return Reply(retry=describe(error)[0].partition(": ")[2], retry_after=error.after)
    except BaseException as error:  # noqa: BLE001 - whatever it raises is how the attempt ended
        text, trace = describe(error)
        return Reply(error=text, traceback=trace)


async def _wait(result: object) -> object:
    return await result  # type: ignore[misc]


if __name__ == "__main__":
    main()

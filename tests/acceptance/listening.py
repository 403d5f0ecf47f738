"""The jobs of the acceptance tests with hooks that write down what they are told, outside the store."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from acceptance.jobs import LOG_VARIABLE, Jobs
from foliot import Event, Fixed, current_job

TOLD = "told.jsonl"
SHUT = "shut-hooks"  # while there is such a file, hooks do not come to their end


class Told(msgspec.Struct, frozen=True):
    event: Event
    hook: str
    attempt: int
    phase: str


def note(event: Event, phase: str) -> None:
    job = current_job()
    line = msgspec.json.encode(Told(event, job.kind, job.attempt, phase)) + b"\n"
    log = os.open(_folder() / TOLD, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(log, line)
    finally:
        os.close(log)


def _folder() -> Path:
    return Path(os.environ[LOG_VARIABLE]).parent


app = Jobs().app


@app.on("job.dead", retry=Fixed(0.1))
@app.on("job.succeeded", retry=Fixed(0.1))
@app.on("worker.lost")
def write_down(event: Event) -> None:
    note(event, "start")
    while (_folder() / SHUT).exists():
        time.sleep(0.01)
    note(event, "end")


@app.on("job.cancelled", retry=Fixed(0.1))
async def fail_twice(event: Event) -> None:
    note(event, "start")
    if current_job().attempt < 3:
        raise ValueError("not yet")
    note(event, "end")

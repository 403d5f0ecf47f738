"""Capture: what a job's function writes with the standard `logging` becomes log lines of the job.

One handler on the root logger for all workers of the process. It looks for the job in the context of the caller, so
it costs nothing where nobody logs, and lines of other threads and libraries stay where they belong.
"""

from __future__ import annotations

import logging
from typing import Final

from foliot.errors import Cancel, SoftTimeout
from foliot.worker.context import CURRENT


class JobLines(logging.Handler):
    """`start` and `stop` may be called by several workers: it stays while there is one."""

    def __init__(self) -> None:
        super().__init__()
        self._users = 0

    def start(self) -> None:
        self._users += 1
        if self._users == 1:
            logging.getLogger().addHandler(self)

    def stop(self) -> None:
        self._users -= 1
        if self._users == 0:
            logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        current = CURRENT.get(None)
        # What the worker itself says of the job is in its history, not in its log.
        if current is None or record.name.partition(".")[0] == "foliot":
            return
        try:
            current.add_line(record.levelno, record.name, self.format(record))
        except (SoftTimeout, Cancel):
            raise  # what the job's function is told
        except Exception:  # noqa: BLE001 - logging reports it in its own way and must not fail the job
            self.handleError(record)


JOB_LINES: Final = JobLines()

"""The guard: a small process that outlives its worker for a moment and kills what that leaves behind.

A child of a worker that was killed ends by itself, unless its job never lets go of the interpreter; and what such a
job has started would not end at all. The guard is told the process groups over a pipe. When the pipe closes, the
worker is gone, and so are they.

Run as a script, it imports nothing but what it needs.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    groups: set[int] = set()
    for line in sys.stdin:
        number = int(line)
        if number > 0:
            groups.add(number)
        else:
            groups.discard(-number)
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()

"""What a project that uses Foliot may want in its own tests.

    Harness       an app on a store in memory and a clock that stands still; the pytest fixture `foliot` is one
    ManualClock   that clock
    as_job        calls a job's function directly, with a current_job()

pytest loads `foliot.testing.plugin` wherever Foliot is installed, so nothing here is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foliot.testing.clock import ManualClock as ManualClock
    from foliot.testing.current import as_job as as_job
    from foliot.testing.harness import Harness as Harness

_HOMES = {
    "Harness": "foliot.testing.harness",
    "ManualClock": "foliot.testing.clock",
    "as_job": "foliot.testing.current",
}

__all__ = ["Harness", "ManualClock", "as_job"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'foliot.testing' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Start-up and shutdown functions of an app: once for each process that runs its jobs, child processes included."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from foliot.errors import FoliotError
from foliot.registry import Hooks, place_of
from foliot.worker.context import State

log = logging.getLogger("foliot.worker")


async def start_up(hooks: Hooks, state: State) -> None:
    """In the order they were given. The first that fails ends it: what has started is shut down again."""
    for number, function in enumerate(hooks.startup):
        try:
            await _call(function, state)
        except Exception as error:
            if number:
                await shut_down(hooks, state)
            raise FoliotError(
                f"the start-up function {place_of(function)} failed: {type(error).__name__}: {error}"
            ) from error


async def shut_down(hooks: Hooks, state: State) -> None:
    """The last first. One that fails does not keep the others from running."""
    for function in reversed(hooks.shutdown):
        try:
            await _call(function, state)
        except Exception:
            log.exception("the shutdown function %s failed", place_of(function))


async def _call(function: Callable[..., Any], state: State) -> None:
    """With the state, if it takes one."""
    wants_state = bool(inspect.signature(function).parameters)
    result = function(state) if wants_state else function()
    if inspect.isawaitable(result):
        await result

"""One question to the store that the options name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from foliot.cli.options import Options
from foliot.clock import SystemClock
from foliot.config import StoreSettings
from foliot.ids import Ids
from foliot.store.open import open_store
from foliot.store.port import Store

T = TypeVar("T")


def ask(options: Options, question: Callable[[Store], Awaitable[T]]) -> T:
    """Its answer. To ask is not to make: a mistyped path is told, not filled with a new store."""
    return asyncio.run(ask_store(options.load().settings.store, question))


async def ask_store(settings: StoreSettings, question: Callable[[Store], Awaitable[T]]) -> T:
    clock = SystemClock()
    store = await open_store(settings, clock=clock, ids=Ids(clock=clock), create=False)
    try:
        return await question(store)
    finally:
        await store.close()

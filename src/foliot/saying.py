"""What code says of limits and queues counts when it is new: what was said by hand after that stays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from foliot.store.port import Store

T = TypeVar("T")


async def apply_news(
    store: Store,
    what: str,
    said: Mapping[str, T],
    *,
    tell: Callable[[T], dict[str, Any]],
    apply: Callable[[str, T], Awaitable[bool]],
) -> bool:
    """Apply what code did not say the last time, and remember it. Whether that changed anything. Remembered afterwards:
    who is killed in between says it again."""
    known = await store.definitions.said() if said else {}
    changed = False
    for name, one in sorted(said.items()):
        text = msgspec.json.encode(tell(one), order="deterministic").decode()
        if known.get(f"{what} {name}") != text:
            changed |= await apply(name, one)
            await store.definitions.say(f"{what} {name}", text)
    return changed

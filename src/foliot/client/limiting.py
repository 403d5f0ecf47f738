"""What an app can be told about limits. What is done at once has an a-prefixed twin for async code."""

from __future__ import annotations

from functools import partial

from foliot import limit_commands
from foliot.author import Author
from foliot.checks import options_checked
from foliot.client.portal import Portal
from foliot.limit_commands import limit_of
from foliot.model.limit import Limit
from foliot.registry import Registry


class Limiting:
    """The part of an app that is about limits."""

    _home: Portal
    _portal: Portal
    _registry: Registry

    @options_checked
    def limit(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
        note: str | None = None,
    ) -> None:
        """How many jobs may run at once, or start in a time, in all workers together: `app.limit("queue:mail",
        concurrency=20)`, `app.limit("key:customer:*", concurrency=1, rate="100/minute")` for each such `limit_key`.
        Stored like what `app.queue` says."""
        limit = limit_of(name, concurrency=concurrency, rate=rate, burst=burst, note=note)
        self._registry.limits[name] = limit
        self._home.tell(partial(limit_commands.apply_limits, limits={name: limit}, by="code"))

    @options_checked
    def set_limit(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
        note: str | None = None,
    ) -> bool:
        """Like `foliot limits set`: it counts when this returns, until something else is said. Whether it changed
        anything."""
        limit = limit_of(name, concurrency=concurrency, rate=rate, burst=burst, note=note)
        return self._portal.call(self._set_limit(limit))

    @options_checked
    async def aset_limit(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
        note: str | None = None,
    ) -> bool:
        limit = limit_of(name, concurrency=concurrency, rate=rate, burst=burst, note=note)
        return await self._portal.acall(self._set_limit(limit))

    def delete_limit(self, name: str) -> bool:
        """Whether it was there."""
        return self._portal.call(self._delete_limit(name))

    async def adelete_limit(self, name: str) -> bool:
        return await self._portal.acall(self._delete_limit(name))

    async def _set_limit(self, limit: Limit) -> bool:
        store = await self._portal.store()
        return await limit_commands.set_limit(store, limit, by=Author(self._portal.ids))

    async def _delete_limit(self, name: str) -> bool:
        store = await self._portal.store()
        return await limit_commands.delete_limit(store, name, by=Author(self._portal.ids))

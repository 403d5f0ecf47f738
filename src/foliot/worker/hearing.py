"""Hearing: the hooks of the app listen as long as its worker lives, but for those whose names others have."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from foliot.clock import Clock
from foliot.hook_sync import Heard, own_name, sync_hooks
from foliot.ids import Ids, SessionId
from foliot.loop import Loop
from foliot.namesakes import modules_of
from foliot.registry import Registry
from foliot.store.port import Store

log = logging.getLogger("foliot.worker")
_EVERY: Final = 60.0


class Hearing(Loop):
    name = "hearing"

    def __init__(
        self,
        store: Store,
        session: SessionId,
        registry: Registry,
        *,
        clock: Clock,
        ids: Ids,
        know: Callable[[Sequence[str]], None],
    ) -> None:
        """`know` is told which kinds the worker is to take."""
        super().__init__(clock, ids)
        self._store = store
        self._session = session
        self._registry = registry
        self._know = know
        self._taken: frozenset[str] = frozenset()

    @property
    def note(self) -> str | None:
        """What is wrong, for the registry."""
        if not self._taken:
            return None
        return f"hooks of names that another module has: {', '.join(sorted(self._taken))}"

    async def sync(self, *, opened: bool = True) -> None:
        """Before its session is open, so that nothing is missed; and behind that, for only then others see that this
        worker runs them: of two that start at once, one learns that the name is the other's."""
        if opened and self._taken:  # as the session of one that starts
            await self._say(self._registry.runnable)
        heard = await sync_hooks(self._store, self._registry)
        if heard.listening:
            log.info("hooks that listen are now those of the code:\n%s", heard)
        if opened:
            await self._leave(heard)

    async def tick(self) -> float:
        """Whose name another has gets it as soon as no live worker of that runs it."""
        if self._taken:
            await self.sync()
        return self.ids.jitter(_EVERY)

    async def _say(self, kinds: Sequence[str]) -> None:
        modules = modules_of(self._registry, kinds)
        await self._store.sessions.know(self._session, kinds, modules)

    async def _leave(self, heard: Heard) -> None:
        """What is told to another's hook is not for this one."""
        for hook in sorted(heard.taken.keys() - self._taken):
            log.error("%s", own_name(hook, heard, self._registry))
        kinds = [kind for kind in self._registry.runnable if kind not in heard.taken]
        if heard.taken:
            await self._say(kinds)
        if heard.taken.keys() != self._taken:
            self._know(kinds)
        self._taken = frozenset(heard.taken)

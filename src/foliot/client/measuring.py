"""What an app can be asked about how much is done. Every question has an a-prefixed twin for async code."""

from __future__ import annotations

from collections.abc import Sequence

from foliot.client.portal import Portal
from foliot.stats import By, Stats, read_stats


class Measuring:
    """The part of an app that is about counts and lengths of time."""

    _portal: Portal

    def stats(
        self,
        *,
        minutes: int = 60,
        by: By | Sequence[By] = "queue",
        namespace: str | None = None,
        queue: str | None = None,
        kind: str | None = None,
    ) -> Stats:
        """How many attempts ended in the last minutes, how many failed, how long jobs waited and ran: a row for each
        "namespace", "queue", "kind" or "outcome", or for each of several of these. Counted by the workers, to the last
        few seconds."""
        return self._portal.call(
            self._stats(minutes=minutes, by=by, namespace=namespace, queue=queue, kind=kind)
        )

    async def astats(
        self,
        *,
        minutes: int = 60,
        by: By | Sequence[By] = "queue",
        namespace: str | None = None,
        queue: str | None = None,
        kind: str | None = None,
    ) -> Stats:
        return await self._portal.acall(
            self._stats(minutes=minutes, by=by, namespace=namespace, queue=queue, kind=kind)
        )

    async def _stats(
        self,
        *,
        minutes: int,
        by: By | Sequence[By],
        namespace: str | None,
        queue: str | None,
        kind: str | None,
    ) -> Stats:
        return await read_stats(
            await self._portal.store(),
            now=self._portal.clock.now(),
            minutes=minutes,
            by=by,
            namespace=namespace,
            queue=queue,
            kind=kind,
        )

"""Limits that are far from being reached are not counted: every session may claim so many jobs before it looks again.

See model/limit.py: allowance. One that comes near is counted from then on, by everybody: the rules change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.ids import SessionId
from foliot.model.limit import Limit, Rules, allowance
from foliot.store.limiting import running_under
from foliot.store.port import Share
from foliot.store.postgres.arrays import texts
from foliot.store.postgres.connection import Ask, Step, Transacting, Values
from foliot.store.postgres.gates import ASK_RULES, RULES, SQL, recount
from foliot.store.reply import Rows

CHANGE_RULES: Final = Step(SQL["change_rules"], {"space": RULES})


class Allowances:
    """Of one process, under the rules of one version."""

    def __init__(self, connections: Transacting, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock
        self._version = 0
        self._left: dict[str, int] = {}
        self._given = 0  # what claims may have taken, all in all
        self._landed = 0  # of that, what those were given of which it is known
        self._landing = asyncio.Event()

    async def take(
        self, session: SessionId, rules: Rules, shares: Sequence[Share], room: int
    ) -> int | None:
        """How many may be claimed from these, up to `room`; None: the rules have changed."""
        queues = {share.lane.queue for share in shares}
        concerned = [limit for limit in rules.open if _concerns(limit, queues)]
        if rules.version != self._version:
            self._version, self._left = rules.version, {}
        while low := self._used_up(concerned):
            counts = await self._look(rules, session)
            if counts is None:
                return None
            if not counts.known:  # the others have divided what would have been its share
                return self.give(0)
            if not await self._allow(low, counts):
                return None
            # Those under way may have been given all there is: they give back the rest.
            while self._used_up(concerned) and self._given > self._landed:
                self._landing.clear()
                await self._landing.wait()
        return self.give(min([room, *(self._left[limit.name] for limit in concerned)]))

    def give(self, number: int) -> int:
        """To a claim, which is to give them back."""
        self._add(-number)
        self._given += number
        return number

    def give_back(self, given: int, claimed: int) -> None:
        """A claim that was given so many has taken fewer."""
        self._landed += given
        self._landing.set()
        self._add(given - claimed)

    def _used_up(self, limits: Iterable[Limit]) -> list[Limit]:
        return [limit for limit in limits if self._left.get(limit.name, 0) <= 0]

    def _add(self, number: int) -> None:
        """Whatever limits they are under."""
        for name in self._left:
            self._left[name] += number

    async def _look(self, rules: Rules, session: SessionId) -> _Counts | None:
        landed = self._landed
        steps = [*ASK_RULES, *_counting(session)]
        _, [(version,)], *counts = await self._connections.transact(steps)
        if not version == rules.version == self._version:
            return None
        return _counts(counts, landed)

    async def _allow(self, limits: Sequence[Limit], counts: _Counts) -> bool:
        """Whether these need not be counted. Those that do are, from then on."""
        shares = counts.shares(limits)
        near = [name for name, share in shares.items() if share is None]
        if near:
            await count_from_now(self._connections, near, self._clock.now_for_store())
            return False
        # What had not landed when the look began, it may not have seen, nor what was given while it took place.
        unseen = self._given - counts.landed
        self._left |= {name: (share or 0) - unseen for name, share in shares.items()}
        return True


class _Counts(msgspec.Struct, frozen=True):
    running: Rows
    sessions: int
    known: bool  # whether ours is one of these
    landed: int = 0

    def shares(self, limits: Iterable[Limit]) -> dict[str, int | None]:
        return {
            limit.name: allowance(limit, running_under(limit, self.running), self.sessions)
            for limit in limits
        }


def _counting(session: SessionId | None) -> list[Step]:
    asked: Values = {"session": session}
    return [Step(SQL["count_running"], {}), Step(SQL["count_sessions"], asked)]


def _counts(answers: Sequence[Rows], landed: int = 0) -> _Counts:
    running, [(sessions, known)] = answers
    return _Counts(running, sessions, known, landed)


async def count_from_now(
    connections: Transacting, names: Sequence[str], now: datetime | None
) -> None:
    """Every claim that has not counted them has committed when this returns, and what runs is counted."""

    async def talk(ask: Ask) -> None:
        await ask(CHANGE_RULES)
        if await ask(Step(SQL["count_limits"], {"names": texts(names), "counted": True})):
            await ask(Step(SQL["raise_version"], {}))
            await recount(ask, now)

    await connections.converse(talk)


async def count_no_more(connections: Transacting, limits: Sequence[Limit]) -> bool:
    """Of these, those that are far from being reached. Whether there are any."""

    halved = [
        msgspec.structs.replace(one, concurrency=(one.concurrency or 0) // 2) for one in limits
    ]

    def far_ones(answers: Sequence[Rows]) -> list[str]:
        return [name for name, share in _counts(answers).shares(halved).items() if share]

    # Without the lock at first: whoever has it keeps all claims waiting, and mostly there is nothing to change.
    counting = _counting(None)
    if not far_ones([await connections.read(step.statement, step.values) for step in counting]):
        return False

    async def talk(ask: Ask) -> bool:
        await ask(CHANGE_RULES)
        far = far_ones([await ask(step) for step in counting])
        values: Values = {"names": texts(far), "counted": False}
        if not far or not await ask(Step(SQL["count_limits"], values)):
            return False
        await ask(Step(SQL["raise_version"], {}))
        return True

    return await connections.converse(talk)


def _concerns(limit: Limit, queues: set[str]) -> bool:
    scope, _, name = limit.name.partition(":")
    return scope != "queue" or name in queues

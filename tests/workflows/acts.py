"""What may happen to a workflow: each act once for the store, and then, with the store's answer, for the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final

import msgspec

from foliot.errors import InvalidValue, NotRunning
from foliot.ids import JobId, SessionId
from foliot.model.job import ClaimedJob, End, Outcome
from foliot.model.lane import lane_of
from foliot.model.workflow import MAP_KIND, SIGNAL_KIND, NewStep, Rule
from foliot.store.port import Cycle, Reaped, Share
from support.flows import Drawing
from workflows.model import LOSS_LIMIT, Model, Said
from workflows.reference import Shape

_BACK: Final = (End.RETRY, End.RELEASE)


class Act(msgspec.Struct, frozen=True):
    does: Callable[[], Awaitable[Any]]
    means: Callable[[Model, Any, bool], None]  # with the answer; and whether it happened alone


class Grant(msgspec.Struct, frozen=True):
    """A claim of a step, then or now."""

    session: SessionId
    name: str
    job: ClaimedJob


class Acts:
    """Of one workflow. What was claimed, given back and taken back is kept in order, as the store said it."""

    def __init__(self, flow: Drawing) -> None:
        self._flow = flow
        self._store = flow.world.store
        self._partition = flow.world.partition
        self.grants: list[Grant] = []
        self.events: list[tuple[str, str]] = []  # what, and of which step

    def step(self, shape: Shape, *, delay: float = 0.0, into: Collection[str] = ()) -> NewStep:
        return self._flow.step(
            shape.name,
            *shape.parents,
            rule=Rule(shape.rule),
            signal=shape.signal,
            into=list(into),
            delay=delay or None,
            kind=SIGNAL_KIND if shape.signal else MAP_KIND if shape.maps else "echo",
        )

    def trip(self, session: SessionId, said: Sequence[tuple[Grant, End]], room: int) -> Act:
        """One round trip of a worker: some attempts end, then others begin."""
        told = [_said(grant, end) for grant, end in said]
        outcomes = [_outcome(grant, one) for (grant, _), one in zip(said, told, strict=True)]

        async def does() -> Cycle:
            cycle = await self._store.jobs.finish_and_claim(
                self._partition,
                session,
                outcomes=outcomes,
                shares=[Share(lane_of("default"), room)] if room else [],
                room=room,
            )
            back = {one.id for one in outcomes if one.end in _BACK} - set(cycle.refused)
            self.events += [("back", self._name(id)) for id in sorted(back)]
            self.events += [("start", self._name(job.id)) for job in cycle.claimed]
            self.grants += [Grant(session, self._name(job.id), job) for job in cycle.claimed]
            return cycle

        def means(model: Model, cycle: Cycle, alone: bool) -> None:
            model.end(session, told, [self._name(id) for id in cycle.refused])
            claimed = {self._name(job.id): job.fence for job in cycle.claimed}
            model.claim(session, claimed, room if alone else 0)

        return Act(does, means)

    def reap(self) -> Act:
        async def does() -> tuple[list[SessionId], int]:
            lost = (await self._store.jobs.find_lost()).get(self._partition, [])
            running = {job.id for one in lost for job in await self._store.jobs.running(one)}
            reaped: Reaped = await self._store.jobs.reap(
                self._partition, lost, limit=100, loss_limit=LOSS_LIMIT
            )
            self.events += [("back", self._name(id)) for id in sorted(running)]
            return lost, reaped.total

        return Act(does, lambda model, answer, _: model.reap(*answer))

    def cancel_step(self, name: str) -> Act:
        id = self._flow.ids[name]

        async def does() -> str | None:
            return (await self._store.jobs.cancel(self._partition, [id])).get(id)

        return Act(does, lambda model, answer, _: model.cancel_step(name, answer))

    def cancel(self) -> Act:
        async def does() -> bool:
            return await self._flow.store.cancel(self._partition, self._flow.id) is not None

        return Act(does, lambda model, answer, _: model.cancel(answered=answer))

    def signal(self, name: str, payload: bytes) -> Act:
        async def does() -> bool:
            told = await self._flow.store.signal(self._partition, self._flow.id, name, payload)
            return told is not None

        return Act(does, lambda model, answer, _: model.signal(name, payload, answered=answer))

    def pause(self) -> Act:
        async def does() -> bool:
            answer: bool = await self._flow.store.pause(
                self._partition, self._flow.id, note=None, by="me"
            )
            return answer

        return Act(does, lambda model, answer, _: model.pause(answered=answer))

    def resume(self) -> Act:
        async def does() -> bool:
            return await self._flow.store.resume(self._partition, self._flow.id) is not None

        return Act(does, lambda model, answer, _: model.resume(answered=answer))

    def retry(self, only: Collection[str]) -> Act:
        async def does() -> list[str] | None:
            ids = [self._flow.ids[name] for name in only]
            try:
                living, _ = await self._flow.store.retry(self._partition, self._flow.id, only=ids)
            except NotRunning:
                return None
            return [self._name(id) for id in living]

        return Act(does, lambda model, answer, _: model.retry(only, answer))

    def add(self, shape: Shape, into: Collection[str], delay: float, by: Grant | None) -> Act:
        step = self.step(shape, delay=delay, into=into)
        told = None if by is None else (by.session, by.job.id, by.job.fence)

        async def does() -> str:
            try:
                await self._flow.store.add(self._partition, self._flow.id, [step], by=told)
            except NotRunning:
                return "not running"
            except InvalidValue as error:
                return "begun" if "has begun already" in str(error) else "cycle"
            return "added"

        author = None if by is None else (by.session, by.name, by.job.fence)
        return Act(
            does,
            lambda model, answer, _: model.add(shape, into, author, delay=delay, answer=answer),
        )

    def make(self, by: Grant, count: int) -> Act:
        """So many elements of the map that was claimed then. Their names say which they are."""
        names = [f"{by.name}[{number}]" for number in range(count)]
        steps = [self._element(name, by.name) for name in names]
        told = (by.session, by.job.id, by.job.fence)

        async def does() -> bool:
            try:
                await self._flow.store.add(self._partition, self._flow.id, steps, by=told)
            except NotRunning:
                return False
            return True

        author = (by.session, by.name, by.job.fence)
        return Act(does, lambda model, answer, _: model.make(names, author, answered=answer))

    def _element(self, name: str, map_step: str) -> NewStep:
        known = self._flow.ids.get(name)
        step = self._flow.step(name, map_step, into=None, added_by=map_step, mapped=map_step)
        if known is None:
            return step
        self._flow.ids[name] = known
        return msgspec.structs.replace(step, job=msgspec.structs.replace(step.job, id=known))

    def _name(self, id: JobId) -> str:
        return next(name for name, job in self._flow.ids.items() if job == id)


def _said(grant: Grant, end: End) -> Said:
    result = f'"{grant.name} by {grant.job.fence}"'.encode() if end is End.SUCCEED else None
    delay = 20.0 if end is End.RETRY and grant.job.fence % 2 else 0.0
    return Said(grant.name, grant.job.fence, end, delay, result)


def _outcome(grant: Grant, said: Said) -> Outcome:
    job = grant.job
    return Outcome(job.id, job.fence, said.end, result=said.result, delay=said.delay, flow=job.flow)

"""A workflow in a store and the model of it. Whatever happens, happens to both, and then they stand alike.

Acts may happen beside each other: then there must be an order in which the model comes to where the store is.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from itertools import permutations
from typing import Any, Final

from foliot.ids import SessionId
from foliot.model.job import End
from foliot.model.workflow import Workflow
from machine.content import Ended, Live
from machine.stage import Stage
from support.flows import Drawing
from support.stores import World
from workflows.acts import Act, Acts, Grant
from workflows.model import Model, Standing, Whole
from workflows.past import Look, Past
from workflows.reference import Shape

_FOREVER: Final = 1e8  # seconds that a session lives, unless it is killed
_MOST_ROUNDS: Final = 20  # until all is carried out


class Twin:
    """Emptied to begin with."""

    def __init__(self, stage: Stage) -> None:
        stage.reader.clear()
        self._reader = stage.reader
        self._loop = stage.loop
        self.clock = stage.clock
        self.world = World(stage.place, stage.store, stage.clock, stage.ids)
        self.past = Past()
        self.sessions: list[SessionId] = []  # that live
        self.all_sessions: list[SessionId] = []

    def submit(
        self,
        shapes: Sequence[Shape],
        delays: Sequence[float],
        *,
        policy: str,
        deadline: float | None,
    ) -> None:
        self.flow = Drawing(self.world, self.open())
        self.open()
        self.acts = Acts(self.flow)
        known = {shape.name: delay for shape, delay in zip(shapes, delays, strict=True)}
        steps = [self.acts.step(shape, delay=known[shape.name]) for shape in shapes]
        self._loop.run(self.flow.submit(*steps, policy=policy, deadline=deadline))
        self.model = Model(shapes, policy, delays=known, deadline=deadline, now=self.clock.now())
        self.perform()

    def open(self) -> SessionId:
        session = self._loop.run(self.world.open_session(lease=_FOREVER))
        self.sessions.append(session)
        self.all_sessions.append(session)
        return session

    def held_by(self, session: SessionId) -> list[Grant]:
        return [
            grant
            for grant in self.acts.grants
            if grant.session == session and self.is_current(grant)
        ]

    def is_current(self, grant: Grant) -> bool:
        return self.model.runs(grant.session, grant.name, grant.job.fence)

    def kill(self, session: SessionId, executing: Sequence[str]) -> None:
        """After a last beat, in which it says what it executes. Another one takes its place."""
        self.world.beat(session, *(self.flow.ids[name] for name in executing), lease=0.5)
        self.model.beats[session] = (self.clock.now(), frozenset(executing))
        self.sessions.remove(session)
        self.open()
        self.perform()

    def perform(self, *acts: Act, seconds: float = 1.0) -> None:
        """All at the same time; then what follows is carried out, and some time passes."""
        self._loop.run(self._perform(acts, seconds))

    def come_to_rest(self) -> None:
        """No more faults: everything must end, and nothing be left."""
        for _ in range(100):
            if not self.model.whole.remaining:
                break
            self.perform(self.acts.reap())
            self.perform(self.acts.resume(), seconds=100)
            for signal in self.model.reference.awaited():
                self.perform(self.acts.signal(signal, b'"at last"'))
            for session in self.sessions:
                ends = [(grant, End.SUCCEED) for grant in self.held_by(session)]
                self.perform(self.acts.trip(session, ends, room=100))
        assert self.model.whole.remaining == 0
        assert not self._reader.read().live

    async def _perform(self, acts: Sequence[Act], seconds: float) -> None:
        seen = len(self.acts.events)
        answers = await asyncio.gather(*(act.does() for act in acts))
        models = self._follow(list(zip(acts, answers, strict=True)))
        await self._settle()
        now = self.clock.advance(seconds)
        await self.world.admit()
        await self._settle()
        for model in models:
            model.settle()
            model.pass_time(now)
            model.settle()
        whole, steps = await self._look(self.acts.events[seen:], alone=len(acts) < 2)
        self.model = _matching(models, whole, steps)

    def _follow(self, done: Sequence[tuple[Act, Any]]) -> list[Model]:
        """The model after them, in every order that the answers allow."""
        models, complaints = [], []
        for order in permutations(done):
            model = copy.deepcopy(self.model)
            try:
                for act, answer in order:
                    act.means(model, answer, len(done) == 1)
            except AssertionError as complaint:
                complaints.append(complaint)
            else:
                models.append(model)
        if not models:
            raise complaints[0]
        return models

    async def _settle(self) -> None:
        for _ in range(_MOST_ROUNDS):
            if not await self.flow.stuck():
                return
            await self.flow.advance()
        raise AssertionError("there is no end to what is left to carry out")

    async def _look(
        self, events: Sequence[tuple[str, str]], *, alone: bool
    ) -> tuple[Whole, dict[str, Standing]]:
        content = self._reader.read()
        names = {id: name for name, id in self.flow.ids.items()}
        told = await self.flow.steps()
        rows = {names[row.id]: row for row in content.rows}
        assert len(content.rows) == len(rows), "a job is there twice"
        assert set(rows) == set(told), "a job is missing, or one too many"
        for name, step in told.items():
            state = rows[name].state
            assert state == step.state, f"{name} is {state}, and {step.state} as a step"
        looks = {
            name: Look(
                step.state,
                rows[name].generation,
                step.result,
                step.finished_at,
                step.rule,
                tuple(names[id] for id in step.parents),
            )
            for name, step in told.items()
        }
        self.past.look(looks, events, alone=alone)
        steps = {name: _standing(rows[name], step.result) for name, step in told.items()}
        return _whole(await self.flow.get()), steps


def _standing(row: Live | Ended, result: bytes | None) -> Standing:
    hold, asked = (row.hold, row.cancel_requested) if isinstance(row, Live) else (None, False)
    return Standing(row.state, hold, row.fence, row.generation, asked, result)


def _whole(flow: Workflow) -> Whole:
    return Whole(
        flow.state,
        flow.total,
        flow.remaining,
        flow.failed,
        flow.paused_at is not None,
        flow.cancel_requested,
        flow.reason,
    )


def _matching(models: Sequence[Model], whole: Whole, steps: dict[str, Standing]) -> Model:
    for model in models:
        if (model.whole, model.steps) == (whole, steps):
            return model
    told = models[0]
    wrong = [f"{told.whole} was expected, it is {whole}"] if told.whole != whole else []
    wrong += [
        f"{name}: {step} was expected, it is {steps.get(name)}"
        for name, step in told.steps.items()
        if step != steps.get(name)
    ]
    raise AssertionError("\n".join(wrong))

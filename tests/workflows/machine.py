"""What happens to a workflow in a store, told as a story: each act is fitted to how things stand then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from foliot.ids import SessionId
from foliot.model.job import End
from machine.stage import Stage
from workflows.acts import Act, Acts, Grant
from workflows.model import LOSS_LIMIT, Model
from workflows.reference import FAILED, RULES, Reference, Shape
from workflows.stories import MOST_ENDS, Story
from workflows.twin import Twin

T = TypeVar("T")
MOST_STEPS: Final = 12
ENOUGH: Final = 4  # acts after all is over


def perform(stage: Stage, story: Story) -> None:
    """To its end: whatever has happened, everything comes to rest."""
    FlowMachine(stage, story).run(story)


def shorten(stage: Stage, story: Story) -> Story:
    """Of one that goes wrong: without the acts that this does not take."""
    for number in reversed(range(len(story.acts))):
        acts = story.acts[:number] + story.acts[number + 1 :]
        shorter = msgspec.structs.replace(story, acts=acts)
        try:
            perform(stage, shorter)
        except AssertionError:
            story = shorter
    return story


class FlowMachine:
    """What does not apply goes on in some way that does."""

    def __init__(self, stage: Stage, story: Story) -> None:
        self.twin = Twin(stage)
        self.twin.submit(story.shapes, story.delays, policy=story.policy, deadline=story.deadline)
        self._reached = stage.reached
        self._added = self._said = 0

    def run(self, story: Story) -> None:
        left = ENOUGH
        for name, *arguments in story.acts:
            left -= not self.flow.remaining and not self.flow.failed
            if left:
                getattr(self, f"_{name}")(*arguments)
        self.twin.come_to_rest()
        self._reached |= self.model.reached

    # -- what workers do

    def _claim(self, which: int, room: int) -> None:
        if self.model.claimable():
            self.twin.perform(self.acts.trip(_pick(self.twin.sessions, which), [], room))
        else:
            self._go_on(which)

    def _end(self, which: int, ends: list[End], room: int) -> None:
        if self.model.holders:
            self.twin.perform(self._trip(which, ends, room))
        else:
            self._go_on(which)

    def _end_beside_each_other(self, which: int, ends: list[End], others: list[End]) -> None:
        if len(self._holding()) > 1:
            self.twin.perform(self._trip(which, ends, 0), self._trip(which + 1, others, 0))
        else:
            self._go_on(which)

    def _kill(self, which: int, mask: int, noticed: bool) -> None:
        holding = [session for session in self._holding() if session in self.twin.sessions]
        if not holding:
            self._go_on(which)
            return
        session = _pick(holding, which)
        self.twin.kill(session, _some(self.model.holds(session), mask))
        if noticed:
            self.twin.perform(self.acts.reap())

    def _kill_again_and_again(self, which: int) -> None:
        """Whatever it claims."""
        for _ in range(LOSS_LIMIT):
            session = _pick(self.twin.sessions, which)
            self.twin.perform(self.acts.trip(session, [], 1))
            self.twin.kill(session, self.model.holds(session))
            self.twin.perform(self.acts.reap())

    def _reap(self, which: int) -> None:
        if set(self.model.beats) & set(self._holding()):
            self.twin.perform(self.acts.reap())
        else:
            self._go_on(which)

    def _report_too_late(self, which: int, end: End) -> None:
        """A step that another runs by now, or has ended: it is refused, and nothing changes."""
        past = [grant for grant in self.acts.grants if not self.twin.is_current(grant)]
        if past:
            grant = _pick(past, which)
            self.twin.perform(self.acts.trip(grant.session, [(grant, end)], 0))
        else:
            self._go_on(which)

    def _go_on(self, which: int) -> None:
        """With what there is to do."""
        if self.model.claimable():
            session = _pick(self.twin.sessions, which)
            self.twin.perform(self.acts.trip(session, [], (1, 2, 100)[which % 3]))
        elif self._fresh_maps() and which % 2:
            self.twin.perform(self.acts.make(self._fresh_maps()[0], 1 + which % 3))
        elif self.model.holders:
            self.twin.perform(self._trip(which, [_pick(MOST_ENDS, which)] * 2, 100))
        elif awaited := self.flow.awaited():
            self.twin.perform(self.acts.signal(awaited[0], self._payload()))
        elif self.flow.failed and not self.flow.remaining:
            self.twin.perform(self.acts.retry([]))
        else:
            self.twin.perform(self.acts.resume(), seconds=30)

    # -- what people do

    def _retry(self, which: int, mask: int) -> None:
        if self.flow.failed:
            self.twin.perform(self._act("retry", which, mask))
        else:
            self._go_on(which)

    def _add(self, drawn: tuple[str, str | None, float], above: int, below: int, by: int) -> None:
        if len(self.flow.shapes) < MOST_STEPS and self.flow.remaining:
            self.twin.perform(self._adding(drawn, above, below, by))
        else:
            self._go_on(by)

    def _make(self, which: int, count: int) -> None:
        """By a map that runs, or by one that no longer does."""
        maps = [grant for grant in self.acts.grants if self.flow.shapes[grant.name].maps]
        if maps and len(self.flow.shapes) < MOST_STEPS:
            self.twin.perform(self.acts.make(_pick(maps[::-1], which), count))
        else:
            self._go_on(which)

    def _fresh_maps(self) -> list[Grant]:
        """That run, and have made no elements."""
        made = {shape.mapped for shape in self.flow.shapes.values()}
        return [
            grant
            for grant in self.acts.grants
            if self.twin.is_current(grant)
            and self.flow.shapes[grant.name].maps
            and grant.name not in made
        ]

    def _signal(self, name: str) -> None:
        self.twin.perform(self.acts.signal(name, self._payload()))

    def _cancel_step(self, which: int) -> None:
        self.twin.perform(self._act("cancel_step", which, 0))

    def _cancel(self, really: bool) -> None:
        if really:
            self.twin.perform(self.acts.cancel())
        else:
            self._go_on(0)

    def _pause(self) -> None:
        self.twin.perform(self.acts.pause())

    def _resume(self) -> None:
        self.twin.perform(self.acts.resume())

    def _wait(self, seconds: float) -> None:
        self.twin.perform(seconds=seconds)

    def _act_beside_each_other(self, one: str, other: str, which: int, mask: int) -> None:
        self.twin.perform(self._act(one, which, mask), self._act(other, which + 1, mask // 2))

    # -- in short

    @property
    def acts(self) -> Acts:
        return self.twin.acts

    @property
    def model(self) -> Model:
        return self.twin.model

    @property
    def flow(self) -> Reference:
        return self.model.reference

    def _holding(self) -> list[SessionId]:
        """Sessions that run steps, some of them lost; in the order in which they came."""
        holding = {holder.session for holder in self.model.holders.values()}
        return [session for session in self.twin.all_sessions if session in holding]

    def _payload(self) -> bytes:
        self._said += 1
        return b"%d" % self._said

    def _trip(self, which: int, ends: Sequence[End], room: int) -> Act:
        """Of one session, all or some of what it runs."""
        holding = self._holding()
        session = _pick(holding or self.twin.sessions, which)
        held = self.twin.held_by(session)
        return self.acts.trip(session, list(zip(held, ends, strict=False)), room)

    def _adding(self, drawn: tuple[str, str | None, float], above: int, below: int, by: int) -> Act:
        """By nobody, by a step that runs, or by one that no longer does."""
        rule, signal, delay = drawn
        known = list(self.flow.shapes)
        parents = _some(known, above)[:3]
        self._added += 1
        shape = Shape(f"x{self._added}", tuple(parents), rule if parents else "all_done", signal)
        # Seldom before one that has begun, which is refused.
        later = self.flow.those("waiting") if below < 192 else known
        into = [name for name in _some(later, below) if name not in parents]
        grants = [None, None, *self.acts.grants[-4:]]
        return self.acts.add(shape, into[:2], delay, _pick(grants, by))

    def _act(self, kind: str, which: int, mask: int) -> Act:
        match kind:
            case "trip":
                return self._trip(which, [MOST_ENDS[(mask + n) % 5] for n in range(4)], mask % 2)
            case "cancel_step":
                return self.acts.cancel_step(_pick(list(self.flow.shapes), which))
            case "signal":
                return self.acts.signal(("go", "stop")[which % 2], self._payload())
            case "retry":
                return self.acts.retry(_some(self.flow.those(*FAILED), mask))
            case "make" if maps := [g for g in self.acts.grants if self.flow.shapes[g.name].maps]:
                return self.acts.make(maps[-1], 1 + mask % 3)
            case "add" | "make":
                drawn = (RULES[which % 5], (None, "go")[mask % 2], 0.0)
                return self._adding(drawn, mask, mask // 8, which)
            case _:
                return getattr(self.acts, kind)()  # type: ignore[no-any-return]


def _pick(among: Sequence[T], which: int) -> T:
    return among[which % len(among)]


def _some(among: Sequence[T], mask: int) -> list[T]:
    return [one for bit, one in enumerate(among) if mask >> (bit % 8) & 1]

"""What a workflow must do, told once more: by the words of its rules, not by the counters that the stores keep.

A graph, a policy and what happens to it, act by act; after each it says how every step stands. It knows whole graphs
and looks at all parents of a step whenever one of them has ended: slow, and easy to be sure of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from graphlib import TopologicalSorter
from typing import Final

import msgspec

RULES: Final = ("all_succeeded", "all_done", "any_succeeded", "any_failed", "none_failed")
FAILED: Final = ("dead", "cancelled")
ENDED: Final = ("succeeded", "skipped", *FAILED)
FOR_FAILURES: Final = ("all_done", "any_failed")  # what a failure does not stop


class Shape(msgspec.Struct, frozen=True):
    """A step as it is drawn."""

    name: str
    parents: tuple[str, ...] = ()
    rule: str = "all_succeeded"
    signal: str | None = None
    maps: bool = False  # it makes elements when it runs
    mapped: str | None = None  # the map whose element it is


class Reference:
    """One workflow. Steps are waiting, open (nothing but a worker or a signal is missing), running, or have ended."""

    def __init__(self, shapes: Sequence[Shape], policy: str = "fail_fast") -> None:
        self.shapes = {shape.name: shape for shape in shapes}
        self.policy = policy
        self.states = dict.fromkeys(self.shapes, "waiting")
        self.asked: set[str] = set()  # running steps that were asked to end
        self.signals: set[str] = set()  # that came before anybody waited for them
        self.paused = False
        self.cancelled = False
        self.late = False  # it was the deadline that cancelled it
        self.stopped = False
        self.forgiven = 0  # failures that a retry of others has left: they stop nothing any more
        self._look(self.shapes)

    # -- how it stands

    @property
    def state(self) -> str:
        if self.remaining:
            return "running"
        if self.cancelled:
            return "failed" if self.late else "cancelled"
        return "failed" if self.failed else "succeeded"

    @property
    def remaining(self) -> int:
        return sum(state not in ENDED for state in self.states.values())

    @property
    def failed(self) -> int:
        return sum(state in FAILED for state in self.states.values())

    @property
    def failing(self) -> bool:
        return self.policy == "fail_fast" and self.failed > self.forgiven

    @property
    def must_stop(self) -> bool:
        """A step has failed, and what that is to stop has not been stopped yet."""
        return self.failing and not self.stopped and not self.cancelled and self.remaining > 0

    def ancestors(self, names: Iterable[str]) -> set[str]:
        """And these themselves."""
        found = set(names)
        for name in reversed(self._order()):
            if name in found:
                found.update(self.shapes[name].parents)
        return found

    def those(self, *states: str) -> list[str]:
        return [name for name, state in self.states.items() if state in states]

    def claimable(self) -> list[str]:
        return [] if self.paused else [n for n in self.those("open") if not self.shapes[n].signal]

    def awaited(self) -> list[str]:
        """Signals that steps wait for."""
        return [signal for n in self.those("open") if (signal := self.shapes[n].signal)]

    # -- what happens to it

    def claim(self, names: Collection[str]) -> None:
        assert set(names) <= set(self.claimable()), "what may start, and nothing else"
        for name in names:
            self.states[name] = "running"

    def end(self, ends: dict[str, str]) -> None:
        """Of running steps, in one transaction. "back": it is to be tried again."""
        over = {}
        for name, end in ends.items():
            assert self.states[name] == "running", name
            if name in self.asked and end in ("back", "dead"):
                over[name] = "cancelled"
            elif end == "back":
                self.states[name] = "open"
            else:
                over[name] = end
        self.asked -= set(ends)
        self._ended(over)

    @property
    def ending(self) -> bool:
        """Steps that run were asked to end, by a cancel of the whole or by a failure."""
        running = [n for n in self.those("running") if not self._is_spared(n)]
        return self.remaining > 0 and (self.cancelled or (self.stopped and bool(running)))

    def cancel_step(self, name: str) -> None:
        if self.states[name] == "running":
            self.asked.add(name)
        elif self.states[name] not in ENDED:
            self._ended({name: "cancelled"})

    def cancel(self, *, late: bool = False) -> None:
        if not self.remaining:
            return
        self.cancelled = self.stopped = True
        self.late |= late  # a cancel after the deadline does not undo that
        self.paused = False
        self.asked.update(self.those("running"))
        self._ended(dict.fromkeys(self.those("waiting", "open"), "cancelled"))

    def stop(self) -> None:
        """What a failure does to the others, where the policy is fail_fast."""
        assert self.must_stop
        self.stopped = True
        others = [n for n in self.shapes if not self._is_spared(n)]
        self.asked.update(n for n in others if self.states[n] == "running")
        self._ended({n: "skipped" for n in others if self.states[n] in ("waiting", "open")})

    def signal(self, signal: str) -> None:
        if not self.remaining or self.cancelled:
            return
        waiting = [n for n in self.those("open") if self.shapes[n].signal == signal]
        if waiting:
            self._ended(dict.fromkeys(waiting, "succeeded"))
        else:
            self.signals.add(signal)

    def pause(self) -> None:
        if self.remaining and not self.cancelled:
            self.paused = True

    def resume(self) -> None:
        if self.remaining:
            self.paused = False

    def retry(self, only: Collection[str] = ()) -> list[str]:
        """Failed steps are decided anew, and run whatever else has failed; skipped ones are decided anew. Returns
        those that were taken up again."""
        again = [n for n in self.those(*FAILED) if not only or n in only]
        in_vain = self.failed == 0 and self.state in ("failed", "cancelled")  # all has succeeded
        if not again and (only or not in_vain):
            return []
        anew = {*again, *self.those("skipped")}
        self.states.update(dict.fromkeys(anew, "waiting"))
        self.cancelled = self.late = self.stopped = False
        self.forgiven = 0
        decided = {}
        for name in self._order():
            if name in anew:
                decided[name] = state = self._decide(name, spared=name in again)
                self.states[name] = "open" if state == "succeeded" else state
        taken_up = {n: state for n, state in decided.items() if state != "skipped" or n in again}
        self.forgiven = self.failed
        self._carry_out(taken_up)
        return list(taken_up)

    def add(self, shape: Shape, into: Collection[str] = ()) -> None:
        assert self.remaining
        assert not self.cancelled
        for name in into:
            assert self.states[name] == "waiting"
            old = self.shapes[name]
            self.shapes[name] = msgspec.structs.replace(old, parents=(*old.parents, shape.name))
        if shape.mapped is None:
            shape = msgspec.structs.replace(shape, parents=self.with_elements(shape.parents))
        self.shapes[shape.name] = shape
        self.states[shape.name] = "waiting"
        self._look([shape.name])

    def make(self, map_step: str, elements: Sequence[str]) -> list[str]:
        """What waits for the map waits for them as well. Returns those that an earlier attempt has not made."""
        new = [name for name in elements if name not in self.shapes]
        below = [
            name
            for name in self.those("waiting")
            if map_step in self.shapes[name].parents and self.shapes[name].mapped != map_step
        ]
        for name in new:
            self.add(Shape(name, (map_step,), mapped=map_step), below)
        return new

    def with_elements(self, parents: Sequence[str]) -> tuple[str, ...]:
        """What comes after a map comes after its elements."""
        found: dict[str, None] = {}
        for name in parents:
            found[name] = None
            found |= dict.fromkeys(n for n, shape in self.shapes.items() if shape.mapped == name)
        return tuple(found)

    # -- the rules

    def _ended(self, ends: dict[str, str]) -> None:
        """Those first, all of them; then what it means for their children."""
        self.states.update(ends)
        self.asked -= set(ends)
        below = [n for n, shape in self.shapes.items() if set(shape.parents) & set(ends)]
        if below:
            self._look(below)
        if not self.remaining:
            self.paused = False

    def _look(self, names: Iterable[str]) -> None:
        """Whether steps that wait may run, or never will; and so on, with the children of those that never will."""
        waiting = [name for name in names if self.states[name] == "waiting"]
        self._carry_out({name: self._decide(name) for name in waiting})

    def _carry_out(self, decided: dict[str, str]) -> None:
        """A signal that had come is for all that begin to wait for it together."""
        self.states.update({n: state for n, state in decided.items() if state == "open"})
        self.signals -= {
            self.shapes[n].signal or "" for n, s in decided.items() if s == "succeeded"
        }
        if over := {n: state for n, state in decided.items() if state in ENDED}:
            self._ended(over)

    def _decide(self, name: str, *, spared: bool = False) -> str:
        """Of a step that waits: how it stands now. `spared`: it runs even where others have failed."""
        shape = self.shapes[name]
        verdict = self._verdict(shape)
        if self.failing and not spared and not self._is_spared(name):
            return "skipped"
        if verdict == "later":
            return "waiting"
        if verdict == "never" or self.cancelled:
            return "skipped"
        if shape.signal in self.signals:
            return "succeeded"
        return "open"

    def _is_spared(self, name: str) -> bool:
        """By a failure that stops others. An element is if its map was."""
        map_step = self.shapes[name].mapped
        return self.shapes[map_step or name].rule in FOR_FAILURES

    def _is_good(self, parent: str, rule: str) -> bool:
        """A map that is done has only made its elements: where one success is enough, it is none."""
        none = rule == "any_succeeded" and self.shapes[parent].maps
        return self.states[parent] == "succeeded" and not none

    def _order(self) -> list[str]:
        """Parents before their children."""
        drawn = {name: shape.parents for name, shape in self.shapes.items()}
        return list(TopologicalSorter(drawn).static_order())

    def _verdict(self, shape: Shape) -> str:
        parents = [self.states[name] for name in shape.parents]
        over = [state for state in parents if state in ENDED]
        good = [name for name in shape.parents if self._is_good(name, shape.rule)]
        bad = [state for state in parents if state in FAILED]
        all_over = len(over) == len(parents)
        match shape.rule:
            case "all_succeeded" if len(good) < len(over):
                return "never"
            case "any_succeeded" if good:
                return "now"
            case "any_succeeded" if all_over and parents:
                return "never"
            case "any_failed" if bad:
                return "now"
            case "any_failed" if all_over:
                return "never"
            case "none_failed" if bad:
                return "never"
            case "any_failed":
                return "later"
            case _:
                return "now" if all_over else "later"

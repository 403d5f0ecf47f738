"""What a workflow has been through, from what was seen of it alone: no reference says here what had to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from workflows.reference import ENDED, FAILED


class Look(msgspec.Struct, frozen=True):
    """A step, when somebody looked."""

    state: str
    life: int
    result: bytes | None
    finished_at: datetime | None
    rule: str
    parents: tuple[str, ...]


class Past:
    """Looked at after every act. Each life of a step ends once and is started once; each start comes after the ends of
    parents."""

    def __init__(self) -> None:
        self._last: dict[str, Look] = {}
        self._ends: dict[str, list[str]] = {}  # states, of all lives
        self._running: set[str] = set()  # started, and neither ended nor given back

    def look(
        self, steps: Mapping[str, Look], events: Sequence[tuple[str, str]], *, alone: bool
    ) -> None:
        """`events`: what was started and given back since the last look. `alone`: there was one act since."""
        for name, now in steps.items():
            self._compare(name, self._last.get(name), now, alone=alone)
        for what, name in events:
            if what == "back":
                self._running.discard(name)
                continue
            assert name not in self._running, f"{name} was started twice"
            self._running.add(name)
            assert self._may_start(steps[name]), f"{name} was started before its parents had ended"
        self._running -= {name for name, step in steps.items() if step.state in ENDED}
        if (
            not alone
        ):  # what was taken back may have been claimed while that was about to be asked for
            self._running &= {name for name, step in steps.items() if step.state == "running"}
        self._last = dict(steps)

    def _compare(self, name: str, before: Look | None, now: Look, *, alone: bool) -> None:
        if before is not None and now.life == before.life and before.state in ENDED:
            assert now == before, f"{name} had ended: {before}, and then {now}"
            return
        ends = self._ends.setdefault(name, [])
        if before is not None and now.life != before.life:
            self._running.discard(name)
            assert before.state != "succeeded", f"{name} had succeeded, and lives again"
            if alone:
                assert before.state in ENDED, f"{name} had not ended: {before}, {now}"
                assert now.life == before.life + 1, f"{name} has lived unseen: {before}, {now}"
            elif before.state not in ENDED:
                ends += ["skipped", *FAILED]  # one of them
        if now.state in ENDED:
            ends.append(now.state)

    def _may_start(self, step: Look) -> bool:
        """The ends that its rule asks for have been, in whichever life."""
        ends = [set(self._ends.get(parent, ())) for parent in step.parents]
        match step.rule:
            case "all_succeeded":
                return all("succeeded" in one for one in ends)
            case "any_succeeded":
                return not ends or any("succeeded" in one for one in ends)
            case "any_failed":
                return any(one & set(FAILED) for one in ends)
            case "none_failed":
                return all(one & {"succeeded", "skipped"} for one in ends)
            case _:
                return all(ends)

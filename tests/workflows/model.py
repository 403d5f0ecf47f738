"""A workflow and what surrounds it: the reference says how its steps stand, this who runs them, in which life, when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from foliot.ids import SessionId
from foliot.model.job import End
from workflows.reference import ENDED, RULES, Reference, Shape

LOSS_LIMIT: Final = 2
_ENDS: Final = {
    End.SUCCEED: "succeeded",
    End.BURY: "dead",
    End.CANCEL: "cancelled",
    End.RETRY: "back",
    End.RELEASE: "back",
}


# What a long run must have come upon.
EVERYTHING: Final = frozenset(
    {
        *(f"{rule}: it may run" for rule in RULES),
        *(f"{rule}: it is skipped" for rule in RULES if rule != "all_done"),
        "a failure stops others",
        "a running step is asked to end",
        "a signal ends a step",
        "a signal has come before",
        "an outcome comes too late",
        "a step is taken back",
        "a step that loses its sessions is dead",
        "a paused step goes on",
        "a step lives again",
        "a step succeeds in a later life",
        "a step is ruled out when it is tried again",
        "the deadline passes",
        "a step is added",
        "a step is added before another",
        "a step is not added: not running",
        "a step is not added: begun",
        "a step is not added: cycle",
        "a map makes its elements",
        "a map makes elements that an earlier attempt has made",
        "a step comes after a map that has made its elements",
        "a map that has not the right to makes none",
        "an element dies",
        "it has succeeded",
        "it has failed",
        "it has cancelled",
    }
)


class Holder(msgspec.Struct, frozen=True):
    """Who runs a step."""

    session: SessionId
    fence: int
    at: datetime


class Said(msgspec.Struct, frozen=True):
    """What a worker says of a step."""

    name: str
    fence: int
    end: End
    delay: float = 0.0
    result: bytes | None = None


class Standing(msgspec.Struct, frozen=True):
    """How one step stands."""

    state: str
    hold: str | None
    fence: int
    life: int  # how often it was taken up again after it had ended
    asked: bool  # to end, while it runs
    result: bytes | None


class Whole(msgspec.Struct, frozen=True):
    """How the workflow stands."""

    state: str
    total: int
    remaining: int
    failed: int
    paused: bool
    cancelled: bool
    reason: str | None


class Model:
    def __init__(
        self,
        shapes: Sequence[Shape],
        policy: str,
        *,
        delays: Mapping[str, float],
        deadline: float | None,
        now: datetime,
    ) -> None:
        self.reference = Reference(shapes, policy)
        self.now = now
        self.delays = dict(delays)
        self.deadline = deadline
        self.holders: dict[str, Holder] = {}
        self.scheduled: dict[str, datetime] = {}  # open steps whose time has not come
        self.fences: Counter[str] = Counter()
        self.lives: Counter[str] = Counter()
        self.beats: dict[SessionId, tuple[datetime, frozenset[str]]] = {}  # the last, of the killed
        self.reached: set[str] = set()
        self._losses: Counter[str] = Counter()  # that count, in this life
        self._taken: Counter[str] = Counter()  # times that it was taken back, in all lives
        self._results: dict[str, bytes | None] = {}
        self._payloads: dict[str, bytes] = {}  # of signals
        self._set_deadline()
        self._follow({})

    # -- how it stands

    @property
    def whole(self) -> Whole:
        flow = self.reference
        reason = ("deadline" if flow.late else "requested") if flow.cancelled else None
        return Whole(
            flow.state,
            len(flow.shapes),
            flow.remaining,
            flow.failed,
            flow.paused,
            flow.cancelled,
            reason,
        )

    @property
    def steps(self) -> dict[str, Standing]:
        return {name: self._standing(name) for name in self.reference.shapes}

    def claimable(self) -> list[str]:
        return [name for name in self.reference.claimable() if name not in self.scheduled]

    def holds(self, session: SessionId) -> list[str]:
        return [name for name, holder in self.holders.items() if holder.session == session]

    def runs(self, session: SessionId, name: str, fence: int) -> bool:
        holder = self.holders.get(name)
        return holder is not None and (holder.session, holder.fence) == (session, fence)

    # -- what happens to it; what the store has answered must be what it had to

    def claim(self, session: SessionId, claimed: Mapping[str, int], most: int) -> None:
        """`most`: if nobody else wanted something, it had to be so many."""
        assert set(claimed) <= set(self.claimable()), f"{set(claimed)} of {self.claimable()}"
        assert len(claimed) >= min(most, len(self.claimable())), "there was more to claim"
        self.reference.claim(claimed)
        for name, fence in claimed.items():
            self.fences[name] += 1
            assert fence == self.fences[name], f"{name} was claimed with {fence}"
            self.holders[name] = Holder(session, fence, self.now)

    def end(self, session: SessionId, said: Sequence[Said], refused: Collection[str]) -> None:
        """In one transaction."""
        due = [one for one in said if self.runs(session, one.name, one.fence)]
        late = {one.name for one in said} - {one.name for one in due}
        assert set(refused) == late, f"{refused} were refused, not {late}"
        if late:
            self.reached.add("an outcome comes too late")
        before = dict(self.reference.states)
        self.reference.end({one.name: _ENDS[one.end] for one in due})
        self._follow(before)
        for one in due:
            if one.end is End.SUCCEED:
                self._results[one.name] = one.result
                if self.lives[one.name]:
                    self.reached.add("a step succeeds in a later life")
            elif one.end is End.RETRY and self.reference.states[one.name] == "open":
                self.scheduled[one.name] = self.now + timedelta(seconds=one.delay)

    def reap(self, sessions: Collection[SessionId], total: int) -> None:
        taken = [name for name, holder in self.holders.items() if holder.session in sessions]
        assert total == len(taken), f"{total} were taken back, not {taken}"
        fates = {name: self._fate(name) for name in taken}
        before = dict(self.reference.states)
        self.reference.end(fates)
        self._follow(before)

    def cancel_step(self, name: str, answer: str | None) -> None:
        standing = self._standing(name)
        assert answer == (None if standing.state in ENDED else standing.state)
        before = dict(self.reference.states)
        self.reference.cancel_step(name)
        self._follow(before)

    def cancel(self, *, answered: bool) -> None:
        assert answered == (self.reference.remaining > 0)
        before = dict(self.reference.states)
        self.reference.cancel()
        self._follow(before)

    def signal(self, name: str, payload: bytes, *, answered: bool) -> None:
        assert answered == self._open
        if answered:
            self._payloads[name] = payload
        before = dict(self.reference.states)
        self.reference.signal(name)
        self._follow(before)

    def pause(self, *, answered: bool) -> None:
        assert answered == self._open
        self.reference.pause()

    def resume(self, *, answered: bool) -> None:
        assert answered == (self.reference.remaining > 0)
        if self.reference.paused and answered:
            if self.reference.those("open"):
                self.reached.add("a paused step goes on")
            self._admit()
        self.reference.resume()

    def retry(self, only: Collection[str], living: Collection[str] | None) -> None:
        assert (living is None) == self.reference.ending, "refused while steps are being ended"
        if living is None:
            return
        before = dict(self.reference.states)
        found = self.reference.retry(only)
        assert sorted(found) == sorted(living), f"{living} live again, not {found}"
        for name in found:
            ruled_out = self.reference.states[name] == "skipped"
            self.reached.add(
                "a step is ruled out when it is tried again" if ruled_out else "a step lives again"
            )
            self.lives[name] += 1
            self._losses[name] = 0
            self._results.pop(name, None)
        if found:
            self._set_deadline()
        self._follow(before)

    def add(
        self,
        shape: Shape,
        into: Collection[str],
        by: tuple[SessionId, str, int] | None,
        *,
        delay: float,
        answer: str,
    ) -> None:
        """By a step that runs, or by nobody."""
        right = "added"
        if not self._open or (by is not None and not self.runs(*by)):
            right = "not running"
        elif any(self.reference.states[name] != "waiting" for name in into):
            right = "begun"
        elif self.reference.ancestors(self.reference.with_elements(shape.parents)) & {*into}:
            right = "cycle"
        assert answer == right, f"{shape} into {into} was {answer}, not {right}"
        self.reached.add(f"a step is not added: {answer}")
        if answer == "added":
            self.reached.add("a step is added before another" if into else "a step is added")
            if self.reference.with_elements(shape.parents) != shape.parents:
                self.reached.add("a step comes after a map that has made its elements")
            before = dict(self.reference.states)
            self.delays[shape.name] = delay
            self.reference.add(shape, into)
            self._follow(before)

    def make(
        self, elements: Sequence[str], by: tuple[SessionId, str, int], *, answered: bool
    ) -> None:
        """Of the map that makes them."""
        assert answered == (self._open and self.runs(*by)), f"{by} has made {elements}"
        if not answered:
            self.reached.add("a map that has not the right to makes none")
            return
        before = dict(self.reference.states)
        self.delays |= dict.fromkeys(elements, 0.0)
        new = self.reference.make(by[1], elements)
        if new:
            self.reached.add("a map makes its elements")
        if len(new) < len(elements):
            self.reached.add("a map makes elements that an earlier attempt has made")
        self._follow(before)

    def settle(self) -> None:
        """What is left to do for whoever comes next."""
        flow = self.reference
        before = dict(flow.states)
        late = self._deadline_at is not None and self._deadline_at <= self.now
        if late and self._open:
            flow.cancel(late=True)
            self.reached.add("the deadline passes")
        elif flow.must_stop:
            flow.stop()
            self.reached.add("a failure stops others")
            if flow.asked:
                self.reached.add("a running step is asked to end")
        self._follow(before)

    def pass_time(self, now: datetime) -> None:
        self.now = now
        if not self.reference.paused:
            self._admit()

    # -- on the way

    @property
    def _open(self) -> bool:
        """It runs, and is not about to end."""
        return self.reference.remaining > 0 and not self.reference.cancelled

    def _standing(self, name: str) -> Standing:
        state = self.reference.states[name]
        hold = None
        if state == "open":
            if self.reference.shapes[name].signal is not None:
                hold = "signal"
            elif self.reference.paused:
                hold = "paused"
            state = "held" if hold else "scheduled" if name in self.scheduled else "ready"
        asked = name in self.reference.asked
        return Standing(
            state, hold, self.fences[name], self.lives[name], asked, self._results.get(name)
        )

    def _follow(self, before: Mapping[str, str]) -> None:
        """What a change of steps means for what surrounds them."""
        for name, state in self.reference.states.items():
            if state == before.get(name):
                continue
            self.scheduled.pop(name, None)
            if state != "running":
                self.holders.pop(name, None)
            signal = self.reference.shapes[name].signal
            self._note(name, before.get(name, "waiting"), state)
            if state == "succeeded" and signal is not None:
                self._results[name] = self._payloads[signal]
            # One that comes back has waited for its time before.
            if state == "open" and before.get(name) != "running" and self.delays[name]:
                self.scheduled[name] = self.now + timedelta(seconds=self.delays[name])

    def _note(self, name: str, before: str, state: str) -> None:
        shape = self.reference.shapes[name]
        if before == "waiting" and shape.parents and state in ("open", "skipped"):
            what = "may run" if state == "open" else "is skipped"
            self.reached.add(f"{shape.rule}: it {what}")
        if shape.mapped is not None and state == "dead":
            self.reached.add("an element dies")
        if shape.signal is not None and state == "succeeded":
            early = before == "waiting"
            self.reached.add("a signal has come before" if early else "a signal ends a step")
        if not self.reference.remaining:
            self.reached.add(f"it has {self.reference.state}")

    def _fate(self, name: str) -> str:
        """Of a step that is taken back. One that runs when its session is lost may be what kills sessions; of one that
        may not have started that is assumed where it has been so too often."""
        holder = self.holders[name]
        beat_at, executing = self.beats[holder.session]
        suspected = self._taken[name] >= 3 * self._losses[name] + 2
        counts = name in executing or holder.at >= beat_at or suspected
        self._taken[name] += 1
        self._losses[name] += counts
        if counts and self._losses[name] >= LOSS_LIMIT:
            self.reached.add("a step that loses its sessions is dead")
            return "dead"
        self.reached.add("a step is taken back")
        return "back"

    def _admit(self) -> None:
        self.scheduled = {name: at for name, at in self.scheduled.items() if at > self.now}

    def _set_deadline(self) -> None:
        self._deadline_at: datetime | None = None
        if self.deadline is not None:
            self._deadline_at = self.now + timedelta(seconds=self.deadline)

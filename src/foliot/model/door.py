"""Door: who may start under the limits there are, and who has to wait for which.

Each limit is a gate in it. Who stands in the door is alone there: see store/limiting.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from foliot.ids import JobId
from foliot.model.limit import AHEAD, Limit, Rules, Traits, Use

_ONE: Final = 1.0 - 1e-9  # a whole token, but for what adding fractions loses
_LEFT: Final = 2.0  # seconds for which a slot is left to those who wait in another partition
_LEAST_PAUSE: Final = 0.1  # seconds until there is another look where only a slot is missing


class Candidate(msgspec.Struct, frozen=True):
    """A job that could start."""

    id: JobId
    lane: int
    traits: Traits
    fits: bool = True  # the worker that asks could run it
    line: str | None = None  # it has waited for this one, and it is its lane's turn there


class Passage(msgspec.Struct, frozen=True):
    """What the gates have decided."""

    enter: list[tuple[JobId, tuple[str, ...]]] = []  # they start, and hold slots of these
    wait: list[tuple[JobId, str]] = []  # for this one
    pass_on: list[JobId] = []  # they may start, elsewhere: they will be asked again
    lanes: list[int] = []  # of those that wait
    uses: list[Use] = []  # what has changed


class Door:
    """All gates at one moment. Who stands in it is alone there: see store/limiting.py."""

    def __init__(
        self, rules: Rules, uses: Iterable[Use], now: float, partition: int | None = None
    ) -> None:
        self._rules = rules
        self._partition = partition
        self._uses = {use.name: use for use in uses}
        self._now = now
        self._open: dict[str, _Gate] = {}
        self._gone: Mapping[str, int] = {}

    def decide(
        self, candidates: Sequence[Candidate], room: int, quotas: Mapping[int, int]
    ) -> Passage:
        """In their order, at most so many, and of each lane. Who has waited for a limit is left a slot of it by other
        lanes, which would take it for ever if they are asked first."""
        passage, left = Passage(), dict(quotas)
        kept = _Kept(candidates)
        for one in candidates:
            names = self._rules.gates(one.traits)
            gates = [self._gate(name) for name in names]
            kept.drop(one)
            full = [
                gate.name for gate in gates if not gate.has_more_than(kept.from_(one, gate.name))
            ]
            if full:
                passage.wait.append((one.id, full[0]))
                passage.lanes.append(one.lane)
            elif not one.fits or len(passage.enter) >= room or left[one.lane] <= 0:
                passage.pass_on.append(one.id)
            else:
                left[one.lane] -= 1
                for gate in gates:
                    gate.take()
                passage.enter.append((one.id, names))
        passage.uses.extend(self.changed())
        return passage

    def leave(self, gone: Mapping[str, int]) -> None:
        """Slots that have been given back."""
        self._gone = gone

    def recount(self, running: Mapping[Traits, int]) -> None:
        """By what really runs. And tokens that were counted at a time which is still to come are from now on."""
        stale = (n for n, use in self._uses.items() if use.used or use.at > self._now + AHEAD)
        counts = dict.fromkeys(stale, 0)
        for traits, number in running.items():
            for name in self._rules.gates(traits):
                counts[name] = counts.get(name, 0) + number
        for name, number in counts.items():
            self._gate(name).correct(number)

    @property
    def several(self) -> bool:
        """Whether a job may be under more than one."""
        return len(self._rules.limits) > 1

    def room(self, name: str) -> int | None:
        """How many could pass this one now; None: any number."""
        return self._gate(name).room

    def tokens(self, name: str) -> float | None:
        """That are left of its rate now; None: it has none."""
        return self._gate(name).use.tokens

    def wait(self, name: str) -> float | None:
        """Seconds until one more may start by its rate; None: time alone changes nothing."""
        return self._gate(name).wait

    def again(self, name: str) -> float | None:
        """Seconds until it has one more token, also where there is no slot yet; None: it has no rate."""
        return self._gate(name).again

    def refill(self) -> dict[str, float]:
        """Of rates that are in use, whether anybody waits for them or not, seconds until there is one more token. Those
        of keys are left out: there may be many."""
        known = self._rules.limits.keys() & self._uses.keys()
        used = [self._gate(name) for name in sorted(known) if not name.startswith("key")]
        return {g.name: g.again for g in used if g.again is not None and not g.rested}

    def queue_up(self, name: str, *, new: bool) -> bool:
        """Have the next slot left to those who wait here, where another partition took the last one: who leaves a slot
        lets those go on that wait where it was, and nobody else would ever find one. Whether it is left to them; `new`:
        not only if it is so already."""
        return self._gate(name).queue_up(new=new)

    def queued(self) -> list[Use]:
        return [gate.use for gate in self._open.values() if gate.queued]

    def changed(self) -> list[Use]:
        return [gate.use for gate in self._open.values() if gate.changed]

    def _gate(self, name: str) -> _Gate:
        gate = self._open.get(name)
        if gate is None:
            limit, use = self._rules.limit(name), self._uses.get(name) or Use(name)
            gate = self._open[name] = _Gate(limit, use, self._now, self._partition)
            if name in self._gone:
                gate.leave(self._gone[name])
        return gate


class _Kept:
    """How many of those that have waited for each limit are still to be asked."""

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        lines = Counter((one.line, one.lane) for one in candidates if one.line is not None)
        self._lines = lines
        self._all = Counter[str | None]()
        for (line, _), number in lines.items():
            self._all[line] += number

    def drop(self, one: Candidate) -> None:
        if one.line is not None:
            self._lines[one.line, one.lane] -= 1
            self._all[one.line] -= 1

    def from_(self, one: Candidate, gate: str) -> int:
        """By those of other lanes; from one that could not start here nothing is kept."""
        return self._all[gate] - self._lines[gate, one.lane] if one.fits and self._all else 0


class _Gate:
    __slots__ = (
        "_before",
        "_burst",
        "_each_second",
        "_most",
        "_next_in",
        "_next_until",
        "_now",
        "_partition",
        "_taken_in",
        "changed",
        "name",
        "open",
        "queued",
        "tokens",
        "used",
    )

    def __init__(self, limit: Limit | None, use: Use, now: float, partition: int | None) -> None:
        self.name = use.name
        self._partition = partition
        self._taken_in = use.taken_in
        next_in = use.next_in if (use.next_until or 0.0) > now else None
        self._next_in, self._next_until = next_in, use.next_until if next_in is not None else None
        self.queued = False
        self._now = now
        self._before = use
        self._most = None if limit is None else limit.concurrency
        self._each_second = None if limit is None else limit.each_second
        self._burst = 0.0 if limit is None else float(limit.burst)
        self.used = use.used
        self.tokens = 0.0
        self.changed = use.at > now + AHEAD  # or there were none until then
        if self._each_second is not None:
            had = self._burst if use.tokens is None else use.tokens
            self.tokens = min(self._burst, had + max(0.0, now - use.at) * self._each_second)
        self._look()

    def _look(self) -> None:
        """Whether one more may pass."""
        free = self._free is None or self._free > 0
        self.open = free and (self._each_second is None or self.tokens >= _ONE)

    def has_more_than(self, kept: int) -> bool:
        """Whether one more may pass where so many slots are kept."""
        return self.open and (not kept or self.room is None or self.room > kept)

    @property
    def room(self) -> int | None:
        free = self._free
        if self._each_second is None:
            return free
        tokens = int(self.tokens + 1 - _ONE)
        return tokens if free is None else min(free, tokens)

    @property
    def wait(self) -> float | None:
        if self._each_second is None or self._free == 0:
            return None
        return max(0.0, (1.0 - self.tokens) / self._each_second)

    @property
    def rested(self) -> bool:
        """Whether it has all its tokens."""
        return self.tokens >= self._burst * _ONE

    @property
    def again(self) -> float | None:
        """Where there is a token already, until the one after it: one more may start and end before that comes."""
        if self._each_second is None:
            return None
        if self.tokens < _ONE:
            return (1.0 - self.tokens) / self._each_second
        return max(1.0 / self._each_second, _LEAST_PAUSE)

    @property
    def _free(self) -> int | None:
        if self._most is None:
            return None
        left = 0 if self._next_in in (None, self._partition) else 1
        return max(0, self._most - self.used - left)

    def queue_up(self, *, new: bool) -> bool:
        if not self._most or self._free or self.name.startswith("key"):
            return False
        elsewhere = self._taken_in not in (None, self._partition)
        if new and elsewhere and self._next_in in (None, self._partition):
            self._next_in, self._next_until = self._partition, self._now + _LEFT
            self.queued = True
        return self._next_in is not None and self._next_in == self._partition

    def take(self) -> None:
        self.used += 1
        if not self.name.startswith("key"):
            self._taken_in = self._partition
        if self._next_in == self._partition:
            self._next_in = self._next_until = None
        self.changed = True
        if self._each_second is not None:
            self.tokens -= 1.0
        self._look()

    def leave(self, number: int) -> None:
        self.used = max(0, self.used - number)
        self._look()

    def correct(self, used: int) -> None:
        self.changed |= used != self.used
        self.used = used
        self._look()

    @property
    def use(self) -> Use:
        """Without a rate the tokens stay as they were counted: who takes it away for a moment gets no new burst."""
        before, turn = self._before, (self._taken_in, self._next_in, self._next_until)
        if self._each_second is not None:
            return Use(self.name, self.used, self.tokens, self._now, *turn)
        at = self._now if before.tokens is None else min(self._now, before.at)
        return Use(self.name, self.used, before.tokens, at, *turn)

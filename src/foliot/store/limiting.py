"""The part of a store's contract that is about limits: what is set, how much of it is used, and who waits for it.

Jobs under a limit pass its gate when they are claimed (`jobs.finish_and_claim`): what is full there is held, with the
limit's name, and goes on when somebody leaves. Nobody holds a slot who does not run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from math import inf
from typing import Any, Final, Protocol

import msgspec

from foliot.ids import JobId
from foliot.model.door import Candidate, Door
from foliot.model.job import Outcome
from foliot.model.limit import BREAKER, Limit, Rules, Traits, Use, gate_of_key
from foliot.store.admission import Admitted, admissions
from foliot.store.reply import Rows
from foliot.store.searching import Record


class KeyStanding(msgspec.Struct, frozen=True):
    """How one key stands of a limit that has several."""

    name: str  # that it is counted under
    used: int
    tokens: float | None  # that are left of its rate; None: it has none
    wait: float | None  # seconds until its rate lets the next one in


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A limit, and how it stands."""

    limit: Limit
    used: int  # jobs that run under it; under a pattern, those of all its keys
    waiting: int  # jobs that wait for it, counted up to a number
    at_least: bool = False  # there are more
    keys: list[KeyStanding] = []  # where it has several: those that are used most
    tokens: float | None = None  # of one gate: what is left of its rate
    wait: float | None = None  # of one gate: seconds until its rate lets the next one in


class GateStanding(msgspec.Struct, frozen=True, kw_only=True):
    """How a gate stands that a job is under, and whom it has let in."""

    limit: Limit
    used: int
    holders: list[JobId]  # some of those that run under it
    waiting: int
    at_least: bool  # more wait
    wait: float | None  # seconds until its rate lets the next one in


class Tended(msgspec.Struct, frozen=True):
    """What a look at those who wait for limits has brought."""

    admitted: list[Admitted]
    after: str | None  # where to go on; None: it came to the end
    wait: float | None = None  # seconds until time alone lets one go on
    again: dict[str, float] = {}  # until these are to be asked for again, before all others
    idle: bool = False  # nobody waits, for any or for those that were asked for


class Limits(Protocol):
    async def set(self, limit: Limit, *, by: str | None, record: Record | None = None) -> bool:
        """When this returns no claim goes by what was before, and what runs is counted. Whether it changed anything.
        With what code has `said` it counts if model/said.py says so; without, it was set by hand."""
        ...

    async def delete(self, name: str, *, record: Record | None = None) -> bool:
        """Whether it was there. Those who wait for it go on with the next `tend`."""
        ...

    async def known(self) -> list[Limit]:
        """All there are, by name, and breakers that are not closed. Only reads, and counts nothing."""
        ...

    async def all(self, *, most: int) -> list[Standing]:
        """By name; waiting jobs are counted up to `most`. Only reads."""
        ...

    async def get(self, gate: str, *, most: int) -> Standing | None:
        """By the name that a job waits for: also of one key of a pattern. Only reads."""
        ...

    async def gates(
        self, names: Sequence[str], *, most: int, holders: int
    ) -> dict[str, GateStanding]:
        """Of these names, those that are counted and how they stand, with the jobs that hold them: so many, those that
        began first. What runs is read once, however many names there are. Only reads."""
        ...

    async def tend(
        self,
        partition: int,
        after: str,
        *,
        limit: int,
        among: Sequence[str] | None = None,
        anew: bool = True,
    ) -> Tended:
        """Count anew what runs, and let those go on that wait for limits with room; as many limits as said, after
        this one, and of all together no more than one transaction should move. For what nobody else sees to: a worker
        died, a limit was raised. Not `anew`: that has just been counted, in all partitions. Or a token has come:
        `among` these limits only, and nothing is counted for that."""
        ...

    async def relax(self) -> bool:
        """Limits that are far from being reached are not counted any more, where that saves something. Whether there
        were any."""
        ...

    async def prune(self, *, limit: int) -> int:
        """Forget keys that nobody uses any more, so many in each transaction. Returns how many."""
        ...


def values_of(limit: Limit, by: str | None) -> dict[str, object]:
    """What put_limit reads."""
    told = ("name", "concurrency", "rate", "period", "burst", "note", "said")
    return {**{name: getattr(limit, name) for name in told}, "by": by}


def candidate(row: Sequence[Any], lanes: Container[int], kinds: frozenset[str] | None) -> Candidate:
    """Of a row of pick_jobs. What comes from a lane that was asked for fits; of those that were held, only what the
    worker knows."""
    id, lane, queue, kind, namespace, limit_key, breaker, held, *_, line = row
    fits = not held or (lane in lanes and (kinds is None or kind in kinds))
    traits = Traits(queue, kind, namespace, limit_key, breaker)
    return Candidate(JobId(id), lane, traits, fits, line)


def slots_of(outcomes: Iterable[Outcome], refused: Iterable[JobId]) -> Counter[str]:
    """The slots that those held which were accepted. What is said of one attempt twice counts once. A breaker's are
    counted anew with the next `tend`: who ends may have begun before it came into its state, and hold none."""
    late = set(refused)
    once = {(o.id, o.fence): o.gates for o in outcomes if o.gates and o.id not in late}
    slots = (gate for gates in once.values() for gate in gates)
    return Counter(gate for gate in slots if not gate.startswith(f"{BREAKER}:"))


def uses_of(picked: Iterable[Sequence[Any]], read: Iterable[Sequence[Any]]) -> list[Use]:
    """What pick_jobs tells of keys, and read_uses of the other limits."""
    found = [Use(*row[1:]) for row in read if row[1] is not None]
    found += [
        Use(gate_of_key(limit_key, namespace), *_decode_use(use))
        for _, _, _, _, namespace, limit_key, _, _, use, *_ in picked
        if use is not None
    ]
    return found


_decode_use: Final = msgspec.json.Decoder(tuple[int, float | None, float]).decode
MOST_GATES: Final = 5_000  # looked at together: before each look what runs is counted anew
MOST_ADMITTED: Final = 1_000  # together, in one transaction; of each limit at least one
_SHORTEST: Final = 0.01  # seconds between two looks; what has come meanwhile goes on together
_PAST: Final = (
    100  # are asked again at least, where the first of them may be such that do not start
)
_SOON: Final = 0.1  # seconds until there is another look then
_MOST_SHOWN: Final = 20


class Look(msgspec.Struct, frozen=True):
    """At some of the limits that jobs wait for."""

    names: Sequence[str]
    rooms: dict[str, int]  # how many of those who wait may be asked again, where there is room
    wait: float | None  # seconds until time brings room
    soon: dict[str, float]  # until those are tried who come next, where there is room
    again: dict[str, float]  # until there is a token, also where there is no slot now
    cut: frozenset[str] = frozenset()  # where there is room for more than that

    def tended(self, found: Rows, *, full: bool) -> Tended:
        """What it has brought: rows of admit_held. Where nobody could go on though there is room, time alone changes
        nothing. `full`: there may be more limits."""
        admitted = Counter(name for _, _, name, *_ in found)
        soon = {name: pause for name, pause in self.soon.items() if admitted[name]}
        soon |= dict.fromkeys((n for n in self.cut if admitted[n] >= self.rooms[n]), 0.0)
        waits = [*soon.values(), *([] if self.wait is None else [self.wait])]
        wait = 0.0 if full else min(waits, default=None)
        lanes = admissions((lane, state) for lane, state, *_ in found)
        return Tended(lanes, self.names[-1] if full else None, wait, self.again | soon)


def look_at(door: Door, names: Sequence[str], *, again_soon: bool) -> Look:
    """`again_soon`: those that were asked for by name, because a look before has let some in or a token has come."""
    rooms: dict[str, float] = {}
    waits: list[float] = []
    soon: dict[str, float] = {}
    # Whoever lets those in who wait for another limit may have them wait for one of these next.
    again = {name: max(token, _SOON) for name, token in door.refill().items()}
    for name in names:
        room, wait = door.room(name), door.wait(name)
        if room == 0:
            waits += [] if wait is None else [max(wait, _SHORTEST)]
            if (token := door.again(name)) is not None:
                again[name] = max(token, _SHORTEST)
            if door.queue_up(name, new=not again_soon):
                again[name] = min(again.get(name, _SOON), _SOON)
            continue
        rooms[name] = inf if room is None else room
        if wait is not None:
            soon[name] = _SHORTEST
        elif room is not None:
            # The first of them may all have to wait for another one; or nobody is there to run them: then who was let
            # in has left the room as it was.
            if door.several or again_soon:
                rooms[name] = max(room, _PAST)
            soon[name] = _SOON
    most = max(1, MOST_ADMITTED // max(1, len(rooms)))
    cut = frozenset(name for name, room in rooms.items() if room > most)
    few = {name: int(min(room, most)) for name, room in rooms.items()}
    return Look(names, few, wait=min(waits, default=None), soon=soon, again=again, cut=cut)


class Overview:
    """How limits stand, all of them or one: by what runs, whatever is written of it, and by who waits."""

    def __init__(self, rules: Rules, gate: str | None = None) -> None:
        """Of one: the name that jobs wait for, or that of a limit of many."""
        self._rules = all_counted(rules)
        limits = self._rules.limits
        self.gate = gate
        if gate is None:
            self.limits = [limit for _, limit in sorted(limits.items())]
        else:
            found = limits.get(gate) or self._rules.limit(gate)
            self.limits = [] if found is None else [found]
            if gate in limits and limits[gate].is_pattern:  # it is not asked for one of its keys
                self.gate = None
        self._used: Counter[str] = Counter()
        self._waited: set[str] = set()

    def count(self, running: Iterable[Sequence[Any]]) -> None:
        """What count_running tells."""
        for row in running:
            for name in self._rules.gates(Traits(*row[:5])):
                self._used[name] += row[5]

    @property
    def gates(self) -> list[str]:
        """Of which the tokens are told, after `count` and `waited`: of keys, those that are used or waited for."""
        if self.gate is not None:
            return [self.gate]
        rated = {one.name for one in self.limits if one.rate is not None and not one.is_pattern}
        return sorted(rated | self._used.keys() | self._waited)

    def waited(self, found: Iterable[tuple[int, str]]) -> list[tuple[int, int, str]]:
        """Partitions and gates that jobs wait at, each with the number of its limit here."""
        numbers = {limit.name: number for number, limit in enumerate(self.limits)}
        named = ((partition, name, self._rules.limit(name)) for partition, name in found)
        waited = [
            (numbers[limit.name], partition, name)
            for partition, name, limit in named
            if limit is not None and limit.name in numbers
        ]
        self._waited = {name for _, _, name in waited}
        return waited

    def standings(
        self, uses: Sequence[Sequence[Any]], waiting: Iterable[tuple[int, int]], most: int
    ) -> list[Standing]:
        """By what read_uses tells of the gates, and how many wait for each limit, by its number."""
        now, tokens = uses[0][0], {use.name: use for use in uses_of((), uses)}
        taken: dict[str, list[Use]] = {}
        for name in self.gates:
            limit = self._rules.limit(name)
            if limit is not None and (limit.rate is not None or self._used[name]):
                use = tokens.get(name) or Use(name)
                use = msgspec.structs.replace(use, used=self._used[name])
                taken.setdefault(limit.name, []).append(use)
        counts = dict(waiting)
        return [
            self._standing(limit, taken.get(limit.name, []), counts.get(number, 0), most, now)
            for number, limit in enumerate(self.limits)
        ]

    def _standing(
        self, limit: Limit, uses: list[Use], waiting: int, most: int, now: float
    ) -> Standing:
        several = limit.is_pattern or any(use.name != limit.name for use in uses)
        uses.sort(key=lambda use: (-use.used, use.name))
        door, gate = Door(self._rules, uses, now), self.gate
        gate = limit.name if gate is None and not several else gate
        keys = uses[:_MOST_SHOWN] if gate is None else []
        return Standing(
            limit=limit,
            used=sum(use.used for use in uses),
            waiting=waiting,
            at_least=waiting >= most,
            keys=[
                KeyStanding(key.name, key.used, door.tokens(key.name), door.wait(key.name))
                for key in keys
            ],
            tokens=None if gate is None else door.tokens(gate),
            wait=None if gate is None else door.wait(gate),
        )


class GatesOverview:
    """How some gates stand."""

    def __init__(self, rules: Rules, names: Iterable[str]) -> None:
        self._rules = all_counted(rules)
        self.names = [name for name in dict.fromkeys(names) if self._rules.limit(name)]

    @property
    def asked(self) -> list[tuple[str, str, str, str]]:
        """What list_holders reads: names, and what the jobs have in common which are under them."""
        return [(name, *_shared(name)) for name in self.names]

    def waited(self, partitions: int) -> list[tuple[int, int, str]]:
        """What count_waiting reads."""
        numbered = list(enumerate(self.names))
        return [(n, partition, name) for partition in range(partitions) for n, name in numbered]

    def standings(
        self,
        held: Iterable[tuple[str, int, str]],
        uses: Sequence[Sequence[Any]],
        waiting: Iterable[tuple[int, int]],
        most: int,
    ) -> dict[str, GateStanding]:
        """By what list_holders, read_uses and count_waiting tell."""
        used: dict[str, int] = {}
        holders: dict[str, list[JobId]] = {name: [] for name in self.names}
        for name, number, id in held:
            used[name] = number
            holders[name].append(JobId(id))
        tokens = {use.name: use for use in uses_of((), uses)}
        known = [
            msgspec.structs.replace(tokens.get(name) or Use(name), used=used.get(name, 0))
            for name in self.names
        ]
        door, waits = Door(self._rules, known, uses[0][0]), dict(waiting)
        return {
            name: GateStanding(
                limit=limit,
                used=used.get(name, 0),
                holders=holders[name],
                waiting=waits.get(number, 0),
                at_least=waits.get(number, 0) >= most,
                wait=door.wait(name),
            )
            for number, name in enumerate(self.names)
            if (limit := self._rules.limit(name)) is not None
        }


def all_counted(rules: Rules) -> Rules:
    """How they stand is told of all, also of those that nobody counts while they are far from being reached."""
    counted = [msgspec.structs.replace(limit, counted=True) for limit in rules.open]
    return Rules(rules.version, [*rules.limits.values(), *counted])


def untaken(rules: Rules, taken: Iterable[Use], running: Iterable[Traits]) -> set[str]:
    """Gates of jobs that run and were not counted so far: tokens of their rates may be known from before."""
    return {gate for job in running for gate in rules.gates(job)} - {use.name for use in taken}


def running_under(limit: Limit, running: Iterable[Sequence[Any]]) -> int:
    """By what count_running tells."""
    alone = Rules(0, [Limit(name=limit.name)])
    return sum(row[5] for row in running if alone.gates(Traits(*row[:5])))


def _shared(gate: str) -> tuple[str, str, str]:
    """Scope, word and namespace."""
    if gate.startswith("key@"):
        scope, namespace, word = gate.split("@", 2)
        return scope, word, namespace
    scope, _, word = gate.partition(":")
    return scope, word, "default"


def fixed_names(rules: Rules) -> list[str]:
    """Of limits whose use is read beforehand: all but those of keys, which there may be many of."""
    return [name for name in rules.limits if not name.startswith("key")]

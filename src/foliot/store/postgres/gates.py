"""Gates in PostgreSQL: what is claimed and finished under limits, in two round trips of one transaction.

The first locks the door, gives back what was left and picks what could start; model/door.py decides; the second takes
what may start, and holds the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, Protocol

import msgspec

from foliot.ids import JobId, SessionId
from foliot.model.door import Door, Passage
from foliot.model.job import ClaimedJob, Outcome
from foliot.model.limit import Limit, Rules, Traits, Use
from foliot.store import rows
from foliot.store.admission import Admitted, admissions
from foliot.store.fronts import Fronting, Fronts, Place
from foliot.store.limiting import candidate, fixed_names, untaken, uses_of
from foliot.store.port import DEADLINE_GRACE, Share
from foliot.store.postgres.arrays import numbers, optional_numbers, texts, words
from foliot.store.postgres.connection import Ask, Step, Transacting, Values
from foliot.store.reply import Reply, Rows
from foliot.store.sql import load_statements

SQL: Final = load_statements("foliot.store.postgres", "gates.sql", "limits.sql", "claim.sql")


# Advisory locks: see order.py.
RULES: Final = 0x0F03_0000
DOOR: Final = 0x0F04_0000
LOCK_DOOR: Final = Step(SQL["lock_door"], {"space": DOOR})
# Before a claim: which rules were in force, with nobody changing them until it has committed; and which are.
LOCK_RULES: Final = Step(SQL["lock_rules"], {"space": RULES})
ASK_RULES: Final = (LOCK_RULES, Step(SQL["read_version"], {}))
_RULES: Final = ("read_version", "list_limits")


async def read_rules(connections: Transacting) -> Rules:
    [(version,)] = await connections.read(SQL["read_version"], {})
    found = await connections.read(SQL["list_limits"], {})
    return Rules(version, [limit_of(row) for row in found])


def limit_of(row: Sequence[object]) -> Limit:
    return msgspec.convert(dict(zip(Limit.__struct_fields__, row, strict=True)), Limit)


def is_stale(locked: Rows, version: int, claimed: Sequence[ClaimedJob]) -> bool:
    """By the answer of lock_rules: whether nothing was claimed because the limits are others than those of the version.
    Who had to wait for a change does not see its version; there may have been none, and then something was claimed."""
    [(current, waited)] = locked
    return not claimed and (bool(waited) or current != version)


async def stand(
    ask: Ask,
    now: datetime | None,
    names: Iterable[str] = (),
    *,
    partition: int | None = None,
    anew: bool = False,
) -> Door:
    """In the door, which knows the use of these names as well; or counts anew what is taken, by what runs."""
    said = [ask.say(LOCK_DOOR), *(ask.say(Step(SQL[name], {})) for name in _RULES)]
    await ask.hear()
    _, [(version,)], limits = heard(said)
    rules = Rules(version, [limit_of(row) for row in limits])
    taken = [Use(*row) for row in await ask(Step(SQL["list_taken"], {}))] if anew else []
    found = await ask(Step(SQL["count_running"], {})) if anew else []
    running = {Traits(*row[:5]): row[5] for row in found}
    known = {*names, *fixed_names(rules), *untaken(rules, taken, running)}
    read = await ask(Step(SQL["read_uses"], {"names": texts(known), "now": now}))
    door = Door(rules, [*taken, *uses_of((), read)], read[0][0], partition)
    if anew:
        door.recount(running)
    return door


async def recount(
    ask: Ask, now: datetime | None, names: Iterable[str] = (), *, partition: int | None = None
) -> Door:
    """Whoever holds the door counts right: what others have begun and not committed does not run yet, or has not
    left."""
    door = await stand(ask, now, names, partition=partition, anew=True)
    if changed := door.changed():
        await ask(write_uses(changed))
    return door


class Gated(msgspec.Struct, frozen=True):
    """What came of a trip through the gates."""

    claimed: list[ClaimedJob] = []
    held: list[int] = []  # lanes of those that have to wait
    admitted: list[Admitted] = []  # those that others may run
    stale: bool = False  # the rules have changed: nothing was claimed
    rated: bool = False  # some have to wait for a rate


class Leaving(Protocol):
    """What ends in the same transaction."""

    @property
    def partition(self) -> int: ...

    @property
    def outcomes(self) -> Sequence[Outcome]: ...

    @property
    def steps(self) -> Sequence[Step]: ...

    def left(self, results: Sequence[Rows]) -> Counter[str]:
        """The slots that those held which were accepted."""
        ...


class Claim(Protocol):
    """Statements that claim, after those that finish; and those that go before them."""

    @property
    def before(self) -> list[Step]: ...

    @property
    def steps(self) -> list[Step]: ...

    def read(self, results: Sequence[Rows], second: Sequence[Rows]) -> Gated: ...


async def decide(ask: Ask, claim: Claim | None, said: Sequence[Reply]) -> list[Reply]:
    """What a claim has to say when everything before it has been heard."""
    if not isinstance(claim, GatedClaim):
        return []
    await ask.hear()
    return [ask.say(step) for step in claim.decide(heard(said))]


async def consult(
    connections: Transacting, steps: Sequence[Step], claim: GatedClaim
) -> tuple[list[Rows], list[Rows]]:
    """In two round trips: these steps, and what their answers decide."""

    async def talk(ask: Ask) -> tuple[list[Reply], list[Reply]]:
        said = [ask.say(step) for step in steps]
        return said, await decide(ask, claim, said)

    first, second = await connections.converse(talk)
    return heard(first), heard(second)


def heard(replies: Sequence[Reply]) -> list[Rows]:
    return [reply.rows for reply in replies]


class PlainClaim:
    """Where nothing is limited."""

    before: Final[list[Step]] = []

    def __init__(self, rules: Rules, values: Values) -> None:
        self._version = rules.version
        self._values = {**values, "version": rules.version}

    @property
    def steps(self) -> list[Step]:
        return [LOCK_RULES, Step(SQL["claim_jobs"], self._values)]

    def read(self, results: Sequence[Rows], second: Sequence[Rows]) -> Gated:
        claimed = rows.claimed_jobs(results[-1])
        return Gated(claimed, stale=is_stale(results[-2], self._version, claimed))


class GatedClaim:
    """One claim under limits, or the end of jobs under some."""

    before: Final[list[Step]] = []

    def __init__(
        self,
        rules: Rules,
        leaving: Leaving,
        shares: Sequence[Share],
        room: int,
        claim: Values,
        fronts: Fronts,
    ) -> None:
        self._rules = rules
        self._leaving = leaving
        left = Counter(gate for outcome in leaving.outcomes for gate in outcome.gates)
        self._quotas = {share.lane.number: share.quota for share in shares}
        kinds = next((share.kinds for share in shares if share.kinds is not None), None)
        self._kinds = None if kinds is None else frozenset(kinds)
        self._room = room
        self._claim = claim
        self._looks = look_values(shares, room)
        self._look = fronts.look(leaving.partition, left)
        self._places: dict[JobId, tuple[str | None, Place]] = {}
        self._names = texts(fixed_names(rules))
        self._passage = Passage()
        self._stale = False
        self._leaves = 0

    @property
    def steps(self) -> list[Step]:
        return [
            *ASK_RULES,
            LOCK_DOOR,
            Step(SQL["pick_jobs"], {**self._claim, **front_values(self._look), **self._looks}),
            Step(SQL["read_uses"], {"names": self._names, "now": self._claim["now"]}),
        ]

    def decide(self, results: Sequence[Rows]) -> list[Step]:
        """What is to be done by the answers to all steps so far."""
        *_, (version,), _, picked, uses = results
        left, now = self._leaving.left(results), uses[0][0]
        steps: list[Step] = []
        if left:
            gone = {"names": texts(left), "numbers": numbers(left.values())}
            steps.append(Step(SQL["leave_limits"], gone))
        self._stale, self._passage = version[0] != self._rules.version, Passage()
        if self._stale:
            return steps
        door = Door(self._rules, uses_of(picked, uses), now, self._leaving.partition)
        door.leave(left)
        found = [candidate(row, self._quotas, self._kinds) for row in picked]
        self._passage = door.decide(found, self._room, self._quotas)
        self._places = {row[0]: (row[11], (row[1], row[9], row[10], row[0])) for row in picked}
        self._leaves = len(steps)
        return [*steps, *self._act(now)]

    def _act(self, now: float) -> list[Step]:
        passage, steps = self._passage, list[Step]()
        partition = {"partition": self._claim["partition"]}
        if passage.enter:
            ids = words([id for id, _ in passage.enter])
            steps.append(Step(SQL["take_jobs"], {**self._claim, "ids": ids, "at": now}))
        if passage.wait:
            waiting = words([id for id, _ in passage.wait])
            names = texts([name for _, name in passage.wait])
            steps.append(Step(SQL["hold_gated"], {**partition, "ids": waiting, "names": names}))
        if passage.pass_on:
            steps.append(Step(SQL["admit_gated"], {**partition, "ids": words(passage.pass_on)}))
        if passage.uses:
            steps.append(write_uses(passage.uses))
        return steps

    def read(self, results: Sequence[Rows], second: Sequence[Rows]) -> Gated:
        passage = self._passage
        answers = iter(second[self._leaves :])
        claimed: list[ClaimedJob] = []
        if passage.enter:
            taken = {job.id: job for job in rows.claimed_jobs(next(answers))}
            claimed = [
                msgspec.structs.replace(taken[id], gates=gates) if gates else taken[id]
                for id, gates in passage.enter
                if id in taken
            ]
        if passage.wait:
            next(answers)
        admitted = admissions(next(answers)) if passage.pass_on else []
        if not self._stale:
            self._learn()
        rated = self._rules.rated(name for _, name in passage.wait)
        return Gated(claimed, passage.lanes, admitted, self._stale, rated)

    def _learn(self) -> None:
        waits = [(name, self._places[id][1]) for id, name in self._passage.wait]
        found = [(line, place) for line, place in self._places.values() if line is not None]
        self._look.learn(found, waits)


def write_uses(uses: Sequence[Use]) -> Step:
    return Step(
        SQL["write_uses"],
        {
            "names": texts(use.name for use in uses),
            "used": numbers(use.used for use in uses),
            "tokens": optional_numbers(use.tokens for use in uses),
            "ats": numbers(use.at for use in uses),
            "taken_ins": optional_numbers(use.taken_in for use in uses),
            "next_ins": optional_numbers(use.next_in for use in uses),
            "next_untils": optional_numbers(use.next_until for use in uses),
        },
    )


def front_values(look: Fronting) -> Values:
    """Of whom waits at which gates pick_jobs, claim_keyed and admit_held look at how many, and where they begin."""
    starts = look.starts
    return {
        "names": texts(starts),
        "numbers": numbers(look.numbers[name] for name in starts),
        "from_lanes": numbers(place[0] for place in starts.values()),
        "from_bands": numbers(place[1] for place in starts.values()),
        "from_ranks": numbers(place[2] for place in starts.values()),
        "from_ids": words(place[3] for place in starts.values()),
        "whole": words("t" if name in look.whole else "f" for name in starts),
    }


def look_values(shares: Sequence[Share], room: int) -> Values:
    """How many pick_jobs and claim_keyed look at."""
    return {
        "looks": numbers([share.quota + share.past for share in shares]),
        "most_looks": room + sum(share.past for share in shares),
    }


def claim_values(
    partition: int, session: SessionId, shares: Sequence[Share], room: int, now: datetime | None
) -> Values:
    """What claim_jobs, pick_jobs and take_jobs read."""
    return {
        "partition": partition,
        "session": session,
        "now": now,
        "grace": DEADLINE_GRACE,
        "room": room,
        "lanes": numbers([share.lane.number for share in shares]),
        "queues": words([share.lane.queue for share in shares]),
        "quotas": numbers([share.quota for share in shares]),
        "choosy": words(["f" if share.kinds is None else "t" for share in shares]),
        "kinds": texts(next((s.kinds for s in shares if s.kinds is not None), ())),
    }

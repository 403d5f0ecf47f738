"""A worker's trips in PostgreSQL: finish what is done, claim what there is room for, in one transaction.

Where nothing is limited that is one round trip; where something is, two (gates.py); where steps of workflows end, a
conversation (ends.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.errors import StoreUnavailable
from foliot.ids import JobId, SessionId
from foliot.model.job import End, Outcome
from foliot.model.limit import Rules
from foliot.model.workflow import Advance
from foliot.store.admission import Admitted, admissions
from foliot.store.batches import chunks
from foliot.store.fronts import Fronts
from foliot.store.limiting import slots_of
from foliot.store.port import Cycle, Share
from foliot.store.postgres.allowances import Allowances
from foliot.store.postgres.arrays import blobs, numbers, optional_numbers, texts, words
from foliot.store.postgres.connection import Step, Transacting, Values
from foliot.store.postgres.ends import Ends, linked_flows
from foliot.store.postgres.gates import (
    Claim,
    GatedClaim,
    PlainClaim,
    claim_values,
    consult,
    read_rules,
)
from foliot.store.postgres.keyed import KeyedClaim
from foliot.store.postgres.order import order_steps
from foliot.store.reply import Rows
from foliot.store.sql import JOB_FILES, load_statements

SQL: Final = load_statements("foliot.store.postgres", *JOB_FILES)
_by_id: Final = attrgetter("id")
FINISHED: Final = {End.SUCCEED: "succeeded", End.CANCEL: "cancelled"}


class Trips:
    def __init__(self, connections: Transacting, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock
        self._rules = Rules()  # as they were when somebody last looked
        self._allowances = Allowances(connections, clock)
        self._fronts = Fronts(clock)

    async def make(
        self,
        partition: int,
        session: SessionId,
        outcomes: Sequence[Outcome],
        shares: Sequence[Share],
        room: int,
    ) -> Cycle:
        # Finish first, claim second: a claim may lock rows that another worker has just claimed, and a
        # transaction that then finished its own could wait for one that waits for it.
        now = self._clock.now_for_store()
        ending = Ending(partition, session, outcomes, now)
        if ending.gated and not self._rules.version:  # in a transaction of a job's own
            self._rules = await read_rules(self._connections)
        given = await self._room(session, shares, room)
        claim = self._claim(
            ending, claim_values(partition, session, shares, given, now), shares, given
        )
        short = given if given < room and shares else None
        if not ending.steps and claim is None:
            return Cycle([], [], room=short)
        claimed = given  # as far as is known: a commit may have been lost from sight
        try:
            done = await self._run(ending, claim)
            claimed = len(done.cycle.claimed)
        finally:
            self._allowances.give_back(given, claimed)
        if not done.stale:
            return msgspec.structs.replace(done.cycle, room=short)
        # Somebody has changed a limit since we looked: what has ended has ended, and nothing was claimed.
        try:
            self._rules = await read_rules(self._connections)
            again = await self.make(partition, session, (), shares, room)
        except StoreUnavailable as error:  # after a part of the trip has taken effect
            raise StoreUnavailable(str(error), unknown=True) from error
        return msgspec.structs.replace(
            again,
            refused=done.cycle.refused,
            admitted=[*done.cycle.admitted, *again.admitted],
            advance=done.cycle.advance,
        )

    async def _room(self, session: SessionId, shares: Sequence[Share], room: int) -> int:
        """How much of it may be claimed where limits are not counted."""
        if room <= 0 or not shares:
            return 0
        while (rules := self._rules).open:
            given = await self._allowances.take(session, rules, shares, room)
            if given is not None and rules is self._rules:
                return given
            self._allowances.give_back(given or 0, 0)
            if rules is self._rules:
                self._rules = await read_rules(self._connections)
        return self._allowances.give(room)

    def _claim(
        self, ending: Ending, values: Values, shares: Sequence[Share], room: int
    ) -> Claim | None:
        claiming = room > 0 and bool(shares)
        limited = claiming and any(self._rules.concern(share.lane.queue) for share in shares)
        if limited or ending.gated:
            some, most = (shares, room) if claiming else ((), 0)
            if self._rules.keyed and ending.keyed:
                return KeyedClaim(
                    self._rules,
                    ending.partition,
                    ending.outcomes,
                    some,
                    ending.session,
                    most,
                    values,
                    self._fronts,
                )
            return GatedClaim(self._rules, ending, some, most, values, self._fronts)
        return PlainClaim(self._rules, values) if claiming else None

    async def _run(self, ending: Ending, claim: Claim | None) -> _Done:
        before = [] if claim is None else claim.before
        steps = [*before, *ending.steps, *(claim.steps if claim is not None else ())]
        advance, second = Advance(), list[Rows]()
        if ending.flows:
            linked = Ends(ending.partition, ending.outcomes, ending.flows, ending.now)
            results, second, advance = await linked.apply(
                self._connections, steps, ending.finishing, claim
            )
        elif isinstance(claim, GatedClaim):
            results, second = await consult(self._connections, steps, claim)
        else:
            results = await self._connections.transact(steps)
        taken = None if claim is None else claim.read(results, second)
        results = results[len(before) :]
        admitted = ending.admitted(results)
        if taken is None:
            return _Done(Cycle([], ending.refused(results), admitted, advance))
        cycle = Cycle(
            taken.claimed,
            ending.refused(results),
            [*admitted, *taken.admitted],
            advance,
            held=taken.held,
            rated=taken.rated,
        )
        return _Done(cycle, taken.stale)


class _Done(msgspec.Struct, frozen=True):
    cycle: Cycle
    stale: bool = False


class Ending:
    """The outcomes of one trip, as statements."""

    def __init__(
        self,
        partition: int,
        session: SessionId,
        outcomes: Sequence[Outcome],
        now: datetime | None,
    ) -> None:
        self.partition = partition
        self.session = session
        self.outcomes = outcomes
        self.now = now
        # Looked through once: plain jobs, which most are, have nothing to do with others.
        self._linked = [o for o in outcomes if o.gates or o.flow or o.awaits]
        self.flows = linked_flows(self._linked)
        self.gated = any(outcome.gates for outcome in self._linked)
        common: Values = {
            "partition": partition,
            "session": session,
            "now": now,
            "flows": words(self.flows),
        }
        self.steps = _finishing(common, outcomes) if outcomes else []
        self.finishing = len(self.steps)
        self._orders = {o.order for o in outcomes if o.order is not None}
        if self._orders:
            self.steps += order_steps(partition, self._orders, now)

    @property
    def keyed(self) -> bool:
        """Whether those that end are under limits of one key each at most, and no steps of workflows."""
        return not self.flows and all(
            len(outcome.gates) < 2 and all(gate.startswith("key") for gate in outcome.gates)
            for outcome in self._linked
        )

    def admitted(self, results: Sequence[Rows]) -> list[Admitted]:
        """The next of their ordering keys."""
        return admissions(results[len(self.steps) - 1]) if self._orders else []

    def refused(self, results: Sequence[Rows]) -> list[JobId]:
        steps = self.steps[: self.finishing]
        return _refused(steps, results, self.outcomes) if steps else []

    def left(self, results: Sequence[Rows]) -> Counter[str]:
        """The slots that those held which were accepted."""
        return slots_of(self.outcomes, self.refused(results))


def _finishing(common: Values, outcomes: Sequence[Outcome]) -> list[Step]:
    ordered = _in_order(outcomes)
    finished = [o for o in ordered if o.end in FINISHED]
    steps = [
        Step(SQL["finish_jobs"], {**common, **_references(some), **_ends(some)})
        for some in chunks(finished, lambda o: len(o.result or b""), most=len(finished))
    ]
    if len(finished) < len(ordered):
        steps += _unfinished(common, [o for o in ordered if o.end not in FINISHED])
    if len(steps) > 1:
        steps.insert(0, Step(SQL["lock_jobs"], {**common, **_references(ordered)}))
    return steps


def _in_order(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """By ids, like every multi-row write; of two for one job, only the higher fence can be current. The same one twice
    would be in history twice."""
    ordered = sorted(outcomes, key=_by_id)
    if len({outcome.id for outcome in ordered}) == len(ordered):
        return ordered
    once = {(outcome.id, outcome.fence): outcome for outcome in reversed(outcomes)}
    return [once[name] for name in sorted(once)]


def _unfinished(common: Values, outcomes: Sequence[Outcome]) -> list[Step]:
    steps = []
    if failed := [o for o in outcomes if o.end in (End.RETRY, End.BURY)]:
        delays = {
            "delays": optional_numbers([o.delay if o.end is End.RETRY else None for o in failed])
        }
        steps.append(
            Step(
                SQL["retry_jobs"],
                {**common, **_references(failed), **_failures(failed), **delays},
            )
        )
    if buried := [o for o in outcomes if o.end is End.BURY]:
        steps.append(Step(SQL["bury_jobs"], {**common, **_references(buried), **_failures(buried)}))
    if failed:
        steps.append(
            Step(
                SQL["cancel_failed_jobs"],
                {**common, **_references(failed), **_failures(failed)},
            )
        )
    if released := [o for o in outcomes if o.end in (End.RELEASE, End.HOLD)]:
        holds = {
            "holds": texts([o.reason if o.end is End.HOLD else None for o in released]),
            "notes": texts([o.error if o.end is End.HOLD else None for o in released]),
        }
        steps.append(Step(SQL["release_jobs"], {**common, **_references(released), **holds}))
        steps.append(Step(SQL["cancel_jobs"], {**common, **_references(released)}))
    return steps


def _refused(
    steps: Sequence[Step], results: Sequence[Rows], outcomes: Sequence[Outcome]
) -> list[JobId]:
    """finish_jobs names the refused, lock_jobs nobody, the rest name the accepted."""
    refused: set[JobId] = set()
    accepted: set[JobId] = set()
    for step, result in zip(steps, results, strict=False):
        if step.statement.name == "finish_jobs":
            refused.update(JobId(row[0]) for row in result)
        elif step.statement.name != "lock_jobs":
            accepted.update(JobId(row[0]) for row in result)
    return (
        [o.id for o in outcomes if (o.id in refused if o.end in FINISHED else o.id not in accepted)]
        if refused or len(steps) > 1 or steps[0].statement.name != "finish_jobs"
        else []
    )


def _references(outcomes: Sequence[Outcome]) -> Values:
    return {
        "ids": words([outcome.id for outcome in outcomes]),
        "fences": numbers([outcome.fence for outcome in outcomes]),
    }


def _ends(outcomes: Sequence[Outcome]) -> Values:
    return {
        "states": words([FINISHED[outcome.end] for outcome in outcomes]),
        "reasons": texts([outcome.reason for outcome in outcomes]),
        "results": blobs([outcome.result for outcome in outcomes]),
    }


def _failures(outcomes: Sequence[Outcome]) -> Values:
    return {
        "reasons": texts([outcome.reason or "failed" for outcome in outcomes]),
        "errors": texts([outcome.error for outcome in outcomes]),
        "tracebacks": texts([outcome.traceback for outcome in outcomes]),
    }

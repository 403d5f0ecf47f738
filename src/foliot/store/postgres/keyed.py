"""Claims where keys are all that limits are about: the database decides, in one round trip (claim_keyed)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from foliot.ids import SessionId
from foliot.model.job import ClaimedJob, JobState, Outcome
from foliot.model.limit import Rules
from foliot.store.admission import Admitted
from foliot.store.fronts import Fronts, Place
from foliot.store.port import Share
from foliot.store.postgres.arrays import numbers, texts, words
from foliot.store.postgres.connection import Step, Values
from foliot.store.postgres.gates import (
    LOCK_DOOR,
    LOCK_RULES,
    SQL,
    Gated,
    front_values,
    is_stale,
    look_values,
)
from foliot.store.reply import Rows

_LEAVE: Final = Step(SQL["leave_keys"], {})


class KeyedClaim:
    """`before` goes before the statements that finish: what leaves is counted while it is there, and given back in the
    door, where nobody waits for jobs that end."""

    def __init__(
        self,
        rules: Rules,
        partition: int,
        outcomes: Sequence[Outcome],
        shares: Sequence[Share],
        session: SessionId,
        room: int,
        claim: Values,
        fronts: Fronts,
    ) -> None:
        self._version = rules.version
        leaving = [outcome for outcome in outcomes if outcome.gates]
        left = Counter(outcome.gates[0] for outcome in leaving)
        self.before = [_count(leaving, session, claim)] if leaving else []
        exact, beginnings = rules.keys
        self._look = fronts.look(partition, left)
        values: Values = {
            **claim,
            **look_values(shares, room),
            "version": rules.version,
            **front_values(self._look),
            "exact": exact,
            "beginnings": texts(beginning for beginning, _ in beginnings),
            "slots": numbers(slots for _, slots in beginnings),
            "choosy_any": any(share.kinds is not None for share in shares),
        }
        leave = (_LEAVE,) if leaving else ()
        self.steps = [LOCK_RULES, LOCK_DOOR, *leave, Step(SQL["claim_keyed"], values)]

    def read(self, results: Sequence[Rows], second: Sequence[Rows]) -> Gated:
        claimed: list[ClaimedJob] = []
        held: list[int] = []
        admitted: list[Admitted] = []
        gone: list[tuple[str, Place]] = []
        wait: list[tuple[str, Place]] = []
        for row in results[-1]:
            id, lane, gate, said, line, band, rank = row[0], row[9], *row[12:17]
            if said == "held":
                held.append(lane)
                wait.append((line, (lane, band, rank, id)))
                continue
            if line is not None:
                gone.append((line, (lane, band, rank, id)))
            if said == "ready":
                admitted.append(Admitted(lane, JobState.READY))
            else:
                job = ClaimedJob(*row[:12])
                claimed.append(msgspec.structs.replace(job, gates=(gate,)) if gate else job)
        stale = is_stale(results[-len(self.steps)], self._version, claimed)
        if not stale:
            self._look.learn(gone, wait)
        return Gated(claimed, held, admitted, stale)


def _count(leaving: Sequence[Outcome], session: SessionId, claim: Values) -> Step:
    values: Values = {
        "partition": claim["partition"],
        "session": session,
        "ids": words([outcome.id for outcome in leaving]),
        "fences": numbers([outcome.fence for outcome in leaving]),
        "names": texts([outcome.gates[0] for outcome in leaving]),
    }
    return Step(SQL["count_leaving"], values)

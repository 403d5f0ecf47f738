"""Lanes of a worker: which it may take from, which may have ready jobs, and how a claim is shared between them.

`_hot` holds, for each partition, the lanes that may have ready jobs, each with the time of the news. A claim cools the
lanes that gave less than they were asked for, unless there is news of them that is younger than the claim.

Where there are kinds that only others know, a claim has to walk past all of their jobs. If that takes long and leaves
room, the lane rests for a while, whatever the news: otherwise every job submitted for others would start it anew.

Queues share a claim by their weights. Each has a balance: what it was due of the jobs that were claimed while it had
some, less what it got. The one with the highest goes first, so that even a worker with room for one job at a time
serves every queue in its share. What a queue leaves goes to the others, and is not owed to it later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from foliot.model.definition import StoredDefinition
from foliot.model.job import ClaimedJob
from foliot.model.lane import Lane, Strategy, base_of, strategy_of
from foliot.store.port import Share

_MOST_OWED: Final = 1000.0  # jobs; so that a long trip does not decide over many later ones


class Lanes:
    def __init__(
        self,
        queues: Mapping[str, int],
        capabilities: Sequence[str] = (),
        kinds: Sequence[str] | None = None,
    ) -> None:
        """Weights by the names of queues, none: all; the kinds that the worker knows, None: any."""
        self._weights = dict(queues)
        self._queues = frozenset(queues)
        self._capabilities = frozenset(capabilities)
        self._kinds = None if kinds is None else tuple(kinds)
        self._known = frozenset(kinds or ())
        self._lanes: dict[int, Lane] = {}
        self._by_base: dict[int, list[int]] = {}
        self._foreign: set[int] = set()
        self._hot: dict[int, dict[int, int]] = {}
        self._shared: frozenset[str] = (
            frozenset()
        )  # queues with kinds that the worker does not know
        self._registered: frozenset[str] = frozenset()
        self._strange: set[int] = set()  # lanes where it has met one
        self._rests: dict[tuple[int, int], float] = {}  # until when, by partition and lane
        self._balance: dict[str, float] = {}
        self._turn = 0
        self.news = 0

    def __bool__(self) -> bool:
        """Whether any may have ready jobs."""
        return bool(self._hot)

    def hear(self, partition: int, number: int) -> bool:
        """A hint names the lane as clients know it, without the strategy: it is for all that there may be. False: only
        a look can tell whether it is one of ours, or the jobs have yet to be given their turns."""
        base = base_of(number)
        known = self._by_base.get(base, ())
        for one in known:
            self.heat(partition, one)
        if not known:
            return base in self._foreign
        return all(strategy_of(one) is not Strategy.ROUND_ROBIN for one in known)

    def see(self, partition: int, lane: Lane) -> None:
        if lane.number in self._lanes:
            self.heat(partition, lane.number)
        elif lane.served_by(self._queues, self._capabilities):
            self._lanes[lane.number] = lane
            self._by_base.setdefault(base_of(lane.number), []).append(lane.number)
            self.heat(partition, lane.number)
        else:
            self._foreign.add(base_of(lane.number))

    def heat(self, partition: int, number: int) -> None:
        self.news += 1
        self._hot.setdefault(partition, {})[number] = self.news

    def knows(self, number: int) -> bool:
        return number in self._lanes

    def know(self, definitions: Iterable[StoredDefinition]) -> None:
        """Which kinds there are in which queue, as far as anybody has announced them."""
        others = {one.kind: one.queue for one in definitions if one.kind not in self._known}
        self._registered = frozenset(others)
        self._shared = frozenset(others.values())

    def sort_out(self, jobs: Sequence[ClaimedJob]) -> list[ClaimedJob]:
        """Those of kinds that only others know. From now on the worker leaves what it does not know where it is; what
        nobody has registered, it holds."""
        if self._kinds is None:
            return []
        strange = [job for job in jobs if job.kind not in self._known]
        self._strange.update(job.lane for job in strange)
        return [job for job in strange if job.kind in self._registered]

    def rest(
        self,
        partition: int,
        shares: Sequence[Share],
        claimed: Sequence[ClaimedJob],
        *,
        until: float,
    ) -> bool:
        """After a claim that left room: the lanes where it looked for some kinds only, in vain, are not asked again
        before `until`, whatever the news. Whether there are any."""
        given = Counter(job.lane for job in claimed)
        empty = [s for s in shares if s.kinds is not None and given[s.lane.number] < s.quota]
        for share in empty:
            self._rests[partition, share.lane.number] = until
        return bool(empty)

    def rouse(self, now: float) -> None:
        """Those that have rested long enough."""
        if self._rests:
            self._rests = {lane: until for lane, until in self._rests.items() if until > now}

    def shares(self, partition: int, room: int) -> list[Share]:
        hot = self._hot.get(partition, {})
        if self._rests:
            hot = {one: news for one, news in hot.items() if (partition, one) not in self._rests}
        if len(hot) == 1:
            [number] = hot
            return [self._share(number, room)]
        queues: dict[str, list[int]] = {}
        for number in hot:
            queues.setdefault(self._lanes[number].queue, []).append(number)
        total = sum(self._weight(queue) for queue in queues)
        self._turn += 1
        shares = []
        for queue in sorted(queues, key=lambda name: -self._balance.get(name, 0.0)):
            lanes = queues[queue]
            quota = -(-room * self._weight(queue) // (total * len(lanes)))
            start = self._turn % len(lanes)
            shares += [self._share(number, quota) for number in lanes[start:] + lanes[:start]]
        return shares

    def settle(
        self,
        partition: int,
        shares: Sequence[Share],
        room: int,
        found: Iterable[int],
        *,
        began: int,
    ) -> None:
        """After a claim that knew the news up to `began`, with the lane of each job that it found. A lane that gave
        less than it was asked for is empty; they are asked in order, while there is room."""
        given = Counter(found)
        hot = self._hot.get(partition, {})
        empty: set[str] = set()
        for share in shares:
            number = share.lane.number
            asked = min(share.quota, room)
            room -= given[number]
            if given[number] < asked:
                empty.add(share.lane.queue)
                if hot.get(number, 0) <= began:
                    hot.pop(number, None)
        if not hot:
            self._hot.pop(partition, None)
        if len(shares) > 1:
            self._charge(shares, given, empty)

    def _charge(self, shares: Sequence[Share], given: Counter[int], empty: set[str]) -> None:
        queues = {share.lane.queue for share in shares}
        got: Counter[str] = Counter()
        for share in shares:
            got[share.lane.queue] += given[share.lane.number]
        total = sum(self._weight(queue) for queue in queues)
        count = got.total()
        for queue in queues:
            due = count * self._weight(queue) / total - got[queue]
            balance = self._balance.get(queue, 0.0) + due
            self._balance[queue] = (
                min(0.0, balance) if queue in empty else max(-_MOST_OWED, min(_MOST_OWED, balance))
            )

    def _share(self, number: int, quota: int) -> Share:
        lane = self._lanes[number]
        choosy = lane.queue in self._shared or number in self._strange
        return Share(lane, quota, self._kinds if choosy else None)

    def _weight(self, queue: str) -> int:
        return self._weights.get(queue, 1)

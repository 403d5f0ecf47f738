"""Lanes of a worker: which it may take from, which may have ready jobs, and how a claim is shared between them.

`_hot` holds, for each partition, the lanes that may have ready jobs, each with the time of the news. A claim cools the
lanes that gave less than they were asked for, unless there is news of them that is younger than the claim.

Where there are kinds that only others know, a claim has to walk past all of their jobs. If that takes long and leaves
room, the lane rests for a while, whatever the news: otherwise every job submitted for others would start it anew.

Queues share a claim by their weights. Each has a balance: what it was due of the jobs that were claimed while it had
some, less what it got. The one with the highest goes first, so that even a worker with room for one job at a time
serves every queue in its share. What a queue leaves goes to the others, and is not owed to it later.

What is found and has to wait for a limit is held, out of the way, and there is still room. There may be very many of
them before the first that may start: the more there were in a lane, the further the next claim looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from foliot.model.definition import StoredDefinition
from foliot.model.job import ClaimedJob
from foliot.model.lane import Lane, Strategy, base_of, strategy_of
from foliot.store.port import Share

_MOST_PAST: Final = 500  # jobs that are looked at although there is no room for them
_WIDER: Final = 4  # times as many, after a claim that did not get past them
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
        self._past: dict[tuple[int, int], int] = {}  # how far to look, by partition and lane
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

    def take(self, kinds: Sequence[str]) -> None:
        """From now on only these."""
        self._kinds, self._known = tuple(kinds), frozenset(kinds)

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
        found: Iterable[int],
        *,
        until: float,
    ) -> bool:
        """After a claim that left room: the lanes where it looked for some kinds only, in vain, are not asked again
        before `until`, whatever the news. Whether there are any."""
        given = Counter(found)
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
            return [self._share(partition, number, room)]
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
            turns = lanes[start:] + lanes[:start]
            shares += [self._share(partition, number, quota) for number in turns]
        return shares

    def settle(
        self,
        partition: int,
        shares: Sequence[Share],
        room: int,
        claimed: Sequence[int],
        held: Sequence[int] = (),
        *,
        began: int,
    ) -> None:
        """After a claim that knew the news up to `began`, with the lane of each job that it found. A lane that gave
        less than it was asked for is empty; they are asked in order, while there is room."""
        started, waiting = Counter(claimed), Counter(held)
        given: Counter[int] = Counter()
        hot = self._hot.get(partition, {})
        empty: set[str] = set()
        for share in shares:
            number = share.lane.number
            asked = min(share.quota, room)
            if asked > 0:
                wider = _WIDER if started[number] < asked else 1
                self._look_past(partition, number, waiting[number] * wider)
            # Those that it looked at past what it was asked for took nobody's place.
            found = min(asked, started[number] + waiting[number])
            given[number] = max(started[number], found)
            room -= given[number]
            if given[number] < asked:
                empty.add(share.lane.queue)
                if hot.get(number, 0) <= began:
                    hot.pop(number, None)
        if not hot:
            self._hot.pop(partition, None)
        if len(shares) > 1:
            self._charge(shares, given, empty)

    def _look_past(self, partition: int, number: int, count: int) -> None:
        if count:
            self._past[partition, number] = min(_MOST_PAST, count)
        elif self._past:
            self._past.pop((partition, number), None)

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

    def _share(self, partition: int, number: int, quota: int) -> Share:
        lane = self._lanes[number]
        choosy = lane.queue in self._shared or number in self._strange
        past = self._past.get((partition, number), 0) if self._past else 0
        return Share(lane, quota, self._kinds if choosy else None, past)

    def _weight(self, queue: str) -> int:
        return self._weights.get(queue, 1)

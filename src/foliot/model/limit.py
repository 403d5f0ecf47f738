"""Limit: how many jobs of a queue, kind, namespace or key may run at once, and how many may start in a time.

A job passes the gates of all limits that it is under, or none. A slot that it takes there it gives back when it
leaves; a token of a rate is used up. What is full is written on the job that has to wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from typing import Final, Literal, TypeVar, get_args

import msgspec

T = TypeVar("T")
V = TypeVar("V")
Scope = Literal["queue", "kind", "namespace", "key"]
SCOPES: Final = get_args(Scope)
BREAKER: Final = "breaker"  # one that is not closed is a gate like the others
_PERIODS: Final = {1.0: "second", 60.0: "minute", 3600.0: "hour"}
HELD_FOR_LIMIT: Final = "limit"  # why a job is held; the note says for which
_MOST_KNOWN: Final = 50_000  # answers to keep
TOLD_EVERY: Final = (
    5.0  # seconds: who has to wait for a rate is told of, by each worker at most so often
)
AHEAD: Final = 1.0  # seconds; a time that lies further ahead says that the clock was set back
_LEAST_SHARE: Final = 100  # jobs that a session may claim uncounted, or it is not worth it


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is scope and what it is for: "queue:mail", "key:customer:42"; "key:customer:*" is one for each of them."""

    name: str
    concurrency: int | None = None  # jobs that run at once
    rate: float | None = None  # starts in `period` seconds
    period: float = 1.0
    burst: int = 1  # starts at once, where there were none for a while
    note: str | None = None
    updated_by: str | None = None
    updated_at: datetime | None = None
    said: str | None = None  # what code said last of it: see model/said.py
    counted: bool = True  # false: far from being reached, see Rules.open

    @property
    def countless(self) -> bool:
        """Whether it can do without being counted while it is far from being reached."""
        most = 0 if self.name.startswith("key") else self.concurrency or 0
        return self.rate is None and most >= 4 * _LEAST_SHARE

    @property
    def each_second(self) -> float | None:
        return None if self.rate is None else self.rate / self.period

    @property
    def shown_rate(self) -> str | None:
        """As it is said: "100/minute"."""
        if self.rate is None:
            return None
        number = f"{self.rate:.9f}".rstrip("0").rstrip(".")
        return f"{number}/{_PERIODS.get(self.period) or f'{self.period:g}s'}"

    @property
    def is_pattern(self) -> bool:
        return self.name.startswith("key:") and self.name.endswith("*")


class Use(msgspec.Struct, frozen=True):
    """How much of a limit is taken. Tokens were counted at `at`, in seconds since 1970; None: there are all."""

    name: str
    used: int = 0
    tokens: float | None = None
    at: float = 0.0
    taken_in: int | None = None  # the partition that took the last slot
    next_in: int | None = None  # the next slot is left to those who wait in this partition,
    next_until: float | None = None  # for so long


class Traits(msgspec.Struct, frozen=True):
    """What of a job its limits are known by."""

    queue: str
    kind: str
    namespace: str = "default"
    limit_key: str | None = None
    breaker: str | None = None


def gate_of_key(limit_key: str, namespace: str) -> str:
    """Keys of different namespaces have nothing to do with each other."""
    return f"key:{limit_key}" if namespace == "default" else f"key@{namespace}@{limit_key}"


def show_gate(gate: str) -> str:
    """As people call it who have given the key."""
    if not gate.startswith("key@"):
        return gate
    _, namespace, limit_key = gate.split("@", 2)
    return f"key:{limit_key} in namespace {namespace}"


def key_of(gate: str) -> str | None:
    if gate.startswith("key@"):
        return gate.split("@", 2)[2]
    return gate[4:] if gate.startswith("key:") else None


class Rules:
    """All limits there are, and which of them a job is under."""

    def __init__(self, version: int = 0, limits: Iterable[Limit] = ()) -> None:
        """Those that are not counted are no gates: `open`."""
        self.version = version
        all_ = list(limits)
        self.limits = {limit.name: limit for limit in all_ if limit.counted}
        self.open = [limit for limit in all_ if not limit.counted]
        # Of several that fit a key the longest counts.
        patterns = [limit for limit in self.limits.values() if limit.is_pattern]
        self._patterns = sorted(patterns, key=lambda limit: -len(limit.name))
        self._queues = {n.partition(":")[2] for n in self.limits if n.startswith("queue:")}
        self._anywhere = any(not name.startswith("queue:") for name in self.limits)
        self._known: dict[Traits, tuple[str, ...]] = {}
        self._limits: dict[str, Limit | None] = {}

    def __bool__(self) -> bool:
        return bool(self.limits)

    @cached_property
    def keyed(self) -> bool:
        """Whether all of them are about how many jobs of a key run at once."""
        return bool(self.limits) and all(
            name.startswith("key:") and limit.rate is None for name, limit in self.limits.items()
        )

    @cached_property
    def keys(self) -> tuple[str, list[tuple[str, int]]]:
        """Then, how many of a key run at once: by its name, as JSON; and by how keys begin, the longest first."""
        exact = {
            name[4:]: limit.concurrency
            for name, limit in self.limits.items()
            if not limit.is_pattern
        }
        beginnings = [(one.name[4:-1], one.concurrency or 0) for one in self._patterns]
        return msgspec.json.encode(exact).decode(), beginnings

    def rated(self, gates: Iterable[str]) -> bool:
        """Whether one of these has a rate."""
        return any((limit := self.limit(gate)) and limit.rate for gate in gates)

    def concern(self, queue: str) -> bool:
        """Whether a job of this queue may be under one."""
        return self._anywhere or queue in self._queues

    def gates(self, job: Traits) -> tuple[str, ...]:
        """The names of the limits that it is under, as they are counted."""
        known = self._known.get(job)
        if known is None:
            known = tuple(self._find(job))
            _remember(self._known, job, known)
        return known

    def limit(self, gate: str) -> Limit | None:
        """By the name that it is counted under."""
        if gate not in self._limits:
            key = key_of(gate)
            found = self.limits.get(gate) if key is None else self._of_key(key)
            _remember(self._limits, gate, found)
        return self._limits[gate]

    def _find(self, job: Traits) -> Iterable[str]:
        told = {"queue": job.queue, "kind": job.kind, "namespace": job.namespace}
        yield from (name for s, w in told.items() if (name := f"{s}:{w}") in self.limits)
        if job.limit_key is not None and self._of_key(job.limit_key) is not None:
            yield gate_of_key(job.limit_key, job.namespace)
        if job.breaker is not None and (name := f"{BREAKER}:{job.breaker}") in self.limits:
            yield name

    def _of_key(self, key: str) -> Limit | None:
        name = f"key:{key}"
        patterns = (one for one in self._patterns if name.startswith(one.name[:-1]))
        return self.limits.get(name) or next(patterns, None)


def _remember(answers: dict[T, V], question: T, answer: V) -> None:
    if len(answers) >= _MOST_KNOWN:
        answers.clear()
    answers[question] = answer


def allowance(limit: Limit, running: int, sessions: int) -> int | None:
    """How many jobs a session may claim without counting them, before it looks again; None: no longer.

    While at most half of a limit is used, the other half is divided: each session may claim its share uncounted.
    Whoever looked last saw at most half running; since then nobody has claimed more than a share; so together they are
    within the limit. A session that comes later changes the rules, and all look again."""
    most = limit.concurrency or 0
    share = most // (2 * max(1, sessions))
    return share if running * 2 <= most and share >= _LEAST_SHARE else None

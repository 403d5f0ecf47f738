"""What a picture shows: a box for each step, or one for many that are alike, so that 10,000 steps stay a picture."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from foliot.ids import JobId
from foliot.model.job import JobState
from foliot.model.workflow import (
    HELD_BY_PAUSE,
    HELD_FOR_SIGNAL,
    HELD_FOR_WORKFLOW,
    MAP_KIND,
    WORKFLOW_KIND,
    Rule,
    Step,
)

FEW: Final = 12  # so many that are alike are still drawn one by one
Shape = Literal["step", "many", "signal", "workflow"]

MARKS: Final = {
    JobState.SUCCEEDED: "✓",
    JobState.DEAD: "✗",
    JobState.CANCELLED: "⊘",
    JobState.RUNNING: "●",
    JobState.READY: "○",
    JobState.HELD: "‖",
    JobState.SCHEDULED: "◷",
    JobState.WAITING: "◌",
    JobState.SKIPPED: "↷",
}
_NUMBERING: Final = re.compile(r"[\s\[\]()\d_.#:-]+$")
_LAST_WORD: Final = re.compile(r"[^\s_.#:/\[-]*$")


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """One step, or many. Numbers of parents and children are places in the list of boxes."""

    title: str
    shape: Shape
    state: JobState
    steps: tuple[Step, ...]
    parents: tuple[int, ...]
    children: tuple[int, ...]
    counts: tuple[tuple[JobState, int], ...] = ()  # of many
    rule: Rule | None = None  # only one that is worth saying
    seconds: float | None = None  # from its first start to its last end, or until now

    @property
    def words(self) -> list[str]:
        """What is said under its title: rule, state, duration."""
        said = [] if self.rule is None else [f"if {self.rule}"]
        if self.counts:
            said.append("  ".join(f"{MARKS[state]} {count:,}" for state, count in self.counts))
        else:
            said.append(_say_state(self.steps[0]))
        return said if self.seconds is None else [*said, took(self.seconds)]

    @property
    def in_words(self) -> str:
        """The same without signs, for whoever cannot see them."""
        state = ", ".join(f"{count:,} {state}" for state, count in self.counts)
        return " · ".join(
            [
                *([] if self.rule is None else [f"if {self.rule}"]),
                state or _say_state(self.steps[0]),
                *([] if self.seconds is None else [took(self.seconds)]),
            ]
        )


def boxes_of(steps: Sequence[Step], *, now: datetime | None = None) -> list[Box]:
    """Parents before their children, else in the order of submission."""
    steps = sorted(steps, key=lambda step: step.number)
    place = {step.job: number for number, step in enumerate(steps)}
    parents = [{place[id] for id in step.parents if id in place} for step in steps]
    order = _in_order(parents)
    groups = _fold_maps(steps, order, place)
    groups = _fold_alike(groups, parents, lambda ones: _looks(steps[min(ones)]))
    groups = _fold_siblings(groups, parents)
    members = _members(groups)
    edges = _edges_between(groups, parents)
    sequence = _in_order([edges[group] for group in range(len(members))])
    number = {group: index for index, group in enumerate(sequence)}
    children = defaultdict(list)
    for child, group in enumerate(sequence):
        for parent in edges[group]:
            children[number[parent]].append(child)
    return [
        _box(
            [steps[one] for one in members[group]],
            tuple(sorted(number[parent] for parent in edges[group])),
            tuple(children[index]),
            now,
        )
        for index, group in enumerate(sequence)
    ]


def took(seconds: float) -> str:
    """340ms, 1.2s, 42s, 3m05s, 2h10m, 4d03h."""
    if seconds < 0.9995:
        return f"{max(0, round(seconds * 1000))}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for unit, size, smaller, part in (("d", 86_400, "h", 3600), ("h", 3600, "m", 60)):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // part:02}{smaller}"
    return f"{whole // 60}m{whole % 60:02}s" if whole >= 60 else f"{whole}s"


def printable(text: str) -> str:
    """Control characters escaped: a name must not drive a terminal or break a document."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _in_order(parents: Sequence[set[int]]) -> list[int]:
    """Parents first; what is no graph (it cannot be) is shown all the same, without the edges that go back."""
    children: list[list[int]] = [[] for _ in parents]
    for child, those in enumerate(parents):
        for parent in those:
            children[parent].append(child)
    missing = [len(those) for those in parents]
    # The last that may come comes next: branches stay together.
    free = [number for number in range(len(parents) - 1, -1, -1) if not missing[number]]
    order: list[int] = []
    while free:
        number = free.pop()
        order.append(number)
        for child in reversed(children[number]):
            missing[child] -= 1
            if not missing[child]:
                free.append(child)
    seen: set[int] = set()
    rest = set(range(len(parents))) - set(order)
    for number in [*order, *sorted(rest)]:
        parents[number].intersection_update(seen)
        seen.add(number)
    return [*order, *sorted(rest)]


def _fold_maps(steps: Sequence[Step], order: Sequence[int], place: dict[JobId, int]) -> list[int]:
    """The elements of a map are shown with the step that made them: the picture is the same before and after."""
    groups = list(range(len(steps)))
    for number in order:
        mapped = steps[number].mapped
        if mapped is not None and mapped in place:
            groups[number] = groups[place[mapped]]
    return _renumber(groups)


def _fold_alike(
    groups: list[int], parents: Sequence[set[int]], looks: Callable[[list[int]], Hashable]
) -> list[int]:
    """Many of one kind, at the same place below and above others that are alike: siblings, and parallel chains."""
    members, edges = _members(groups), _edges_between(groups, parents)
    above = [edges[group] for group in range(len(members))]
    order = _in_order(above)
    below: list[set[int]] = [set() for _ in members]
    for child, those in enumerate(above):
        for parent in those:
            below[parent].add(child)
    own = [looks(those) for those in members]
    numbers: dict[Hashable, int] = {}

    def sign(group: int, signs: list[int], others: set[int]) -> int:
        key = (own[group], frozenset(signs[other] for other in others))
        return numbers.setdefault(key, len(numbers))

    down, up = [0] * len(members), [0] * len(members)
    for group in order:
        down[group] = sign(group, down, above[group])
    for group in reversed(order):
        up[group] = sign(group, up, below[group])
    return _fold(groups, [(down[group], up[group]) for group in range(len(members))])


def _fold_siblings(groups: list[int], parents: Sequence[set[int]]) -> list[int]:
    """Many of the same parents and children, whatever their kinds."""
    members, edges = _members(groups), _edges_between(groups, parents)
    below = defaultdict(set)
    for child, those in edges.items():
        for parent in those:
            below[parent].add(child)
    return _fold(
        groups,
        [(frozenset(edges[group]), frozenset(below[group])) for group in range(len(members))],
    )


def _fold(groups: list[int], keys: Sequence[Hashable]) -> list[int]:
    common = Counter(keys)
    first: dict[Hashable, int] = {}
    to = [
        first.setdefault(key, group) if common[key] > FEW else group
        for group, key in enumerate(keys)
    ]
    return _renumber([to[group] for group in groups])


def _looks(step: Step) -> Hashable:
    return (step.kind, step.rule, step.signal)


def _renumber(groups: Iterable[int]) -> list[int]:
    numbers: dict[int, int] = {}
    return [numbers.setdefault(group, len(numbers)) for group in groups]


def _members(groups: Sequence[int]) -> list[list[int]]:
    members: list[list[int]] = [[] for _ in range(max(groups, default=-1) + 1)]
    for number, group in enumerate(groups):
        members[group].append(number)
    return members


def _edges_between(
    groups: Sequence[int], parents: Sequence[set[int]]
) -> defaultdict[int, set[int]]:
    """The parents of each group."""
    edges: defaultdict[int, set[int]] = defaultdict(set)
    for number, those in enumerate(parents):
        group = groups[number]
        edges[group].update(groups[parent] for parent in those if groups[parent] != group)
    return edges


def _box(
    steps: list[Step], parents: tuple[int, ...], children: tuple[int, ...], now: datetime | None
) -> Box:
    first = steps[0]
    rule = first.rule if parents and first.rule is not Rule.ALL_SUCCEEDED else None
    seconds = _seconds(steps, now)
    if len(steps) == 1 and first.kind != MAP_KIND:
        return Box(
            title=printable(first.name),
            shape="signal"
            if first.signal
            else "workflow"
            if first.kind == WORKFLOW_KIND
            else "step",
            state=first.state,
            steps=(first,),
            parents=parents,
            children=children,
            rule=rule,
            seconds=seconds,
        )
    elements = [step for step in steps if step.kind != MAP_KIND]
    made = elements or first.state is JobState.SUCCEEDED
    return Box(
        title=f"{printable(_stem(steps))} × {f'{len(elements):,}' if made else 'n'}",
        shape="many",
        state=overall(elements or steps),
        steps=tuple(steps),
        parents=parents,
        children=children,
        counts=counted(elements),
        rule=rule if len({step.rule for step in steps if step.mapped is None}) == 1 else None,
        seconds=seconds,
    )


def _stem(steps: Sequence[Step]) -> str:
    """What many steps are called together."""
    named = [step.name for step in steps if step.mapped is None] or [step.name for step in steps]
    if len(named) == 1:
        return named[0] if steps[0].kind == MAP_KIND else _NUMBERING.sub("", named[0]) or named[0]
    stems = {_NUMBERING.sub("", name) for name in named}
    if len(stems) == 1 and "" not in stems:
        return stems.pop()
    start = _LAST_WORD.sub("", _common_start(min(named), max(named))).rstrip(" _-.#:/[")
    kinds = {step.kind for step in steps if step.kind != MAP_KIND}
    return start or (kinds.pop() if len(kinds) == 1 else "steps")


def _common_start(one: str, other: str) -> str:
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return one[:same]


def counted(steps: Sequence[Step]) -> tuple[tuple[JobState, int], ...]:
    """How many are in which state."""
    counts = Counter(step.state for step in steps)
    return tuple((state, counts[state]) for state in MARKS if counts[state])


def overall(steps: Sequence[Step]) -> JobState:
    """What is most worth knowing of many: a failure, then work, then waiting."""
    counts = Counter(step.state for step in steps)
    for state in (JobState.DEAD, JobState.CANCELLED, JobState.RUNNING):
        if counts[state]:
            return state
    unfinished = [state for state in MARKS if counts[state] and not state.final]
    if unfinished:
        # Some are through: it is under way, even if none runs at this moment.
        return JobState.RUNNING if counts[JobState.SUCCEEDED] else unfinished[0]
    return JobState.SUCCEEDED if counts[JobState.SUCCEEDED] else JobState.SKIPPED


def _seconds(steps: Sequence[Step], now: datetime | None) -> float | None:
    started = [step.started_at for step in steps if step.started_at is not None]
    if not started:
        return None
    if all(step.state.final for step in steps):
        ended = [step.finished_at for step in steps if step.finished_at is not None]
        until = max(ended) if ended else None
    else:
        running = any(step.state is JobState.RUNNING for step in steps)
        until = now if running or len(steps) > 1 else None
    return None if until is None else max(0.0, (until - min(started)).total_seconds())


def _say_state(step: Step) -> str:
    if step.state is not JobState.HELD or step.reason is None:
        return step.state.value
    return {
        HELD_FOR_SIGNAL: f"waits for {printable(step.signal or 'a signal')}",
        HELD_FOR_WORKFLOW: "its workflow runs",
        HELD_BY_PAUSE: "paused",
        "unknown_kind": f"held: unknown kind {printable(step.kind)}",
    }.get(step.reason) or f"held: {printable(step.reason)}"

"""The graph of a workflow, by the names of its steps: an order in which parents come first, or the cycle that rules it
out."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from foliot.errors import InvalidValue

Graph = Mapping[str, Sequence[str]]  # each step with its parents, all of which are steps

_MOST_LOOKS: Final = 1_000_000  # at edges, for a shorter cycle than the one that is known


def in_order(graph: Graph) -> list[str]:
    """Parents first; apart from that as given. Raises InvalidValue with the shortest cycle."""
    place = {name: number for number, name in enumerate(graph)}
    names = list(graph)
    children = _children(graph)
    left = {name: len(parents) for name, parents in graph.items()}
    free = [place[name] for name, count in left.items() if count == 0]
    heapify(free)
    ordered: list[str] = []
    while free:
        name = names[heappop(free)]
        ordered.append(name)
        for child in children[name]:
            left[child] -= 1
            if left[child] == 0:
                heappush(free, place[child])
    if len(ordered) < len(names):
        done = set(ordered)
        rest = {
            name: [one for one in parents if one not in done]
            for name, parents in graph.items()
            if name not in done
        }
        raise _has_cycle(shortest_cycle(rest))
    return ordered


def ancestors(graph: Graph, name: str) -> set[str]:
    """All steps that have ended before this one begins."""
    found: set[str] = set()
    open_ = [name]
    while open_:
        for parent in graph[open_.pop()]:
            if parent not in found:
                found.add(parent)
                open_.append(parent)
    return found


def _has_cycle(cycle: list[str]) -> InvalidValue:
    """All of it, as a → b → a; its value is the list of the names."""
    error = InvalidValue(
        "steps",
        problem=f"have a cycle: {' → '.join([*cycle, cycle[0]])}",
        hint=f"leave one of these arrows out, for example {cycle[-1]} → {cycle[0]}",
    )
    error.value = cycle
    return error


def shortest_cycle(graph: Graph) -> list[str]:
    """Of a graph in which every step has a parent: so there is one. Of a huge one, the shortest that was found soon."""
    place = {name: number for number, name in enumerate(graph)}
    best = _any_cycle(graph)
    alive = {name: set(parents) for name, parents in graph.items()}
    children = {name: set(found) for name, found in _children(graph).items()}
    looks = _MOST_LOOKS
    for name in graph:
        if looks <= 0 or len(best) == 1:
            break
        if name in alive:
            found, looked = _cycle_through(name, children, shorter_than=len(best))
            best = found or best
            looks -= looked
            _remove(name, alive, children)  # the shortest through it is known
    first = min(range(len(best)), key=lambda number: place[best[number]])
    return best[first:] + best[:first]


def _any_cycle(graph: Graph) -> list[str]:
    """Up from parent to parent, until one comes again."""
    seen: dict[str, int] = {}
    walked: list[str] = []
    name = next(iter(graph))
    while name not in seen:
        seen[name] = len(walked)
        walked.append(name)
        name = graph[name][0]
    return walked[seen[name] :][::-1]


def _cycle_through(
    start: str, children: Mapping[str, set[str]], *, shorter_than: int
) -> tuple[list[str] | None, int]:
    """By breadth: the first way back is the shortest. Also how many edges were looked at."""
    came_from = {start: start}
    far = {start: 1}
    open_ = deque([start])
    looked = 0
    while open_:
        name = open_.popleft()
        if far[name] >= shorter_than:
            break
        for child in children[name]:
            looked += 1
            if child == start:
                return _way(start, name, came_from), looked
            if child not in came_from:
                came_from[child] = name
                far[child] = far[name] + 1
                open_.append(child)
    return None, looked


def _way(start: str, end: str, came_from: Mapping[str, str]) -> list[str]:
    way = [end]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


def _remove(name: str, alive: dict[str, set[str]], children: dict[str, set[str]]) -> None:
    """And whatever is left without a parent, as no cycle goes through that."""
    gone = [name]
    while gone:
        one = gone.pop()
        if one not in alive:
            continue
        for parent in alive.pop(one):
            if parent in children:
                children[parent].discard(one)
        for child in children.pop(one):
            if child in alive:
                alive[child].discard(one)
                if not alive[child]:
                    gone.append(child)


def _children(graph: Graph) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in graph}
    for name, parents in graph.items():
        for parent in parents:
            found[parent].append(name)
    return found

"""Where boxes stand: in layers along the edges, in an order with few crossings, near to what they are linked with.

An edge that goes past a layer bends there: each layer has the boxes, and the bends of edges between others. All edges
of one box that go past a layer share a bend. (Sugiyama's method: longest paths, barycentres, then positions by isotonic
regression, which is the best that keeps an order and distances.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from foliot.drawing.boxes import Box

MOST_BENDS: Final = 4_000  # beyond, edges go straight: nobody can follow that many
_CAREFUL: Final = 3_000  # edges, up to which crossings are counted
_SWEEPS: Final = 8


class Layout(msgspec.Struct, frozen=True):
    """Nodes are boxes by their number, and from `boxes` on bends. Neighbours are in other layers, mostly the next."""

    boxes: int
    layers: list[list[int]]
    sources: list[list[int]]
    targets: list[list[int]]

    def is_bend(self, node: int) -> bool:
        return node >= self.boxes

    def routes(self) -> list[list[int]]:
        """Each edge as the nodes on its way, from a box to a box."""
        found: list[list[int]] = []
        for box in range(self.boxes):
            ways = [[box, target] for target in self.targets[box]]
            while ways:
                way = ways.pop()
                if self.is_bend(way[-1]):
                    ways += [[*way, target] for target in self.targets[way[-1]]]
                else:
                    found.append(way)
        return found


def arrange(boxes: Sequence[Box]) -> Layout:
    depth = _depths(boxes)
    sources: list[list[int]] = [[] for _ in boxes]
    targets: list[list[int]] = [[] for _ in boxes]
    layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for number, layer in enumerate(depth):
        layers[layer].append(number)
    longest = [max((depth[child] for child in box.children), default=0) for box in boxes]
    bends = sum(max(0, far - here - 1) for far, here in zip(longest, depth, strict=True))

    def link(source: int, target: int) -> None:
        targets[source].append(target)
        sources[target].append(source)

    for number, box in enumerate(boxes):
        way = [number]  # and its bends in the layers after its own
        for child in sorted(box.children, key=depth.__getitem__):
            while bends <= MOST_BENDS and depth[child] - depth[number] > len(way):
                sources.append([])
                targets.append([])
                link(way[-1], len(targets) - 1)
                layers[depth[number] + len(way)].append(len(targets) - 1)
                way.append(len(targets) - 1)
            link(way[-1], child)
    layout = Layout(len(boxes), layers, sources, targets)
    _order(layout)
    return layout


def spread(layout: Layout, size: Callable[[int], float], gap: float) -> list[float]:
    """The centre of each node across its layer, where 0 is the edge of the picture: each as near to the middle of its
    neighbours as its layer leaves room for."""
    at = [0.0] * len(layout.sources)
    for layer in layout.layers:
        _settle(layer, [0.0] * len(layer), at, size, gap)
    ahead, back = (layout.layers, layout.sources), (layout.layers[::-1], layout.targets)
    heavier = list(map(_heavier, layout.sources, layout.targets))
    sweeps = [ahead, back] * (3 if len(at) < _CAREFUL else 1)
    for layers, neighbours in [*sweeps, (layout.layers, heavier), (layout.layers[::-1], heavier)]:
        for layer in layers:
            wanted = [
                _middle([at[other] for other in neighbours[node]], at[node]) for node in layer
            ]
            _settle(layer, wanted, at, size, gap)
    _straighten(layout, at, size, gap)
    first = min((at[node] - size(node) / 2 for node in range(len(at))), default=0.0)
    return [place - first for place in at]


def _depths(boxes: Sequence[Box]) -> list[int]:
    """One more than the deepest parent; what has no parents stands right before its first child."""
    depth: list[int] = []
    for box in boxes:  # parents come first
        depth.append(max((depth[parent] + 1 for parent in box.parents), default=0))
    for number, box in enumerate(boxes):
        if not box.parents and box.children:
            depth[number] = min(depth[child] for child in box.children) - 1
    return depth


def _order(layout: Layout) -> None:
    """Sweep to and fro, each node to the mean of its neighbours; the order with the fewest crossings stays."""
    place = [0] * len(layout.sources)
    for layer in layout.layers:
        _number(layer, place)
    careful = sum(map(len, layout.targets)) <= _CAREFUL
    best, fewest = [list(layer) for layer in layout.layers], _crossings(layout, place)
    for sweep in range(_SWEEPS if careful else 2):
        if not fewest:
            break
        layers, neighbours = layout.layers, layout.sources
        if sweep % 2:
            layers, neighbours = layers[::-1], layout.targets
        for layer in layers:
            mean = {node: _mean([place[other] for other in neighbours[node]]) for node in layer}
            _sort(layer, mean)
            _number(layer, place)
        crossings = _crossings(layout, place) if careful else fewest - 1
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layout.layers], crossings
    for layer, kept in zip(layout.layers, best, strict=True):
        layer[:] = kept


def _number(layer: Sequence[int], place: list[int]) -> None:
    for index, node in enumerate(layer):
        place[node] = index


def _sort(layer: list[int], mean: dict[int, float | None]) -> None:
    """Those without neighbours keep their places, the others are sorted around them."""
    linked = [node for node in layer if mean[node] is not None]
    linked.sort(key=lambda node: mean[node] or 0.0)
    ordered = iter(linked)
    layer[:] = [node if mean[node] is None else next(ordered) for node in layer]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _middle(values: list[float], alone: float) -> float:
    """The middle between the outermost: a parent stands in the middle of its children."""
    return (min(values) + max(values)) / 2 if values else alone


def _heavier(sources: list[int], targets: list[int]) -> list[int]:
    """Where more of its edges go: one of many children is there for its parent, one of many parents for its child."""
    if len(sources) == len(targets):
        return [*sources, *targets]
    return max(sources, targets, key=len)


def _straighten(layout: Layout, at: list[float], size: Callable[[int], float], gap: float) -> None:
    """What follows one that nothing else follows stands right behind it, if there is room."""
    for layer in layout.layers:
        wanted = []
        for node in layer:
            alone = len(layout.sources[node]) == 1 and len(layout.targets[node]) <= 1
            source = layout.sources[node][0] if alone else node
            follows = alone and len(layout.targets[source]) == 1
            wanted.append(at[source] if follows else at[node])
        _settle(layer, wanted, at, size, gap)


def _crossings(layout: Layout, place: Sequence[int]) -> int:
    """Edges between two layers cross as often as their ends are out of order."""
    found = 0
    for layer in layout.layers:
        ends = [
            place[t] for node in layer for t in sorted(layout.targets[node], key=place.__getitem__)
        ]
        found += _inversions(ends)
    return found


def _inversions(values: Sequence[int]) -> int:
    """Counted in a Fenwick tree."""
    size = max(values, default=0) + 2
    tree, found = [0] * size, 0
    for seen, value in enumerate(values):
        index, not_greater = value + 1, 0
        while index:
            not_greater += tree[index]
            index &= index - 1
        found += seen - not_greater
        index = value + 1
        while index < size:
            tree[index] += 1
            index += index & -index
    return found


def _settle(
    layer: Sequence[int],
    wanted: Sequence[float],
    at: list[float],
    size: Callable[[int], float],
    gap: float,
) -> None:
    """Put the nodes of a layer as near to the wanted places as their order and sizes allow: pool adjacent violators."""
    offsets = [0.0]
    for before, after in pairwise(layer):
        offsets.append(offsets[-1] + (size(before) + size(after)) / 2 + gap)
    pools: list[tuple[float, int]] = []  # mean, how many
    for place, offset in zip(wanted, offsets, strict=False):
        mean, many = place - offset, 1
        while pools and pools[-1][0] > mean:
            other, others = pools.pop()
            mean = (mean * many + other * others) / (many + others)
            many += others
        pools.append((mean, many))
    shifts = [mean for mean, many in pools for _ in range(many)]
    for node, offset, shift in zip(layer, offsets, shifts, strict=False):
        at[node] = offset + shift

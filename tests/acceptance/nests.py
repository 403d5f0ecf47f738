"""Workflows within workflows, drawn at random; and how they end where nobody interferes, by the reference."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from acceptance.graphs import OPEN, Graphs
from foliot.client.workflow import Flow
from foliot.model.workflow import Policy
from workflows.reference import RULES, Reference, Shape

DEEPEST = 3
SIGNALS = ("go", "stop")


class Nest(msgspec.Struct):
    """A workflow, and those that are steps of it."""

    policy: Policy
    shapes: list[Shape]
    ends: dict[str, str]  # of the steps that run, by their names
    inside: dict[str, Nest]

    def expected(self) -> Reference:
        """Where a failure stops no others."""
        ends = dict(self.ends)
        for name, nest in self.inside.items():
            ends[name] = "succeeded" if nest.expected().state == "succeeded" else "dead"
        reference = Reference(self.shapes, self.policy)
        while claimed := reference.claimable():
            reference.claim(claimed)
            reference.end({name: ends[name] for name in claimed})
        return reference


class Nests:
    """Steps that fail do so until the gate is open."""

    def __init__(self, graphs: Graphs, chance: Random, gate: str) -> None:
        self._graphs = graphs
        self._chance = chance
        self._gate = gate

    def draw(self, name: str, policies: tuple[Policy, ...], depth: int = 1) -> tuple[Flow, Nest]:
        chance = self._chance
        nest = Nest(chance.choice(policies), [], {}, {})
        flow = self._graphs.app.workflow(name, policy=nest.policy)
        for number, one in enumerate(self._names(depth)):
            known = [shape.name for shape in nest.shapes]
            after = chance.sample(known, min(number, chance.choice([0, 1, 1, 2])))
            rule = chance.choice(["all_succeeded", *RULES]) if after else "all_succeeded"
            nest.ends[one] = self._add(flow, one, after, rule)
            if one.startswith("in"):
                inner, nest.inside[one] = self.draw(f"{name}-{one}", policies, depth + 1)
                flow.add(inner, name=one, after=after, rule=rule)
            nest.shapes.append(Shape(one, tuple(after), rule))
        return flow, nest

    def _names(self, depth: int) -> Iterator[str]:
        """Each begins with what the step is."""
        kinds = ["step"] * 5 + ["wait", "sleep"] + ["in"] * (4 if depth < DEEPEST else 0)
        for number in range(self._chance.randint(1, 4)):
            yield f"{self._chance.choice(kinds)}{number}"

    def _add(self, flow: Flow, name: str, after: list[str], rule: str) -> str:
        """How it ends, if it is one that runs."""
        chance = self._chance
        seconds = chance.choice([0.0, 0.02, 0.2])
        if name.startswith("step"):
            fails = chance.random() < 0.25
            call = self._graphs.fragile.prepare(self._gate if fails else OPEN, seconds)
            flow.add(call, name=name, after=after, rule=rule)
            return "dead" if fails else "succeeded"
        if name.startswith("wait"):
            flow.wait_for(chance.choice(SIGNALS), name=name, after=after, rule=rule)
        elif name.startswith("sleep"):
            flow.sleep(seconds, name=name, after=after, rule=rule)
        return "succeeded"

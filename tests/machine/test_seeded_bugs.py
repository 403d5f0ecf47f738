"""The invariants can be trusted: each known bug, switched on, is noticed and named; switched off, nothing is."""

from __future__ import annotations

import pytest

from machine.bugs import Bug
from machine.history import Event
from machine.invariants import INVARIANTS, InvariantBroken, check
from machine.lab import Lab
from machine.scenarios import Scenario, Scene
from machine.seeded import BUGS
from machine.stage import Stage, Stages

CASES = [
    pytest.param(bug, engine, id=f"{bug.name}, {engine}") for bug in BUGS for engine in bug.engines
]
STORIES = [
    pytest.param(scenario, engine, id=f"{name}, {engine}")
    for (name, engine), scenario in sorted(
        {(b.scenario.__name__, e): b.scenario for b in BUGS for e in b.engines}.items()
    )
]


def perform(scenario: Scenario, stage: Stage) -> list[Event]:
    """What happened."""
    lab = Lab(stage.store, stage.reader, stage.ids, stage.clock.now)
    try:
        stage.loop.run(scenario(Scene(lab, stage)))
    finally:
        lab.close()
    return lab.history


@pytest.mark.parametrize(("scenario", "engine"), STORIES)
def test_without_a_bug_the_story_breaks_no_invariant(
    scenario: Scenario, engine: str, stages: Stages
) -> None:
    check(perform(scenario, stages(engine)))


@pytest.mark.parametrize(("bug", "engine"), CASES)
def test_a_seeded_bug_is_named(
    bug: Bug, engine: str, stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stages(engine)
    bug.switch_on(engine, monkeypatch)
    history = perform(bug.scenario, stage)
    for name in bug.caught_by:
        with pytest.raises(InvariantBroken, match=f"^{name}: "):
            check(history, name)


def test_every_invariant_is_shown_to_work() -> None:
    assert {name for bug in BUGS for name in bug.caught_by} == set(INVARIANTS)

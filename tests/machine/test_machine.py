"""Random operations on a store and on the model of it: the same answers, the same rows, and no invariant broken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from machine.machine import StoreMachine
from machine.stage import Stage, make_place, open_stage

KINDS = ["sqlite-1", "sqlite-8", "postgres-1", "postgres-8"]
EXAMPLES = {"sqlite": 60, "postgres": 40}


@pytest.fixture(params=KINDS)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    engine, partitions = str(request.param).split("-")
    with asyncio.Runner() as loop:
        place = make_place(request, tmp_path, engine, int(partitions))
        opened = open_stage(loop.run(place.__aenter__()), loop)
        try:
            yield loop.run(opened.__aenter__())
        finally:
            loop.run(opened.__aexit__(None, None, None))
            loop.run(place.__aexit__(None, None, None))


def explore(stage: Stage, *, examples: int, steps: int, repeatable: bool) -> None:
    run_state_machine_as_test(
        lambda: StoreMachine(stage),  # type: ignore[arg-type]
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=repeatable,
            # The shortest way to a failure takes minutes to find: that is for the long run.
            phases=[Phase.generate] if repeatable else [Phase.generate, Phase.shrink],
            database=None,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_store_does_what_the_model_does(stage: Stage) -> None:
    explore(stage, examples=EXAMPLES[stage.place.engine], steps=40, repeatable=True)


@pytest.mark.sim
@pytest.mark.timeout(1800)
def test_the_store_does_what_the_model_does_for_a_long_time(stage: Stage) -> None:
    explore(stage, examples=EXAMPLES[stage.place.engine] * 50, steps=80, repeatable=False)

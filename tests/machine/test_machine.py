"""Random operations on a store and on the model of it: the same answers, the same rows, and no invariant broken."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from machine.bugs import Bug
from machine.machine import StoreMachine
from machine.reached import EVERYTHING
from machine.seeded import BUGS
from machine.stage import Stage, Stages

KINDS = ["sqlite-1", "sqlite-8", "postgres-1", "postgres-8"]
EXAMPLES = {"sqlite": 60, "postgres": 40}
# One is a bug of the client, the other of what happens after weeks.
OUT_OF_SIGHT = {"resend with a new id", "the dead are pruned"}
MANY = {"sqlite": 1500, "postgres": 1000}


@pytest.fixture(params=KINDS)
def stage(request: pytest.FixtureRequest, stages: Stages) -> Stage:
    engine, partitions = str(request.param).split("-")
    return stages(engine, int(partitions))


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
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_store_does_what_the_model_does(stage: Stage) -> None:
    explore(stage, examples=EXAMPLES[stage.place.engine], steps=40, repeatable=True)


@pytest.mark.sim
@pytest.mark.timeout(3600)
def test_the_store_does_what_the_model_does_for_a_long_time(stage: Stage) -> None:
    explore(stage, examples=MANY[stage.place.engine], steps=80, repeatable=False)
    assert EVERYTHING - stage.reached == set()


@pytest.mark.sim
@pytest.mark.parametrize(
    "bug",
    [bug for bug in BUGS if "sqlite" in bug.engines and bug.name not in OUT_OF_SIGHT],
    ids=lambda bug: bug.name,
)
def test_the_machine_comes_upon_a_seeded_bug(
    bug: Bug, stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stages("sqlite")
    bug.switch_on("sqlite", monkeypatch)
    with pytest.raises(AssertionError):
        explore(stage, examples=1000, steps=40, repeatable=True)

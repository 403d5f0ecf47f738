"""Random graphs to which random things happen: after each of them a store stands where the reference does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from machine.stage import Stage, Stages
from support.stores import Databases
from workflows.machine import perform, shorten
from workflows.model import EVERYTHING
from workflows.seeded import BUGS, Bug
from workflows.stories import Story, stories

KINDS = ["sqlite-1", "sqlite-8", "postgres-1", "postgres-8"]
EXAMPLES = {"sqlite": 120, "postgres": 40}
MANY = {"sqlite": 1500, "postgres": 300}


@pytest.fixture(params=KINDS)
def stage(request: pytest.FixtureRequest, stages: Stages) -> Iterator[Stage]:
    engine, partitions = str(request.param).split("-")
    stage = stages(engine, int(partitions))
    if engine == "sqlite":
        yield stage
        return
    databases: Databases = request.getfixturevalue("databases")
    before = databases.server.log_text().count("deadlock detected")
    yield stage
    assert databases.server.log_text().count("deadlock detected") == before


def explore(stage: Stage, *, examples: int, acts: int, repeatable: bool) -> None:
    @settings(
        max_examples=examples,
        derandomize=repeatable,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(story=stories(acts=acts))
    def run(story: Story) -> None:
        try:
            perform(stage, story)
        except AssertionError as error:
            if not repeatable:
                error.add_note(f"It takes no more than {shorten(stage, story)}")
            raise

    run()


def test_steps_stand_where_the_reference_says(stage: Stage) -> None:
    explore(stage, examples=EXAMPLES[stage.place.engine], acts=40, repeatable=True)
    if stage.place.engine == "sqlite":  # where there are enough of them
        assert EVERYTHING - stage.reached == set()


@pytest.mark.sim
@pytest.mark.timeout(3600)
def test_steps_stand_where_the_reference_says_for_a_long_time(stage: Stage) -> None:
    explore(stage, examples=MANY[stage.place.engine], acts=60, repeatable=False)
    assert EVERYTHING - stage.reached == set()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_stories_come_upon_a_seeded_bug(
    bug: Bug, stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stages("sqlite")
    bug.switch_on(monkeypatch)
    with pytest.raises(AssertionError, match=bug.says):
        explore(stage, examples=200, acts=40, repeatable=True)

"""Open stores for the tests of one module: each kind once, emptied whenever it is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from machine.stage import Stages, open_stages


@pytest.fixture(scope="module")
def stages(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stages]:
    with open_stages(request, tmp_path_factory) as stages:
        yield stages

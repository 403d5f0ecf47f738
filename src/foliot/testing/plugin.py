"""The pytest plugin: fixtures, each of which a project may override in its conftest.py.

    foliot         the Harness of this test
    foliot_app     the app under test; by default the one that `foliot_app = "shop:app"` in the pytest settings names
    foliot_clock   its clock; by default it stands at the time when the test begins
    foliot_url     its store, empty and for this test alone; by default one in memory

It is loaded in every project where Foliot is installed, and imports nothing before a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from foliot import testing

if TYPE_CHECKING:
    from foliot.client.app import Foliot
    from foliot.testing.clock import ManualClock
    from foliot.testing.harness import Harness

_OPTION = "foliot_app"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_OPTION, "the Foliot app under test, for example shop:app", default="")


@pytest.fixture
def foliot_app(pytestconfig: pytest.Config) -> Foliot | None:
    """None: each test says `foliot.use(app)`."""
    target: str = pytestconfig.getini(_OPTION)
    if not target:
        return None
    app: Foliot = import_module("foliot.target").load_app(target)
    return app


@pytest.fixture
def foliot_clock() -> ManualClock:
    now = import_module("foliot.clock").SystemClock().now()
    return testing.ManualClock(now.replace(microsecond=0))


@pytest.fixture
def foliot_url() -> str | None:
    """None: in memory."""
    return None


@pytest.fixture
def foliot(
    foliot_app: Foliot | None, foliot_clock: ManualClock, foliot_url: str | None
) -> Iterator[Harness]:
    """The app on a store of its own, for the length of the test."""
    with testing.Harness(foliot_app, clock=foliot_clock, url=foliot_url) as harness:
        yield harness

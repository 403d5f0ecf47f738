"""An app as a project under test has it, and the fixtures of the plugin, whether it is installed or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from foliot import Foliot
from foliot.testing.plugin import foliot, foliot_clock, foliot_url

__all__ = ["foliot", "foliot_app", "foliot_clock", "foliot_url"]


@pytest.fixture
def foliot_app() -> Iterator[Foliot]:
    """Its own store must never be reached: there is no such host."""
    with Foliot("postgresql://nobody@there.invalid/none") as app:
        yield app

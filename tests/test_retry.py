"""When a failed attempt is followed by another."""

from __future__ import annotations

from typing import Any

import pytest

from foliot import Exponential, Fixed, Retry
from foliot.errors import InvalidValue


def test_waits_grow_up_to_their_cap() -> None:
    policy = Exponential(first=1, factor=2, cap=10)
    assert [policy.longest(failures) for failures in (1, 2, 3, 4, 5, 1000)] == [1, 2, 4, 8, 10, 10]
    slow = Exponential(first=3, factor=2.0, cap=10)
    assert [slow.longest(failures) for failures in (1, 2, 3, 5000)] == [3, 6, 10, 10]
    assert [Fixed(3).wait(failures, lambda most: most / 2) for failures in (1, 7)] == [3, 3]
    assert policy.wait(3, lambda most: most / 2) == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: Exponential(first=-1),
        lambda: Exponential(first=float("nan")),
        lambda: Exponential(factor=0.5),
        lambda: Exponential(first=10, cap=5),
        lambda: Exponential(cap=float("inf")),
        lambda: Fixed(-1),
        lambda: Fixed(1e300),
        lambda: Retry(after=float("inf")),
        lambda: Retry(after=1e12),
        lambda: Retry(after=-1),
    ],
)
def test_a_wait_that_makes_no_sense_is_refused(make: Any) -> None:
    with pytest.raises(InvalidValue, match="for example"):
        make()

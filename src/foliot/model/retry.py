"""When a failed attempt is followed by another."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from foliot.errors import LONGEST_WAIT, InvalidValue


class Exponential(msgspec.Struct, frozen=True, kw_only=True, tag="exponential"):
    """`first` seconds, then `factor` times as long each time, up to `cap`; the wait is drawn from zero to that."""

    first: float = 1.0
    factor: float = 2.0
    cap: float = 300.0

    def __post_init__(self) -> None:
        _check("first", self.first, 0, LONGEST_WAIT, "Exponential(first=1)")
        _check("factor", self.factor, 1, 1000, "Exponential(factor=2)")
        _check("cap", self.cap, self.first, LONGEST_WAIT, "Exponential(first=1, cap=300)")

    def wait(self, failures: int, up_to: Callable[[float], float]) -> float:
        """The wait after this many failures, in seconds; `up_to` draws from zero to a bound."""
        return up_to(self.longest(failures))

    def longest(self, failures: int) -> float:
        """The upper bound of that wait."""
        # The exponent is bounded so that a job with many attempts cannot overflow a float.
        return min(self.cap, self.first * self.factor ** min(failures - 1, 64))


class Fixed(msgspec.Struct, frozen=True, tag="fixed"):
    """The same wait every time."""

    seconds: float

    def __post_init__(self) -> None:
        _check("seconds", self.seconds, 0, LONGEST_WAIT, "Fixed(30)")

    def wait(self, failures: int, up_to: Callable[[float], float]) -> float:
        return self.seconds


StoredRetry = Exponential | Fixed  # what can be written down

# A function is told how often the job has failed and of what, and says how many seconds to wait; None: not again.
RetryFunction = Callable[[int, BaseException], float | None]
RetryPolicy = StoredRetry | RetryFunction


def ask(policy: RetryFunction, failures: int, error: BaseException) -> float | None:
    """What a function of the user says. Raises InvalidValue if that is no wait."""
    seconds = policy(failures, error)
    if seconds is None:
        return None
    _check("retry", seconds, 0, LONGEST_WAIT, "retry=lambda failures, error: 30 * failures")
    return float(seconds)


def _check(field: str, value: object, least: float, most: float, example: str) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value <= most:  # type: ignore[operator]
        raise InvalidValue(
            field, value, f"is not a number from {least:g} to {most:g}", example=example
        )

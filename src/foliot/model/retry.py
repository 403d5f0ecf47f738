"""When a failed attempt is followed by another."""

from __future__ import annotations

import msgspec


class Exponential(msgspec.Struct, frozen=True, kw_only=True):
    """`first` seconds, then `factor` times as long each time, up to `cap`; the wait is drawn from zero to that."""

    first: float = 1.0
    factor: float = 2.0
    cap: float = 300.0

    def longest(self, failures: int) -> float:
        """The upper bound of the wait after this many failures, in seconds."""
        # The exponent is bounded so that a job with many attempts cannot overflow a float.
        return min(self.cap, self.first * self.factor ** min(failures - 1, 64))


class Fixed(msgspec.Struct, frozen=True):
    """The same wait every time."""

    seconds: float

    def longest(self, failures: int) -> float:
        return self.seconds


RetryPolicy = Exponential | Fixed

"""What an app can be told about breakers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import partial

from foliot.breaker_commands import apply_breakers, check_breaker_name, options_of
from foliot.checks import check_errors, options_checked
from foliot.client.portal import Portal
from foliot.errors import InvalidValue
from foliot.registry import Registry


class Breaking:
    """The part of an app that is about breakers."""

    _home: Portal
    _registry: Registry

    @options_checked
    def breaker(
        self,
        name: str,
        *,
        failures: int = 5,
        window: float | timedelta = 60.0,
        ratio: float | None = None,
        open_for: float | timedelta = 30.0,
        longest: float | timedelta | None = None,
        probes: int = 1,
        successes: int = 1,
        release: str = "10/second",
        on: type[BaseException] | Iterable[type[BaseException]] | None = None,
    ) -> None:
        """When jobs with `breaker=name` stop, of any number of kinds: after so many `failures` within a `window` of
        seconds; with a `ratio`, only if they are at least that share of all attempts. They are held for `open_for`
        seconds, twice as long each time that it opens again, up to `longest` (600, or `open_for`). Then `probes` of
        them try; after so many `successes` the others follow, at first at the rate of `release`. `on`: the errors that
        count; else all but those of `no_retry`. Stored like what `app.queue` says."""
        check_breaker_name(name)
        options = options_of(
            failures=failures,
            window=window,
            ratio=ratio,
            open_for=open_for,
            longest=longest,
            probes=probes,
            successes=successes,
            release=release,
        )
        if on is not None:
            self._registry.breaks_on[name] = _counted(on)
        self._registry.breakers[name] = options
        self._home.tell(partial(apply_breakers, breakers={name: options}))


def _counted(on: object) -> tuple[type[BaseException], ...]:
    errors = check_errors(on, field="on")
    if not errors:
        example, hint = "on=(ConnectionError,)", "left out, all errors count"
        raise InvalidValue(
            "on", on, "names none, so no error would be counted", example=example, hint=hint
        )
    return errors

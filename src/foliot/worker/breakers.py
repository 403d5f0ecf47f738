"""What a worker knows of breakers: how jobs that have one ended, told to the store; and which must not start.

Healthy traffic tells nothing: successes are remembered here, and go along with a failure. What came through the gate
of a breaker that is not closed is told in any case: it decides whether it closes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from foliot.clock import Clock
from foliot.errors import StoreUnavailable
from foliot.ids import JobId
from foliot.model.breaker import Options, Report, State, Tally
from foliot.model.job import ClaimedJob, End, Outcome
from foliot.model.limit import BREAKER, HELD_FOR_LIMIT
from foliot.store.breaking import Shift
from foliot.store.port import Store, Wake

log = logging.getLogger("foliot.worker")
_MARK: Final = '"breaker"'  # in what a job brings along, if it has one
_PARTS: Final = 30  # of a window, in which successes are counted
_PAUSE: Final = 0.02  # seconds at least between two reports: what has come meanwhile goes together
_NEVER: Final = float("-inf")


class News(msgspec.Struct):
    """Of one breaker, what is not told yet. Times are those of the monotonic clock."""

    successes: dict[float, int] = {}  # by the time at which that part of the window began
    failures: int = 0
    failed: list[float] = []  # of those that came through the gate: when each began
    succeeded: list[float] = []
    retry_after: float | None = None
    error: str | None = None

    def report(self, now: float, window: float) -> Report:
        old = now - window
        tallies = [Tally(now - at, 0, count) for at, count in self.successes.items() if at > old]
        if self.failures:
            tallies.append(Tally(0.0, self.failures, 0))
        return Report(
            tallies=tuple(tallies),
            failed=tuple(now - at for at in self.failed),
            succeeded=tuple(now - at for at in self.succeeded),
            retry_after=self.retry_after,
            error=self.error,
        )

    def put_back(self, older: News) -> None:
        """It was not told. Successes as well: a ratio of failures alone would be wrong."""
        for at, count in older.successes.items():
            self.successes[at] = self.successes.get(at, 0) + count
        self.failures += older.failures
        self.failed += older.failed
        self.succeeded += older.succeeded
        self.retry_after = self.retry_after or older.retry_after
        self.error = self.error or older.error


class Seen:
    """Of one breaker."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.news = News()  # since the last report
        self.flying = 0  # failures of those that tried, told and not answered yet
        self.shut_at = _NEVER  # what was asked for before must not start
        self.shut_until = _NEVER  # until then it is taken not to be closed, unless it is told to be

    @property
    def telling(self) -> bool:
        return bool(self.news.failures or self.news.failed or self.news.succeeded)

    def succeed(self, now: float) -> None:
        """Asked for only where it opens by a ratio."""
        if self.options.ratio is None:
            return
        successes = self.news.successes
        at = now - now % (self.options.window / _PARTS)
        successes[at] = successes.get(at, 0) + 1
        if len(successes) > _PARTS + 1:
            del successes[min(successes)]

    def take(self) -> News:
        news, self.news = self.news, News()
        return news


class Breakers:
    def __init__(
        self,
        store: Store,
        declared: Mapping[str, Options],
        *,
        kinds: Mapping[str, str],
        clock: Clock,
        announce: Callable[[Wake], None],
    ) -> None:
        """`kinds` and their breakers, for jobs that were submitted when their kind had none."""
        self._store = store
        self._declared = declared
        self._kinds = kinds
        self._clock = clock
        self._announce = announce
        self._seen: dict[str, Seen] = {}
        # Its breaker, and if it came through the gate, when it began.
        self.started: dict[JobId, tuple[str, float | None]] = {}
        self._something = asyncio.Event()

    @property
    def any_kinds(self) -> bool:
        """Whether the app has any that stand behind one. Else only a job that brings more along may."""
        return bool(self._kinds)

    def stop(self, job: ClaimedJob, since: float) -> Outcome | None:
        """What becomes of a job that was asked for at `since`, if it must not start: its breaker has opened after it
        was claimed, or it is not known yet what the failure of the last one that tried does."""
        marked = job.more is not None and _MARK in job.more
        own = job.facts.extras.breaker if marked else None
        name = own or self._kinds.get(job.kind)
        if name is None:
            return None
        gate = f"{BREAKER}:{name}"
        if (seen := self._seen.get(name)) is not None:
            # Who did not bring its name along was not asked at the gate. Held for it once, it is from then on.
            strange = own is None and self._clock.monotonic() < seen.shut_until
            if strange or seen.news.failed or seen.flying or since <= seen.shut_at:
                return Outcome(job.id, job.fence, End.HOLD, reason=HELD_FOR_LIMIT, error=gate)
        began = self._clock.monotonic() if gate in job.gates else None
        self.started[job.id] = (name, began)
        return None

    def see(self, outcome: Outcome) -> None:
        """An attempt has ended that had `started`."""
        name, began = self.started.pop(outcome.id, (None, None))
        if name is None or not (outcome.breaks or outcome.end is End.SUCCEED):
            return
        seen = self._seen.get(name)
        if seen is None:
            seen = self._seen[name] = Seen(self._declared.get(name, Options()))
        news = seen.news
        tried = [] if began is None else [began]
        if outcome.breaks:
            news.failures += 1
            news.failed += tried
            news.error = outcome.error
            if outcome.retry_after is not None:
                news.retry_after = max(outcome.retry_after, news.retry_after or 0.0)
        else:
            seen.succeed(self._clock.monotonic())
            news.succeeded += tried
        if seen.telling:
            self._something.set()

    async def run(self) -> None:
        """Until cancelled."""
        pause = _PAUSE
        while True:
            await self._something.wait()
            try:
                await self.tell()
                pause = _PAUSE
            except StoreUnavailable as error:
                log.warning("breakers could not be told, trying again: %s", error)
                pause = min(pause * 2, 2.0)
            except Exception:
                log.exception("breakers could not be told, trying again")
                pause = min(pause * 2, 2.0)
            await self._clock.sleep(pause)

    async def tell(self) -> None:
        """All that there is to tell."""
        self._something.clear()
        for name, seen in list(self._seen.items()):
            if seen.telling:
                await self._tell(name, seen)

    async def _tell(self, name: str, seen: Seen) -> None:
        news = seen.take()
        report = news.report(self._clock.monotonic(), seen.options.window)
        seen.flying += len(report.failed)  # until it is known what that does, nothing starts
        try:
            shift = await self._store.breakers.report(name, report)
        except BaseException:
            seen.news.put_back(news)
            self._something.set()
            raise
        finally:
            seen.flying -= len(report.failed)
        seen.options = shift.after.options
        now, state = self._clock.monotonic(), shift.after.state
        if state is State.OPEN:
            seen.shut_at = now
        seen.shut_until = _NEVER if state is State.CLOSED else now + seen.options.longest
        self._note(shift)

    def _note(self, shift: Shift) -> None:
        after = shift.after
        for event in shift.events:
            if event == "breaker.opened":
                log.warning("%s %s: %s", event, after.name, after.reason)
            else:
                log.info("%s %s", event, after.name)
        if shift.moved:
            self._announce(Wake(due=True))

"""Harness: an app in a test, on a store in memory and a clock that stands still until the test moves it.

Jobs run when the test says so, one after the other, by the code that workers run: see by_hand.py. Nothing that the
app does in a test reaches its own store, nor does any other app (reach.py), and no test sees another's jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, Self, TypeAlias, TypeVar

from foliot.by_hand import LIMIT, MEMORY, Driver, Failure, Plan, settings_by_hand
from foliot.client.app import Foliot
from foliot.client.function import JobFunction
from foliot.client.handle import Handle
from foliot.client.portal import Portal
from foliot.errors import FoliotError, InvalidValue, UnknownKind
from foliot.ids import Ids, JobId
from foliot.model.job import Job, JobState, NewJob
from foliot.search import walk_jobs
from foliot.shown import redact
from foliot.store.port import Store
from foliot.testing.clock import ManualClock
from foliot.testing.reach import others_kept_out
from foliot.testing.sleeps import skipped
from foliot.testing.spans import read_span
from foliot.testing.submissions import list_jobs, payload_of, read_wanted

T = TypeVar("T")
Kind: TypeAlias = str | JobFunction[..., Any, Any]
Span: TypeAlias = float | str | timedelta
_SEED: Final = 1


class TestPortal(Portal):
    """The app's way into the store of one test. It knows what was submitted, in order."""

    __test__ = False
    by_hand = True

    def __init__(self, app: Foliot, clock: ManualClock, url: str) -> None:
        ids = Ids(clock=clock, seed=_SEED)
        super().__init__(settings_by_hand(app.settings, url), clock=clock, ids=ids)
        self.submitted: list[JobId] = []
        self.steps = 0  # of workflows

    def submit(self, jobs: Sequence[NewJob]) -> Future[list[JobId]]:
        self.submitted.extend(job.id for job in jobs)
        return super().submit(jobs)

    def act(self, work: Coroutine[Any, Any, T], *, count: int = 0) -> T:
        self.steps += count
        return super().act(work, count=count)

    async def aact(self, work: Coroutine[Any, Any, T], *, count: int = 0) -> T:
        self.steps += count
        return await super().aact(work, count=count)

    async def jobs(self) -> list[Job]:
        """All of them that there are: one whose key another had was never stored. Steps of workflows, what schedules
        have made and what hooks were told follow."""
        store = await self.store()
        found = [await store.jobs.get(id) for id in dict.fromkeys(self.submitted)]
        jobs = [job for job in found if job is not None]
        if self.steps or await store.schedules.count() or await store.events.listeners():
            known = set(self.submitted)
            others = [job async for page in walk_jobs(store) for job in page if job.id not in known]
            jobs += sorted(others, key=lambda job: job.id)
        return jobs


class Harness:
    """The pytest fixture `foliot`; elsewhere, `with Harness(app) as foliot:`."""

    def __init__(
        self,
        app: Foliot | None = None,
        *,
        clock: ManualClock | None = None,
        url: str | None = None,
    ) -> None:
        """`url`: an empty store for this test alone, instead of one in memory. It must have its tables."""
        self.clock = clock or ManualClock()
        self._url = MEMORY if url is None else url
        self.failures: list[Failure] = []
        self._ends = ExitStack()
        self._app: Foliot | None = None
        self._portal: TestPortal | None = None
        self._driver: Driver | None = None
        if app is not None:
            self.use(app)

    def use(self, app: Foliot) -> Self:
        """Test this app. Until the harness is closed it works on the test's store."""
        if not isinstance(app, Foliot):
            raise InvalidValue("app", app, "is not a Foliot app", example="foliot.use(app)")
        if self._app is not None and self._app is not app:
            raise FoliotError("another app is in use already", hint="a Harness is for one app")
        if self._app is None:
            self._app, self._portal = app, TestPortal(app, self.clock, self._url)
            self._ends.enter_context(app.moved(self._portal))
        return self

    @property
    def app(self) -> Foliot:
        if self._app is None:
            raise _no_app()
        return self._app

    def run_until_idle(self, *, limit: int | None = None, reraise: bool = False) -> int:
        """Run everything that is due, and what comes of it, while the clock stands still. Returns how many attempts
        that took; more than `limit`, by default 1,000 more than there are jobs, are an error. With `reraise`, stop at
        the first job that fails and raise what it raised; otherwise that is in `failures`, and a retry is ahead."""
        return self._run(self._plan(None, limit, reraise=reraise))

    async def arun_until_idle(self, *, limit: int | None = None, reraise: bool = False) -> int:
        return await self._arun(self._plan(None, limit, reraise=reraise))

    def advance(self, span: Span, *, limit: int | None = None, reraise: bool = False) -> int:
        """Move the clock by "3 days", a number of seconds or a timedelta, and run what becomes due on the way, each
        at its time; schedules fire at theirs. In a job that is running, it only moves the clock."""
        return self.advance_to(self._ahead(span), limit=limit, reraise=reraise)

    async def aadvance(self, span: Span, *, limit: int | None = None, reraise: bool = False) -> int:
        return await self.aadvance_to(self._ahead(span), limit=limit, reraise=reraise)

    def advance_to(
        self, moment: datetime, *, limit: int | None = None, reraise: bool = False
    ) -> int:
        if self._driver is not None:
            return self._move_only(moment)
        return self._run(self._plan(self._later(moment), limit, reraise=reraise))

    async def aadvance_to(
        self, moment: datetime, *, limit: int | None = None, reraise: bool = False
    ) -> int:
        if self._driver is not None:
            return self._move_only(moment)
        return await self._arun(self._plan(self._later(moment), limit, reraise=reraise))

    def skip_sleeps(self) -> None:
        """From now on `asyncio.sleep` and `time.sleep` in a job move the clock instead of taking time."""
        self._ends.enter_context(skipped(self.clock, self._tell_moved))

    def jobs(
        self, kind: Kind | None = None, *, state: str | None = None, queue: str | None = None
    ) -> list[Job]:
        """What was submitted in this test, first first, as it is now; then what schedules have made of themselves."""
        name = None if kind is None else self._kind(kind)
        wanted = None if state is None else _state(state)
        return [
            job
            for job in self._all()
            if name in (None, job.kind)
            and wanted in (None, job.state)
            and queue in (None, job.queue)
        ]

    @property
    def dead(self) -> list[Job]:
        """The dead-letter queue."""
        return self.jobs(state=JobState.DEAD)

    def payload(self, job: Job) -> dict[str, Any]:
        """The arguments of a job, as they are stored."""
        return payload_of(job)

    def result(self, job: Job | Handle[Any]) -> Any:
        """What it returned; raises as `handle.result()` does."""
        if isinstance(job, Handle):
            return job.result()
        return self.app.handle(job).result()

    def assert_submitted(
        self,
        kind: Kind,
        /,
        *,
        count: int | None = None,
        payload: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> list[Job]:
        """That jobs of this kind were submitted: `count` of them, or some; with these arguments, and with these options
        (queue="mail", delay=60, key=…). `payload` and `options` are for names that could be either. Returns them."""
        __tracebackhide__ = True
        found, wanted = self._find(kind, given, payload, options)
        if count is None and not found:
            raise AssertionError(f"{wanted} was not submitted; {list_jobs(self._all())}")
        if count is not None and len(found) != count:
            raise AssertionError(
                f"{wanted} was submitted {_times(len(found))}, not {_times(count)}; "
                + list_jobs(self._all())
            )
        return found

    def assert_not_submitted(
        self,
        kind: Kind,
        /,
        *,
        payload: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> None:
        __tracebackhide__ = True
        found, wanted = self._find(kind, given, payload, options)
        if found:
            raise AssertionError(f"{wanted} was submitted {_times(len(found))}; {list_jobs(found)}")

    def clear(self) -> None:
        """Forget all jobs. The clock stays where it is."""
        self._check_not_running()
        if self._url != MEMORY:
            raise FoliotError(f"{redact(self._url)} cannot be cleared: it is not in memory")
        self._open_portal().submitted.clear()
        self._open_portal().steps = 0
        self._open_portal().close()
        self.failures.clear()

    def close(self) -> None:
        """Give the app back its own store and clock."""
        self._ends.close()
        self._app = self._portal = None

    def __enter__(self) -> Self:
        self._ends.enter_context(others_kept_out(self._refuse))
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse(self) -> FoliotError:
        """What an app is told that is not in a test, instead of reaching its own store."""
        if self._app is None:
            return _no_app()
        return FoliotError(
            "this app is not the one under test, and its store is out of reach",
            hint="a Harness is for one app: with Harness(app): takes another into the test",
        )

    def _run(self, plan: Plan) -> int:
        _check_no_loop()
        portal = self._open_portal()
        store = portal.call(portal.store()) if self._url == MEMORY else None
        with self._driving(store) as driver:
            driver.run(plan)
        return driver.attempts

    async def _arun(self, plan: Plan) -> int:
        portal = self._open_portal()
        store = await portal.acall(portal.store()) if self._url == MEMORY else None
        with self._driving(store) as driver:
            await driver.arun(plan)
        return driver.attempts

    @contextmanager
    def _driving(self, store: Store | None) -> Iterator[Driver]:
        self._check_not_running()
        app = self.app
        self._driver = Driver(store, app.registry, app.settings, clock=self.clock, ids=app.ids)
        try:
            yield self._driver
        finally:
            self.failures += self._driver.failures
            self._driver = None

    def _plan(self, until: datetime | None, limit: int | None, *, reraise: bool) -> Plan:
        """What is submitted already comes to an end, however much it is; what is not might not."""
        portal = self._open_portal()
        count = LIMIT + len(portal.submitted) + portal.steps if limit is None else limit
        return Plan(until=until, limit=count, reraise=reraise)

    def _check_not_running(self) -> None:
        if self._driver is not None:
            raise FoliotError(
                "jobs are being run already", hint="in a job, foliot.advance() moves the clock"
            )

    def _open_portal(self) -> TestPortal:
        assert self.app is not None and self._portal is not None
        return self._portal

    def _ahead(self, span: Span) -> datetime:
        return self.clock.now() + timedelta(seconds=read_span(span))

    def _later(self, moment: datetime) -> datetime:
        example = "advance_to(datetime(2027, 1, 1, 9, tzinfo=UTC))"
        if not isinstance(moment, datetime) or moment.utcoffset() is None:
            raise InvalidValue(
                "moment", moment, "is not a datetime with a time zone", example=example
            )
        if moment < self.clock.now():
            raise InvalidValue(
                "moment", moment, f"is over: it is {self.clock.now()}", example=example
            )
        return moment

    def _move_only(self, moment: datetime) -> int:
        self.clock.advance((self._later(moment) - self.clock.now()).total_seconds())
        self._tell_moved()
        return 0

    def _tell_moved(self) -> None:
        if self._driver is not None:
            self._driver.clock_moved()

    def _all(self) -> list[Job]:
        portal = self._open_portal()
        return portal.call(portal.jobs())

    def _kind(self, kind: Kind) -> str:
        """Its name. One that was never heard of is a slip, and would make an assertion say nothing."""
        if isinstance(kind, JobFunction):
            return kind.definition.kind
        known = {*self.app.registry.kinds, *(job.kind for job in self._all())}
        if kind not in known:
            raise UnknownKind(kind, known=known)
        return kind

    def _find(
        self,
        kind: Kind,
        given: Mapping[str, Any],
        payload: Mapping[str, Any] | None,
        options: Mapping[str, Any] | None,
    ) -> tuple[list[Job], str]:
        name = self._kind(kind)
        definition = self.app.registry.get(name)
        wanted = read_wanted(name, definition, given, payload=payload, options=options)
        return [job for job in self._all() if wanted.fits(job)], str(wanted)


def _no_app() -> FoliotError:
    return FoliotError(
        "no app is named",
        hint='say foliot.use(app), or foliot_app = "shop:app" in the settings of pytest',
    )


def _state(state: str) -> JobState:
    try:
        return JobState(state)
    except ValueError:
        known = ", ".join(JobState)
        raise InvalidValue("state", state, f"is none of {known}") from None


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _check_no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise FoliotError(
        "an event loop is running here", hint="await the a-prefixed twin: arun_until_idle, aadvance"
    )

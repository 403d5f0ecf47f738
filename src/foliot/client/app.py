"""Foliot: one application's jobs and the store they go to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from types import ModuleType
from typing import Any, Self, TypeVar

from foliot import commands
from foliot.breaker_commands import apply_breakers
from foliot.by_hand import LIMIT
from foliot.checks import check_name, check_queue_options, options_checked
from foliot.client.breaking import Breaking
from foliot.client.connections.lending import Lending
from foliot.client.definer import Definer
from foliot.client.flowing import Flowing
from foliot.client.function import JobFunction, Prepared, check_resolved
from foliot.client.handle import Handle
from foliot.client.includes import Includes
from foliot.client.inline import InlinePortal
from foliot.client.jobs import Jobs
from foliot.client.limiting import Limiting
from foliot.client.measuring import Measuring
from foliot.client.portal import Portal
from foliot.client.scheduling import Scheduling
from foliot.clock import Clock, SystemClock
from foliot.commands import check_id
from foliot.config import Settings, load
from foliot.errors import FoliotError, InvalidValue
from foliot.ids import Ids, JobId
from foliot.life import Role
from foliot.limit_commands import apply_limits
from foliot.model.definition import JobDefinition
from foliot.model.job import Job, NewJob
from foliot.model.search import Count
from foliot.model.workflow import Rule
from foliot.options import fill
from foliot.queue_commands import apply_queues
from foliot.registry import Registry, check_hook
from foliot.search import count_jobs, list_jobs
from foliot.serve import embed, serve
from foliot.store.port import Store
from foliot.target import importing, place_of_app, running_script
from foliot.workflow_commands import follow

F = TypeVar("F", bound=Callable[..., Any])


class Foliot(Scheduling, Flowing, Limiting, Breaking, Measuring, Definer):
    """`Foliot()` reads FOLIOT_URL and foliot.toml, else it uses sqlite:///foliot.db in the current directory."""

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        include: Iterable[Jobs | ModuleType | str] = (),
        inline: bool = False,
    ) -> None:
        """`inline`: jobs run when they are submitted, in the calling thread, and nothing is stored. For tests."""
        settings = settings or load(flags={"store.url": url}).settings
        clock = clock or SystemClock()
        ids = ids or Ids(clock=clock)
        self._registry = Registry()
        self._includes = Includes(self._join)
        self._home = (
            InlinePortal(lambda: self.registry, settings)
            if inline
            else Portal(settings, clock=clock, ids=ids)
        )
        self._home.on_open = self._configure
        self._portal = self._home  # another one while the app is moved
        self._lending = Lending(self._home)
        self.include(*include)

    @property
    def settings(self) -> Settings:
        return self._portal.settings

    @property
    def clock(self) -> Clock:
        return self._portal.clock

    @property
    def ids(self) -> Ids:
        return self._portal.ids

    @property
    def largest_payload(self) -> int:
        return self._portal.settings.limits.payload

    @property
    def registry(self) -> Registry:
        """All jobs of the app; what is to be included is imported for it."""
        self._includes.load()
        return self._registry

    def include(self, *found: Jobs | ModuleType | str) -> None:
        """Take in the jobs of a collection, of a module, or of a module that is imported when it is needed."""
        for one in found:
            self._includes.add(one)

    def autodiscover(self, package: str, *, module: str = "jobs") -> None:
        """Take in the jobs of all modules of this name in a package and the packages within it, when needed."""
        self._includes.discover(package, module)

    @options_checked
    def queue(
        self,
        name: str,
        *,
        strategy: str | None = None,
        aging: float | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """In which order the jobs of a queue run: `app.queue("mail", strategy="round_robin", weights={"vip": 3})`.
        Stored before the app's next submission, and when its workers start, if it is not what code said before; what is
        not said stays as it is."""
        check_name("queue", name, example='app.queue("mail", strategy="fifo")')
        options = check_queue_options(strategy, aging, weights)
        self._registry.queues[name] = options
        self._home.tell(partial(apply_queues, queues={name: options}, by="code"))

    def on_startup(self, function: F) -> F:
        """`@app.on_startup`: call it once in each process that runs jobs, before the first. It may take the process's
        `state` and put into it what jobs find in `current_job().state`. If it fails, the worker does not start."""
        check_hook("on_startup", function, most=1)
        self._registry.hooks.startup.append(function)
        return function

    def on_shutdown(self, function: F) -> F:
        """`@app.on_shutdown`: call it after the last job, the last given first."""
        check_hook("on_shutdown", function, most=1)
        self._registry.hooks.shutdown.append(function)
        return function

    def middleware(self, function: F) -> F:
        """`@app.middleware`: call it around every job, as `function(job, call_next)`, the first given outermost. An
        `async def` is called around async jobs, any other around sync ones."""
        check_hook(
            "middleware", function, most=2, least=2, example="async def timing(job, call_next)"
        )
        self._registry.hooks.middleware.append(function)
        return function

    def submit(self, prepared: Prepared) -> Handle[Any]:
        [handle] = self.submit_many([prepared])
        return handle

    async def asubmit(self, prepared: Prepared) -> Handle[Any]:
        [handle] = await self.asubmit_many([prepared])
        return handle

    def submit_many(
        self, prepared: Iterable[Prepared], *, connection: Any = None
    ) -> list[Handle[Any]]:
        """Many at once; atomic within each partition, and with the default of one partition, as a whole. On a
        `connection` of yours, they exist if and only if its transaction commits."""
        calls = self._checked(prepared)
        if not calls:
            return []
        lent = self._lent(calls, connection)
        if any(call.choices.after is not None for call in calls):
            return self._handles(self._portal.act(self._follow(calls), count=len(calls)), calls)
        jobs = [self._new_job(call) for call in calls]
        if lent is not None:
            return self._handles(self._lending.submit(lent, jobs), calls)
        return self._handles(self._portal.submit(jobs).result(), calls)

    async def asubmit_many(
        self, prepared: Iterable[Prepared], *, connection: Any = None
    ) -> list[Handle[Any]]:
        calls = self._checked(prepared)
        if not calls:
            return []
        lent = self._lent(calls, connection)
        if any(call.choices.after is not None for call in calls):
            ids = await self._portal.aact(self._follow(calls), count=len(calls))
            return self._handles(ids, calls)
        jobs = [self._new_job(call) for call in calls]
        if lent is not None:
            return self._handles(await self._lending.asubmit(lent, jobs), calls)
        return self._handles(await self._portal.asubmit(jobs), calls)

    def get(self, id: str) -> Handle[Any]:
        """The handle of a job that was submitted earlier or elsewhere."""
        return Handle(check_id(id), portal=self._portal, clock=self.clock, registry=self._registry)

    def handle(self, job: Job) -> Handle[Any]:
        """The handle of a job that was read; its result comes in the type of the function's annotation."""
        definition = self.registry.get(job.kind)
        returns = Any if definition is None else definition.returns
        return Handle(
            job.id, portal=self._portal, clock=self.clock, registry=self._registry, returns=returns
        )

    def jobs(self, filter: str = "", *, limit: int = 100) -> list[Job]:
        """The newest jobs that a filter means, for example "state:dead kind:send_*": live, ended or dead ones."""
        return self._portal.call(self._jobs(filter, limit))

    async def ajobs(self, filter: str = "", *, limit: int = 100) -> list[Job]:
        return await self._portal.acall(self._jobs(filter, limit))

    def count(self, filter: str = "") -> Count:
        """How many jobs a filter means: an int, which is a lower bound where its `exact` is false."""
        return self._portal.call(self._count(filter))

    async def acount(self, filter: str = "") -> Count:
        return await self._portal.acall(self._count(filter))

    def run_worker(self) -> None:
        """Run a worker in this process until it is told to stop (SIGTERM or Ctrl-C)."""
        if importing():
            raise InvalidValue(
                "run_worker()",
                problem="is called while the app is being loaded, and must not be",
                example='if __name__ == "__main__": app.run_worker()',
            )
        if self._portal.by_hand:
            raise FoliotError(
                "this app runs its jobs by hand, in a store of its own in memory",
                hint="a worker has nothing to do for an app that is inline, or in a test",
            )
        self._portal.check_reach()
        role = Role(self.registry, duties=self.settings.worker.scheduler, target=running_script())
        serve(role, self.settings, clock=self.clock, ids=self.ids)

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        """Run a worker on this event loop for the length of a block: `async with app.worker():` in the lifespan of a
        web service. In tests and in inline mode there is none: jobs run by hand."""
        if self._portal.by_hand:
            yield
            return
        self._portal.check_reach()
        role = Role(self.registry, duties=self.settings.worker.scheduler, target=place_of_app(self))
        async with embed(role, self.settings, clock=self.clock, ids=self.ids):
            yield

    @contextmanager
    def inline(self, *, reraise: bool = False, limit: int = LIMIT) -> Iterator[None]:
        """In this block jobs run when they are submitted, in the calling thread, and are stored in memory. With
        `reraise`, `submit` raises what the function raised. More than `limit` further attempts are an error."""
        portal = InlinePortal(lambda: self.registry, self.settings, reraise=reraise, limit=limit)
        with self.moved(portal):
            yield

    @contextmanager
    def moved(self, portal: Portal) -> Iterator[None]:
        """In this block the app works through another portal: with its store, its clock, its ids."""
        before, self._portal = self._portal, portal
        try:
            yield
        finally:
            self._portal = before
            portal.close()

    def close(self) -> None:
        """Close the connections. What was submitted stays; the app opens again on its next use."""
        self._home.close()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def statements_waiting(self) -> int:
        """How many statements all waiting for results has cost so far, notifications included."""
        return self._portal.waiter.statements

    @property
    def submitter(self) -> Self:
        return self

    def _add(self, definition: JobDefinition) -> JobFunction[..., Any, Any]:
        self._registry.add(definition)
        return JobFunction(self, definition)

    def _join(self, jobs: Jobs) -> None:
        jobs.join(self, self._registry)

    def _new_job(self, call: Prepared) -> NewJob:
        return fill(call.template, call.payload, self.ids)

    async def _follow(self, calls: Sequence[Prepared]) -> list[JobId]:
        """Some of them wait for others, which is a transaction for each."""
        store = await self._portal.store()
        ids = []
        for call in calls:
            job = self._new_job(call)
            if call.choices.after is None:
                ids += await commands.submit(store, [job], keep=self.settings.retention.keys)
            else:
                rule = call.choices.rule or Rule.ALL_SUCCEEDED
                ids.append(
                    await follow(
                        store,
                        job,
                        call.choices.after,
                        rule=rule,
                        ids=self.ids,
                        limits=self.settings.limits,
                    )
                )
        return ids

    async def _jobs(self, filter: str, limit: int) -> list[Job]:
        return (await list_jobs(await self._portal.store(), filter, limit=limit)).jobs

    async def _count(self, filter: str) -> Count:
        return await count_jobs(await self._portal.store(), filter)

    def _checked(self, prepared: Iterable[Prepared]) -> list[Prepared]:
        calls = list(prepared)
        for position, call in enumerate(calls):
            if not isinstance(call, Prepared):
                raise InvalidValue(
                    f"submit_many()[{position}]",
                    call,
                    "is not a prepared call",
                    example="add.prepare(1, 2)",
                )
            check_resolved(call)
        if len(calls) > self.settings.limits.batch:
            raise InvalidValue(
                "submit_many()",
                problem=f"has {len(calls)} jobs, more than limits.batch, {self.settings.limits.batch}",
                hint="submit them in several calls",
            )
        return calls

    def _lent(self, calls: Sequence[Prepared], given: Any) -> Any:
        """The connection on which all are to be submitted, if any. A store that is driven by hand has none in common
        with the caller: there they are submitted at once."""
        own = [call.choices.connection for call in calls]
        wanted = given if given is not None else own[0]
        if all(one is wanted or (one is None and given is not None) for one in own):
            return None if self._portal.by_hand else wanted
        raise InvalidValue(
            "connection",
            problem="is not the same for all that is submitted together",
            example="submit_many(calls, connection=conn)",
        )

    def _handles(self, ids: Sequence[JobId], calls: Sequence[Prepared]) -> list[Handle[Any]]:
        return [
            Handle(
                id,
                portal=self._portal,
                clock=self.clock,
                registry=self._registry,
                returns=call.definition.returns,
            )
            for id, call in zip(ids, calls, strict=True)
        ]

    async def _configure(self, store: Store) -> None:
        await apply_queues(store, self._registry.queues, by="code")
        await apply_limits(store, self._registry.limits, by="code")
        await apply_breakers(store, self._registry.breakers)

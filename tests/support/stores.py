"""Stores to test: where each kind comes from, and one as tests use it, with short words for what they do often."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from foliot.clock import Clock
from foliot.config import StoreSettings
from foliot.ids import SLOTS, Ids, JobId, SessionId, partition_of
from foliot.model.job import Attempt, ClaimedJob, End, Job, JobState, NewJob, Outcome
from foliot.model.lane import lane_of
from foliot.model.session import NewSession
from foliot.store.admission import Admitted
from foliot.store.open import open_store, upgrade_store
from foliot.store.port import Reaped, Share, Store
from foliot.store.sqlite.migrations import MIGRATIONS
from foliot.testing.clock import ManualClock
from foliot.testing.postgres import TemporaryPostgres
from support.proxy import RotatingPooler

LEASE = 30.0
LOSS_LIMIT = 3
PARTITION = 5  # not the first, so that a forgotten partition shows

# Every row that a transaction changes in a hot table must be of one partition.
_ONE_PARTITION = """
CREATE FUNCTION public.stay_in_one_partition() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    here text := CASE TG_OP WHEN 'DELETE' THEN OLD.partition ELSE NEW.partition END;
    seen text := nullif(current_setting('foliot_test.partition', true), '');
BEGIN
    IF seen IS NULL THEN
        PERFORM set_config('foliot_test.partition', here, true);
    ELSIF seen <> here THEN
        RAISE EXCEPTION 'one transaction touches the partitions % and %', seen, here;
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER one_partition BEFORE INSERT OR UPDATE OR DELETE ON foliot.jobs
    FOR EACH ROW EXECUTE FUNCTION public.stay_in_one_partition();
CREATE TRIGGER one_partition BEFORE INSERT OR UPDATE OR DELETE ON foliot.history
    FOR EACH ROW EXECUTE FUNCTION public.stay_in_one_partition();
CREATE TRIGGER one_partition BEFORE INSERT OR UPDATE OR DELETE ON foliot.dead
    FOR EACH ROW EXECUTE FUNCTION public.stay_in_one_partition();
CREATE TRIGGER one_partition BEFORE INSERT OR UPDATE OR DELETE ON foliot.attempts
    FOR EACH ROW EXECUTE FUNCTION public.stay_in_one_partition();
CREATE TRIGGER one_partition BEFORE INSERT OR UPDATE OR DELETE ON foliot.workflows
    FOR EACH ROW EXECUTE FUNCTION public.stay_in_one_partition();
CREATE TRIGGER one_partition BEFORE INSERT OR UPDATE OR DELETE ON foliot.steps
    FOR EACH ROW EXECUTE FUNCTION public.stay_in_one_partition();
CREATE TRIGGER one_partition BEFORE INSERT OR UPDATE OR DELETE ON foliot.links
    FOR EACH ROW EXECUTE FUNCTION public.stay_in_one_partition();
CREATE TRIGGER one_partition BEFORE INSERT OR UPDATE OR DELETE ON foliot.followers
    FOR EACH ROW EXECUTE FUNCTION public.stay_in_one_partition();
CREATE TRIGGER one_partition BEFORE INSERT OR UPDATE OR DELETE ON foliot.schedules
    FOR EACH ROW EXECUTE FUNCTION public.stay_in_one_partition();
CREATE TRIGGER one_partition BEFORE INSERT OR UPDATE OR DELETE ON foliot.triggers
    FOR EACH ROW EXECUTE FUNCTION public.stay_in_one_partition();
CREATE TRIGGER one_partition BEFORE INSERT OR UPDATE OR DELETE ON foliot.versions
    FOR EACH ROW EXECUTE FUNCTION public.stay_in_one_partition();
CREATE TRIGGER one_partition BEFORE INSERT OR UPDATE OR DELETE ON foliot.ledger
    FOR EACH ROW EXECUTE FUNCTION public.stay_in_one_partition();
CREATE TRIGGER one_partition BEFORE INSERT OR UPDATE OR DELETE ON foliot.gaps
    FOR EACH ROW EXECUTE FUNCTION public.stay_in_one_partition();
CREATE TRIGGER one_partition BEFORE INSERT OR UPDATE OR DELETE ON foliot.outbox
    FOR EACH ROW EXECUTE FUNCTION public.stay_in_one_partition();
"""


class Place(msgspec.Struct, frozen=True):
    """An empty store with its schema, not opened yet."""

    engine: str
    settings: StoreSettings
    direct: str  # its address without pooler


NEWEST = len(MIGRATIONS)  # the version of a schema that is up to date
CLEANER = "cleaner"  # as what makes databases clean is called among the connections
# Deleting a test's few rows takes a tenth of the time of a new database.
_CLEAN = """
SET lock_timeout = '2s';
SET session_replication_role = replica; -- no triggers
DELETE FROM foliot.jobs;
DELETE FROM foliot.workflows;
DELETE FROM foliot.steps;
DELETE FROM foliot.signals;
DELETE FROM foliot.links;
DELETE FROM foliot.followers;
DELETE FROM foliot.limits;
DELETE FROM foliot.breakers;
DELETE FROM foliot.uses;
UPDATE foliot.rules SET version = version + 1;
DELETE FROM foliot.history;
DELETE FROM foliot.dead;
DELETE FROM foliot.attempts;
DELETE FROM foliot.fair;
DELETE FROM foliot.turns;
DELETE FROM foliot.definitions;
DELETE FROM foliot.queues;
DELETE FROM foliot.keys;
DELETE FROM foliot.logs;
DELETE FROM foliot.audit;
DELETE FROM foliot.schedules;
DELETE FROM foliot.triggers;
DELETE FROM foliot.versions;
DELETE FROM foliot.ledger;
DELETE FROM foliot.gaps;
DELETE FROM foliot.calendars;
DELETE FROM foliot.listeners;
DELETE FROM foliot.outbox;
DELETE FROM foliot.rollups;
DELETE FROM foliot.rollup_writers;
DELETE FROM foliot.sessions;
UPDATE foliot.leases SET holder = NULL, epoch = 0, expires_at = '-infinity';
"""
_SHAPE = """
SELECT string_agg(inhrelid::regclass::text, ' ' ORDER BY inhrelid::regclass::text),
       pg_relation_size('foliot.jobs') > 2000000
FROM pg_inherits WHERE inhparent = 'foliot.history'::regclass
"""


class Databases:
    """A PostgreSQL server with a template for each number of partitions; each test has a database to itself."""

    def __init__(self, server: TemporaryPostgres) -> None:
        self.server = server
        self._numbers = itertools.count(1)
        self._shapes: dict[str, tuple[object, ...] | None] = {}  # of the templates
        self._free: dict[str, list[str]] = {}
        self._cleaners: dict[str, psycopg.Connection[Any]] = {}

    def close(self) -> None:
        for name in list(self._cleaners):
            self._let_go(name)

    @asynccontextmanager
    async def borrow(self, partitions: int) -> AsyncIterator[str]:
        """The name of an empty database with its schema."""
        template = await self.template(partitions)
        free = self._free.setdefault(template, [])
        if not free:
            free.append(f"test_{next(self._numbers)}")
            self.server.create_database(free[-1], template)
        name = free.pop()
        try:
            yield name
        finally:
            if self._clean(name) == self._shapes[template]:
                free.append(name)
            else:
                self._let_go(name)
                self.server.drop_database(name)

    async def template(self, partitions: int) -> str:
        """The name of a database to copy."""
        name = f"template_{partitions}"
        if name not in self._shapes:
            url = self.server.create_database(name)
            await upgrade_store(StoreSettings(url=url), partitions=partitions)
            if partitions > 1:
                with psycopg.connect(url) as connection:
                    connection.execute(_ONE_PARTITION)
            self._shapes[name] = self._clean(name)
            self._let_go(name)  # nobody may be connected to what is copied
        return name

    def _clean(self, name: str) -> tuple[object, ...] | None:
        """Its shape then, by which one that a test has altered is told from a good one."""
        for _ in range(2):  # a test may have cut all connections
            try:
                connection = self._cleaner(name)
                connection.execute(_CLEAN)
                return connection.execute(_SHAPE).fetchone()
            except psycopg.Error:
                self._let_go(name)
        return None

    def _cleaner(self, name: str) -> psycopg.Connection[Any]:
        """Kept for the next time: a new one has to read the whole catalogue first, which takes ten times as long."""
        if name not in self._cleaners:
            url = self.server.url(name)
            self._cleaners[name] = psycopg.connect(url, autocommit=True, application_name=CLEANER)
        return self._cleaners[name]

    def _let_go(self, name: str) -> None:
        if (connection := self._cleaners.pop(name, None)) is not None:
            connection.close()


_new_files: dict[int, bytes] = {}  # by their number of partitions


async def make_sqlite(directory: Path, *, partitions: int = 1) -> str:
    """The URL of a new file with its schema: the first one is made, the others are copies of it."""
    path = directory / "foliot.db"
    url = f"sqlite:///{path}"
    if partitions in _new_files:
        path.write_bytes(_new_files[partitions])
    else:
        await upgrade_store(StoreSettings(url=url), partitions=partitions)
        _new_files[partitions] = path.read_bytes()
    return url


@asynccontextmanager
async def sqlite_place(directory: Path, *, partitions: int) -> AsyncIterator[Place]:
    url = await make_sqlite(directory, partitions=partitions)
    yield Place("sqlite", StoreSettings(url=url), url)


@asynccontextmanager
async def postgres_place(databases: Databases, *, partitions: int) -> AsyncIterator[Place]:
    async with databases.borrow(partitions) as name:
        url = databases.server.url(name)
        yield Place("postgres", StoreSettings(url=url), url)


@asynccontextmanager
async def pooled_place(
    databases: Databases, pooler: RotatingPooler, *, partitions: int
) -> AsyncIterator[Place]:
    async with databases.borrow(partitions) as name:
        settings = StoreSettings(url=pooler.url(name))
        yield Place("postgres", settings, databases.server.url(name))


class World:
    """One store, its clock, and the job `echo` in the queue `default` of one partition, unless said otherwise."""

    def __init__(self, place: Place, store: Store, clock: ManualClock, ids: Ids) -> None:
        self.place = place
        self.store = store
        self.clock = clock
        self.ids = ids
        self.partition = min(PARTITION, store.partitions - 1)
        self._others: list[Store] = []

    async def another_store(self, clock: Clock | None = None) -> Store:
        """A second one on the same data, as another process would have it."""
        store = await open_store(self.place.settings, clock=clock or self.clock, ids=self.ids)
        self._others.append(store)
        return store

    async def set_back(self, seconds: float) -> World:
        """The same, after its clock was set back."""
        clock = ManualClock(self.after(-seconds))
        return World(self.place, await self.another_store(clock), clock, self.ids)

    async def close(self) -> None:
        for store in (*self._others, self.store):
            await store.close()

    def after(self, seconds: float) -> datetime:
        return self.clock.now() + timedelta(seconds=seconds)

    def new_job(self, partition: int | None = None, **fields: Any) -> NewJob:
        where = self.partition if partition is None else partition
        # The last slot of the partition: one off in the routing, and it is in the next.
        slot = -(-(where + 1) * SLOTS // self.store.partitions) - 1
        id = self.ids.job(slot)
        assert partition_of(id, self.store.partitions) == where
        queue = str(fields.get("queue", "default"))
        given = {"kind": "echo", "payload": b"{}", "lane": lane_of(queue).number, **fields}
        return NewJob(id, **given)

    async def submit(self, *jobs: NewJob, **fields: Any) -> JobId:
        """One job of these fields, or these jobs; the first one's id."""
        batch = jobs or (self.new_job(**fields),)
        return (await self.store.jobs.submit(self.partition, batch))[0]

    async def submit_many(self, count: int, **fields: Any) -> list[JobId]:
        batch = [self.new_job(**fields) for _ in range(count)]
        return await self.store.jobs.submit(self.partition, batch)

    async def open_session(self, *, lease: float = LEASE, duties: bool = False) -> SessionId:
        id = self.ids.session()
        session = NewSession(
            id=id, host="here", pid=1, version="0", queues=(), kinds=("echo",), duties=duties
        )
        await self.store.sessions.open(session, lease=lease)
        return id

    async def claim(
        self, session: SessionId, room: int = 100, *, queues: Sequence[str] = ("default",)
    ) -> list[ClaimedJob]:
        shares = [share for queue in queues for share in await self._shares(queue, room)]
        cycle = await self.store.jobs.finish_and_claim(
            self.partition, session, shares=shares, room=room
        )
        assert cycle.refused == []
        return cycle.claimed

    async def _shares(self, queue: str, room: int) -> list[Share]:
        """The lane that clients know, unless the queue is served in another order."""
        lanes = [lane for _, lane in (await self.store.jobs.peek()).ready if lane.queue == queue]
        return [Share(lane, room) for lane in lanes or [lane_of(queue)]]

    async def run(self, session: SessionId, **fields: Any) -> ClaimedJob:
        """A new job that the session has claimed."""
        id = await self.submit(**fields)
        [job] = await self.claim(session, 1, queues=[str(fields.get("queue", "default"))])
        assert job.id == id
        return job

    def outcome(self, job: ClaimedJob, end: End) -> Outcome:
        """What a worker would say: a hold has its reason, a retry a delay."""
        reason = "unknown_kind" if end is End.HOLD else None
        return Outcome(
            job.id, job.fence, end, delay=60, reason=reason, order=job.order, gates=job.gates
        )

    async def finish(self, session: SessionId, *outcomes: Outcome) -> list[JobId]:
        """The ids that were refused."""
        cycle = await self.store.jobs.finish_and_claim(self.partition, session, outcomes=outcomes)
        assert cycle.claimed == []
        return cycle.refused

    async def end(
        self, session: SessionId, job: ClaimedJob, end: End = End.SUCCEED, **fields: Any
    ) -> None:
        """Must be accepted."""
        links = {"order": job.order, "gates": job.gates}
        outcome = Outcome(job.id, job.fence, end, **{**links, **fields})
        assert await self.finish(session, outcome) == []

    async def cancel(self, *ids: JobId) -> dict[JobId, JobState]:
        return await self.store.jobs.cancel(self.partition, ids)

    async def admit(self, limit: int = 100) -> list[int]:
        return await self.store.jobs.admit(self.partition, limit=limit)

    async def look(self, limit: int = 1000) -> list[Admitted]:
        """All that a duty would do for held jobs."""
        found: list[Admitted] = []
        more = True
        while more:
            admitted, more = await self.store.admission.look(self.partition, limit=limit)
            found += admitted
        return found

    async def reap(
        self, *sessions: SessionId, limit: int = 100, loss_limit: int = LOSS_LIMIT
    ) -> Reaped:
        return await self.store.jobs.reap(
            self.partition, sessions, limit=limit, loss_limit=loss_limit
        )

    def beat(self, session: SessionId, *executing: JobId, lease: float = LEASE) -> bool:
        heart = self.store.sessions.heart(session, lease=lease)
        try:
            return heart.extend(executing) is not None
        finally:
            heart.close()

    def expire(self) -> None:
        """No session that lives now will have, unless it is extended."""
        self.clock.advance(LEASE + 1)

    async def get(self, id: JobId) -> Job:
        job = await self.store.jobs.get(id)
        assert job is not None, f"{id} is gone"
        return job

    async def count(self) -> dict[JobState, int]:
        """Only the states that there are."""
        return {state: n for state, n in (await self.store.jobs.count()).items() if n}

    async def state(self, id: JobId) -> JobState:
        return (await self.get(id)).state

    async def attempts(self, id: JobId) -> list[Attempt]:
        return await self.store.jobs.attempts(id)


@asynccontextmanager
async def open_world(place: Place, clock: ManualClock, *, size: int = 4) -> AsyncIterator[World]:
    ids = Ids(clock=clock, seed=1)
    store = await open_store(place.settings, clock=clock, ids=ids, size=size)
    world = World(place, store, clock, ids)
    try:
        yield world
    finally:
        await world.close()

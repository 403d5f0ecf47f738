"""Strict order under random trouble: several sessions on several connections, all at once, with failures, retries,
cancels, lost sessions and expiry. The store itself writes down every claim and every end; a plain checker replays them.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Coroutine, Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec
import psycopg
import pytest

from foliot.ids import JobId, SessionId
from foliot.model.job import ClaimedJob, End, JobState, More, Outcome
from foliot.model.lane import Strategy
from foliot.store.port import Share, Store
from support.stores import LEASE, Place, World

pytestmark = pytest.mark.anyio

KEYS = ("a", "b", "c")
ENDS = (End.SUCCEED, End.SUCCEED, End.RETRY, End.RETRY, End.BURY, End.CANCEL, End.RELEASE)

_POSTGRES = """
CREATE TABLE public.replay (seq bigserial, what text, job text, key text);
CREATE FUNCTION public.replay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO public.replay (what, job, key) VALUES ('end', OLD.id, OLD.ordering_key);
        RETURN OLD;
    END IF;
    INSERT INTO public.replay (what, job, key)
    VALUES (CASE TG_OP WHEN 'INSERT' THEN 'submit' ELSE 'claim' END, NEW.id, NEW.ordering_key);
    RETURN NEW;
END $$;
CREATE TRIGGER replay_claim AFTER UPDATE ON foliot.jobs FOR EACH ROW
    WHEN (NEW.state = 'running' AND OLD.state <> 'running') EXECUTE FUNCTION public.replay();
CREATE TRIGGER replay_rest AFTER INSERT OR DELETE ON foliot.jobs FOR EACH ROW EXECUTE FUNCTION public.replay();
"""
_NO_POSTGRES = """
DROP TRIGGER replay_claim ON foliot.jobs;
DROP TRIGGER replay_rest ON foliot.jobs;
DROP FUNCTION public.replay();
DROP TABLE public.replay;
"""
_SQLITE = """
CREATE TABLE replay (seq INTEGER PRIMARY KEY, what TEXT, job TEXT, key TEXT);
CREATE TRIGGER replay_submit AFTER INSERT ON foliot_jobs
    BEGIN INSERT INTO replay (what, job, key) VALUES ('submit', new.id, new.ordering_key); END;
CREATE TRIGGER replay_claim AFTER UPDATE ON foliot_jobs WHEN new.state = 'running' AND old.state <> 'running'
    BEGIN INSERT INTO replay (what, job, key) VALUES ('claim', new.id, new.ordering_key); END;
CREATE TRIGGER replay_end AFTER DELETE ON foliot_jobs
    BEGIN INSERT INTO replay (what, job, key) VALUES ('end', old.id, old.ordering_key); END;
"""
_READ = "SELECT what, job, key FROM replay ORDER BY seq"

Event = tuple[str, str, str]


@contextmanager
def written_down(place: Place) -> Iterator[Any]:
    """Every submission, claim and end in the order of their commits, as far as one key is concerned."""
    if place.engine == "sqlite":
        with closing(sqlite3.connect(place.direct.removeprefix("sqlite:///"))) as file:
            file.executescript(_SQLITE)
            yield lambda: file.execute(_READ).fetchall()
        return
    with psycopg.connect(place.direct, autocommit=True) as link:
        link.execute(_POSTGRES)
        try:
            yield lambda: link.execute(_READ).fetchall()
        finally:
            link.execute(_NO_POSTGRES)


def check(events: list[Event]) -> int:
    """Of each key one job at a time, the first of those that are there. Returns how many claims there were."""
    live: dict[str, list[str]] = {}
    started: dict[str, str] = {}
    claims = 0
    for what, job, key in events:
        there = live.setdefault(key, [])
        if what == "submit":
            there.append(job)
        elif what == "claim":
            claims += 1
            assert started.get(key, job) == job, f"{job} began before {started[key]} had ended"
            assert job == min(there), f"{job} began before {min(there)}"
            started[key] = job
        else:
            there.remove(job)
            if started.get(key) == job:
                del started[key]
    return claims


class Trouble:
    """One world in which everything happens by the same chance."""

    def __init__(self, world: World, stores: list[Store], seed: int) -> None:
        self.world = world
        self.stores = stores
        self.chance = random.Random(seed)
        self.sessions: list[SessionId] = []
        self.held: dict[SessionId, list[ClaimedJob]] = {}
        self.ids: list[JobId] = []

    async def open_session(self) -> None:
        self.sessions.append(await self.world.open_session(lease=LEASE))

    async def submit(self) -> None:
        key = self.chance.choice(KEYS)
        delay = self.chance.choice([None, None, None, 5.0])
        more = More(
            ordering_key=key, fair_key=self.chance.choice([None, "x"]), expires_in=self._expiry()
        )
        self.ids.append(await self.world.submit(more=more, delay=delay, max_attempts=3))

    async def step(self) -> None:
        """Some of everything, at the same moment."""
        acts: list[Coroutine[Any, Any, object]] = [self._serve(one) for one in self.sessions]
        where = self.world.partition
        for store in self.stores:
            acts.append(store.admission.look(where, limit=3))
            acts.append(store.admission.walk(where, ("", ""), limit=10))
            acts.append(store.jobs.admit(where, limit=5))
        if self.ids and self.chance.random() < 0.3:
            acts.append(self.world.cancel(self.chance.choice(self.ids)))
        if self.chance.random() < 0.3:
            acts.append(self.world.store.admission.expire(where, limit=10))
        self.chance.shuffle(acts)
        await asyncio.gather(*acts)

    async def lose_a_session(self) -> None:
        lost = self.sessions.pop(0)
        self.held.pop(lost, None)
        for session in self.sessions:
            self.world.beat(session)
        self.world.clock.advance(LEASE / 2)
        for session in self.sessions:
            self.world.beat(session)
        self.world.clock.advance(LEASE / 2 + 1)
        await self.world.reap(lost)
        await self.open_session()

    async def _serve(self, session: SessionId, *, well: bool = False) -> bool:
        store = self.chance.choice(self.stores)
        done = self.held.pop(session, [])
        outcomes = [self._outcome(job, well=well) for job in done]
        lanes = {lane for _, lane in (await store.jobs.peek()).ready}
        cycle = await store.jobs.finish_and_claim(
            self.world.partition,
            session,
            outcomes=outcomes,
            shares=[Share(lane, 2) for lane in sorted(lanes, key=lambda lane: lane.number)],
            room=2,
        )
        self.held[session] = list(cycle.claimed)
        return bool(done or cycle.claimed)

    async def come_to_rest(self) -> None:
        """From now on all goes well: nothing may be left."""
        where, admission = self.world.partition, self.world.store.admission
        for _ in range(200):
            self.world.clock.advance(10)
            for session in self.sessions:
                self.world.beat(session)
            await admission.expire(where, limit=100)
            await self.world.admit(1000)
            await self.world.look()
            await admission.walk(where, ("", ""), limit=100)
            busy = [await self._serve(session, well=True) for session in self.sessions]
            counts = await self.world.count()
            if not any(busy) and not any(not state.final for state in counts):
                return
        raise AssertionError(f"something is left: {await self.world.count()}")

    def _outcome(self, job: ClaimedJob, *, well: bool) -> Outcome:
        end = End.SUCCEED if well else self.chance.choice(ENDS)
        outcome = Outcome(job.id, job.fence, end, delay=self.chance.choice([0.0, 3.0]))
        # Now and then the worker does not say whose turn is next: then others must see to it.
        told = self.chance.random() < 0.8
        return msgspec.structs.replace(outcome, order=job.order) if told else outcome

    def _expiry(self) -> float | None:
        return self.chance.choice([None, None, None, 20.0])


@pytest.mark.parametrize("place", ["sqlite-1", "postgres-8"], indirect=True)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("strategy", [Strategy.PRIORITY, Strategy.ROUND_ROBIN], ids=str)
async def test_jobs_of_a_key_run_one_at_a_time_in_their_order(
    world: World, strategy: Strategy, seed: int
) -> None:
    await world.store.queues.configure("default", strategy=strategy)
    stores = [world.store, *[await world.another_store() for _ in range(2)]]
    trouble = Trouble(world, stores, seed)
    with written_down(world.place) as events:
        for _ in range(3):
            await trouble.open_session()
        for number in range(60):
            await trouble.submit()
            await trouble.step()
            world.clock.advance(1)
            if number % 8 == 7:
                await trouble.lose_a_session()
        await trouble.come_to_rest()
        assert check(events()) > 20
    assert all(state.final for state in await world.count())
    assert JobState.SUCCEEDED in await world.count()


def test_the_checker_notices_two_at_once() -> None:
    events = [("submit", "1", "a"), ("submit", "2", "a"), ("claim", "1", "a"), ("claim", "2", "a")]
    with pytest.raises(AssertionError):
        check(events)


def test_the_checker_notices_the_wrong_order() -> None:
    events = [("submit", "1", "a"), ("submit", "2", "a"), ("claim", "2", "a")]
    with pytest.raises(AssertionError):
        check(events)

"""The way from any thread into the store: one background event loop per app, where submissions share commits.

A submission that arrives while another is on its way waits for its return and then goes together with all that
came meanwhile (sender.py). Whoever submits returns when their job is durable. After a lost reply the same jobs are sent
again; their ids make that safe.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeVar

from foliot import commands
from foliot.client.late import Late
from foliot.client.sender import KEY_WAIT, Sender, has_key
from foliot.client.waiter import Waiter
from foliot.clock import Clock, SystemClock
from foliot.config import Settings
from foliot.errors import FoliotError
from foliot.ids import Ids, JobId
from foliot.model.job import Job, NewJob
from foliot.store.guest import Guest
from foliot.store.open import open_guest, open_store
from foliot.store.port import Store, Wake

T = TypeVar("T")
_LEFT: Final[set[Portal]] = set()  # are open, and nobody has closed them so far
_UNDER_WAY: Final = 0.2  # seconds for what is nearly done when the interpreter ends
_PATIENCE: Final = 1.0  # seconds for all of that


class Portal:
    """Opened by its first use; `close` ends its thread and its connections, and whoever still waits is told."""

    by_hand = False  # whether jobs run only when somebody in this process says so
    on_open: Callable[[Store], Awaitable[object]] | None = None  # before the store is used
    kept_out: ClassVar[Callable[[], FoliotError] | None] = (
        None  # in tests, of every app that is not in one
    )

    def __init__(self, settings: Settings, *, clock: Clock, ids: Ids) -> None:
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self.late = Late(SystemClock())
        self._start_over()
        # A forked child inherits the state and not the thread behind it.
        os.register_at_fork(after_in_child=_weakly(self._start_over))

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def ids(self) -> Ids:
        return self._ids

    def _start_over(self) -> None:
        _LEFT.discard(self)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        self._guest: Guest | None = None
        self._opening: asyncio.Lock | None = None
        self._untold: deque[Callable[[Store], Awaitable[object]]] = deque()
        self._closing = False
        self._tasks: set[asyncio.Task[Any]] = set()  # of ours; the store has its own
        self._plain, self._keyed = self._new_sender(), self._new_sender()
        self._waiter: Waiter | None = None

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on the portal's loop and wait; for synchronous callers."""
        future = self._schedule(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C: nobody waits any more
            raise

    async def acall(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(self._schedule(work))

    def act(self, work: Coroutine[Any, Any, T], *, count: int = 0) -> T:
        """As `call`, for what may let jobs run; so many of them are new."""
        return self.call(work)

    async def aact(self, work: Coroutine[Any, Any, T], *, count: int = 0) -> T:
        return await self.acall(work)

    def submit(self, jobs: Sequence[NewJob]) -> Future[list[JobId]]:
        """Durable when the future is done."""
        done: Future[list[JobId]] = Future()
        # From here on it may be in the store: whoever stops waiting does not take it back.
        done.set_running_or_notify_cancel()
        keyed = has_key(jobs)
        with self._lock:
            loop = self._running_loop()
            sender = self._keyed if keyed else self._plain
            if sender.add((jobs, done)):
                loop.call_soon_threadsafe(self._start_flush, sender)
        return done

    async def asubmit(self, jobs: Sequence[NewJob]) -> list[JobId]:
        return await asyncio.wrap_future(self.submit(jobs))

    def tell(self, work: Callable[[Store], Awaitable[object]]) -> None:
        """Have this done before the store is used again; from any thread. Opening it does all that was told before."""
        self._untold.append(work)

    def check_reach(self) -> None:
        """Raises where a test keeps this app from its store: testing/reach.py."""
        if Portal.kept_out is not None and not self.by_hand:
            raise Portal.kept_out()

    async def store(self) -> Store:
        self.check_reach()
        if self._store is None or self._untold:
            if self._opening is None:
                self._opening = asyncio.Lock()
            async with self._opening:
                if self._store is None:
                    self._untold.clear()
                    self._store = await self._open_store()
                while self._untold:
                    await self._untold[0](self._store)
                    self._untold.popleft()
        return self._store

    async def _open_store(self) -> Store:
        store = await open_store(
            self._settings.store, clock=self._clock, ids=self._ids, key_wait=KEY_WAIT
        )
        try:
            if self.on_open is not None:
                await self.on_open(store)
        except BaseException:
            await store.close()
            raise
        return store

    async def wait(self, id: JobId, timeout: float | None) -> Job:
        """The job, when it has ended; on the portal's loop. Everybody's waiting is done together."""
        return await self.waiter.wait(id, timeout)

    @property
    def waiter(self) -> Waiter:
        if self._waiter is None:
            # Waiting takes real time, whatever clock the jobs are judged by.
            self._waiter = Waiter(self.store, self._start_task, clock=SystemClock(), ids=self._ids)
        return self._waiter

    async def guest(self) -> Guest:
        """The store as it is found behind connections of the caller's."""
        self.check_reach()
        if self._guest is None:
            self._guest = await open_guest(self._settings.store, clock=self._clock)
        return self._guest

    def wake(self, wake: Wake) -> None:
        """Send a hint; from any thread, without waiting."""

        async def send() -> None:
            (await self.store()).wake(wake)

        self._schedule(send())

    def close(self) -> None:
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            _LEFT.discard(self)
        if loop is None or thread is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(self._close_all(), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    async def _close_all(self) -> None:
        self._closing = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with self._lock:
            senders = self._plain, self._keyed
            self._plain, self._keyed = self._new_sender(), self._new_sender()
        for sender in senders:
            sender.close()
        self._closing = False
        await self._close_store()

    async def _close_store(self) -> None:
        self._guest = None
        store, self._store, self._opening = self._store, None, None
        self._waiter = None
        if store is not None:
            await store.close()

    def leave(self) -> None:
        """The interpreter ends, and nobody has closed it. Connections that are still open would complain."""
        if self._loop is not None:
            left = asyncio.run_coroutine_threadsafe(self._close_idle(), self._loop)
            with suppress(Exception):
                left.result(_PATIENCE)

    async def _close_idle(self) -> None:
        """Not while somebody waits: what he would be told he would print."""
        store = self._store
        if self._waiter is not None:
            self._waiter.look()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_UNDER_WAY)
        if self._tasks:
            return
        try:
            await self._close_store()
        except RuntimeError:
            # There are no threads any more to close a file in. It does not complain, and whoever uses it still may.
            self._store = store

    def _schedule(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            return asyncio.run_coroutine_threadsafe(self._run(work), self._running_loop())

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """The work, with its end by `close` told as an error of ours."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await work
        except asyncio.CancelledError:
            if not self._closing:
                raise  # the caller has stopped waiting
            raise FoliotError("the app was closed while this was waiting") from None
        finally:
            self._tasks.discard(task)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="foliot-portal", daemon=True
            )
            self._thread.start()
            _LEFT.add(self)
        return self._loop

    def _new_sender(self) -> Sender:
        return Sender(
            self._insert,
            self._start_task,
            self._is_partial,
            lock=self._lock,
            clock=self._clock,
            ids=self._ids,
        )

    def _start_flush(self, sender: Sender) -> None:
        self._start_task(sender.flush())

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _insert(self, jobs: Sequence[NewJob], *, resend: bool) -> list[JobId]:
        keep = self.settings.retention.keys
        return await commands.submit(await self.store(), jobs, resend=resend, keep=keep)

    def _is_partial(self, jobs: Sequence[NewJob]) -> bool:
        """Whether some of the jobs may be in partitions that were reached before the one that was not."""
        return len(jobs) > 1 and self._store is not None and self._store.partitions > 1


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    """The method, without keeping its object alive."""
    reference = weakref.WeakMethod(method)

    def call() -> None:
        alive = reference()
        if alive is not None:
            alive()

    return call


@atexit.register
def _leave() -> None:
    for portal in list(_LEFT):
        portal.leave()

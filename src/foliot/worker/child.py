"""The child's side of executors/process.py: import the app, start up, then run one job after the other.

The main thread runs the jobs; another one listens to the worker, so that a running job can be told something, and ends
everything when the worker is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType
from typing import Any, Final

from foliot.clock import SystemClock
from foliot.errors import Cancel, SoftTimeout
from foliot.ids import Ids
from foliot.loop import loop_factory
from foliot.model.job import ClaimedJob, Outcome
from foliot.registry import Registry
from foliot.store.port import Wake
from foliot.target import load_registry
from foliot.worker.capture import JOB_LINES
from foliot.worker.context import CURRENT, CurrentJob, Place, State
from foliot.worker.executors.wire import (
    Call,
    Done,
    Frames,
    FromChild,
    Leave,
    Ready,
    Said,
    Setup,
    Stop,
    ToChild,
    decode_to_child,
    frame,
)
from foliot.worker.hooks import shut_down, start_up
from foliot.worker.invoke import Interruptible, Recipe, SoftCancel, recipes
from foliot.worker.memory import limit_data
from foliot.worker.notes import Notes
from foliot.worker.run import (
    MemoryExceeded,
    Requested,
    describe,
    failure,
    settled,
    undescribed,
)
from foliot.worker.success import success
from foliot.worker.transaction import Desk

_REQUESTED: Final = "requested"
_AGAIN: Final = 0.01  # seconds until a job is told once more what it could not hear


class Line:
    """The socket to the worker."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = threading.Lock()
        self.messages: SimpleQueue[Setup | Call | Leave] = SimpleQueue()

    def send(self, message: FromChild) -> None:
        data = frame(message)
        with self._lock:
            self._socket.sendall(data)

    def listen(self, on_stop: Any) -> None:
        """Until the worker is gone. Then the job goes too, in the middle of whatever it does: it is given to others."""
        frames = Frames()
        try:
            while data := self._socket.recv(1 << 16):
                for body in frames.feed(data):
                    message: ToChild = decode_to_child(body)
                    if isinstance(message, Stop):
                        on_stop(message)
                    else:
                        self.messages.put(message)
        finally:
            if os.getpgrp() == os.getpid():
                os.killpg(0, signal.SIGKILL)
            os._exit(1)


class Child:
    def __init__(
        self, line: Line, setup: Setup, registry: Registry, runner: asyncio.Runner
    ) -> None:
        self._line = line
        self._settings = setup.settings
        self.registry = registry
        self._runner = runner
        self._recipes = recipes(registry)
        self._clock = SystemClock()
        self._ids = Ids(clock=self._clock)
        self._queues: dict[int, str] = {}
        self.state = State()
        notes = ChildNotes(setup.settings, self._clock, line, hear=self._hear)
        self._desk = Desk(
            setup.settings, setup.session, clock=self._clock, ids=self._ids, tell=_ignore
        )
        self._place = Place(setup.session, self._clock, notes, self._queues, self.state, self._desk)
        self._lock = threading.Lock()
        self._current: CurrentJob | None = None
        self._loops = False  # whether the current job runs on the event loop
        self._task: Interruptible | None = None
        self._early: BaseException | None = None  # for a task that is about to begin
        self._error: BaseException | None = None
        self._ahead: Stop | None = None  # of a job that has not begun here yet

    def run(self, call: Call) -> Outcome:
        job, recipe = call.job, self._recipes.get(call.job.kind)
        if recipe is None:
            raise LookupError(f"this process does not know the kind {job.kind}")
        self._queues[job.lane] = call.queue
        current = CurrentJob(job, self._place)
        current.begin()
        CURRENT.set(current)
        try:
            try:
                self._be_told(current, loops=recipe.definition.is_async)
                result = self._call(recipe, current, job)
            finally:
                self._be_told(None)
            if current.settled:
                return settled(job)
            return success(job, result, limit=self._settings.limits.result)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is how the attempt ended
            self._be_told(None)  # it may have been told while it was about to end
            if current.settled:
                return settled(job, error)
            return self._failed(job, recipe, Requested() if _is_told(current, error) else error)

    def stop(self, message: Stop) -> None:
        """Called by the listening thread: make the running job hear it, if it is still that one."""
        with self._lock:
            current = self._current
            if current is None or (current.id, current.fence) != (message.id, message.fence):
                self._ahead = message
                return
            if message.softly:
                current.timed_out = True
            else:
                current.cancelled = True
            if self._loops:
                self._throw(SoftCancel() if message.softly else asyncio.CancelledError())
                return
            error = self._error = SoftTimeout() if message.softly else Cancel(_REQUESTED)
        threading.Thread(target=self._insist, args=(error,), daemon=True).start()

    def on_signal(self, _number: int, frame: FrameType | None) -> None:
        """In the main thread, in the middle of whatever the job does."""
        # Without an error it was for a job that has just ended, or from outside: whoever stops all processes of a
        # service at once means the worker, and that one knows how long its jobs may take.
        if not _must_not_be_cut(frame):
            self._hear()

    def _hear(self) -> None:
        """Where the job's function can be told something, it is."""
        if threading.current_thread() is threading.main_thread():
            error, self._error = self._error, None
            if error is not None:
                raise error

    def _be_told(self, current: CurrentJob | None, *, loops: bool = False) -> None:
        """Whom `stop` is for from now on."""
        with self._lock:
            self._current, self._loops = current, loops
            self._error = self._early = None
            ahead, self._ahead = self._ahead, None
        if current is not None and ahead is not None:
            self.stop(ahead)

    def _throw(self, error: BaseException) -> None:
        """Never by a signal: that would leave the event loop in the middle of a step, with the task still in it."""
        if self._task is None:
            self._early = error
        else:
            self._runner.get_loop().call_soon_threadsafe(self._task.throw, error)

    def _insist(self, error: BaseException) -> None:
        """Until the job has heard it, or has ended."""
        pause = threading.Event()
        while self._error is error:
            os.kill(os.getpid(), signal.SIGTERM)
            pause.wait(_AGAIN)

    def _call(self, recipe: Recipe, current: CurrentJob, job: ClaimedJob) -> Any:
        limited = recipe.definition.memory
        if limited is not None:
            limit_data(limited)
        try:
            if recipe.definition.is_async:
                return self._runner.run(self._call_async(recipe, current, job))
            return recipe.invoke(current, job)
        except MemoryError as error:
            if limited is None:
                raise
            text = f"it wanted more memory than {limited >> 20} MiB"
            raise MemoryExceeded(text) from error
        finally:
            if limited is not None:
                limit_data(None)

    async def _call_async(self, recipe: Recipe, current: CurrentJob, job: ClaimedJob) -> Any:
        CURRENT.set(current)
        task = Interruptible(recipe.invoke(current, job))
        with self._lock:
            self._task = task
            if self._early is not None:
                asyncio.get_running_loop().call_soon(task.throw, self._early)
        try:
            return await task
        finally:
            with self._lock:
                self._task = None

    def _failed(self, job: ClaimedJob, recipe: Recipe, error: BaseException) -> Outcome:
        loss_limit = self._settings.worker.loss_limit
        try:
            return failure(job, recipe.definition, error, ids=self._ids, loss_limit=loss_limit)
        except BaseException as second:  # noqa: BLE001
            return undescribed(job, error, second)


class ChildNotes(Notes):
    """What jobs say goes to the worker at once; that one writes it to the store. Who has spoken listens."""

    def __init__(
        self, settings: Any, clock: SystemClock, line: Line, *, hear: Callable[[], None]
    ) -> None:
        super().__init__(settings, clock, wake=_nothing)
        self._line = line
        self._hear = hear

    def add_line(self, job: ClaimedJob, number: int, level: int, logger: str, message: str) -> None:
        super().add_line(job, number, level, logger, message)
        self._hear()

    def add_progress(self, job: ClaimedJob, fraction: float, message: str | None) -> None:
        super().add_progress(job, fraction, message)
        self._hear()

    def put_line(self, line: Any) -> None:
        self._line.send(Said(line=line))

    def put_progress(self, progress: Any) -> None:
        self._line.send(Said(progress=progress))


def main() -> None:
    os.dup2(2, 1)  # whatever a job prints goes to the worker's log
    line = Line(socket.socket(fileno=int(sys.argv[2])))
    os.set_inheritable(int(sys.argv[2]), False)  # noqa: FBT003 - its name says it
    stops: list[Any] = []
    # Before the app: loading it may take for ever, and the worker may be gone by then.
    listener = threading.Thread(
        target=line.listen, args=(lambda stop: stops[-1](stop) if stops else None,), daemon=True
    )
    listener.start()
    setup = line.messages.get()
    assert isinstance(setup, Setup)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        child = _begin(line, setup, runner)
        if child is not None:
            stops.append(child.stop)
            signal.signal(signal.SIGTERM, child.on_signal)
            line.send(Ready())  # from now on there may be something to stop
        _serve(line, child)
        if child is not None:
            runner.run(shut_down(child.registry.hooks, child.state))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _begin(line: Line, setup: Setup, runner: asyncio.Runner) -> Child | None:
    """None if the app cannot be loaded or started: then the worker is told why."""
    try:
        registry = load_registry(sys.argv[1])
        _start_logging(setup)
        child = Child(line, setup, registry, runner)
        runner.run(start_up(registry.hooks, child.state))
    except BaseException as error:  # noqa: BLE001 - a script may do anything when it is loaded
        text, trace = describe(error)
        line.send(Ready(f"the app could not be loaded: {text}", trace))
        return None
    JOB_LINES.start()
    return child


def _serve(line: Line, child: Child | None) -> None:
    while isinstance(message := line.messages.get(), Call):
        if child is not None:
            line.send(Done(child.run(message)))


def _start_logging(setup: Setup) -> None:
    """As in the worker, unless the app has set up its own."""
    logging.basicConfig(
        level=setup.settings.log.level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)-7s %(name)s %(message)s",
    )


def _is_told(current: CurrentJob, error: BaseException) -> bool:
    """Whether this is what the function was told, come back."""
    ours = isinstance(error, Cancel) and error.reason == _REQUESTED
    return current.cancelled and (ours or isinstance(error, asyncio.CancelledError))


def _must_not_be_cut(frame: FrameType | None) -> bool:
    """Half a message would make the worker misread all that follow, and `logging` swallows what is raised in it."""
    while frame is not None:
        if frame.f_code is Line.send.__code__ or frame.f_code.co_filename == logging.__file__:
            return True
        frame = frame.f_back
    return False


def _ignore(_: Wake) -> None:
    """Workers find what was submitted here by polling."""


def _nothing() -> None:
    """There is nobody to wake."""


if __name__ == "__main__":
    main()

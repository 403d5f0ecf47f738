"""Processes that are killed at one statement after the other of what they have to say to the store about a workflow.

    python -m acceptance.victims submit        one after the other
    python -m acceptance.victims submit 3      one that is stopped before its third statement, and may go on

Each begins a workflow in a queue of its own, and is killed before the first, the second … statement, and before the
commit; the last is spared. How many were killed is written to standard output.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from acceptance.graphs import graphs
from foliot.cli.main import main as foliot
from foliot.client.workflow import Flow
from foliot.model.job import NewJob
from foliot.store import adding, following, growing, steering
from foliot.store.flowing import Talk
from foliot.store.postgres import ends as postgres_ends
from foliot.store.reply import Reply, Rows
from foliot.store.sqlite import ends as sqlite_ends

SPARED = 7  # the exit code of a worker that came to the end of its conversations
Draw = Callable[[Flow, str], None]
Begin = Callable[[], None]  # from here on it may be killed
Act = Callable[[str, Begin], None]


class Fate:
    """Reaches this process before the statement of this number, of those in the conversations that it listens to."""

    def __init__(self, number: int, sent: signal.Signals, conversations: int | None) -> None:
        self._left = number
        self._sent = sent
        self._conversations = conversations

    def count(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), self._sent)

    def listen(self, place: object, name: str) -> None:
        """To what this function says."""
        lead: Callable[..., Awaitable[Any]] = getattr(place, name)

        async def led(talk: Talk, *rest: Any) -> Any:
            told = await lead(_Listening(talk, self), *rest)
            self.count()  # all was said, and nothing is committed
            self._end()
            return told

        setattr(place, name, led)

    def _end(self) -> None:
        if self._conversations is not None:
            self._conversations -= 1
            if self._conversations == 0:
                os._exit(SPARED)


class _Listening:
    """A transaction of the store, each statement of which is counted."""

    def __init__(self, talk: Talk, fate: Fate) -> None:
        self._talk = talk
        self._fate = fate

    async def ask(self, name: str, /, **values: object) -> Rows:
        self._fate.count()
        return await self._talk.ask(name, **values)

    def say(self, name: str, /, **values: object) -> Reply:
        self._fate.count()
        return self._talk.say(name, **values)

    async def hear(self) -> None:
        self._fate.count()
        await self._talk.hear()

    def expect(self, steps: int) -> None:
        self._talk.expect(steps)

    async def insert(self, jobs: Sequence[NewJob]) -> None:
        self._fate.count()
        await self._talk.insert(jobs)

    async def cancel(self, ids: Sequence[str], flows: Sequence[str]) -> None:
        self._fate.count()
        await self._talk.cancel(ids, flows)


def drawn(draw: Draw, queue: str) -> Flow:
    """Its key is the queue, so that everybody knows its id."""
    flow = graphs.app.workflow("victim", key=queue)
    draw(flow, queue)
    return flow


def submit(queue: str, begin: Begin) -> None:
    begin()
    drawn(graphs.fan, queue).submit()


def cancel(queue: str, begin: Begin) -> None:
    flow = drawn(graphs.fan, queue).submit()
    begin()
    flow.cancel()


def follow(queue: str, begin: Begin) -> None:
    step = graphs.step.options(queue=queue)
    first = step.submit()
    begin()
    step.options(after=[first]).submit()


def work(draw: Draw) -> Act:
    def act(queue: str, begin: Begin) -> None:
        drawn(draw, queue).submit()
        graphs.app.close()
        begin()
        foliot(["worker", "acceptance.graphs:app", "--child", "--no-scheduler", "--queues", queue])

    return act


class Case(msgspec.Struct, frozen=True):
    """What a process does, and which functions lead the conversations in which it is killed. A worker is spared after
    so many of them; others come to an end by themselves."""

    act: Act
    led_by: tuple[tuple[object, str], ...]
    conversations: int | None = None


ENDS = ((postgres_ends, "end"), (sqlite_ends, "end"))
CASES = {
    "submit": Case(submit, ((growing, "submit"),)),
    "follow": Case(follow, ((following, "follow"),)),
    "cancel": Case(cancel, ((steering, "cancel"),)),
    "map": Case(work(graphs.fan), ((adding, "add"),), conversations=1),
    "add": Case(work(graphs.grown), ((adding, "add"),), conversations=2),
    "end": Case(work(graphs.diamond), ENDS, conversations=3),
    "stop": Case(work(graphs.failing), ((steering, "advance"),), conversations=1),
}


def queue_of(case: str, number: int) -> str:
    return f"{case}-{number}"


def live(name: str, number: int, sent: signal.Signals) -> None:
    case = CASES[name]
    fate = Fate(number, sent, case.conversations if sent is signal.SIGKILL else None)

    def begin() -> None:
        for place, leader in case.led_by:
            fate.listen(place, leader)

    case.act(queue_of(name, number), begin)


def is_killed(name: str, number: int) -> bool:
    """Forked, as to start Python takes longer than all that it lives for."""
    if (child := os.fork()) == 0:
        live(name, number, signal.SIGKILL)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) == signal.SIGKILL
    assert os.WEXITSTATUS(status) in (0, SPARED), status
    return False


def main() -> None:
    name, *rest = sys.argv[1:]
    if rest:
        live(name, int(rest[0]), signal.SIGSTOP)
        return
    number = 1
    while is_killed(name, number):
        number += 1
    print(number - 1)


if __name__ == "__main__":
    main()

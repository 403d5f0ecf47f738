"""Jobs that are steps of workflows, and the workflows that the acceptance tests draw of them."""

from __future__ import annotations

import asyncio

from acceptance.jobs import Jobs, is_open, write
from foliot import Fixed, Foliot, current_job
from foliot.client.workflow import Flow

ALWAYS = 99  # more failures than there are attempts
OPEN = "/"  # a gate that is


async def step(failures: int = 0, seconds: float = 0.0) -> int:
    """Succeeds in the end, unless it fails more often than it may."""
    write("start")
    await asyncio.sleep(seconds)
    if current_job().attempt <= failures:
        raise ValueError("not this time")
    write("end")
    return failures


async def fragile(gate: str, seconds: float = 0.0) -> None:
    """Fails for as long as the gate is shut, however often it is tried again."""
    write("start")
    await asyncio.sleep(seconds)
    if not is_open(gate):
        raise ValueError("not yet")
    write("end")


async def numbers(count: int) -> list[int]:
    write("start")
    write("end")
    return list(range(count))


async def double(number: int, gate: str = OPEN) -> int:
    write("start")
    while not is_open(gate):  # noqa: ASYNC110 - opened by another process
        await asyncio.sleep(0.01)
    write("end")
    return 2 * number


async def total(numbers: list[int]) -> int:
    write("start")
    write("end")
    return sum(numbers)


async def grow(count: int, queue: str) -> int:
    """Adds steps, which what comes after it waits for."""
    write("start")
    for number in range(count):
        await current_job().flow.aadd(graphs.double.options(queue=queue).prepare(number))
    write("end")
    return count


class Graphs:
    """Workflows of one app. Each is drawn in a queue, so that a worker can have one to itself."""

    def __init__(self, app: Foliot) -> None:
        self.app = app
        self.step = app.job(max_attempts=2, retry=Fixed(0.05))(step)
        self.fragile = app.job(max_attempts=2, retry=Fixed(0.05))(fragile)
        self.numbers = app.job(numbers)
        self.double = app.job(double)
        self.total = app.job(total)
        self.grow = app.job(grow)

    def diamond(self, flow: Flow, queue: str) -> None:
        step = self.step.options(queue=queue)
        root = flow.add(step.prepare(), name="root")
        sides = [flow.add(step.prepare(), name=name, after=[root]) for name in ("left", "right")]
        flow.add(step.prepare(), name="join", after=sides)

    def fan(self, flow: Flow, queue: str) -> None:
        """Elements that are known only when it runs, and some that are known before."""
        double = self.double.options(queue=queue)
        numbers = flow.add(self.numbers.options(queue=queue).prepare(3))
        found = flow.map(double, over=numbers.result, name="found")
        known = flow.map(double, over=[5, 6], name="known", after=[numbers])
        flow.add(self.total.options(queue=queue).prepare(found.result), after=[known])

    def grown(self, flow: Flow, queue: str) -> None:
        root = flow.add(self.grow.options(queue=queue).prepare(2, queue))
        flow.add(self.step.options(queue=queue).prepare(), name="join", after=[root])

    def failing(self, flow: Flow, queue: str) -> None:
        """One step fails while another runs, which ends only when it is asked to."""
        step = self.step.options(queue=queue, max_attempts=1)
        bad = flow.add(step.prepare(ALWAYS, 0.1), name="bad")
        slow = flow.add(self.double.options(queue=queue).prepare(1, "/nowhere"), name="slow")
        flow.add(step.prepare(), name="never", after=[slow])
        flow.add(step.prepare(), name="told", after=[bad, slow], rule="all_done")


graphs = Graphs(Jobs().app)
app = graphs.app

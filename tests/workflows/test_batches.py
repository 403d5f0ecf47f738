"""How a graph is sent to a store: in statements of a size that every store takes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from foliot.ids import Ids, JobId
from foliot.model.job import More, NewJob
from foliot.model.workflow import NewStep, NewWorkflow
from foliot.store import adding
from foliot.store.growing import submit
from foliot.store.guest import at_once
from foliot.store.reply import Reply, Rows


class Counting:
    """A conversation with nobody: how much was said in each statement."""

    def __init__(self) -> None:
        self.said: list[int] = []

    async def ask(self, name: str, /, **values: object) -> Rows:
        if name == "insert_steps":
            self.said.append(len(str(values["rows"])))
        return [("there",)] if name == "insert_workflow" else []

    def say(self, name: str, /, **values: object) -> Reply:
        return Reply(at_once(self.ask(name, **values)))

    async def hear(self) -> None: ...

    def expect(self, steps: int) -> None: ...

    async def insert(self, jobs: Sequence[NewJob]) -> None: ...

    async def cancel(self, ids: Sequence[str], flows: Sequence[str]) -> None: ...


def test_steps_with_large_payloads_are_sent_in_several_statements() -> None:
    ids = Ids(seed=1)
    id = ids.job()
    payload = b'"' + b"x" * (1 << 20) + b'"'
    steps = tuple(
        NewStep(name=f"s{n}", job=NewJob(ids.job(), "echo", payload, 0, more=More(workflow=id)))
        for n in range(40)
    )
    talk = Counting()
    assert at_once(submit(talk, NewWorkflow(id=id, name="large", steps=steps)))
    assert len(talk.said) > 1
    assert max(talk.said) < 20 << 20 and sum(talk.said) > 40 << 20


def test_whether_steps_may_close_a_cycle_takes_as_long_as_there_are_steps() -> None:
    map_step = JobId("map")
    steps = [
        NewStep(
            name=f"m[{number}]",
            job=NewJob(JobId(f"{number}"), "kind", b"{}", 0),
            parents=(map_step,),
            into=None,
            mapped=map_step,
            added_by=map_step,
        )
        for number in range(50_000)
    ]
    began = time.process_time()
    assert not adding._may_close_a_cycle(steps, {})
    assert time.process_time() - began < 2

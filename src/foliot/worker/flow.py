"""What a running step may ask of its workflow: to have steps added to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NoReturn

import msgspec

from foliot.checks import check_rule
from foliot.errors import FoliotError, InvalidValue, NotRunning
from foliot.ids import JobId, partition_of, slot_of
from foliot.model.job import ClaimedJob, JobState, Parent
from foliot.model.workflow import AddedStep, NewStep, Rule, number_in
from foliot.store.port import Store
from foliot.worker.transaction import Desk, Submittable
from foliot.workflow_check import check_parents, check_step_choices, check_step_name
from foliot.workflow_commands import add_steps, unknown_step
from foliot.workflow_map import as_step
from foliot.workflow_refs import HasResult, check_given, find_refs, has_refs, index_of

Named = Any  # a step: its name, or whatever has one


class CurrentFlow:
    """The workflow of the running step."""

    def __init__(self, job: ClaimedJob, desk: Desk | None) -> None:
        workflow = job.facts.workflow
        if workflow is None:
            raise FoliotError(
                "this job is not a step of a workflow",
                hint="submit it by app.workflow(…), or others after it by options(after=[…])",
            )
        self.id = workflow
        self._job = job
        self._desk = desk
        self._given: set[str] = set()  # names that somebody chose, by this attempt
        self._numbers: dict[str, int] = {}  # the last of the others with each name
        self._turn = asyncio.Lock()  # one name after the other

    def add(
        self,
        call: Submittable,
        *,
        after: Iterable[Named] | None = None,
        before: Iterable[Named] | None = None,
        name: str | None = None,
        rule: str = Rule.ALL_SUCCEEDED,
    ) -> AddedStep:
        """Add a step; durable when this returns. It runs after this one, and what comes after this one waits for it as
        well; unless `after` says what it runs after, and `before` what waits for it. An attempt that adds what one
        before it had added, adds nothing: the names tell, by default the kind, kind-2, kind-3 in order."""
        return self._reach().ask_and_wait(self._adding(call, after, before, name, rule))

    async def aadd(
        self,
        call: Submittable,
        *,
        after: Iterable[Named] | None = None,
        before: Iterable[Named] | None = None,
        name: str | None = None,
        rule: str = Rule.ALL_SUCCEEDED,
    ) -> AddedStep:
        return await self._reach().ask(self._adding(call, after, before, name, rule))

    def map(self, *_: object, **__: object) -> NoReturn:
        """Not here, as the two below: what a running step adds are jobs."""
        add = "for one in rows: current_job().flow.add(load.prepare(one))"
        raise _only_drawn("map", f"{add}, or draw a map over what this step returns")

    def wait_for(self, *_: object, **__: object) -> NoReturn:
        own = "submit a workflow of its own: app.workflow(…)"
        raise _only_drawn("wait_for", f"draw the wait for the signal before, or {own}")

    def sleep(self, *_: object, **__: object) -> NoReturn:
        raise _only_drawn("sleep", "current_job().flow.add(load.options(delay=60).prepare(…))")

    def _reach(self) -> Desk:
        if self._desk is None:
            raise FoliotError(
                "steps cannot be added here: there is no store behind this job",
                hint="in a test, have the harness run the workflow",
            )
        return self._desk

    def _adding(
        self,
        call: Submittable,
        after: Iterable[Named] | None,
        before: Iterable[Named] | None,
        name: str | None,
        rule: str,
    ) -> Callable[[Store], Awaitable[AddedStep]]:
        """Checked now, done when the store is there."""
        if not hasattr(call, "template") or not hasattr(call, "payload"):
            raise _no_call(call)
        check_step_choices(call.choices)
        wanted = check_rule(rule)
        above, below = self._names("after", after), self._names("before", before)
        check_given(call.template.kind, call.payload, self.id)
        if name is not None:
            check_step_name(name)
        refs = find_refs(msgspec.json.decode(call.payload)) if has_refs(call.payload) else []
        check_parents(wanted, [self._job.id] if above is None else [*above, *refs])
        desk = self._reach()

        async def add(store: Store) -> AddedStep:
            named = {"after": above or [], "reference": [s for s, _ in refs], "before": below or []}
            found = await _find(store, self.id, named)
            called, since = name or call.template.kind, 1
            if name is None:
                since = self._numbers.get(called, 0) + 1
            parents = [self._job.id] if above is None else found["after"]
            parents += found["reference"]
            into = None if above is None and below is None else tuple(found["before"])
            job = as_step(
                call.template,
                id=desk.ids.job(slot_of(self.id)),
                payload=call.payload,
                step=called,
                workflow=self.id,
                parents=bool(parents),
                refs=bool(refs),
            )
            new = NewStep(
                name=called,
                job=job,
                rule=wanted,
                parents=tuple(dict.fromkeys(parents)),
                into=into,
                added_by=self._job.id,
                besides=frozenset(self._given) if name is None else None,
                since=since,
            )
            by = (desk.session, self._job.id, self._job.fence)
            [added] = await add_steps(store, self.id, [new], by=by, limits=desk.settings.limits)
            if name is None:
                self._numbers[called] = number_in(added.name, called)
            else:
                self._given.add(name)
            return added

        return lambda store: self._in_turn(store, add)

    def _names(self, word: str, given: Iterable[Named] | None) -> list[str] | None:
        if given is None:
            return None
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InvalidValue(word, given, "is not a list of steps", example=f"{word}=[step]")
        found = []
        for one in given:
            name = one if isinstance(one, str) else getattr(one, "name", None)
            if not isinstance(name, str):
                raise InvalidValue(word, one, "is not a step", example=f"{word}=[step]")
            if isinstance(one, HasResult) and not one.belongs_to(self.id):
                raise InvalidValue(word, one, "is a step of another workflow")
            found.append(name)
        return found

    async def _in_turn(
        self, store: Store, add: Callable[[Store], Awaitable[AddedStep]]
    ) -> AddedStep:
        async with self._turn:
            while True:
                try:
                    return await add(store)
                except (InvalidValue, NotRunning):
                    if not await self._has_moved(store):
                        raise

    async def _has_moved(self, store: Store) -> bool:
        """A chain may have become part of another since its job was claimed."""
        partition = partition_of(self._job.id, store.partitions)
        home = (await store.workflows.linked(partition, [self._job.id])).get(self._job.id, self.id)
        moved, self.id = home != self.id, home
        return moved


def _only_drawn(word: str, instead: str) -> FoliotError:
    problem = f"flow.{word}() is for drawing: a running step adds jobs only"
    return FoliotError(problem, hint=instead)


def _no_call(given: object) -> InvalidValue:
    if hasattr(given, "draft"):
        problem = "is a workflow, and a running step adds jobs only"
        hint = "draw it as a step before; its own submit() runs it beside this workflow"
        return InvalidValue("flow.add()", given, problem, hint=hint)
    problem, example = "is not a prepared call", "flow.add(load.prepare(1))"
    return InvalidValue("flow.add()", given, problem, example=example)


async def _find(store: Store, flow: JobId, named: dict[str, list[str]]) -> dict[str, list[JobId]]:
    """The steps with these names, which `after` and the like have given."""
    wanted = sorted({name for names in named.values() for name in names})
    known = await store.workflows.named(flow, wanted) if wanted else {}
    for word, names in named.items():
        if unknown := next((name for name in names if name not in known), None):
            others = [step.name for step in await store.workflows.steps(flow)]
            raise unknown_step(unknown, others, field=word)
    return {word: [known[name] for name in names] for word, names in named.items()}


def gather_maps(parents: Sequence[Parent]) -> tuple[Parent, ...]:
    """A map step and its elements as one: with the list of their results, and the state of the first that did not
    succeed."""
    elements: dict[JobId, list[Parent]] = {}
    for parent in parents:
        if parent.mapped is not None:
            elements.setdefault(parent.mapped, []).append(parent)
    if not elements:
        return tuple(parents)
    own = {parent.id for parent in parents}
    return tuple(
        _as_one(parent, elements[parent.id]) if parent.id in elements else parent
        for parent in parents
        if parent.mapped is None or parent.mapped not in own
    )


def _as_one(parent: Parent, elements: Sequence[Parent]) -> Parent:
    ordered = sorted(elements, key=index_of)
    raw = b",".join(one.raw or b"null" for one in ordered)
    others = (one.state for one in ordered if one.state is not JobState.SUCCEEDED)
    state = next(others, parent.state)
    return Parent(parent.id, parent.name, state, b"[" + raw + b"]")

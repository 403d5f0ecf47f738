"""Flow: a workflow as code draws it, step by step. It is checked and submitted as a whole, or used inside another."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from foliot import workflow_commands
from foliot.checks import check_rule
from foliot.client.function import JobFunction, Prepared
from foliot.client.handle import Handle
from foliot.client.step_calls import (
    Seconds,
    check_call,
    check_function,
    first_free,
    in_element,
    seconds_of,
)
from foliot.client.workflow_handle import Owner, WorkflowHandle
from foliot.drawing import not_submitted
from foliot.errors import FoliotError, InvalidValue
from foliot.ids import JobId
from foliot.model.job import NewJob
from foliot.model.workflow import NewWorkflow, Rule, Workflow
from foliot.model.workflow import Step as StepState
from foliot.workflow_check import check, check_step_name, check_whole
from foliot.workflow_draft import build, check_inner, job_for
from foliot.workflow_form import (
    Draft,
    StepDraft,
    in_step,
    placed,
    signal_step,
    sleep_step,
    workflow_template,
)
from foliot.workflow_refs import HasResult, Ref, check_given, check_sources

log = logging.getLogger("foliot.client")
_decode: Final = msgspec.json.decode
_ODD: Final = re.compile(r"[^A-Za-z0-9_.-]")
_ADD_LATER: Final = "a step that runs may add others: current_job().flow.add(…)"
_ONCE: Final = "draw another by app.workflow(…), or have all of this one run again: flow.rerun()"
_BY_ITSELF: Final = "the end of the with block submits it: leave out submit()"
_ANYTHING: Final = "anything"  # the name of a step that nobody asks for


class StepRef(HasResult):
    """A step that was drawn. `after=[step]` names it as a parent; `step.result` stands for what it will return, and may
    be an argument of another."""

    def __init__(self, name: str, flow: Flow) -> None:
        self.name = name
        self._flow = flow

    @property
    def result(self) -> Any:
        """What it returns, before there is anything: `step.result["rows"][0]`. Of a map, the list of all results."""
        return Ref.to(self, self.name)

    @property
    def id(self) -> JobId:
        """Of its job, once the workflow was submitted."""
        return self.handle.id

    @property
    def handle(self) -> Handle[Any]:
        return self._flow.step(self.name)

    def belongs_to(self, flow: object) -> bool:
        return flow is self._flow or self._flow.has_id(flow)

    def __repr__(self) -> str:
        return f"<step {self.name}>"


Step = StepRef | str
Steps = Iterable[Step]


class Flow(WorkflowHandle):
    """`with app.workflow("etl") as flow:` is submitted at the end of the block, unless that raised. Without `with`
    it is a draft: submit it by `submit()`, add it to another as a step, or give it to a schedule."""

    def __init__(
        self,
        name: str,
        *,
        owner: Owner,
        policy: str = "fail_fast",
        deadline: Seconds | None = None,
        key: str | None = None,
        namespace: str = "default",
    ) -> None:
        super().__init__(None, owner=owner)
        self.name = name
        seconds = None if deadline is None else seconds_of(deadline)
        self._frame = Draft(
            name=name,
            namespace=namespace,
            policy=policy,  # type: ignore[arg-type] # checked below
            deadline=seconds,
            key=key,
        )
        check_whole(self._frame)
        self._steps_drawn: dict[str, StepDraft] = {}
        self._numbers: dict[str, int] = {}  # how often a name was asked for
        self._taken: str | None = None  # what was made of it as it was then

    def add(
        self,
        what: Prepared | Flow,
        *,
        after: Steps = (),
        name: str | None = None,
        rule: str = Rule.ALL_SUCCEEDED,
    ) -> StepRef:
        """A step: a prepared call, or a workflow that was drawn and not submitted. It runs when the steps in `after`,
        and those whose results are among its arguments, have ended as its rule says."""
        parents, wanted = self._parents(after), check_rule(rule)
        if isinstance(what, WorkflowHandle):
            what.check_draft()
        if isinstance(what, Flow):
            if what is self:
                raise InvalidValue("flow.add()", what, "is this workflow itself")
            inner = what.draft()
            called = self._name(name, inner.name)
            with in_step(called):
                check_inner(inner)
            step = StepDraft(
                name=called, template=workflow_template(), inner=inner, after=parents, rule=wanted
            )
            what.close(f"is a step of {self.name}")
            return self._draw(step)
        call = self._call_of("flow.add()", what)
        step = StepDraft(
            name=self._name(name, call.template.kind),
            template=call.template,
            payload=_decode(call.payload),
            after=parents,
            rule=wanted,
        )
        return self._draw(step)

    def map(
        self,
        function: JobFunction[..., Any, Any],
        /,
        *,
        over: Any,
        item: str | None = None,
        after: Steps = (),
        name: str | None = None,
        rule: str = Rule.ALL_SUCCEEDED,
        arguments: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> StepRef:
        """A step for each element of a list: one that is given, or the result of a step. The element is the argument
        `item`, by default the first that is not given. Arguments with a name that this has too stand in `arguments`."""
        check_function(function)
        given = {**(arguments or {}), **others}
        takes = item or first_free(function, given)
        call = self._call_of("flow.map()", function.prepare(**given, **{takes: Ref(_ANYTHING)}))
        payload = _decode(call.payload)
        del payload[takes]
        step = StepDraft(
            name=self._name(name, call.template.kind),
            template=call.template,
            payload=payload,
            over=self._over(function, over, given, takes),
            item=takes,
            after=self._parents(after),
            rule=check_rule(rule),
        )
        return self._draw(step)

    def wait_for(
        self,
        signal: str,
        *,
        timeout: Seconds | None = None,
        after: Steps = (),
        name: str | None = None,
        rule: str = Rule.ALL_SUCCEEDED,
    ) -> StepRef:
        """A step that ends when `flow.signal(…)` comes, and results in its payload. Not in time, it is cancelled."""
        check_step_name(signal, field="signal")
        return self._draw(
            signal_step(
                self._name(name, signal),
                signal,
                timeout=None if timeout is None else seconds_of(timeout),
                after=self._parents(after),
                rule=check_rule(rule),
            )
        )

    def sleep(
        self,
        seconds: Seconds,
        *,
        after: Steps = (),
        name: str | None = None,
        rule: str = Rule.ALL_SUCCEEDED,
    ) -> StepRef:
        """A step that takes so long, and occupies nobody."""
        return self._draw(
            sleep_step(
                self._name(name, "sleep"),
                seconds_of(seconds),
                after=self._parents(after),
                rule=check_rule(rule),
            )
        )

    def has_id(self, id: object) -> bool:
        return self._id is not None and self._id == id

    def draft(self) -> Draft:
        """What was drawn so far."""
        return msgspec.structs.replace(self._frame, steps=placed(self._steps_drawn.values()))

    def as_job(self) -> NewJob:
        """The job that stands for it, in a schedule. It is checked now: there, nobody would see what is wrong."""
        self.check_draft()
        job = job_for(self.draft(), self._owner.portal.settings.limits)
        self.close("is what a schedule fires")
        return job

    def close(self, why: str) -> None:
        """Something was made of it as it is now, which would not have what is added later."""
        self._taken = why

    def submit(self) -> Self:
        """The whole graph or nothing; durable when this returns."""
        made = self._build()
        self._begin(made, self._owner.portal.act(self._send(made), count=len(made.steps)))
        return self

    async def asubmit(self) -> Self:
        made = self._build()
        sent = await self._owner.portal.aact(self._send(made), count=len(made.steps))
        self._begin(made, sent)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: object, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._check_open(_BY_ITSELF)
            self.submit()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: object, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._check_open(_BY_ITSELF)
            await self.asubmit()

    def __repr__(self) -> str:
        return f"<workflow {self.name}, {len(self._steps_drawn)} steps>"

    def _build(self) -> NewWorkflow:
        self._check_open(_ONCE)
        portal, draft = self._owner.portal, self.draft()
        made = build(draft, portal.ids, limits=portal.settings.limits)
        for odd in check(draft):
            log.warning("workflow %s: %s", self.name, odd)
        return made

    async def _drawn(self) -> tuple[Workflow, list[StepState]]:
        """Also before it is submitted."""
        return not_submitted(self._build()) if self._id is None else await super()._drawn()

    async def _send(self, made: NewWorkflow) -> JobId:
        await workflow_commands.submit_workflow(await self._store(), made)
        return made.id

    def _begin(self, made: NewWorkflow, id: JobId) -> None:
        self._id = id
        if self._frame.key is None:  # else the steps may be those of an earlier submission
            self._known = {step.name: (step.job.id, step.job.kind) for step in made.steps}

    def _draw(self, step: StepDraft) -> StepRef:
        self._steps_drawn[step.name] = step
        return StepRef(step.name, self)

    def _check_open(self, hint: str = _ADD_LATER) -> None:
        if self._id is not None:
            problem = f"workflow {self.name} was submitted already, as {self._id}"
            raise FoliotError(problem, hint=hint)

    def _check_free(self) -> None:
        self._check_open()
        if self._taken is not None:
            raise FoliotError(f"{self.name} {self._taken} already", hint="add to it before")

    def _name(self, given: str | None, usual: str) -> str:
        self._check_free()
        if given is not None:
            if check_step_name(given) in self._steps_drawn:
                problem = "is the name of another step of this workflow"
                raise InvalidValue("name", given, problem, example=f'name="{given}-2"')
            return given
        usual = _ODD.sub("_", usual)
        while True:
            number = self._numbers[usual] = self._numbers.get(usual, 0) + 1
            name = usual if number == 1 else f"{usual}-{number}"
            if name not in self._steps_drawn:
                return name

    def _parents(self, after: Steps) -> tuple[str, ...]:
        if isinstance(after, str | StepRef) or not isinstance(after, Iterable):
            raise InvalidValue("after", after, "is not a list of steps", example="after=[extract]")
        return tuple(dict.fromkeys(self._parent(one) for one in after))

    def _parent(self, one: object) -> str:
        if isinstance(one, str):
            return one  # of a step that may be drawn later: all are checked in the end
        if not isinstance(one, StepRef):
            raise InvalidValue("after", one, "is not a step", example="after=[extract]")
        if not one.belongs_to(self):
            raise InvalidValue("after", one, "is a step of another workflow")
        return one.name

    def _over(
        self, function: JobFunction[..., Any, Any], over: Any, given: Mapping[str, Any], item: str
    ) -> Any:
        if isinstance(over, StepRef):
            over = over.result
        if isinstance(over, Ref):
            check_sources([over], self)
            return over.to_json()
        if isinstance(over, str | bytes | Mapping) or not isinstance(over, Iterable):
            raise InvalidValue(
                "over", over, "is neither a list nor a result", example="over=extract.result"
            )
        most = self._owner.portal.settings.limits.steps
        elements = list(islice(over, most + 1))  # of what has no end, too
        if len(elements) > most:
            raise InvalidValue("over", problem=f"has more elements than limits.steps, {most}")
        found = []
        for number, element in enumerate(elements):
            with in_element(number, element, item):
                call = function.prepare(**given, **{item: element})
            found.append(_decode(self._call_of("flow.map()", call).payload)[item])
        return found

    def _call_of(self, word: str, call: object) -> Prepared:
        checked = check_call(word, call)
        check_given(checked.template.kind, checked.payload, self)
        return checked

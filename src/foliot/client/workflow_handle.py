"""WorkflowHandle: a workflow that was submitted. Every question has an a-prefixed twin for async code."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar

from foliot import explain_commands, workflow_commands
from foliot.author import Author
from foliot.client.handle import Handle, check_wait
from foliot.client.portal import Portal
from foliot.clock import SystemClock
from foliot.drawing import draw_terminal, to_mermaid, to_svg
from foliot.errors import FoliotError, InvalidValue, ResultTimeout, StoreUnavailable
from foliot.ids import JobId
from foliot.model.workflow import Step, Workflow, WorkflowState
from foliot.registry import Registry
from foliot.store.port import Store
from foliot.workflow_results import errors_of, result_of
from foliot.workflow_view import StepView, views_of

T = TypeVar("T")
Format = Literal["mermaid", "svg", "text"]
_FORMATS: Final = ("mermaid", "svg", "text")
_WIDTH: Final = 100
_FIRST_PAUSE: Final = 0.005  # seconds between two looks, while somebody waits for the end
_LONGEST_PAUSE: Final = 0.2
_SLOWER: Final = 1.5


class Owner(Protocol):
    """What the handle of a workflow needs of its app."""

    @property
    def portal(self) -> Portal: ...

    @property
    def registry(self) -> Registry: ...


class WorkflowHandle:
    """What `app.get_workflow` gives back, and what a Flow is once it was submitted. It holds nothing open."""

    def __init__(self, id: JobId | None, *, owner: Owner) -> None:
        self._id = id
        self._owner = owner
        self._known: dict[str, tuple[JobId, str]] = {}  # ids and kinds of steps, by name

    @property
    def id(self) -> JobId:
        if self._id is None:
            raise FoliotError(
                "this workflow has not been submitted yet",
                hint="it is at the end of its with block, or by submit()",
            )
        return self._id

    def get(self) -> Workflow:
        """All that is known of it now."""
        return self._call(self._get())

    async def aget(self) -> Workflow:
        return await self._acall(self._get())

    def status(self) -> WorkflowState:
        return self.get().state

    async def astatus(self) -> WorkflowState:
        return (await self.aget()).state

    def steps(self) -> list[StepView]:
        """Its steps as they are now, in the order of submission."""
        return self._call(self._views())

    async def asteps(self) -> list[StepView]:
        return await self._acall(self._views())

    def step(self, name: str) -> Handle[Any]:
        """The handle of a step's job, by the step's name; also `flow["load"]`."""
        if name not in self._known:
            self._learn(self._call(self._steps()))
        return self._handle(name)

    async def astep(self, name: str) -> Handle[Any]:
        if name not in self._known:
            self._learn(await self._acall(self._steps()))
        return self._handle(name)

    def __getitem__(self, name: str) -> Handle[Any]:
        return self.step(name)

    __iter__ = None  # or Python would ask for [0], [1], … without end

    def result(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait for the end and return what its last steps returned, by their names. Raises WorkflowFailed if it failed
        or was cancelled, ResultTimeout after `timeout` seconds."""
        return self._call(self._result(check_wait(timeout)))

    async def aresult(self, timeout: float | None = None) -> dict[str, Any]:
        return await self._acall(self._result(check_wait(timeout)))

    def cancel(self, *, by: str | None = None) -> WorkflowState:
        """Ask for its end; durable when it returns. Running steps are told, and given time to stop. Raises NotRunning
        if it has ended, unless it was cancelled."""
        return self._call(self._cancel(by))

    async def acancel(self, *, by: str | None = None) -> WorkflowState:
        return await self._acall(self._cancel(by))

    def pause(self, note: str | None = None, *, by: str | None = None) -> None:
        """What runs goes on, nothing else starts."""
        self._call(self._pause(note, by))

    async def apause(self, note: str | None = None, *, by: str | None = None) -> None:
        await self._acall(self._pause(note, by))

    def resume(self, *, by: str | None = None) -> None:
        self._owner.portal.act(self._resume(by))

    async def aresume(self, *, by: str | None = None) -> None:
        await self._owner.portal.aact(self._resume(by))

    def retry(self, only: Sequence[str] = (), *, by: str | None = None) -> list[JobId]:
        """Run again the steps that failed, or those with these names; what was skipped is decided anew. One that
        succeeded is run anew only if it is named, with all that came after it. Returns the jobs that live again: none
        of one that was late or cancelled when all had succeeded, which then has too."""
        return self._owner.portal.act(self._retry(only, by))

    async def aretry(self, only: Sequence[str] = (), *, by: str | None = None) -> list[JobId]:
        return await self._owner.portal.aact(self._retry(only, by))

    def rerun(self, *, by: str | None = None) -> WorkflowHandle:
        """The same graph once more, as a new workflow."""
        return WorkflowHandle(self._owner.portal.act(self._rerun(by)), owner=self._owner)

    async def arerun(self, *, by: str | None = None) -> WorkflowHandle:
        return WorkflowHandle(await self._owner.portal.aact(self._rerun(by)), owner=self._owner)

    def signal(
        self, name: str, payload: Any = None, *, early: bool = False, by: str | None = None
    ) -> None:
        """Ends the steps that wait for it, with this result; one that will wait for it finds it, with `early` also one
        that is added later."""
        self._owner.portal.act(self._signal(name, payload, early=early, by=by))

    async def asignal(
        self, name: str, payload: Any = None, *, early: bool = False, by: str | None = None
    ) -> None:
        await self._owner.portal.aact(self._signal(name, payload, early=early, by=by))

    def graph(self, format: Format = "mermaid") -> str:
        """As it is now: as Mermaid, which Markdown shows as a picture, as "svg", or as "text" for a terminal."""
        return self._call(self._graph(_check_format(format)))

    async def agraph(self, format: Format = "mermaid") -> str:
        return await self._acall(self._graph(_check_format(format)))

    def check_draft(self) -> None:
        """That it may be a part of something else: what has run would run again, and nobody has asked for that."""
        if self._id is not None:
            name = getattr(self, "name", "…")
            raise FoliotError(
                f"workflow {name} was submitted already, as {self._id},"
                " and would run again as a step or in a schedule",
                hint="draw one for that, without a with block and submit():"
                f' flow = app.workflow("{name}"); flow.add(…)',
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._id!r})"

    async def _get(self) -> Workflow:
        return await workflow_commands.get_workflow(await self._store(), self.id)

    async def _steps(self) -> list[Step]:
        return await workflow_commands.workflow_steps(await self._store(), self.id)

    async def _cancel(self, by: str | None) -> WorkflowState:
        author = Author(self._owner.portal.ids, by)
        store = await self._store()
        return (await workflow_commands.cancel_workflow(store, self.id, by=author)).state

    async def _pause(self, note: str | None, by: str | None) -> None:
        author = Author(self._owner.portal.ids, by)
        store = await self._store()
        await workflow_commands.pause_workflow(store, self.id, by=author, note=note)

    async def _resume(self, by: str | None) -> None:
        author = Author(self._owner.portal.ids, by)
        await workflow_commands.resume_workflow(await self._store(), self.id, by=author)

    async def _retry(self, only: Sequence[str], by: str | None) -> list[JobId]:
        if isinstance(only, str):
            raise InvalidValue("only", only, "is not a list of steps", example='only=["load"]')
        author = Author(self._owner.portal.ids, by)
        store = await self._store()
        return await workflow_commands.retry_workflow(store, self.id, by=author, only=only)

    async def _rerun(self, by: str | None) -> JobId:
        portal = self._owner.portal
        return await workflow_commands.rerun_workflow(
            await self._store(),
            self.id,
            by=Author(portal.ids, by),
            ids=portal.ids,
            limits=portal.settings.limits,
        )

    async def _signal(self, name: str, payload: Any, *, early: bool, by: str | None) -> None:
        portal = self._owner.portal
        author, largest = Author(portal.ids, by), portal.settings.limits.payload
        store = await self._store()
        await workflow_commands.signal_workflow(
            store, self.id, name, payload, early=early, by=author, largest=largest
        )

    async def _views(self) -> list[StepView]:
        steps = await self._steps()
        return views_of(await self._get(), steps)

    async def _drawn(self) -> tuple[Workflow, list[Step]]:
        """Read first, the workflow is never ahead of its steps."""
        return await self._get(), await self._steps()

    async def _graph(self, format: Format) -> str:
        workflow, steps = await self._drawn()
        now = self._owner.portal.clock.now()
        if format == "text":
            errors = await errors_of(await self._store(), steps)
            return draw_terminal(
                workflow, steps, width=_WIDTH, colour=False, now=now, errors=errors
            )
        draw = to_svg if format == "svg" else to_mermaid
        return draw(workflow, steps, now=now)

    async def _result(self, timeout: float | None) -> dict[str, Any]:
        portal, clock = self._owner.portal, SystemClock()  # waiting takes real time
        started, pause = clock.monotonic(), _FIRST_PAUSE
        while True:
            state = None
            try:
                state = (await self._get()).state
                if state.final:
                    return await result_of(await self._store(), self.id)
            except StoreUnavailable:
                if timeout is None:
                    raise  # with a timeout there is time for it to come back
            waited = clock.monotonic() - started
            if portal.by_hand and timeout is None:
                raise FoliotError(
                    f"workflow {self.id} is still {state}, and nobody runs jobs while this waits",
                    hint="call run_until_idle() or advance() before",
                )
            if timeout is not None and (portal.by_hand or waited >= timeout):
                told = state is not None and not portal.by_hand
                why = await portal.late.why(self._held_up_by) if told else ""
                raise ResultTimeout(self.id, timeout, state, what="workflow", why=why)
            left = pause if timeout is None else min(pause, timeout - waited)
            await clock.sleep(left)
            pause = min(_LONGEST_PAUSE, pause * _SLOWER)

    async def _held_up_by(self) -> str | None:
        return await explain_commands.what_holds_up_workflow(await self._store(), self.id)

    async def _store(self) -> Store:
        return await self._owner.portal.store()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._owner.portal.call(work)

    async def _acall(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._owner.portal.acall(work)

    def _learn(self, steps: Sequence[Step]) -> None:
        self._known = {step.name: (step.job, step.kind) for step in steps}

    def _handle(self, name: str) -> Handle[Any]:
        known = self._known.get(name)
        if known is None:
            raise workflow_commands.unknown_step(name, self._known)
        id, kind = known
        portal, registry = self._owner.portal, self._owner.registry
        definition = registry.get(kind)
        returns = Any if definition is None else definition.returns
        return Handle(id, portal=portal, clock=portal.clock, registry=registry, returns=returns)


def _check_format(format: object) -> Any:
    if format not in _FORMATS:
        problem = f"is not one of {', '.join(_FORMATS)}"
        raise InvalidValue("format", format, problem, example='graph("svg")')
    return format

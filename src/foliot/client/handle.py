"""Handle: a job that was submitted. Every question has an a-prefixed twin for async code."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar, Unpack

import msgspec

from foliot import commands, explain_commands
from foliot.author import Author
from foliot.client.portal import Portal
from foliot.clock import Clock
from foliot.errors import (
    FoliotError,
    InvalidValue,
    JobCancelled,
    JobFailed,
    ResultTimeout,
    StoreUnavailable,
)
from foliot.explain import Explanation
from foliot.ids import JobId
from foliot.model.job import Attempt, Job, JobState
from foliot.model.note import LogLine
from foliot.options import Changes
from foliot.registry import Registry

R = TypeVar("R")
_AGAIN: Final = 0.25  # seconds before the attempts of a dead job are asked for again, in an outage


class Handle(Generic[R]):
    """What `submit` gives back. It holds nothing open: keep it, lose it, or make it again with `app.get(id)`."""

    def __init__(
        self,
        id: JobId,
        *,
        portal: Portal,
        clock: Clock,
        returns: Any = Any,
        registry: Registry | None = None,
    ) -> None:
        self.id = id
        self._portal = portal
        self._clock = clock
        self._returns = returns
        self._registry = registry  # of the app: by what changed arguments are checked

    def status(self) -> JobState:
        return self.job().state

    async def astatus(self) -> JobState:
        return (await self.ajob()).state

    def job(self) -> Job:
        """All that is known of the job now."""
        return self._portal.call(self._get())

    async def ajob(self) -> Job:
        return await self._portal.acall(self._get())

    def attempts(self) -> list[Attempt]:
        """The attempts that did not succeed, first first, each with its error and traceback."""
        return self._portal.call(self._attempts())

    async def aattempts(self) -> list[Attempt]:
        return await self._portal.acall(self._attempts())

    def logs(self) -> list[LogLine]:
        """What the job has logged so far, in all its attempts."""
        return self._portal.call(self._logs())

    async def alogs(self) -> list[LogLine]:
        return await self._portal.acall(self._logs())

    def result(self, timeout: float | None = None) -> R:
        """Wait for the end and return what the function returned. Raises JobFailed if the job is dead,
        JobCancelled if it was cancelled, ResultTimeout after `timeout` seconds."""
        return self._portal.call(self._result(check_wait(timeout)))

    async def aresult(self, timeout: float | None = None) -> R:
        return await self._portal.acall(self._result(check_wait(timeout)))

    def cancel(self) -> JobState:
        """Ask for the job's end; durable when it returns. A running job is told, and given time to stop."""
        return self._portal.call(self._cancel())

    async def acancel(self) -> JobState:
        return await self._portal.acall(self._cancel())

    def change(self, **changes: Unpack[Changes]) -> JobState:
        """Change a job that has not started, and return its state then; what is not named stays. Raises NotChangeable
        if it runs or has ended."""
        return self._portal.call(self._change(changes))

    async def achange(self, **changes: Unpack[Changes]) -> JobState:
        return await self._portal.acall(self._change(changes))

    def retry(self, payload: dict[str, Any] | None = None, *, by: str | None = None) -> JobState:
        """Try a dead job again, with another payload if one is given. It is written down who did (`by`, or the user of
        this process). Raises NotDead for any other job."""
        return self._portal.call(self._retry(payload, by))

    async def aretry(
        self, payload: dict[str, Any] | None = None, *, by: str | None = None
    ) -> JobState:
        return await self._portal.acall(self._retry(payload, by))

    def explain(self) -> Explanation:
        """Why it is not running, or how it ended; str() of it is text."""
        return self._portal.call(self._explain())

    async def aexplain(self) -> Explanation:
        return await self._portal.acall(self._explain())

    def __repr__(self) -> str:
        return f"Handle({self.id!r})"

    async def _get(self) -> Job:
        return await commands.get(await self._portal.store(), self.id)

    async def _attempts(self) -> list[Attempt]:
        return await (await self._portal.store()).jobs.attempts(self.id)

    async def _change(self, changes: Changes) -> JobState:
        store = await self._portal.store()
        return await commands.change(store, self.id, changes, registry=self._registry)

    async def _retry(self, payload: dict[str, Any] | None, by: str | None) -> JobState:
        author = Author(self._portal.ids, by)
        largest = self._portal.settings.limits.payload
        return await commands.retry(
            await self._portal.store(), self.id, by=author, payload=payload, largest=largest
        )

    async def _explain(self) -> Explanation:
        return await explain_commands.explain_job(await self._portal.store(), self.id)

    async def _logs(self) -> list[LogLine]:
        return await commands.logs(await self._portal.store(), self.id)

    async def _cancel(self) -> JobState:
        return await commands.cancel(await self._portal.store(), self.id)

    async def _result(self, timeout: float | None) -> R:
        started = self._clock.monotonic()
        job = await self._wait(timeout)
        while True:
            try:
                return await self._outcome(job)
            except StoreUnavailable:
                if timeout is None:
                    raise  # with a timeout there is time for it to come back
                if self._clock.monotonic() - started >= timeout:
                    raise ResultTimeout(self.id, timeout) from None
            await self._clock.sleep(_AGAIN)

    async def _wait(self, timeout: float | None) -> Job:
        if not self._portal.by_hand:
            try:
                return await self._portal.wait(self.id, timeout)
            except ResultTimeout as late:
                if late.state is None:
                    raise  # the store is away: there is nobody to ask
                why = await self._portal.late.why(self._held_up_by)
                raise ResultTimeout(self.id, late.waited, late.state, why=why) from None
        job = await self._get()
        if not job.state.final:
            raise self._nobody_runs_it(timeout, job.state)
        return job

    async def _held_up_by(self) -> str | None:
        return await explain_commands.what_holds_up(await self._portal.store(), self.id)

    def _nobody_runs_it(self, timeout: float | None, state: JobState) -> FoliotError:
        """Where jobs run by hand, to wait is to wait for ever."""
        if timeout is not None:
            return ResultTimeout(self.id, timeout, state)
        return FoliotError(
            f"job {self.id} is still {state}, and nobody runs jobs while this waits",
            hint="call run_until_idle() or advance() before",
        )

    def _decode(self, result: bytes) -> R:
        try:
            return msgspec.json.decode(result, type=self._returns)  # type: ignore[no-any-return]
        except (msgspec.MsgspecError, TypeError) as error:
            raise FoliotError(
                f"the result of job {self.id} does not fit the function's annotation: {error}",
                hint="its JSON is in handle.job().result",
            ) from error

    async def _outcome(self, job: Job) -> R:
        if job.state is JobState.SUCCEEDED:
            if job.extras.ignore_result:
                return None  # type: ignore[return-value] # it was not kept, whatever it was
            return self._decode(job.result or b"null")
        if job.state is JobState.CANCELLED:
            raise JobCancelled(self.id, await self._why_ended(job))
        attempts = await self._attempts()
        why = attempts[-1].error if attempts else job.reason
        if job.state is JobState.SKIPPED:
            why = await self._why_ended(job)
        raise JobFailed(self.id, job.state, why)

    async def _why_ended(self, job: Job) -> str | None:
        return await explain_commands.why_ended(await self._portal.store(), job)


def check_wait(timeout: float | None) -> float | None:
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0
    ):
        raise InvalidValue(
            "timeout", timeout, "is not a number of seconds", example="result(timeout=10)"
        )
    return timeout

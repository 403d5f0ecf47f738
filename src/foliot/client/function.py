"""What `@app.job` makes of a function: still callable as itself, and submittable."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, Unpack

import msgspec

from foliot.checks import check_whole
from foliot.client.handle import Handle
from foliot.config import KIB
from foliot.errors import InvalidValue
from foliot.model.definition import JobDefinition, Upgrade
from foliot.model.job import NewJob
from foliot.options import NO_CHOICES, Choices, Options, check_options, template_of
from foliot.registry import bind
from foliot.workflow_refs import Unresolved

P = ParamSpec("P")
C = TypeVar("C")  # what a call returns: of an async function, a coroutine
R = TypeVar("R")  # what the job results in


class Prepared(msgspec.Struct, frozen=True):
    """A call that has been checked and not yet submitted. `template` is its job without id and payload."""

    definition: JobDefinition
    payload: bytes
    template: NewJob
    choices: Choices = NO_CHOICES


def check_resolved(call: Prepared) -> None:
    """Of a call that is to be a job of its own."""
    if isinstance(call.payload, Unresolved):
        raise InvalidValue(
            f"{call.definition.kind}()",
            problem="has the result of a step among its arguments, and is no step of that workflow",
            example="flow.add(load.prepare(rows=extract.result))",
        )


class Submitter(Protocol):
    """What a job function needs of its app."""

    @property
    def largest_payload(self) -> int: ...

    def submit(self, prepared: Prepared) -> Handle[Any]: ...

    async def asubmit(self, prepared: Prepared) -> Handle[Any]: ...


class Owner(Protocol):
    """Where a job function was defined: in an app, or in a collection that an app includes sooner or later."""

    @property
    def submitter(self) -> Submitter: ...


class JobFunction(Generic[P, C, R]):
    """A function that can be run as a job."""

    __name__: str

    def __init__(
        self, owner: Owner, definition: JobDefinition, choices: Choices = NO_CHOICES
    ) -> None:
        self.definition = definition
        self._owner = owner
        self._choices = choices
        self._template = template_of(definition.kind, definition.defaults, choices)
        update_wrapper(self, definition.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Call the function here and now."""
        return self.definition.function(*args, **kwargs)  # type: ignore[no-any-return]

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Have it run by a worker. Durable when this returns."""
        return self._owner.submitter.submit(self.prepare(*args, **kwargs))

    async def asubmit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        return await self._owner.submitter.asubmit(self.prepare(*args, **kwargs))

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> Prepared:
        """The call, checked, for `app.submit_many`."""
        payload = bind(self.definition, args, kwargs)
        if len(payload) > KIB:  # no limit is smaller
            self._check_size(payload)
        return Prepared(self.definition, payload, self._template, self._choices)

    def _check_size(self, payload: bytes) -> None:
        largest = self._owner.submitter.largest_payload
        if len(payload) > largest:
            raise InvalidValue(
                f"{self.definition.kind}()",
                problem=f"has arguments of {len(payload)} bytes, more than limits.payload, {largest}",
                hint="store the data elsewhere and submit where it is",
            )

    def upgrade(self, version: int) -> Callable[[Upgrade], Upgrade]:
        """`@send.upgrade(1)` above a function that makes arguments of version 2 of those of version 1, both as a dict.
        Workers call it for jobs that were submitted before."""
        latest = self.definition.version - 1
        if latest < 1:
            raise InvalidValue("version", version, "needs a definition of version 2 or more")
        check_whole("version", version, 1, latest, example=f"upgrade({latest})")

        def register(function: Upgrade) -> Upgrade:
            self.definition.upgrades[version] = function
            return function

        return register

    def options(self, **options: Unpack[Options]) -> JobFunction[P, C, R]:
        """The same function with other options for what is submitted through it."""
        return JobFunction(self._owner, self.definition, check_options(self._choices, options))

    def __repr__(self) -> str:
        return f"<job {self.definition.kind}>"

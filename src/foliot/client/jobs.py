"""Jobs: a collection of jobs that are defined without an app, for an app to include."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol
from weakref import WeakSet

from foliot.checks import check_name
from foliot.client.definer import Definer
from foliot.client.function import JobFunction, Submitter
from foliot.errors import FoliotError, InvalidValue
from foliot.model.definition import JobDefinition
from foliot.registry import Registry


class Loader(Protocol):
    """Whatever may include jobs when it is told to."""

    def load(self) -> None: ...


# Of apps with includes that nobody has needed yet.
WAITING: Final[WeakSet[Loader]] = WeakSet()


class Jobs(Definer):
    """`jobs = Jobs(queue="mail", prefix="mail.")`, `@jobs.job` above functions, `app.include(jobs)` where the app is.
    The prefix goes before every kind."""

    def __init__(self, *, queue: str | None = None, prefix: str = "") -> None:
        if queue is not None:
            check_name("queue", queue, example='queue="mail"')
        if prefix != "":
            check_name("prefix", prefix, example='prefix="mail."')
        self._queue = queue
        self._prefix = prefix
        self._definitions: list[JobDefinition] = []
        self._registry: Registry | None = None
        self._submitter: Submitter | None = None

    @property
    def submitter(self) -> Submitter:
        failed = _load_all() if self._submitter is None else None
        if self._submitter is None:
            kinds = ", ".join(definition.kind for definition in self._definitions)
            raise FoliotError(
                f"no app has included these jobs yet: {kinds}",
                hint="app.include(jobs)" + (f"; this failed: {failed}" if failed else ""),
            ) from failed
        return self._submitter

    def join(self, submitter: Submitter, registry: Registry) -> None:
        """All jobs of this collection, those that are still to be defined too, belong to that app from now on."""
        if self._submitter is not None and self._submitter is not submitter:
            raise InvalidValue(
                "include",
                self,
                "is included in another app already",
                example="one Jobs() for each app",
            )
        for definition in self._definitions:
            registry.add(definition)
        self._submitter, self._registry = submitter, registry

    def __iter__(self) -> Iterator[JobDefinition]:
        return iter(self._definitions)

    def _complete(self, function: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
        kind = options.get("kind") or getattr(function, "__name__", "job")
        queue = {} if self._queue is None else {"queue": self._queue}
        return {**queue, **options, "kind": f"{self._prefix}{kind}"}

    def _add(self, definition: JobDefinition) -> JobFunction[..., Any, Any]:
        if self._registry is not None:
            self._registry.add(definition)
        self._definitions.append(definition)
        return JobFunction(self, definition)


def _load_all() -> FoliotError | None:
    """Have all apps take in what they were told to include. One that cannot must not keep the others from it."""
    failed = None
    for loader in list(WAITING):
        try:
            loader.load()
        except FoliotError as error:
            failed = error
    return failed

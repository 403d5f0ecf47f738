"""Every exception of Foliot.

FoliotError
├── InvalidValue (ValueError)        a value is refused: which field, what was given, an example
│   ├── ConfigError                  the same for a setting, with the place it came from
│   └── InvalidExpression            the same for when something is to run, with the place in the text
├── UnknownJob (LookupError)         no job has this id
├── UnknownSchedule (LookupError)    no schedule has this name
├── UnknownWorkflow (LookupError)    no workflow has this id
├── NotDead                          only a dead job can be retried or purged, and this one is not
├── NotChangeable                    only a job that has not started can be changed
├── NotRunning                       only a workflow that runs can be added to
├── UnknownKind                      no handler is registered under this kind
├── MissingInput                     a step refers to a result that is not there
├── JobFailed                        result() of a job that is dead or skipped
├── JobCancelled                     result() of a job that was cancelled
├── WorkflowFailed                   result() of a workflow that failed or was cancelled
├── ResultTimeout (TimeoutError)     result() waited long enough
├── SearchTimeout (TimeoutError)     a search took too long: its filter is to be narrowed
├── StoreUnavailable                 the store cannot be reached; .unknown: it may have committed
│   └── KeyHeld                      a transaction that has not ended holds a key of a submission
├── StoreRefused                     it can, and lets nobody in with this user, password or database
├── SchemaError                      the store's tables do not fit this version
│   ├── SchemaMissing                there are none
│   ├── SchemaOutdated               they are older
│   ├── SchemaNewer                  they are newer
│   └── SchemaChanged                they have another number of partitions than when they were opened
├── SessionLost                      this process's lease ran out: its jobs belong to others
├── NeverIdle                        jobs that are run by hand keep coming back
├── TransactionTooLong (TimeoutError) a job's transaction was rolled back: it took longer than it may
├── SoftTimeout                      raised in a handler at its soft timeout: come to an end
├── Retry                            raised by a handler: run me again later
└── Cancel                           raised by a handler: end me as cancelled
"""

from __future__ import annotations

from collections.abc import Iterable

from foliot.shown import near_or_all, redact, shown

LONGEST_WAIT = 3653 * 86_400.0  # ten years: whatever is put off longer is a mistake

_NOT_GIVEN = object()
_NOBODY = "no worker has announced any kind yet; start one: foliot worker module:app"


class FoliotError(Exception):
    """The root of all errors of Foliot. `hint` says what to do about it, where that is known."""

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class InvalidValue(FoliotError, ValueError):
    """A value that is refused, when it is given and before anything was done with it.

    `problem` follows the value in the sentence: InvalidValue("priority", 99,
    "is not between 0 and 9", example="priority=2"). Without a value, it follows the field.
    """

    def __init__(
        self,
        field: str,
        value: object = _NOT_GIVEN,
        problem: str = "is not valid",
        *,
        example: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.field = field
        self.value = None if value is _NOT_GIVEN else value
        self.problem = problem
        self.example = example
        text = f"{field} {problem}" if value is _NOT_GIVEN else f"{field}: {shown(value)} {problem}"
        super().__init__(f"{text}, for example {example}" if example else text, hint=hint)


class ConfigError(InvalidValue):
    """A setting that is refused. `source` is where it came from: file:line, variable or flag."""

    def __init__(
        self,
        field: str,
        value: object = _NOT_GIVEN,
        problem: str = "is not valid",
        *,
        source: str | None = None,
        example: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.source = source
        placed = f"{problem} ({source})" if source else problem
        super().__init__(field, value, placed, example=example, hint=hint)


class InvalidExpression(InvalidValue):
    """A text that does not say when something is to run.

    `position` is where reading stopped, counted from 0; `code` is a stable word for the kind of fault: empty, type,
    too_long, syntax, range, never_fires.
    """

    EXAMPLES = ("0 9 * * MON-FRI", "every 15 minutes", "R/2026-01-01T00:00:00Z/PT1H")

    def __init__(
        self,
        text: object,
        problem: str,
        *,
        position: int = 0,
        code: str = "syntax",
        hint: str | None = None,
    ) -> None:
        self.position = position
        self.code = code
        whole = code in {"empty", "type", "too_long"}
        placed = problem if whole else f"at character {position + 1}: {problem}"
        examples = " or ".join(self.EXAMPLES)
        super().__init__("expression", text, placed, example=examples, hint=hint)


class UnknownJob(FoliotError, LookupError):
    """No job has this id, neither live nor in history."""

    def __init__(self, id: object) -> None:
        self.id = id
        super().__init__(
            f"no job has the id {shown(str(id))}",
            hint="it was never submitted to this store, or its history has been pruned",
        )


class UnknownSchedule(FoliotError, LookupError):
    """No schedule has this name."""

    def __init__(self, name: object, *, hint: str | None = None) -> None:
        self.name = name
        super().__init__(
            f"no schedule is called {shown(str(name))}", hint=hint or "see: foliot schedules list"
        )


class UnknownWorkflow(FoliotError, LookupError):
    """No workflow has this id. `job`: a job has, and what there is to know of it."""

    def __init__(self, id: object, *, job: str | None = None) -> None:
        self.id = id
        gone = "it was never submitted to this store, or it has been pruned: foliot workflows list"
        unknown = f"no workflow has the id {shown(str(id))}"
        problem = f"{id} is a job, and no workflow" if job else unknown
        super().__init__(problem, hint=job or gone)


class NotDead(FoliotError):
    """Only dead jobs can be retried or purged."""

    def __init__(self, id: object, state: str) -> None:
        self.id = id
        self.state = state
        super().__init__(f"job {id} is {state}, and only a dead job can be retried or purged")


class NotChangeable(FoliotError):
    """Only jobs that have not started can be changed."""

    def __init__(self, id: object, state: str) -> None:
        self.id = id
        self.state = state
        super().__init__(f"job {id} is {state}, and only a job that has not started can be changed")


class NotRunning(FoliotError):
    """A workflow that has ended, or is about to, takes no more steps."""

    def __init__(self, id: str, state: str, *, hint: str | None = None) -> None:
        super().__init__(f"workflow {id} is {state}", hint=hint)
        self.id = id
        self.state = state


class UnknownKind(FoliotError):
    """No handler is registered under this kind. `announced`: the known ones are those of a store."""

    def __init__(self, kind: str, *, known: Iterable[str] = (), announced: bool = False) -> None:
        self.kind = kind
        names = [name for name in known if not name.startswith("foliot.")]
        hint = _NOBODY if announced and not names else near_or_all(kind, names, announced=announced)
        super().__init__(f"no job of kind {shown(kind)} is registered", hint=hint)


class MissingInput(FoliotError):
    """The payload of a step needs something that no parent of it resulted in. Trying again is no use."""

    def __init__(self, step: str, path: Iterable[str | int], problem: str) -> None:
        self.step = step
        self.path = tuple(path)
        super().__init__(f"input {'.'.join(map(str, (step, *self.path)))}: {problem}")


class JobFailed(FoliotError):
    """A job whose result was asked for has ended without one. `error` is its last failure."""

    def __init__(self, id: object, state: str = "dead", error: str | None = None) -> None:
        self.id = id
        self.state = state
        self.error = error
        super().__init__(f"job {id} is {state}" + (f": {error}" if error else ""))


class JobCancelled(FoliotError):
    """A job whose result was asked for was cancelled."""

    def __init__(self, id: object, reason: str | None = None) -> None:
        self.id = id
        self.reason = reason
        super().__init__(f"job {id} was cancelled" + (f": {reason}" if reason else ""))


class WorkflowFailed(FoliotError):
    """A workflow whose result was asked for has ended without one. `steps` are those that failed, `error` says how the
    first of them did, `reason` why all of it was ended: deadline, requested."""

    def __init__(
        self,
        id: object,
        state: str = "failed",
        *,
        name: str | None = None,
        error: str | None = None,
        reason: str | None = None,
        steps: tuple[str, ...] = (),
    ) -> None:
        self.id = id
        self.state = state
        self.error = error
        self.reason = reason
        self.steps = steps
        told = "; ".join(one for one in (reason, error) if one)
        which = f"{id}" if name is None else f"{name} ({id})"
        super().__init__(f"workflow {which} is {state}" + (f": {told}" if told else ""))


class ResultTimeout(FoliotError, TimeoutError):
    """The job has not ended within the time given; it goes on. `why`: what it waits for, as far as that can be told."""

    def __init__(
        self, id: object, waited: float, state: str | None = None, what: str = "job", why: str = ""
    ) -> None:
        self.id, self.waited, self.state, self.why = id, waited, state, why
        still = f"is still {state}" if state else "has not ended"
        super().__init__(f"{what} {id} {still} after {waited:g} s" + (f": {why}" if why else ""))


class SearchTimeout(FoliotError, TimeoutError):
    """The store could not tell in time which jobs match a filter."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the search took longer than {seconds:g} s and was given up",
            hint="narrow the filter by state, time or id: state:dead created>-2h",
        )


class StoreUnavailable(FoliotError):
    """The store cannot be reached. `unknown`: the request was sent and may have been committed."""

    crossed = False  # it was: other transactions stood in the way of this one, which was undone

    def __init__(self, message: str, *, unknown: bool = False, hint: str | None = None) -> None:
        self.unknown = unknown
        super().__init__(redact(message), hint=hint)


class KeyHeld(StoreUnavailable):
    """A transaction that has not ended has used a unique or idempotency key of a submission. Nothing was stored."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="submit last, commit soon: docs/exactly-once.md")


class StoreRefused(FoliotError):
    """The store is there, and refuses the user, the password or the database of its URL. Trying again is no use."""

    def __init__(self, message: str) -> None:
        super().__init__(redact(message), hint="look at store.url: foliot config show")


class SchemaError(FoliotError):
    """The store's tables do not fit this version of Foliot."""


class SchemaMissing(SchemaError):
    """The store has no tables of Foliot yet."""

    def __init__(self, message: str = "the store has no Foliot tables yet") -> None:
        super().__init__(message, hint="make the store with: foliot db init")


class SchemaOutdated(SchemaError):
    """The store's tables are older than this version needs."""

    def __init__(self, found: int, needed: int) -> None:
        self.found = found
        self.needed = needed
        super().__init__(
            f"the store's schema is version {found}, this Foliot needs version {needed}",
            hint="upgrade the store with: foliot db upgrade",
        )


class SchemaNewer(SchemaError):
    """The store's tables were made by a newer version: this one must not touch them."""

    def __init__(self, found: int, needed: int) -> None:
        self.found = found
        self.needed = needed
        super().__init__(
            f"the store's schema is version {found}, this Foliot knows none above {needed}",
            hint="upgrade this installation with: pip install --upgrade foliot",
        )


class SchemaChanged(SchemaError):
    """The store was given another number of partitions after this process had opened it."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        super().__init__(
            f"the store's number of partitions is no longer {partitions}, as when this process opened it",
            hint="start the process again",
        )


class SessionLost(FoliotError):
    """This process could not extend its lease in time: its jobs are given to others."""

    def __init__(self, message: str = "the session's lease has run out") -> None:
        super().__init__(message)


class NeverIdle(FoliotError):
    """Where jobs are run by hand until there are none left, one kind keeps coming back."""

    def __init__(self, kind: str, count: int, attempts: int) -> None:
        self.kind = kind
        super().__init__(
            f"not idle after {attempts} attempts: {kind} keeps coming back, {count} of them are its own",
            hint="if there is an end to it, give a higher limit",
        )


class TransactionTooLong(FoliotError, TimeoutError):
    """A job's transaction took longer than it may, and was rolled back."""

    def __init__(self, limit: float, setting: str) -> None:
        self.limit = limit
        super().__init__(
            f"the job's transaction took longer than {limit:g} s and was rolled back",
            hint=f"do what is slow before it begins; its limit is {setting}",
        )


class SoftTimeout(FoliotError):
    """Raised in a job's function when its soft timeout is over: there is still time to put things in order."""

    def __init__(self, message: str = "the soft timeout is over") -> None:
        super().__init__(message)


class Retry(FoliotError):
    """Raised by a handler to be run again, after so many seconds or after its own backoff."""

    def __init__(self, after: float | None = None, *, reason: str | None = None) -> None:
        if after is not None and not _is_seconds(after):
            raise InvalidValue("after", after, "is not a number of seconds", example="after=30")
        self.after = after
        self.reason = None if reason is None else str(reason)
        super().__init__(self.reason or "the handler asked to be retried")


class Cancel(FoliotError):
    """Raised by a handler to end its job as cancelled."""

    def __init__(self, reason: str | None = None) -> None:
        self.reason = None if reason is None else str(reason)
        super().__init__(self.reason or "the handler cancelled its job")


def _is_seconds(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= LONGEST_WAIT

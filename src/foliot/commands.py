"""Everything a user may ask of a store, once: the SDK, the command line and the API all call these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final

import msgspec

from foliot.author import Author
from foliot.bulk import refusals, tell_cancelled, wake_retried
from foliot.checks import check_whole
from foliot.config import LimitSettings
from foliot.errors import (
    FoliotError,
    InvalidValue,
    NotChangeable,
    NotDead,
    StoreUnavailable,
    UnknownJob,
    UnknownKind,
)
from foliot.idempotency import give_back, redirect, reserve
from foliot.ids import Ids, JobId, is_job_id, partition_of, partition_of_slot
from foliot.model.audit import Entry
from foliot.model.definition import JobDefinition, StoredDefinition
from foliot.model.job import Job, JobState, NewJob
from foliot.model.key import idempotency_key_of
from foliot.model.note import LogLine
from foliot.model.session import Session
from foliot.model.workflow import Rule
from foliot.options import (
    NO_CHOICES,
    Changes,
    Options,
    change_of,
    check_options,
    fill,
    key_slot,
    template_of,
)
from foliot.registry import Registry
from foliot.schema import check_fit, read_payload, stored_definition
from foliot.search import LONGEST_PAGE
from foliot.store.guest import GuestStore
from foliot.store.port import Store, Wake
from foliot.workflow_commands import follow

_LIMITS: Final = LimitSettings()


async def submit(
    store: Store | GuestStore,
    jobs: Sequence[NewJob],
    *,
    resend: bool = False,
    keep: float = 86_400.0,
) -> list[JobId]:
    """Atomic in each partition. Returns the id that stands for each job: its own, that of the live job with the same
    key, or that of the job that was submitted under the same idempotency key in the last `keep` seconds."""
    if any(job.more is not None and idempotency_key_of(job) is not None for job in jobs):
        try:
            ids = await _submit_once(store, jobs, keep=keep)
        except FoliotError as error:
            if not (isinstance(error, StoreUnavailable) and error.unknown):
                with suppress(StoreUnavailable):
                    await give_back(store, jobs)
            raise
    else:
        ids = await _insert(store, jobs, resend=resend)
    store.wake(_news(store, jobs))
    return ids


async def _submit_once(
    store: Store | GuestStore, given: Sequence[NewJob], *, keep: float
) -> list[JobId]:
    jobs = await reserve(store, given, keep=keep)
    # As sent before: since a key was reserved, another one may have inserted its job, and that may have ended.
    ids = await _insert(store, jobs, resend=True)
    # Whoever had reserved a key first may have been refused, and have given it back meanwhile.
    followed = [job for own, job in zip(given, jobs, strict=True) if own.id != job.id]
    if followed:
        await reserve(store, followed, keep=keep)
    await redirect(store, jobs, ids)
    return ids


async def _insert(
    store: Store | GuestStore, jobs: Sequence[NewJob], *, resend: bool
) -> list[JobId]:
    if store.partitions == 1:
        return await store.jobs.submit(0, jobs, resend=resend)
    return await _submit_by_partition(store, jobs, resend=resend)


async def submit_kind(
    store: Store,
    kind: str,
    payload: str | bytes | Mapping[str, Any] = "{}",
    *,
    ids: Ids,
    options: Options | None = None,
    limits: LimitSettings = _LIMITS,
) -> JobId:
    """Submit without the code of the job. Returns the id that stands for it."""
    job = await prepare_kind(store, kind, payload, ids=ids, options=options, largest=limits.payload)
    choices = check_options(NO_CHOICES, options or {})
    if choices.after is None:
        return (await submit(store, [job]))[0]
    rule = choices.rule or Rule.ALL_SUCCEEDED
    return await follow(store, job, choices.after, rule=rule, ids=ids, limits=limits)


async def prepare_kind(
    store: Store,
    kind: str,
    payload: str | bytes | Mapping[str, Any] = "{}",
    *,
    ids: Ids,
    options: Options | None = None,
    largest: int = 256 << 10,
) -> NewJob:
    """A job to submit, made by its kind: with a payload in JSON that is checked against what the app announced, and the
    options that `fn.options` takes."""
    known = await store.definitions.get(kind)
    if known is None:
        kinds = [one.kind for one in await store.definitions.all()]
        raise UnknownKind(kind, known=kinds, announced=True)
    encoded = _encode_payload(payload, known, largest)
    template = template_of(kind, known.options, check_options(NO_CHOICES, options or {}))
    return fill(template, encoded, ids)


async def change(
    store: Store,
    id: str,
    options: Changes,
    *,
    registry: Registry | None = None,
    by: Author | None = None,
) -> JobState:
    """Change a job that has not started. Returns its state then. Raises NotChangeable if it runs or has ended. A new
    payload is checked against the definition, or against what is stored of it. By hand, it is written down."""
    job = await get(store, id)
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    payload = given.pop("payload", None)
    encoded = None if payload is None else await _fitting(store, job.kind, payload, registry)
    made = change_of(given, encoded, job.requires)
    partition = partition_of(job.id, store.partitions)
    record = None if by is None else by.each("change", **_changes(given, job, encoded))
    if (found := await store.jobs.change(partition, job.id, made, record=record)) is None:
        raise NotChangeable(id, (await get(store, id)).state)
    lane, state = found
    ready = ((partition, lane),) if state is JobState.READY else ()
    store.wake(Wake(ready, due=state is not JobState.READY))
    return state


async def _fitting(
    store: Store, kind: str, payload: Mapping[str, Any], registry: Registry | None
) -> bytes:
    definition = None if registry is None else registry.get(kind)
    try:
        encoded = msgspec.json.encode(read_payload(payload))
        if definition is not None:
            definition.decode(encoded)
    except InvalidValue:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue("payload", payload, f"does not fit {kind}: {error}") from error
    if definition is None and (known := await store.definitions.get(kind)) is not None:
        check_fit(known, msgspec.json.decode(encoded))
    return encoded


async def announce(store: Store, definitions: Iterable[JobDefinition]) -> None:
    """Store what is known of these kinds, so that they can be listed and submitted without their code."""
    known = [stored_definition(definition) for definition in definitions]
    if known:
        await store.definitions.put(known)


async def definitions(store: Store) -> list[StoredDefinition]:
    """All kinds that apps have announced, each with its signature and the schema of its payload."""
    return await store.definitions.all()


async def cancel(store: Store, id: str, *, by: Author | None = None) -> JobState:
    """Ask for a job's end. Returns its state then: cancelled; running, which its worker will end, or the end of its
    workflow; or final. By hand, it is written down."""
    known = check_id(id)
    record = None if by is None else by.each("cancel")
    partition = partition_of(known, store.partitions)
    found = await store.jobs.cancel(partition, [known], record=record)
    if known not in found:
        return (await get(store, id)).state
    running = await tell_cancelled(store, partition, found)
    return JobState.RUNNING if known in running else JobState.CANCELLED


async def retry(
    store: Store,
    id: str,
    *,
    by: Author,
    payload: str | bytes | Mapping[str, Any] | None = None,
    largest: int = 256 << 10,
) -> JobState:
    """Try a dead job again, with another payload if one is given, which is checked against what is known of its kind.
    Returns its state then."""
    known = check_id(id)
    job = await get(store, id)
    if job.state is not JobState.DEAD:
        raise NotDead(id, job.state)
    detail: dict[str, Any] = {}
    mended, extras = None, None
    if payload is not None:
        definition = await store.definitions.get(job.kind)
        mended = _encode_payload(payload, definition, largest)
        if definition is not None and definition.version != job.extras.version:
            with_version = msgspec.structs.replace(job.extras, version=definition.version)
            extras = msgspec.json.encode(with_version).decode()
        detail = {"payload_before": _hash(job.payload), "payload_after": _hash(mended)}
    partition = partition_of(known, store.partitions)
    record = by.each("retry", **detail)
    retried = await store.dead.retry(
        partition, [known], record=record, payload=mended, extras=extras
    )
    wake_retried(store, partition, retried)
    for reason in refusals(retried).values():
        raise FoliotError(f"job {id} cannot be retried: {reason}")
    return (await get(store, id)).state


async def purge(store: Store, id: str, *, by: Author) -> None:
    """Forget a dead job, with its attempts and log lines."""
    known = check_id(id)
    partition = partition_of(known, store.partitions)
    if not await store.dead.purge(partition, [known], record=by.each("purge")):
        raise NotDead(id, (await get(store, id)).state)


async def audit(
    store: Store, *, target: str | None = None, limit: int = 100, after: str | None = None
) -> list[Entry]:
    """Who did what by hand, newest first: with a job, a queue, a worker or the filter that `target` names, else with
    all. `after` is the id of the last entry seen."""
    check_whole("limit", limit, 1, LONGEST_PAGE, example="limit=100")
    return await store.audit.list(target=target, limit=limit, after=after)


async def get(store: Store, id: str) -> Job:
    job = await store.jobs.get(check_id(id))
    if job is None:
        raise UnknownJob(id)
    return job


async def logs(store: Store, id: str) -> list[LogLine]:
    """What a job has logged, in all its attempts, first first."""
    return await store.logs.all(check_id(id))


async def workers(store: Store, *, lost: bool = False) -> list[Session]:
    """The worker processes that live, and, if asked for, those that were lost and not yet forgotten."""
    return [session for session in await store.sessions.all() if lost or session.live]


async def drain(
    store: Store, names: Sequence[str] = (), *, by: Author | None = None
) -> list[Session]:
    """Ask workers to finish what they run and end: those named by the beginning of their id, by host or by host:pid;
    without names, all. Returns them. They notice it with their next beat, and nobody starts them again."""
    live = [session for session in await workers(store) if session.concurrency]
    chosen = [session for session in live if not names or any(session.is_called(n) for n in names)]
    for name in names:
        if not any(session.is_called(name) for session in live):
            raise InvalidValue("worker", name, "is no live worker", hint="see: foliot workers list")
    record = None if by is None else by.each("drain")
    found = await store.sessions.drain([session.id for session in chosen], record=record)
    return [session for session in chosen if session.id in set(found)]


def check_id(id: str) -> JobId:
    if not isinstance(id, str) or not is_job_id(id):
        raise InvalidValue(
            "id", id, "is not a job's id", example="0192d5f0-5b7c-7a3b-8000-5c1f2e3d4c5b"
        )
    return JobId(id)


def _encode_payload(
    payload: str | bytes | Mapping[str, Any], known: StoredDefinition | None, largest: int
) -> bytes:
    """As it is stored, checked against what is known of the kind."""
    arguments = read_payload(payload)
    if known is not None:
        check_fit(known, arguments)
    try:
        encoded = msgspec.json.encode(arguments)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue("payload", payload, f"cannot be stored as JSON: {error}") from error
    if len(encoded) > largest:
        problem = f"has {len(encoded)} bytes, more than limits.payload, {largest}"
        raise InvalidValue("payload", problem=problem)
    return encoded


def _changes(given: Mapping[str, Any], job: Job, payload: bytes | None) -> dict[str, Any]:
    """What the audit log says of a change: all that was given, and of payloads what they can be told by."""
    told: dict[str, Any] = msgspec.to_builtins(dict(given), enc_hook=str)
    if payload is not None:
        told |= {"payload_before": _hash(job.payload), "payload_after": _hash(payload)}
    return told


def _hash(payload: bytes) -> str:
    return sha256(payload).hexdigest()


async def _submit_by_partition(
    store: Store | GuestStore, jobs: Sequence[NewJob], *, resend: bool
) -> list[JobId]:
    positions: dict[int, list[int]] = {}
    for position, job in enumerate(jobs):
        partition = partition_of(job.id, store.partitions)
        if job.key is not None and job.more is not None and job.more.ordering_key is not None:
            _check_home(job, partition, store.partitions)
        positions.setdefault(partition, []).append(position)
    ids: dict[int, JobId] = {}
    for partition, some in sorted(positions.items()):
        sent = await store.jobs.submit(partition, [jobs[p] for p in some], resend=resend)
        ids.update(zip(some, sent, strict=True))
    return [ids[position] for position in range(len(jobs))]


def _check_home(job: NewJob, partition: int, partitions: int) -> None:
    """A job lives with its ordering key. There, nobody would see that its unique key is taken elsewhere."""
    if partition_of_slot(key_slot(job), partitions) != partition:
        raise InvalidValue(
            "key",
            job.key,
            "belongs to another partition than the ordering key, so that it cannot be kept unique",
            hint="in a store with several partitions, give only one of the two",
        )


def _news(store: Store | GuestStore, jobs: Sequence[NewJob]) -> Wake:
    ready = {
        (partition_of(job.id, store.partitions), job.lane) for job in jobs if not _is_later(job)
    }
    return Wake(tuple(ready), due=any(_is_later(job) for job in jobs))


def _is_later(job: NewJob) -> bool:
    """Whether somebody has to make it ready: at its time, or by comparing it with others."""
    more = job.more
    compared = more is not None and (more.ordering_key or more.fair_key) is not None
    return compared or job.run_at is not None or job.delay is not None

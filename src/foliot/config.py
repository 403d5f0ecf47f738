"""Settings: one frozen tree, read once. Defaults < foliot.toml < environment < flags.

This is the only module that reads the environment. Every value remembers where it came from;
whatever is not understood is refused, with the nearest thing that would be.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, get_type_hints

from msgspec import Struct, convert
from msgspec.structs import fields

from foliot.errors import ConfigError
from foliot.setting import Choice, Duration, Flag, Names, Setting, Size, Url, Weighted, Whole
from foliot.setting_rules import rules_of
from foliot.shown import did_you_mean, redact
from foliot.toml import Document, read_toml

DEFAULT_FILE = "foliot.toml"

MINUTE = 60.0
HOUR = 3_600.0
DAY = 86_400.0
KIB = 1 << 10
MIB = 1 << 20

PREFIX = "FOLIOT_"
CONFIG_VARIABLE = "FOLIOT_CONFIG"
TEST_VARIABLE = "FOLIOT_TEST_PG_BIN"  # read by foliot.testing.postgres
ALIASES = {"FOLIOT_URL": "store.url"}

# A Kubernetes service called foliot (or foliot-anything) puts such variables into every container.
_SERVICE_VARIABLE = re.compile(
    r"FOLIOT(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)"
)

_POSTGRES = ("postgresql", "postgres")


class StoreSettings(Struct, frozen=True, kw_only=True):
    """Where jobs are kept."""

    url: Annotated[
        str,
        Url("the store", "postgresql://user:secret@host:5432/db", ("sqlite", *_POSTGRES)),
    ] = "sqlite:///foliot.db"
    listen_url: Annotated[
        str | None,
        Url(
            "direct server address for LISTEN, if url is a pooler",
            "postgresql://host/db",
            _POSTGRES,
        ),
    ] = None
    pooler: Annotated[
        str,
        Choice("is there a transaction pooler in between", "auto", ("auto", "yes", "no")),
    ] = "auto"
    pool: Annotated[int, Whole("connections for all but the worker's own cycle", "4", 1, 1000)] = 4
    connect_timeout: Annotated[
        float, Duration("how long a connection may take to open", "5s", 0.1, 5 * MINUTE)
    ] = 5.0

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"StoreSettings({shown})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """Without passwords: settings end up in logs and tracebacks."""
        values = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return [(name, redact(v) if isinstance(v, str) else v) for name, v in values]


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """How jobs are run."""

    processes: Annotated[int, Whole("worker processes", "2", 1, 1024)] = 1
    concurrency: Annotated[int, Whole("jobs running at once in a process", "50", 1, 100_000)] = 100
    threads: Annotated[int, Whole("threads for sync handlers in a process", "32", 1, 10_000)] = 32
    children: Annotated[
        int,
        Whole(
            'child processes for jobs with executor="process", and as many, at least 4, for suspects',
            "4",
            1,
            1024,
        ),
    ] = 2
    queues: Annotated[
        tuple[str, ...], Weighted("queues to work for; none named means all", "mail=3,reports")
    ] = ()
    capabilities: Annotated[
        tuple[str, ...], Names("what this worker can do that not all can", "gpu,region:eu")
    ] = ()
    lease: Annotated[
        float, Duration("silence after which a process is taken for dead", "15s", 2, DAY)
    ] = 15.0
    beat: Annotated[
        float, Duration("time between heartbeats, below a third of lease", "3s", 0.1, 8 * HOUR)
    ] = 3.0
    poll: Annotated[float, Duration("longest sleep between looks for work", "1s", 0.01, HOUR)] = 1.0
    grace: Annotated[
        float, Duration("time running jobs get to finish when asked to stop", "25s", 0, DAY)
    ] = 25.0
    cancel_grace: Annotated[
        float, Duration("time a cancelled job gets to end before it is killed", "5s", 0, DAY)
    ] = 5.0
    recycle_jobs: Annotated[
        int, Whole("jobs after which a process is replaced; 0: never", "100000", 0, 1_000_000_000)
    ] = 0
    recycle_age: Annotated[
        float | None,
        Duration("age at which a process is replaced", "12h", 1, 366 * DAY, endless=True),
    ] = None
    recycle_memory: Annotated[
        int, Size("memory at which a process is replaced; 0: never", "1GiB", 0, 1 << 50)
    ] = 0
    in_flight: Annotated[int, Whole("round trips to the store at once", "2", 1, 32)] = 2
    scheduler: Annotated[bool, Flag("do the scheduler's duties as well", "true")] = True
    transactions: Annotated[
        int, Whole("connections for transactions of jobs, per process and kind", "4", 1, 1000)
    ] = 4
    transaction_limit: Annotated[
        float,
        Duration(
            "longest transaction of a job; on SQLite a third of lease at most", "30s", 0.1, DAY
        ),
    ] = 30.0
    loss_limit: Annotated[int, Whole("lost processes after which a job is dead", "3", 1, 1000)] = 3


class SchedulerSettings(Struct, frozen=True, kw_only=True):
    """How duties are shared and how often they run."""

    term: Annotated[float, Duration("lease on a partition's duties", "5s", 0.1, HOUR)] = 5.0
    reap_every: Annotated[
        float, Duration("time between looks for dead processes", "1s", 0.05, HOUR)
    ] = 1.0
    prune_every: Annotated[
        float, Duration("time between removals of old history", "60s", 0.05, DAY)
    ] = 60.0
    batch: Annotated[int, Whole("rows a duty moves in one transaction", "1000", 1, 100_000)] = 1000


class RetentionSettings(Struct, frozen=True, kw_only=True):
    """How long things are kept."""

    history: Annotated[
        float | None,
        Duration(
            "how long finished jobs and workflows are kept", "7d", 1, 36_500 * DAY, endless=True
        ),
    ] = 7 * DAY
    idempotency: Annotated[
        float,
        Duration("how long an idempotency key stands for its job", "1d", 1, 36_500 * DAY),
    ] = DAY
    rollups: Annotated[
        float | None,
        Duration("how long counts by the minute are kept", "30d", 1, 36_500 * DAY, endless=True),
    ] = 7 * DAY

    @property
    def keys(self) -> float:
        """How long keys are kept: a key must not outlive what it stands for."""
        return self.idempotency if self.history is None else min(self.idempotency, self.history)


class LimitSettings(Struct, frozen=True, kw_only=True):
    """The largest things that are accepted."""

    payload: Annotated[int, Size("largest payload of a job", "256KiB", KIB, 64 * MIB)] = 256 * KIB
    result: Annotated[int, Size("largest result of a job", "256KiB", KIB, 64 * MIB)] = 256 * KIB
    batch: Annotated[int, Whole("most jobs in one submit_many", "10000", 1, 1_000_000)] = 100_000
    steps: Annotated[int, Whole("most steps of a workflow", "10000", 1, 1_000_000)] = 50_000
    edges: Annotated[
        int, Whole("most edges between the steps of a workflow", "20000", 1, 10_000_000)
    ] = 100_000
    log_lines: Annotated[
        int, Whole("most log lines kept of an attempt; 0: none", "1000", 0, 1_000_000)
    ] = 1000
    log_line: Annotated[int, Size("longest log line kept of a job", "8KiB", 16, MIB)] = 8 * KIB


class LogSettings(Struct, frozen=True, kw_only=True):
    """What is written to the log."""

    level: Annotated[
        str, Choice("least level that is logged", "info", ("debug", "info", "warning", "error"))
    ] = "info"
    jobs: Annotated[
        str,
        Choice(
            "least level that is kept as a job's log lines",
            "info",
            ("debug", "info", "warning", "error", "none"),
        ),
    ] = "info"


class Settings(Struct, frozen=True, kw_only=True):
    """All settings."""

    store: StoreSettings = StoreSettings()
    worker: WorkerSettings = WorkerSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    retention: RetentionSettings = RetentionSettings()
    limits: LimitSettings = LimitSettings()
    log: LogSettings = LogSettings()


class Origin(Struct, frozen=True):
    """A value without secrets, the same as people write it, and where it came from."""

    value: object
    text: str
    source: str


class Loaded(Struct, frozen=True):
    """The settings, the origin of each by its key ("worker.lease"), and what looks odd in them."""

    settings: Settings
    origins: dict[str, Origin]
    warnings: tuple[str, ...]


class _Given(Struct, frozen=True):
    """A value somebody gave, the place, and the setting's example in the form of that place."""

    value: object
    source: str
    example: str


def load(
    *,
    file: Path | None = None,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Loaded:
    """Read all sources. A flag that is None was not given. Raises ConfigError."""
    environment = os.environ if env is None else env
    warnings: list[str] = []
    given = _from_file(file, environment, warnings)
    given |= _from_environment(environment)
    given |= _from_flags(flags or {})
    settings = _build({key: _read(key, one) for key, one in given.items()})
    _check_together(settings, given)
    if settings.worker.poll > settings.worker.lease:
        warnings.append("worker.poll is longer than worker.lease: idle workers will react late")
    return Loaded(settings, _origins(settings, given), tuple(warnings))


def environment_name(key: str) -> str:
    """The variable that sets a key: worker.lease is FOLIOT_WORKER_LEASE."""
    return PREFIX + key.upper().replace(".", "_")


def _from_file(
    file: Path | None, environment: Mapping[str, str], warnings: list[str]
) -> dict[str, _Given]:
    file = file or _find_file(environment)
    if file is None:
        return {}
    document = read_toml(file)
    if not document.tables:
        warnings.append(f"{file} is empty: all settings keep their defaults")
    found = {}
    for section, name, value in _entries(document):
        key, source = f"{section}.{name}", document.place(section, name)
        if key not in SETTINGS:
            raise _unknown(key, SETTINGS, source=source)
        found[key] = _Given(value, source, f"{name} = {SETTINGS[key].literal}")
    return found


def _find_file(environment: Mapping[str, str]) -> Path | None:
    """The file that is named, whether it exists or not; else the usual one, if it does."""
    named = environment.get(CONFIG_VARIABLE)
    if named is None:
        usual = Path(DEFAULT_FILE)
        return usual if usual.exists() else None
    if not named.strip():
        raise ConfigError(CONFIG_VARIABLE, named, "is empty", example="/etc/foliot.toml")
    return Path(named)


def _entries(document: Document) -> Iterator[tuple[str, str, object]]:
    for section, table in document.tables.items():
        source = document.place(section)
        if section not in SECTIONS:
            raise _unknown(section, SECTIONS, source=source)
        if not isinstance(table, dict):
            example = f"[{section}]"
            raise ConfigError(section, table, "is not a section", source=source, example=example)
        for name, value in table.items():
            yield section, name, value


def _from_environment(environment: Mapping[str, str]) -> dict[str, _Given]:
    keys = {environment_name(key): key for key in SETTINGS}
    found: dict[str, _Given] = {}
    for name, value in environment.items():
        if not name.startswith(PREFIX) or name in (CONFIG_VARIABLE, TEST_VARIABLE):
            continue
        key = keys.get(name) or ALIASES.get(name)
        if key is None:
            if _SERVICE_VARIABLE.fullmatch(name):
                continue
            raise _unknown(name, [*keys, *ALIASES, CONFIG_VARIABLE], source="environment")
        if key in found and found[key].value != value:
            raise ConfigError(f"{name} and {found[key].source}", problem="differ", hint="unset one")
        found[key] = _Given(value, name, f"{name}={SETTINGS[key].example}")
    return found


def _from_flags(flags: Mapping[str, object]) -> dict[str, _Given]:
    found = {}
    for key, value in flags.items():
        if key not in SETTINGS:
            raise _unknown(key, SETTINGS, source="flag")
        if value is not None:
            flag = "--" + key.partition(".")[2].replace("_", "-")
            found[key] = _Given(value, flag, f"{flag} {SETTINGS[key].example}")
    return found


def _read(key: str, given: _Given) -> object:
    try:
        return SETTINGS[key].read(given.value)
    except ValueError as error:
        raise ConfigError(
            key,
            SETTINGS[key].public(given.value),
            str(error),
            source=given.source,
            example=given.example,
        ) from None


def _build(values: Mapping[str, object]) -> Settings:
    sections = {}
    for section, kind in SECTIONS.items():
        start = f"{section}."
        own = {key.removeprefix(start): v for key, v in values.items() if key.startswith(start)}
        sections[section] = kind(**own)
    return convert(sections, Settings)


def _check_together(settings: Settings, given: Mapping[str, _Given]) -> None:
    """Rules between settings. Each names the key to change, and why."""
    for key, holds, problem in rules_of(settings, given):
        if not holds:
            section, _, name = key.partition(".")
            setting, value = SETTINGS[key], getattr(getattr(settings, section), name)
            source = given[key].source if key in given else "default"
            example = given[key].example if key in given else f"{name} = {setting.literal}"
            raise ConfigError(key, setting.show(value), problem, source=source, example=example)


def _origins(settings: Settings, given: Mapping[str, _Given]) -> dict[str, Origin]:
    origins = {}
    for key, setting in SETTINGS.items():
        section, _, name = key.partition(".")
        value = getattr(getattr(settings, section), name)
        source = given[key].source if key in given else "default"
        origins[key] = Origin(setting.public(value), setting.show(value), source)
    return origins


def _unknown(name: str, known: Mapping[str, object] | list[str], *, source: str) -> ConfigError:
    """The key in another section, if it is there; else the nearest name."""
    moved = [key for key in known if "." in name and key.endswith("." + name.rpartition(".")[2])]
    hint = f"did you mean {moved[0]}?" if moved else did_you_mean(name, known)
    return ConfigError(
        name, problem="is not a setting", source=source, hint=hint or "see: foliot config show"
    )


def _settings(sections: Mapping[str, type[Struct]]) -> dict[str, Setting]:
    found = {}
    for section, kind in sections.items():
        for name, hint in get_type_hints(kind, include_extras=True).items():
            found[f"{section}.{name}"] = hint.__metadata__[0]
    return found


SECTIONS: dict[str, type[Struct]] = get_type_hints(Settings)
SETTINGS: dict[str, Setting] = _settings(SECTIONS)

"""The configuration tree: sources and their order, what is refused, and what is said about it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from foliot.config import SETTINGS, Settings, environment_name, load
from foliot.errors import ConfigError

POSTGRES = "postgresql://me:s3cret@db:5432/jobs"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str, name: str = "foliot.toml") -> Path:
    file = Path(name)
    file.write_text(text, encoding="utf-8")
    return file


def refused(*, env: dict[str, str] | None = None, flags: dict[str, object] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(env=env or {}, flags=flags)
    return str(caught.value)


def test_without_any_source_all_values_are_defaults() -> None:
    loaded = load(env={})
    assert loaded.settings == Settings()
    assert {one.source for one in loaded.origins.values()} == {"default"}
    assert list(loaded.origins) == list(SETTINGS)
    assert loaded.warnings == ()


def test_flags_win_over_environment_over_file_over_defaults() -> None:
    write("[worker]\nconcurrency = 10\nthreads = 11\nprocesses = 12\n")
    loaded = load(
        env={"FOLIOT_WORKER_CONCURRENCY": "20", "FOLIOT_WORKER_THREADS": "21"},
        flags={"worker.concurrency": "30", "worker.grace": None},
    )
    worker, origins = loaded.settings.worker, loaded.origins
    assert (worker.concurrency, worker.threads, worker.processes) == (30, 21, 12)
    assert origins["worker.concurrency"].source == "--concurrency"
    assert origins["worker.threads"].source == "FOLIOT_WORKER_THREADS"
    assert origins["worker.processes"].source == "foliot.toml:4"
    assert origins["worker.grace"].source == "default"


def test_every_setting_can_be_given_as_text_in_the_environment() -> None:
    env = {environment_name(key): setting.example for key, setting in SETTINGS.items()}
    loaded = load(env=env)
    assert {key: one.source for key, one in loaded.origins.items()} == {
        key: environment_name(key) for key in SETTINGS
    }


def test_every_example_and_every_default_is_valid_in_a_file() -> None:
    sections: dict[str, list[str]] = {}
    for key, setting in SETTINGS.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(f"{name} = {setting.literal}")
    write("".join(f"[{name}]\n" + "\n".join(rows) + "\n" for name, rows in sections.items()))
    from_file = load(env={}).settings
    from_text = load(env={environment_name(k): s.example for k, s in SETTINGS.items()}).settings
    assert from_file == from_text


def test_what_is_shown_of_a_value_reads_back_as_the_value() -> None:
    for key, one in load(env={}).origins.items():
        if one.text != "none":
            assert SETTINGS[key].read(one.text) == one.value


def test_native_types_of_toml_are_taken() -> None:
    write(
        '[worker]\nlease = 30\nbeat = 2.5\nqueues = ["a", "b"]\nscheduler = false\n'
        '[retention]\nhistory = "forever"\n[limits]\npayload = 2048\n'
    )
    settings = load(env={}).settings
    assert (settings.worker.lease, settings.worker.beat) == (30, 2.5)
    assert settings.worker.queues == ("a", "b")
    assert settings.worker.scheduler is False
    assert settings.retention.history is None
    assert settings.limits.payload == 2048


def test_the_store_has_a_short_name_in_the_environment() -> None:
    loaded = load(env={"FOLIOT_URL": POSTGRES})
    assert loaded.settings.store.url == POSTGRES
    assert loaded.origins["store.url"].source == "FOLIOT_URL"


def test_two_stores_at_once_are_refused() -> None:
    message = refused(env={"FOLIOT_URL": POSTGRES, "FOLIOT_STORE_URL": "sqlite:///a.db"})
    assert message == "FOLIOT_STORE_URL and FOLIOT_URL differ; unset one"


def test_the_same_store_twice_is_fine() -> None:
    loaded = load(env={"FOLIOT_URL": POSTGRES, "FOLIOT_STORE_URL": POSTGRES})
    assert loaded.settings.store.url == POSTGRES


def test_a_named_file_is_read_instead_of_the_one_in_the_folder() -> None:
    write("[worker]\nthreads = 1\n")
    other = write("[worker]\nthreads = 2\n", "other.toml")
    third = write("[worker]\nthreads = 3\n", "third.toml")
    assert load(env={"FOLIOT_CONFIG": str(other)}).settings.worker.threads == 2
    assert load(env={"FOLIOT_CONFIG": str(other)}, file=third).settings.worker.threads == 3


def test_a_named_file_that_is_missing_is_refused() -> None:
    assert "'nowhere.toml' cannot be read: No such file" in refused(
        env={"FOLIOT_CONFIG": "nowhere.toml"}
    )
    with pytest.raises(ConfigError, match=re.escape("gone.toml")):
        load(env={}, file=Path("gone.toml"))


def test_a_folder_is_not_a_file(folder: Path) -> None:
    (folder / "foliot.toml").mkdir()
    assert "cannot be read: Is a directory" in refused()


def test_an_empty_name_of_a_file_is_refused() -> None:
    assert "FOLIOT_CONFIG: '' is empty" in refused(env={"FOLIOT_CONFIG": ""})


def test_an_empty_file_keeps_the_defaults_and_says_so() -> None:
    write("# nothing\n")
    loaded = load(env={})
    assert loaded.settings == Settings()
    assert loaded.warnings == ("foliot.toml is empty: all settings keep their defaults",)


def test_a_byte_order_mark_and_windows_lines_do_no_harm(folder: Path) -> None:
    (folder / "foliot.toml").write_bytes(b"\xef\xbb\xbf[worker]\r\nthreads = 2\r\n")
    assert load(env={}).origins["worker.threads"].source == "foliot.toml:2"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[worker\n", r"foliot\.toml:1:8 is not TOML"),
        (b"[worker]\nlease = 15s\n", r"foliot\.toml:2:11 is not TOML"),
        (b"[worker]\nlease = 1\nlease = 2\n", r"foliot\.toml:3:\d+ is not TOML: Cannot overwrite"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"a = " + b"[" * 100_000, "is nested too deeply|is not TOML"),
        (b"#" * ((1 << 20) + 1), "is larger than a configuration file can be"),
    ],
    ids=["header", "value", "twice", "bytes", "deep", "huge"],
)
def test_a_broken_file_is_refused_with_its_place(
    folder: Path, content: bytes, expected: str
) -> None:
    (folder / "foliot.toml").write_bytes(content)
    assert re.search(expected, refused())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[worke]\n", "worke is not a setting (foliot.toml:1); did you mean worker?"),
        (
            '\n[worker]\nleese = "15s"\n',
            "worker.leese is not a setting (foliot.toml:3); did you mean worker.lease?",
        ),
        (
            "[store]\nlease = 3\n",
            "store.lease is not a setting (foliot.toml:2); did you mean worker.lease?",
        ),
        ("lease = 3\n", "lease is not a setting (foliot.toml:1); see: foliot config show"),
        (
            "worker.lesae = 3\n",
            "worker.lesae is not a setting (foliot.toml:1); did you mean worker.lease?",
        ),
        ("worker = 3\n", "worker: 3 is not a section (foliot.toml:1), for example [worker]"),
    ],
)
def test_an_unknown_key_of_the_file_gets_the_nearest(text: str, expected: str) -> None:
    write(text)
    assert refused() == expected


def test_an_unknown_variable_gets_the_nearest() -> None:
    assert refused(env={"FOLIOT_WORKER_LEESE": "1"}) == (
        "FOLIOT_WORKER_LEESE is not a setting (environment); did you mean FOLIOT_WORKER_LEASE?"
    )


def test_an_unknown_flag_gets_the_nearest() -> None:
    assert "did you mean worker.concurrency?" in refused(flags={"worker.concurency": "1"})


def test_variables_of_others_are_left_alone() -> None:
    load(
        env={
            "PATH": "/bin",
            "foliot_x": "1",
            "FOLIOT_SERVICE_HOST": "10.0.0.1",
            "FOLIOT_PORT": "tcp://10.0.0.1:5432",
            "FOLIOT_PORT_5432_TCP_ADDR": "10.0.0.1",
            "FOLIOT_WORKER_SERVICE_PORT_HTTP": "80",
        }
    )


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("worker.lease", "5x", "'5x' is not a duration (units: d, h, m, s, ms)"),
        ("worker.lease", "-5s", "'-5s' is negative"),
        ("worker.lease", "0s", "'0s' is not between 2s and 1d"),
        ("worker.lease", "1e99s", "'1e99s' is not a duration"),
        ("worker.lease", "25h", "'25h' is not between 2s and 1d"),
        ("worker.lease", "1.9s", "'1.9s' is not between 2s and 1d"),
        ("worker.poll", "0", "'0' is not between 10ms and 1h"),
        ("worker.concurrency", "0", "'0' is not between 1 and 100000"),
        ("worker.concurrency", "many", "'many' is not a whole number between 1 and 100000"),
        ("worker.concurrency", "1.5", "'1.5' is not a whole number"),
        ("worker.concurrency", "1e3", "'1e3' is not a whole number"),
        ("worker.concurrency", "9" * 30, "is not a whole number"),
        ("worker.loss_limit", "-1", "'-1' is not between 1 and 1000"),
        ("worker.scheduler", "yes", "'yes' is neither true nor false"),
        ("worker.scheduler", "1", "'1' is neither true nor false"),
        ("worker.scheduler", "True", "'True' is neither true nor false"),
        ("worker.queues", "", "'' holds an empty name"),
        ("worker.queues", "a,,b", "'a,,b' holds an empty name"),
        ("worker.queues", "a,a", "'a,a' holds the same name twice"),
        (
            "worker.queues",
            "a,b\x00",
            "holds a name that is not 1 to 200 letters, digits, and any of _ . : -",
        ),
        ("limits.payload", "10Mb", "'10Mb' is not a size: use MiB"),
        ("limits.payload", "0", "'0' is not between 1KiB and 64MiB"),
        ("limits.payload", "1GiB", "'1GiB' is not between 1KiB and 64MiB"),
        ("retention.history", "0", "'0' is not between 1s and 36500d, or \"forever\""),
        ("retention.history", "-1d", "'-1d' is negative"),
        ("log.level", "verbose", "'verbose' is not one of debug, info, warning, error"),
        ("log.level", "INFO", "did you mean info?"),
        ("store.pooler", "true", "'true' is not one of auto, yes, no"),
        ("store.url", "", "'' is empty"),
        ("store.url", "mysql://x/y", "does not begin with sqlite:// or postgresql://"),
        ("store.url", "foliot.db", "does not begin with sqlite://"),
        ("store.url", "postgresql://a\x00b/c", "cannot be printed"),
        ("store.url", "postgresql://h:99999/d", "has a port that is not a number between"),
        ("store.url", "postgresql://[::1/d", "is not a URL"),
        ("store.listen_url", "sqlite:///a", "does not begin with postgresql://"),
    ],
)
def test_a_wrong_value_names_key_value_place_and_example(
    key: str, value: str, problem: str
) -> None:
    name = environment_name(key)
    message = refused(env={name: value})
    assert message.startswith(f"{key}: ")
    assert problem in message
    assert f"({name}), for example {name}={SETTINGS[key].example}" in message


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('lease = "soon"', "worker.lease: 'soon' is not a duration (units: d, h, m, s, ms)"),
        ("lease = true", "worker.lease: True is not a duration (units: d, h, m, s, ms)"),
        ("lease = nan", "worker.lease: nan is not a duration (units: d, h, m, s, ms)"),
        ("lease = inf", "worker.lease: inf is longer than 36500d"),
        ("lease = {}", "worker.lease: {} is not a duration (units: d, h, m, s, ms)"),
        ("threads = true", "worker.threads: True is not a whole number between 1 and 10000"),
        ("threads = 1.0", "worker.threads: 1.0 is not a whole number between 1 and 10000"),
        ("scheduler = 1", "worker.scheduler: 1 is neither true nor false"),
        ("queues = 3", "worker.queues: 3 is not a list of names"),
        ('queues = ["a", 3]', "worker.queues: ['a', 3] holds an empty name or something that is"),
        ("lease = 2020-01-01", "worker.lease: datetime.date(2020, 1, 1) is not a duration"),
    ],
)
def test_a_wrong_type_in_the_file_names_its_line(line: str, expected: str) -> None:
    write(f"# settings\n[worker]\n{line}\n")
    message = refused()
    key = line.partition(" ")[0]
    assert message.startswith(expected)
    assert message.endswith(
        f"(foliot.toml:3), for example {key} = {SETTINGS[f'worker.{key}'].literal}"
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"worker.beat": "5s"},
            "worker.beat: '5s' is not below a third of the lease, 15s (--beat)",
        ),
        (
            {"worker.lease": "6s"},
            "worker.beat: '3s' is not below a third of the lease, 6s (default)",
        ),
        ({"scheduler.term": "1s"}, "scheduler.term: '1s' is not above twice the scheduler's tick"),
        (
            {"store.url": "sqlite:///:memory:", "worker.processes": 2},
            "worker.processes: '2' need a store that they can share (--processes)",
        ),
        (
            {"store.listen_url": "postgresql://db/jobs"},
            "store.listen_url: 'postgresql://db/jobs' needs a PostgreSQL store.url (--listen-url)",
        ),
        ({"store.pooler": "yes"}, "store.pooler: 'yes' needs a PostgreSQL store.url (--pooler)"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(
    given: dict[str, object], expected: str
) -> None:
    assert refused(flags=given).startswith(expected)


def test_a_poll_longer_than_the_lease_is_only_odd() -> None:
    assert load(env={}, flags={"worker.poll": "20s"}).warnings


@pytest.mark.parametrize("password", ["p@s3cret", "s3cret/x", "s3cret%", "s3cret#1", "s3?cret"])
def test_an_unescaped_password_is_refused_and_not_shown(password: str) -> None:
    message = refused(env={"FOLIOT_URL": f"postgresql://me:{password}@db/jobs"})
    assert "percent-encode" in message
    assert password not in message
    assert "s3cret" not in message


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///foliot.db",
        "sqlite:////var/lib/foliot.db",
        "sqlite:///:memory:",
        "postgres://db/jobs",
        "postgresql:///jobs?host=%2Frun%2Fpostgresql",
        "postgresql:///jobs?host=/run/postgresql",
        "postgresql://me:p%40ss%2Fw@[::1]:5432/jobs?sslmode=require",
        "postgresql://me@a:5432,b:5433/jobs?target_session_attrs=read-write",
    ],
)
def test_the_usual_addresses_are_taken(url: str) -> None:
    assert load(env={"FOLIOT_URL": url}).settings.store.url == url


def test_a_password_is_nowhere_in_what_is_printed_of_settings() -> None:
    loaded = load(env={"FOLIOT_URL": POSTGRES, "FOLIOT_STORE_LISTEN_URL": POSTGRES})
    assert "s3cret" not in repr(loaded)
    assert "s3cret" not in msgspec.json.encode(loaded.origins).decode()
    assert "s3cret" in loaded.settings.store.url


def test_the_real_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLIOT_WORKER_THREADS", "7")
    assert load().settings.worker.threads == 7


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        load(env={}).settings.worker.lease = 3  # type: ignore[misc]


def test_an_idempotency_key_does_not_outlive_its_job() -> None:
    settings = load(env={}, flags={"retention.history": "1h"}).settings
    assert settings.retention.keys == 3600
    assert load(env={}).settings.retention.keys == 86_400
    endless = {"retention.history": "forever", "retention.idempotency": "30d"}
    with pytest.raises(ConfigError, match=r"longer than retention\.history, 1h"):
        load(env={}, flags={"retention.history": "1h", "retention.idempotency": "2h"})
    assert load(env={}, flags=endless).settings.retention.keys == 30 * 86_400

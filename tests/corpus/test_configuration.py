"""Configuration: what is not understood is refused before anything starts, with key, value, place and example."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from corpus.conftest import Foliot_
from corpus.rows import row
from foliot import Exponential, Foliot
from foliot.config import load
from foliot.errors import ConfigError, InvalidValue
from foliot.model.retry import Fixed
from support.pooler import RotatingPooler
from support.stores import Databases

Refuse = Callable[[str], ConfigError]


@pytest.fixture
def refuse(tmp_path: Path) -> Refuse:
    """A configuration file of this text is refused, with this error."""

    def refuse(text: str) -> ConfigError:
        file = tmp_path / "foliot.toml"
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError) as refused:
            load(file=file, env={})
        return refused.value

    return refuse


@row("K01")
def test_a_named_file_that_is_not_there(foliot: Foliot_) -> None:
    answer = foliot("config", "show", "--config", "nowhere/foliot.toml")
    assert answer.code == 2
    assert "nowhere/foliot.toml" in answer.err
    assert answer.err.startswith("error: ")


@row("K02")
def test_a_file_that_cannot_be_read_and_one_that_is_empty(foliot: Foliot_, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    answer = foliot("config", "show", "--config", "folder")
    assert (answer.code, "folder" in answer.err) == (2, True)
    (tmp_path / "empty.toml").touch()
    answer = foliot("config", "show", "--config", "empty.toml")
    assert answer.code == 0
    assert "warning: empty.toml is empty: all settings keep their defaults" in answer.err
    closed = tmp_path / "closed.toml"
    closed.touch(mode=0o000)
    if os.access(closed, os.R_OK):
        return  # nothing is closed to root
    answer = foliot("config", "show", "--config", "closed.toml")
    assert (answer.code, "Permission denied" in answer.err) == (2, True)


@row("K03", "L62")
def test_broken_toml_is_told_with_its_line(foliot: Foliot_, tmp_path: Path) -> None:
    (tmp_path / "foliot.toml").write_text("[worker]\nlease = = 3\n")
    answer = foliot("config", "show")
    assert answer.code == 2
    assert "foliot.toml:2" in answer.err


@row("K05")
def test_a_key_that_stands_twice(refuse: Refuse) -> None:
    assert ":3" in str(refuse('[worker]\nlease = "15s"\nlease = "16s"\n'))


@row("K06")
def test_a_value_of_another_type_is_told_with_key_value_place_and_example(refuse: Refuse) -> None:
    error = refuse('\n[worker]\nconcurrency = "many"\n')
    assert (error.field, error.value) == ("worker.concurrency", "many")
    assert "is not a whole number between 1 and 100000" in error.problem
    assert error.source is not None
    assert error.source.endswith("foliot.toml:3")
    assert error.example == "concurrency = 50"


@row("K07")
@pytest.mark.parametrize("value", ['"yes"', '"on"', "1", '"True"'])
def test_a_switch_has_two_words(refuse: Refuse, value: str) -> None:
    assert "is neither true nor false" in str(refuse(f"[worker]\nscheduler = {value}\n"))


@row("K09", "K13", "K14", "L78")
@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("lease", "5x", "is not a duration (units: d, h, m, s, ms)"),
        ("lease", "-5s", "is negative"),
        ("lease", "0s", "is not between 2s and 1d"),
        ("lease", "1e99s", "is not a duration"),
        ("lease", "1s", "is not between 2s and 1d"),
        ("lease", "25h", "is not between 2s and 1d"),
        ("poll", "0s", "is not between 10ms and 1h"),
    ],
)
def test_durations_have_units_and_bounds(
    refuse: Refuse, key: str, value: str, complaint: str
) -> None:
    error = refuse(f'[worker]\n{key} = "{value}"\n')
    assert error.field == f"worker.{key}"
    assert complaint in error.problem


@row("K14")
def test_a_poll_above_the_lease_is_odd_and_said(foliot: Foliot_, tmp_path: Path) -> None:
    (tmp_path / "foliot.toml").write_text('[worker]\npoll = "1m"\n')
    answer = foliot("config", "show")
    assert answer.code == 0
    assert "warning: worker.poll is longer than worker.lease" in answer.err


@row("K10", "K57")
@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ('"10Mb"', "use MiB"),
        ('"1GB"', "use GiB"),
        ("0", "is not between 1KiB and 64MiB"),
        ('"1GiB"', "is not between 1KiB and 64MiB"),
    ],
)
def test_sizes_have_units_and_bounds(refuse: Refuse, value: str, complaint: str) -> None:
    assert complaint in refuse(f"[limits]\npayload = {value}\n").problem


@row("K11", "K15")
def test_rules_between_settings_are_said(refuse: Refuse) -> None:
    assert "is not below a third of the lease" in refuse('[worker]\nbeat = "5s"\n').problem
    assert "twice the scheduler's tick" in refuse('[scheduler]\nterm = "1s"\n').problem


@row("K18", "K19")
@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Exponential(first=10, cap=1), "cap"),
        (lambda: Exponential(factor=0.5), "factor"),
        (lambda: Exponential(first=-1), "first"),
        (lambda: Fixed(-1), "seconds"),
    ],
)
def test_a_backoff_that_makes_no_sense(make: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        make()
    assert refused.value.field == field


@row("K23")
def test_without_a_url_the_store_is_a_file_here_and_it_is_said(foliot: Foliot_) -> None:
    answer = foliot("config", "show")
    assert answer.code == 0
    assert "sqlite:///foliot.db" in answer.out
    assert "default" in answer.out


@row("K25")
@pytest.mark.parametrize("password", ["p@ss", "p/ss", "p%ss", "p#ss", "p?ss"])
def test_a_password_that_is_not_encoded_is_refused_and_never_shown(
    foliot: Foliot_, password: str
) -> None:
    answer = foliot("doctor", "--url", f"postgresql://ada:{password}@example.org/db")
    assert answer.code == 2
    assert "percent-encode" in answer.err
    assert password not in answer.err


@row("K26", "L05")
def test_two_stores_at_once(foliot: Foliot_) -> None:
    with pytest.raises(ConfigError, match="differ; unset one"):
        load(env={"FOLIOT_URL": "sqlite:///a.db", "FOLIOT_STORE_URL": "sqlite:///b.db"})
    answer = foliot("config", "show", "--url", "sqlite:///a.db", "--url", "sqlite:///b.db")
    assert answer.code == 2
    assert "--url" in answer.err


@row("K27")
def test_a_directory_that_is_not_there_or_closed(foliot: Foliot_, tmp_path: Path) -> None:
    answer = foliot("db", "init", "--url", f"sqlite:///{tmp_path}/nowhere/foliot.db")
    assert answer.code != 0
    assert "nowhere" in answer.err
    assert "Traceback" not in answer.err


@row("K29", "K30")
def test_what_sqlite_cannot_do(refuse: Refuse) -> None:
    assert "need a store that they can share" in str(
        refuse('[store]\nurl = "sqlite://:memory:"\n[worker]\nprocesses = 2\n')
    )
    assert "needs a PostgreSQL store.url" in str(
        refuse('[store]\nlisten_url = "postgresql://example.org/db"\n')
    )
    assert "needs a PostgreSQL store.url" in str(refuse('[store]\npooler = "yes"\n'))


@row("K34", "K38")
def test_the_grade_in_force_is_shown(foliot: Foliot_, databases: Databases) -> None:
    url = databases.server.create_database("corpus_grade")
    try:
        assert foliot("db", "init", "--url", url).code == 0
        answer = foliot("doctor", "--url", url, "--json")
    finally:
        databases.server.drop_database("corpus_grade")
    assert '"durab' in answer.out
    assert "fsync" in answer.out
    assert "clock" in answer.out


@row("K31", "K37")
def test_a_database_of_another_encoding_is_refused(foliot: Foliot_, databases: Databases) -> None:
    """Texts of jobs are Unicode. An older server is refused in the same place."""
    server = databases.server
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE corpus_latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'"
        )
    try:
        answer = foliot("db", "init", "--url", server.url("corpus_latin"))
    finally:
        server.drop_database("corpus_latin")
    assert answer.code == 2
    assert "UTF8" in answer.err
    assert "LATIN1" in answer.err


@row("K41", "K42")
def test_a_pooler_is_noticed(foliot: Foliot_, databases: Databases, pooled: RotatingPooler) -> None:
    direct = databases.server.create_database("corpus_pooled")
    try:
        assert foliot("db", "init", "--url", direct).code == 0
        answer = foliot("doctor", "--url", pooled.url("corpus_pooled"))
    finally:
        databases.server.drop_database("corpus_pooled")
    assert "pooler" in answer.out
    assert "polling" in answer.out or "listen_url" in answer.out


@row("K43", "L74")
def test_tables_that_are_missing_old_or_new(foliot: Foliot_, databases: Databases) -> None:
    url = databases.server.create_database("corpus_schema")
    try:
        answer = foliot("doctor", "--url", url)
        assert answer.code == 1
        assert "foliot db init" in answer.err
        assert foliot("db", "init", "--url", url).code == 0
        assert foliot("db", "status", "--url", url).code == 0
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE foliot.migrations SET checksum = 'x' WHERE number = 1")
        answer = foliot("db", "status", "--url", url, "--json")
        assert (answer.code, '"altered":[1]' in answer.out) == (1, True)
        answer = foliot("doctor", "--url", url)
        assert (answer.code, "is not the one that is shipped" in answer.err) == (1, True)
        with psycopg.connect(url) as connection:
            connection.execute(
                "INSERT INTO foliot.migrations (number, name, checksum) VALUES (999, 'x', 'y')"
            )
        answer = foliot("doctor", "--url", url)
        assert answer.code == 1
        assert "version 999" in answer.err
        assert "pip install --upgrade foliot" in answer.err
    finally:
        databases.server.drop_database("corpus_schema")


@row("K59")
@pytest.mark.parametrize("value", ["0s", "-1d"])
def test_history_is_kept_for_some_time(refuse: Refuse, value: str) -> None:
    assert refuse(f'[retention]\nhistory = "{value}"\n').field == "retention.history"


@row("K62")
def test_a_level_that_is_none(refuse: Refuse) -> None:
    error = refuse('[log]\nlevel = "verbose"\n')
    assert "is not one of debug, info, warning, error" in error.problem


@row("K67", "L63", "L26")
def test_a_name_that_is_not_known_is_refused_with_the_nearest(refuse: Refuse) -> None:
    with pytest.raises(ConfigError, match=r"FOLIOT_WORKER_LEASE_TLL.*FOLIOT_WORKER_LEASE\?"):
        load(env={"FOLIOT_WORKER_LEASE_TLL": "3"})
    error = refuse('[worker]\nlaese = "3s"\n')
    assert error.hint == "did you mean worker.lease?"
    assert error.source is not None
    assert error.source.endswith(":2")


@row("K70")
def test_the_environment_wins_and_it_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "foliot.toml"
    file.write_text('[worker]\nlease = "20s"\n')
    loaded = load(file=file, env={"FOLIOT_WORKER_LEASE": "30s"})
    assert loaded.settings.worker.lease == 30
    assert loaded.origins["worker.lease"].source == "FOLIOT_WORKER_LEASE"


@row("K73", "A43", "A41", "A42")
@pytest.mark.parametrize(
    "name", ["../../x", "a b", "a/b", "", " ", "x" * 201, "a\nb", "a\u202eb", "a\u200bb", "ä"]
)
def test_a_queue_has_a_plain_name(app: Foliot, refuse: Refuse, name: str) -> None:
    def work() -> None: ...

    with pytest.raises(InvalidValue, match="letters, digits, and any of"):
        app.job(queue=name)(work)
    with pytest.raises(InvalidValue, match="letters, digits, and any of"):
        app.job(kind=name)(work)
    with pytest.raises(ConfigError) as refused:
        load(env={}, flags={"worker.queues": ["mail", name]})
    assert refused.value.field == "worker.queues"


@row("K73")
def test_a_queue_is_named_once(refuse: Refuse) -> None:
    assert "the same name twice" in refuse('[worker]\nqueues = ["a", "b", "a"]\n').problem

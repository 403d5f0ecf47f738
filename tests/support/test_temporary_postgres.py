"""A temporary server starts, stops, dies and comes back as tests need it to."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from foliot.testing.postgres import StopMode, TemporaryPostgres
from foliot.testing.postgres_programs import TemporaryPostgresError, find_binaries
from support.statements import names, value


@pytest.mark.parametrize("mode", ["smart", "fast", "immediate"])
def test_a_stopped_server_is_gone_and_starts_again_with_its_data(
    server: TemporaryPostgres, database: str, mode: StopMode
) -> None:
    with psycopg.connect(server.url(database)) as connection:
        connection.execute("INSERT INTO item VALUES ('kept')")
    server.stop(mode)
    assert not server.running
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.url(database))
    server.start()
    assert names(server.url(database)) == ["kept"]


def test_a_killed_server_leaves_no_process_and_loses_no_commit() -> None:
    with TemporaryPostgres() as server:
        url = server.create_database("shop")
        connection = psycopg.connect(url)
        connection.execute("CREATE TABLE item (name text)")
        connection.execute("INSERT INTO item VALUES ('kept')")
        connection.commit()
        backend = connection.info.backend_pid
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        connection.close()
        stat = Path(f"/proc/{backend}/stat")
        assert not stat.exists() or ") Z " in stat.read_text()
        server.start()
        assert names(url) == ["kept"]
        assert "database system was interrupted" in server.log_text()


def test_closing_deletes_the_directory_and_can_be_repeated() -> None:
    server = TemporaryPostgres()
    server.start()
    directory = server.directory
    server.close()
    assert not directory.exists()
    server.close()


def test_servers_run_side_by_side_with_their_own_settings(server: TemporaryPostgres) -> None:
    with TemporaryPostgres(durable=True, settings={"work_mem": "7MB"}, port=0) as other:
        with psycopg.connect(other.url(tcp=True)) as connection:
            assert value(connection, "SHOW work_mem") == "7MB"
            assert value(connection, "SHOW fsync") == "on"
        with psycopg.connect(server.url()) as connection:
            assert value(connection, "SHOW work_mem") == "4MB"
            assert value(connection, "SHOW fsync") == "off"


def test_a_server_without_a_port_has_no_tcp_url(server: TemporaryPostgres) -> None:
    with pytest.raises(TemporaryPostgresError, match="port=0"):
        server.url(tcp=True)


def test_a_setting_that_the_server_refuses_is_shown_from_its_log() -> None:
    server = TemporaryPostgres(settings={"work_mem": "much"})
    with pytest.raises(TemporaryPostgresError, match="work_mem"):
        server.start()
    server.close()


def test_the_version_is_the_servers_own(server: TemporaryPostgres) -> None:
    with psycopg.connect(server.url()) as connection:
        assert connection.info.server_version == server.version[0] * 10000 + server.version[1]


def test_the_log_holds_what_went_wrong(server: TemporaryPostgres) -> None:
    with (
        psycopg.connect(server.url()) as connection,
        pytest.raises(errors.UndefinedTable),
    ):
        connection.execute("SELECT * FROM never_made")
    assert 'relation "never_made" does not exist' in server.log_text()


def test_a_database_copies_its_template(server: TemporaryPostgres, database: str) -> None:
    with psycopg.connect(server.url(database)) as connection:
        connection.execute("INSERT INTO item VALUES ('copied')")
    url = server.create_database("copy", template=database)
    assert names(url) == ["copied"]
    server.drop_database("copy")
    server.drop_database("copy")


def test_terminated_backends_are_gone(server: TemporaryPostgres, database: str) -> None:
    with psycopg.connect(server.url()) as bystander:
        connection = psycopg.connect(server.url(database))
        assert server.terminate_backends(database) == 1
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        connection.close()
        assert value(bystander, "SELECT 1") == 1


@pytest.mark.parametrize("whole_server", [True, False])
def test_a_read_only_server_refuses_writes_until_it_is_writable_again(
    server: TemporaryPostgres, database: str, whole_server: bool
) -> None:
    place = None if whole_server else database
    before = psycopg.connect(server.url(database), autocommit=True)
    server.set_read_only(True, place)
    with pytest.raises(psycopg.OperationalError):
        before.execute("SELECT 1")
    before.close()
    with (
        psycopg.connect(server.url(database)) as connection,
        pytest.raises(errors.ReadOnlySqlTransaction),
    ):
        connection.execute("INSERT INTO item VALUES ('refused')")
    server.set_read_only(False, place)
    with psycopg.connect(server.url(database)) as connection:
        connection.execute("INSERT INTO item VALUES ('taken')")
    assert names(server.url(database)) == ["taken"]


def test_a_server_does_not_outlive_a_killed_owner() -> None:
    program = """
import sys
from foliot.testing.postgres import TemporaryPostgres
with TemporaryPostgres() as server:
    print(server.url(), server.directory, flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        url, directory = owner.stdout.readline().split()
        connection = psycopg.connect(url)
        owner.send_signal(signal.SIGKILL)
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT pg_sleep(30)")
    connection.close()
    gone = threading.Event()
    while Path(directory).exists():
        gone.wait(0.05)


def test_a_forked_child_does_not_stop_its_parents_server_when_it_exits() -> None:
    program = """
import os, sys, psycopg
from foliot.testing.postgres import TemporaryPostgres
with TemporaryPostgres() as server:
    if (child := os.fork()) == 0:
        sys.exit()
    os.waitpid(child, 0)
    psycopg.connect(server.url()).close()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_command_line_runs_a_command_with_a_url_and_returns_its_code() -> None:
    program = (
        "import os, sys, psycopg;psycopg.connect(os.environ['FOLIOT_URL']).close(); sys.exit(7)"
    )
    words = [sys.executable, "-m", "foliot.testing.postgres", "--fast", "--"]
    assert subprocess.run([*words, sys.executable, "-c", program], check=False).returncode == 7
    assert subprocess.run(words, check=False, stderr=subprocess.DEVNULL).returncode == 2


def test_a_wrong_directory_of_programs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLIOT_TEST_PG_BIN", "/no/such/bin")
    with pytest.raises(TemporaryPostgresError, match=r"FOLIOT_TEST_PG_BIN='/no/such/bin'.*example"):
        find_binaries()

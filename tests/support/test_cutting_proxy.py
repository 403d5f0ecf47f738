"""The proxy loses what it is told to lose, and nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import psycopg
import pytest
from psycopg import errors

from foliot.testing.postgres import TemporaryPostgres
from support.proxy import CuttingProxy
from support.statements import names, value


@pytest.mark.parametrize("warm_up", [0, 10], ids=["first", "prepared"])
@pytest.mark.parametrize("pipeline", [True, False], ids=["pipeline", "plain"])
def test_a_commit_is_done_though_its_reply_is_lost(
    server: TemporaryPostgres, database: str, proxy: CuttingProxy, pipeline: bool, warm_up: int
) -> None:
    connection = psycopg.connect(proxy.url(database))

    def insert(name: str) -> None:
        if pipeline:
            with connection.pipeline(), connection.transaction():
                connection.execute("INSERT INTO item VALUES (%s)", (name,))
        else:
            connection.execute("INSERT INTO item VALUES (%s)", (name,))
            connection.commit()

    for number in range(warm_up):
        insert(f"before {number}")
    proxy.cut_after_commit()
    with pytest.raises(psycopg.OperationalError):
        insert("committed")
    assert proxy.cut.wait(5)
    assert proxy.cuts == 1
    connection.close()
    assert "committed" in names(server.url(database))
    with psycopg.connect(proxy.url(database)) as again:  # one cut was asked for, so one is done
        again.execute("INSERT INTO item VALUES ('later')")
    assert proxy.cuts == 1


@pytest.mark.parametrize("pipeline", [True, False], ids=["pipeline", "plain"])
def test_a_statement_that_commits_by_itself_can_lose_its_reply(
    server: TemporaryPostgres, database: str, proxy: CuttingProxy, pipeline: bool
) -> None:
    connection = psycopg.connect(proxy.url(database), autocommit=True)
    proxy.cut_after_commit(containing="insert into item")
    connection.execute("SELECT 1")
    with connection.transaction():
        connection.execute("SELECT 2")
    with pytest.raises(errors.UndefinedTable):
        connection.execute("INSERT INTO item SELECT name FROM never_made")
    with (
        pytest.raises(psycopg.OperationalError),
        connection.pipeline() if pipeline else nullcontext(),
    ):
        connection.execute("INSERT INTO item VALUES ('committed')")
    connection.close()
    assert names(server.url(database)) == ["committed"]


def test_a_rollback_is_not_taken_for_a_commit(database: str, proxy: CuttingProxy) -> None:
    proxy.cut_after_commit()
    with psycopg.connect(proxy.url(database)) as connection:
        connection.execute("INSERT INTO item VALUES ('never')")
        connection.rollback()
        with connection.pipeline(), connection.transaction(force_rollback=True):
            connection.execute("INSERT INTO item VALUES ('never')")
    assert proxy.cuts == 0


def test_cut_connections_break_and_new_ones_work(database: str, proxy: CuttingProxy) -> None:
    first, second = psycopg.connect(proxy.url(database)), psycopg.connect(proxy.url(database))
    assert proxy.cut_all() == 2
    for connection in (first, second):
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        connection.close()
    with psycopg.connect(proxy.url(database)) as connection:
        assert value(connection, "SELECT 1") == 1


def test_connections_are_refused_and_accepted_again(database: str, proxy: CuttingProxy) -> None:
    with psycopg.connect(proxy.url(database)) as connection:
        proxy.refuse(True)
        with pytest.raises(psycopg.OperationalError, match="refused"):
            psycopg.connect(proxy.url(database))
        assert value(connection, "SELECT 1") == 1
        proxy.refuse(False)
    psycopg.connect(proxy.url(database)).close()


def test_a_stalled_connection_answers_only_when_it_flows_again(
    database: str, proxy: CuttingProxy
) -> None:
    with (
        psycopg.connect(proxy.url(database)) as connection,
        ThreadPoolExecutor() as threads,
    ):
        proxy.stall(True)
        answer = threads.submit(value, connection, "SELECT 1")
        with pytest.raises(TimeoutError):
            answer.result(0.2)
        proxy.stall(False)
        assert answer.result(5) == 1


def test_a_delay_is_paid_in_both_directions(database: str, proxy: CuttingProxy) -> None:
    with psycopg.connect(proxy.url(database), autocommit=True) as connection:
        proxy.delay(0.05)
        with ThreadPoolExecutor() as threads:
            answer = threads.submit(value, connection, "SELECT 1")
            with pytest.raises(TimeoutError):
                answer.result(0.09)
            assert answer.result(5) == 1

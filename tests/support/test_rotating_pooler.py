"""Through the pooler transactions work, and sessions do not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import errors

from foliot.testing.postgres import TemporaryPostgres
from support.proxy import RotatingPooler
from support.statements import names, value


def test_a_transaction_keeps_its_backend_and_the_next_gets_another(
    database: str, pooler: RotatingPooler
) -> None:
    seen = []
    with psycopg.connect(pooler.url(database), prepare_threshold=None) as connection:
        for _ in range(6):
            pids = {value(connection, "SELECT pg_backend_pid()") for _ in range(3)}
            assert len(pids) == 1
            seen.append(pids.pop())
            connection.commit()
        assert connection.info.backend_pid not in seen
    assert len(set(seen)) == 3
    assert seen[:3] == seen[3:]


def test_a_session_setting_is_lost_with_its_transaction(
    database: str, pooler: RotatingPooler
) -> None:
    with psycopg.connect(pooler.url(database), autocommit=True) as connection:
        connection.execute("SET work_mem = '7MB'")
        shown = [value(connection, "SHOW work_mem") for _ in range(2)]
    assert shown == ["4MB", "4MB"]


def test_pipelines_work_through_the_pooler(database: str, pooler: RotatingPooler) -> None:
    with psycopg.connect(pooler.url(database), prepare_threshold=None) as connection:
        for batch in range(10):
            with connection.pipeline(), connection.transaction():
                for number in range(20):
                    connection.execute("INSERT INTO item VALUES (%s)", (f"{batch}.{number}",))
        with pytest.raises(errors.UniqueViolation), connection.pipeline():
            connection.execute("INSERT INTO item VALUES ('0.0')")
        connection.rollback()
        assert value(connection, "SELECT count(*) FROM item") == 200


def test_copies_work_through_the_pooler(database: str, pooler: RotatingPooler) -> None:
    with psycopg.connect(pooler.url(database), autocommit=True) as connection:
        for batch in range(5):
            with connection.cursor().copy("COPY item FROM STDIN") as copy:
                for number in range(10_000):
                    copy.write_row((f"{batch}.{number}",))
            assert value(connection, "SELECT count(*) FROM item") == (batch + 1) * 10_000
        with (
            pytest.raises(errors.UniqueViolation),
            connection.cursor().copy("COPY item FROM STDIN") as copy,
        ):
            copy.write_row(("0.0",))
        with connection.cursor().copy("COPY item TO STDOUT") as copy:
            assert sum(1 for _ in copy.rows()) == 50_000


def test_a_named_prepared_statement_breaks_and_an_unnamed_one_does_not(
    database: str, pooler: RotatingPooler
) -> None:
    with (
        psycopg.connect(pooler.url(database), autocommit=True, prepare_threshold=0) as connection,
        pytest.raises(errors.InvalidSqlStatementName),
    ):
        connection.execute("SELECT %s::int", (1,))  # prepared on one backend, executed on the next
    with psycopg.connect(
        pooler.url(database), autocommit=True, prepare_threshold=None
    ) as connection:
        for _ in range(20):
            connection.execute("SELECT %s::int", (1,))


def test_many_clients_share_few_backends(
    server: TemporaryPostgres, database: str, pooler: RotatingPooler
) -> None:
    seen: set[object] = set()

    def work(client: int) -> None:
        with psycopg.connect(pooler.url(database), prepare_threshold=None) as connection:
            for number in range(200):
                with connection.pipeline(), connection.transaction():
                    connection.execute("INSERT INTO item VALUES (%s)", (f"{client}.{number}",))
                    seen.add(value(connection, "SELECT pg_backend_pid()"))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert len(names(server.url(database))) == 1600
    assert pooler.transactions >= 1600
    assert pooler.most_open == 3
    assert (
        len(seen) >= 3
    )  # a connection that its client leaves in the middle is closed, and another opened


def test_a_transaction_that_its_client_leaves_is_rolled_back(
    server: TemporaryPostgres, database: str, pooler: RotatingPooler
) -> None:
    connection = psycopg.connect(pooler.url(database))
    connection.execute("INSERT INTO item VALUES ('left behind')")
    connection.close()
    with psycopg.connect(pooler.url(database)) as again:
        again.execute("INSERT INTO item VALUES ('left behind')")  # waits for the first to be gone
    assert names(server.url(database)) == ["left behind"]


def test_the_pooler_reaches_the_server_again_after_a_restart(
    server: TemporaryPostgres, database: str, pooler: RotatingPooler
) -> None:
    idle = psycopg.connect(pooler.url(database), autocommit=True)
    busy = psycopg.connect(pooler.url(database))
    busy.execute("SELECT 1")
    server.stop("immediate")
    for connection in (busy, idle):
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        connection.close()
    server.start()
    with psycopg.connect(pooler.url(database)) as connection:
        assert value(connection, "SELECT 1") == 1


def test_the_pooler_passes_on_why_a_login_failed(pooler: RotatingPooler) -> None:
    with pytest.raises(psycopg.OperationalError, match='database "nowhere" does not exist'):
        psycopg.connect(pooler.url("nowhere"))
    with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter"):
        psycopg.connect(pooler.url(), options="-c work_mem=7MB")

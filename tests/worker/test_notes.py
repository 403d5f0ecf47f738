"""What jobs say, where the store will not have it."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest

from support.fleet import eventually
from worker.conftest import MakeShop

_REFUSE = {
    "sqlite": """
CREATE TRIGGER refuse BEFORE INSERT ON foliot_logs WHEN NEW.message = 'bad'
BEGIN SELECT RAISE(ABORT, 'not this'); END;
""",
    "postgres": """
CREATE FUNCTION foliot.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'not this'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON foliot.logs FOR EACH ROW WHEN (NEW.message = 'bad')
    EXECUTE FUNCTION foliot.refuse();
""",
}
_ALLOW = {
    "sqlite": "DROP TRIGGER refuse",
    "postgres": "DROP FUNCTION foliot.refuse CASCADE",
}


def run_sql(engine: str, url: str, statements: str) -> None:
    if engine == "sqlite":
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.executescript(statements)
        connection.close()
        return
    with psycopg.connect(url) as line:
        line.execute(statements.encode())


def test_what_cannot_be_written_is_lost_and_the_worker_s_log_says_so(
    make_shop: MakeShop, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop = make_shop()
    shop.jobs.who_here.submit().result(timeout=30)
    run_sql(engine, shop.url, _REFUSE[engine])
    try:
        bad = shop.jobs.say.submit("bad")
        bad.result(timeout=30)
        eventually(lambda: "some of what jobs said could not be written and is lost" in caplog.text)
        assert "trying again" not in caplog.text
        good = shop.jobs.say.submit("good")
        eventually(lambda: [line.message for line in good.logs()] == ["good"])
        assert not bad.logs()
    finally:
        run_sql(engine, shop.url, _ALLOW[engine])

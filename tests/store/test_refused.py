"""A server that is there and lets nobody in: no outage, and no use trying again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from foliot import Foliot
from foliot.config import StoreSettings
from foliot.errors import StoreRefused, StoreUnavailable
from foliot.store.open import read_schema
from foliot.store.postgres.failures import translate
from support.stores import Databases


@pytest.fixture(params=["dbname", "user"])
def wrong(request: pytest.FixtureRequest, databases: Databases) -> str:
    """A URL that the server refuses."""
    given = conninfo_to_dict(databases.server.url())
    given[request.param] = "nobody"
    host, port = given["host"], given["port"]
    return f"postgresql://{given['user']}@/{given['dbname']}?host={host}&port={port}"


def test_the_sdk_says_so_at_once(wrong: str) -> None:
    with Foliot(wrong) as app:

        @app.job
        def work() -> None: ...

        with pytest.raises(StoreRefused, match="does not exist") as refused:
            work.submit()
        assert refused.value.hint == "look at store.url: foliot config show"
        with pytest.raises(StoreRefused):
            app.get(app.ids.job()).result(timeout=60)


def test_a_worker_ends_with_the_reason(wrong: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from foliot import Foliot\napp = Foliot()\n@app.job\ndef sell() -> None: ...\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "foliot", "worker", "shop:app"],
        env={**os.environ, "FOLIOT_URL": wrong},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "does not exist" in done.stderr
    assert "hint: look at store.url" in done.stderr


def test_the_command_line_says_so(wrong: str) -> None:
    with pytest.raises(StoreRefused):
        asyncio.run(read_schema(StoreSettings(url=wrong)))


def test_one_of_several_hosts_that_refuses_may_be_the_wrong_one() -> None:
    one = 'connection failed: FATAL:  database "x" does not exist'
    several = f"Multiple connection attempts failed. All failures were:\n- host a: {one}\n- host b: refused"
    with pytest.raises(StoreRefused), translate(make_conninfo(dbname="x")):
        raise psycopg.OperationalError(one)
    with pytest.raises(StoreUnavailable), translate(make_conninfo(dbname="x")):
        raise psycopg.OperationalError(several)

"""The short examples of the README, each run as it stands among the names that its reader would have."""

from __future__ import annotations

import asyncio
import re
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from foliot import Fixed, Foliot, current_job
from foliot.config import StoreSettings
from foliot.store.open import upgrade_store
from foliot.testing import Harness
from foliot.testing.postgres import TemporaryPostgres

TEXT = (Path(__file__).parent.parent.parent / "README.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```py\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
[SHOP] = re.findall(r"^```python\n(# shop\.py\n.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def database(example: str, request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Where an example has data of its own beside its jobs."""
    if "connection=" not in example:
        yield None
        return
    server: TemporaryPostgres = request.getfixturevalue("server")
    url = server.create_database("readme")
    asyncio.run(upgrade_store(StoreSettings(url=url)))
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE parcels (item text)")
    yield url
    server.drop_database("readme")


def as_code(example: str) -> str:
    """What only makes sense within something gets it: a decorator its function, a job's transaction its job."""
    if example.splitlines()[-1].startswith("@"):
        return f"{example}def decorated() -> None: ...\ndecorated.submit()\n"
    if "current_job()" in example:
        return f"@app.job\ndef within():\n{textwrap.indent(example, '    ')}within.submit()\n"
    return example


def names(app: Foliot, now: datetime) -> dict[str, Any]:
    """What an example takes for granted beside shop.py."""

    @app.job
    def move(amount: int) -> None: ...

    @app.job
    def ship(item: str) -> None: ...

    @app.job
    def extract(day: str) -> list[int]:
        return [len(day), 2]

    @app.job
    def clean(row: int) -> int:
        return row

    @app.job
    def load(rows: list[int]) -> int:
        return sum(rows)

    return {
        "extract": extract,
        "clean": clean,
        "load": load,
        "Fixed": Fixed,
        "current_job": current_job,
        "move": move,
        "ship": ship,
        "to": "ada@example.org",
        "subject": "Hello",
        "item": "clock",
        "tonight": now + timedelta(hours=8),
        "tomorrow": now + timedelta(days=1),
    }


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_and_so_do_its_jobs(
    example: str, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLIOT_URL", database or "sqlite:///:memory:")
    shop: dict[str, Any] = {"__name__": "shop"}
    exec(compile(SHOP, "shop.py", "exec"), shop)
    app: Foliot = shop["app"]
    shop["place_order"] = lambda name: shop["send_email"].submit(f"{name}@example.org", "Hello")
    with Harness(app, url=database) as foliot, ExitStack() as open:
        shop |= names(app, foliot.clock.now())
        if database is not None:
            shop["conn"] = open.enter_context(psycopg.connect(database))
        exec(compile(as_code(example), "README.md", "exec"), shop)
        for name, found in list(shop.items()):
            if name.startswith("test_"):
                found(foliot)
        foliot.advance("2 days")
        assert foliot.failures == []
        assert {job.state.value for job in foliot.jobs()} == {"succeeded"}

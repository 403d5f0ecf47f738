"""An app that a test has not taken over reaches no store: nothing is written where the project keeps its jobs."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from foliot import Foliot
from foliot.client.function import JobFunction
from foliot.config import StoreSettings
from foliot.errors import FoliotError
from foliot.store.open import upgrade_store
from foliot.testing import Harness


class Shop:
    """An app with its real store, which a test has forgotten to name."""

    def __init__(self, path: Path) -> None:
        url = f"sqlite:///{path}"
        asyncio.run(upgrade_store(StoreSettings(url=url)))
        self.path, self.app = path, Foliot(url)
        self.send: JobFunction[..., Any, Any] = self.app.job(_send)

    def submit_workflow(self) -> None:
        with self.app.workflow("order") as flow:
            flow.add(self.send.prepare("ada"))

    def submit_in_transaction(self) -> None:
        with closing(sqlite3.connect(self.path)) as connection:
            self.send.options(connection=connection).submit("ada")
            connection.commit()

    async def work(self) -> None:
        async with self.app.worker():
            await asyncio.sleep(0)

    @property
    def stored(self) -> int:
        with closing(sqlite3.connect(self.path)) as connection:
            tables = ["jobs", "workflows", "schedules", "sessions", "limits"]
            return sum(
                connection.execute(f"SELECT count(*) FROM foliot_{table}").fetchone()[0]
                for table in tables
            )


def _send(to: str) -> str:
    return to


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "foliot.db")


WAYS: dict[str, Callable[[Shop], Any]] = {
    "submit": lambda shop: shop.send.submit("ada"),
    "asubmit": lambda shop: asyncio.run(shop.send.asubmit("ada")),
    "submit_many": lambda shop: shop.app.submit_many([shop.send.prepare("ada")] * 3),
    "after": lambda shop: shop.send.options(after=["01a1ed37-e7cf-7000-8000-000000000000"]).submit(
        "ada"
    ),
    "a connection": Shop.submit_in_transaction,
    "workflow": Shop.submit_workflow,
    "schedule": lambda shop: shop.app.schedule("s", shop.send.prepare("ada"), "every 1h"),
    "limit": lambda shop: shop.app.set_limit("queue:mail", concurrency=1),
    "worker": lambda shop: asyncio.run(shop.work()),
    "run_worker": lambda shop: shop.app.run_worker(),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_app_that_no_test_has_named_stores_nothing_and_says_so(way: str, shop: Shop) -> None:
    with shop.app, Harness(), pytest.raises(FoliotError, match="no app is named") as caught:
        WAYS[way](shop)
    assert 'foliot_app = "shop:app"' in (caught.value.hint or "")
    assert shop.stored == 0


def test_nor_does_one_whose_store_is_open_already(shop: Shop) -> None:
    with shop.app:
        shop.send.submit("before")
        with Harness(), pytest.raises(FoliotError, match="no app is named"):
            shop.send.submit("within")
        shop.send.submit("after")
    assert shop.stored == 2


def test_another_app_than_the_one_under_test_is_kept_out_until_a_harness_takes_it(
    foliot: Harness, foliot_app: Foliot, shop: Shop
) -> None:
    greet = foliot_app.job(kind="greet")(_send)
    with shop.app:
        with pytest.raises(FoliotError, match="is not the one under test"):
            shop.send.submit("ada")
        with Harness(shop.app) as other:
            shop.send.submit("ada")
            greet.submit("bob")
            assert other.run_until_idle() == 1
        with pytest.raises(FoliotError, match="is not the one under test"):
            shop.send.submit("ada")
    assert foliot.run_until_idle() == 1
    assert shop.stored == 0


def test_inline_mode_needs_no_store_and_is_let_be(foliot: Harness, shop: Shop) -> None:
    with shop.app.inline():
        assert shop.send.submit("ada").result() == "ada"
    assert shop.stored == 0

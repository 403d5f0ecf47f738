"""The command line, run in this process, on a store of its own."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from foliot.cli.main import main
from foliot.clock import SystemClock
from foliot.config import StoreSettings
from foliot.ids import Ids
from foliot.model.job import NewJob
from foliot.model.lane import lane_of
from foliot.store.open import open_store
from foliot.store.port import Store
from support.stores import make_sqlite

T = TypeVar("T")


class Answer(msgspec.Struct, frozen=True):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)


class Shell:
    """`foliot …` on one store, and that store for looking behind it."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self._capsys = capsys

    def __call__(self, *arguments: str, url: bool = True) -> Answer:
        self._capsys.readouterr()
        code = main([*arguments, *(["--url", self.url] if url else [])])
        out, err = self._capsys.readouterr()
        return Answer(code, out, err)

    def ask(self, question: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        async def run() -> T:
            clock = SystemClock()
            store = await open_store(
                StoreSettings(url=self.url), clock=clock, ids=Ids(clock=clock), create=False
            )
            try:
                return await question(store)
            finally:
                await store.close()

        return asyncio.run(run())

    def submit(self, count: int = 1, *, queue: str = "default", **fields: Any) -> list[str]:
        ids = Ids()
        fields = {"kind": "echo", "payload": b"{}", **fields}
        jobs = [
            NewJob(ids.job(), queue=queue, lane=lane_of(queue).number, **fields)
            for _ in range(count)
        ]
        return list(self.ask(lambda store: store.jobs.submit(0, jobs)))


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(asyncio.run(make_sqlite(tmp_path)), capsys)


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], None]:
    """Call it with what is on stdin."""

    def feed(text: str | bytes) -> None:
        raw = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))

    return feed

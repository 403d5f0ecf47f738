"""An app with a worker on each kind of store, and the command line in this process."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from client.conftest import run_in_thread
from foliot import Foliot
from foliot.cli.main import main
from foliot.client.function import JobFunction
from foliot.config import StoreSettings
from foliot.store.open import upgrade_store
from support.stores import Databases

_names = itertools.count()


class Answer(msgspec.Struct, frozen=True):
    """What a command said."""

    code: int
    out: str
    err: str


Foliot_ = Callable[..., Answer]


class Echo:
    """A job that returns what it is given, and one that does what it is told."""

    def __init__(self, app: Foliot) -> None:
        self.app = app

        @app.job(max_attempts=1)
        async def echo(value: Any = None) -> Any:
            return value

        @app.job(max_attempts=1)
        async def produce(what: str) -> Any:
            return PRODUCE[what]()

        self.echo: JobFunction[..., Any, Any] = echo
        self.produce: JobFunction[..., Any, Any] = produce

    def __call__(self, value: Any) -> Any:
        return self.echo.submit(value).result(timeout=30)


def _circle() -> Any:
    circle: list[Any] = []
    circle.append(circle)
    return circle


def _fail() -> Any:
    raise ValueError("begin" + "x" * 10_000_000 + "end")


PRODUCE: dict[str, Callable[[], Any]] = {
    "too_large": lambda: "x" * 300_000,
    "circle": _circle,
    "object": object,
    "nul": lambda: {"a\0b": "c\0d"},
    "nan": lambda: [1.0, float("nan")],
    "deep": lambda: _nested(65),
    "surrogate": lambda: "\ud800",
    "fail": _fail,
}


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.fixture
def nested() -> Callable[[int], Any]:
    return _nested


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def any_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Of a store of each kind, for all tests of a module."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('corpus')}/foliot.db"
        return
    databases: Databases = request.getfixturevalue("databases")
    name = f"corpus_{next(_names)}"
    url = databases.server.create_database(name)
    asyncio.run(upgrade_store(StoreSettings(url=url)))
    yield url
    databases.server.drop_database(name)


@pytest.fixture(scope="module")
def echo(any_url: str) -> Iterator[Echo]:
    with Foliot(any_url) as app:
        echo = Echo(app)
        stop = run_in_thread(app)
        try:
            yield echo
        finally:
            stop()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Foliot]:
    with Foliot(f"sqlite:///{tmp_path}/foliot.db") as app:
        yield app


@pytest.fixture
def foliot(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Foliot_:
    """`foliot …` in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Answer:
        capfd.readouterr()
        code = main(arguments)
        said = capfd.readouterr()
        return Answer(code, said.out, said.err)

    return run

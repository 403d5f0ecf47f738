"""Jobs in several modules: collections, includes, autodiscovery."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

from foliot import Foliot, FoliotError, Jobs
from foliot.errors import InvalidValue
from foliot.target import load_registry

StartWorker = Callable[[], None]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Writes modules that can be imported, and forgets them afterwards."""
    known = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in path.relative_to(tmp_path).parents[:-1]:
            (tmp_path / folder / "__init__.py").touch()
        path.write_text(dedent(text))

    yield write
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_a_collection_belongs_to_the_app_that_includes_it(
    app: Foliot, start_worker: StartWorker
) -> None:
    jobs = Jobs(queue="mail", prefix="mail.")

    @jobs.job
    def send(to: str) -> str:
        return f"to {to}"

    @jobs.job(queue="other", kind="count")
    async def total(n: int) -> int:
        return n

    app.include(jobs)

    @jobs.job
    def later() -> str:
        return "later"

    assert app.registry.kinds == ("mail.count", "mail.later", "mail.send")
    assert app.registry.find("mail.send").queue == "mail"
    assert app.registry.find("mail.count").queue == "other"
    start_worker()
    assert send("a") == "to a"
    assert send.submit("a").result(timeout=20) == "to a"
    assert total.options(priority=1).submit(2).result(timeout=20) == 2
    assert later.submit().result(timeout=20) == "later"


def test_jobs_that_no_app_has_included_cannot_be_submitted(app: Foliot) -> None:
    jobs = Jobs()

    @jobs.job
    def send() -> None: ...

    with pytest.raises(
        FoliotError, match=r"no app has included these jobs yet: send; app\.include"
    ):
        send.submit()
    app.include(jobs, jobs)
    send.submit()
    with pytest.raises(InvalidValue, match="included in another app"):
        Foliot("sqlite://:memory:").include(jobs)


def test_two_functions_of_one_kind_are_refused_when_they_meet(app: Foliot) -> None:
    first, second = Jobs(), Jobs()

    @first.job(kind="send")
    def one() -> None: ...

    @second.job(kind="send")
    def two() -> None: ...

    app.include(first)
    with pytest.raises(InvalidValue, match="is the name of"):
        app.include(second)


def test_modules_are_imported_when_all_jobs_are_needed(
    shop: Callable[[str, str], None], tmp_path: Path
) -> None:
    shop("shop/app.py", """
        from foliot import Foliot
        app = Foliot("sqlite://:memory:", include=["shop.mail", "shop.reports"])
    """)  # fmt: skip
    shop("shop/mail.py", """
        from shop.app import app
        @app.job
        def send(): ...
    """)  # fmt: skip
    shop("shop/reports.py", """
        from foliot import Jobs
        jobs = Jobs(prefix="reports.")
        @jobs.job
        def build(): ...
    """)  # fmt: skip
    assert load_registry("shop.app:app").kinds == ("reports.build", "send")


def test_a_submission_is_a_reason_to_include_its_collection(
    shop: Callable[[str, str], None], tmp_path: Path
) -> None:
    shop("late/mail.py", """
        from foliot import Jobs
        jobs = Jobs()
        @jobs.job
        def send(): ...
    """)  # fmt: skip
    with Foliot(f"sqlite:///{tmp_path}/foliot.db", include=["late.mail"]):
        module = importlib.import_module("late.mail")
        assert module.send.submit().status() == "ready"


def test_an_import_waits_until_it_is_needed(shop: Callable[[str, str], None]) -> None:
    app = Foliot("sqlite://:memory:", include=["shop.none"])
    with pytest.raises(InvalidValue, match=r"shop\.none' cannot be imported: there is no module"):
        _ = app.registry
    shop("shop/none.py", "")
    assert app.registry.kinds == ()


def test_autodiscovery_finds_the_modules_of_a_name_everywhere_in_a_package(
    shop: Callable[[str, str], None], app: Foliot
) -> None:
    text = """
        from foliot import Jobs
        jobs = Jobs()
        @jobs.job(kind=__name__)
        def work(): ...
    """
    for path in ("jobs.py", "mail/jobs.py", "mail/old/jobs.py", "reports/jobs/__init__.py"):
        shop(f"market/{path}", text)
    shop("market/mail/views.py", "raise RuntimeError('nobody asked for this one')")
    app.autodiscover("market")
    assert app.registry.kinds == (
        "market.jobs",
        "market.mail.jobs",
        "market.mail.old.jobs",
        "market.reports.jobs",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_like_it", "it imports nothing_like_it, which there is not"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def (", "SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_the_reason(
    shop: Callable[[str, str], None], app: Foliot, text: str, said: str
) -> None:
    shop("broken/jobs.py", text)
    app.include("broken.jobs")
    for _ in range(2):
        with pytest.raises(FoliotError, match=r"broken\.jobs cannot be imported") as caught:
            _ = app.registry
        assert said in str(caught.value)


@pytest.mark.parametrize("found", [5, "shop mail", "", None, object(), "shop."])
def test_what_cannot_be_included_is_refused_at_once(app: Foliot, found: object) -> None:
    with pytest.raises(InvalidValue, match="neither Jobs, nor a module"):
        app.include(found)  # type: ignore[arg-type]


def test_a_module_can_be_included_as_it_is(app: Foliot) -> None:
    module = ModuleType("mail")
    jobs = Jobs()
    jobs.job(kind="send")(test_a_module_can_be_included_as_it_is)
    module.jobs = jobs  # type: ignore[attr-defined]
    app.include(module)
    assert app.registry.kinds == ("send",)


def test_a_worker_says_which_include_is_wrong(
    shop: Callable[[str, str], None], tmp_path: Path
) -> None:
    shop("store.py", """
        from foliot import Foliot
        app = Foliot("sqlite:///foliot.db", include=["nowhere.jobs"])
    """)  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "foliot", "worker", "store:app", "--child"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    assert "nowhere.jobs" in done.stderr and "there is no module nowhere" in done.stderr
    assert "Traceback" not in done.stderr

"""The plugin in a project of its own: installed, found by pytest, and no trouble to those who do not use it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.installed import environment, install

SHOP = """
from foliot import Foliot

app = Foliot("postgresql://nobody@there.invalid/none")
sent = []

@app.job(queue="mail", max_attempts=3)
def send_email(to: str) -> str:
    sent.append(to)
    return f"sent to {to}"

@app.job
async def remind(to: str) -> None:
    await send_email.asubmit(to)

def place_order(customer: str) -> None:
    send_email.submit(f"{customer}@example.org")
    remind.options(delay=3 * 86400).submit(f"{customer}@example.org")
"""
TEST_SHOP = """
import sys
import pytest
from shop import place_order, sent

@pytest.mark.parametrize("customer", ["ada", "bob", "eve", "joe"])
def test_order(foliot, customer):
    place_order(customer)
    foliot.assert_submitted("send_email", to=f"{customer}@example.org", queue="mail", count=1)
    foliot.run_until_idle()
    assert len(foliot.jobs("send_email", state="succeeded")) == 1
    foliot.advance("3 days")
    assert len(foliot.jobs("send_email", state="succeeded")) == 2
    assert sent[-2:] == [f"{customer}@example.org"] * 2
    assert not foliot.dead
    assert "psycopg" not in sys.modules
"""
STRICT = ["-q", "-W", "error", "--strict-config", "--strict-markers", "-p", "no:cacheprovider"]

Run = Callable[..., str]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("site"))


@pytest.fixture
def run(site: Path, tmp_path: Path) -> Run:
    """Run pytest in a project with these files; it passes, or fails if that is expected."""

    def run(*args: str, fails: bool = False, **files: str) -> str:
        for name, text in files.items():
            suffix = "ini" if name == "pytest" else "py"
            (tmp_path / f"{name}.{suffix}").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *STRICT, *args],
            cwd=tmp_path,
            env=environment(site),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == (1 if fails else 0), said
        return said

    return run


def test_the_app_is_named_in_the_settings(run: Run) -> None:
    said = run(pytest="[pytest]\nfoliot_app = shop:app\n", shop=SHOP, test_shop=TEST_SHOP)
    assert "4 passed" in said


def test_it_works_in_several_processes(run: Run) -> None:
    said = run("-n2", pytest="[pytest]\nfoliot_app = shop:app\n", shop=SHOP, test_shop=TEST_SHOP)
    assert "4 passed" in said


def test_the_app_is_named_by_the_test(run: Run) -> None:
    test = (
        "from shop import app, place_order\n"
        "def test_order(foliot):\n"
        "    foliot.use(app)\n"
        "    place_order('ada')\n"
        "    assert foliot.run_until_idle() == 1\n"
    )
    assert "1 passed" in run(shop=SHOP, test_shop=test)


def test_the_fixtures_can_be_overridden(run: Run) -> None:
    conftest = (
        "from datetime import UTC, datetime\n"
        "import pytest\n"
        "from foliot.testing import ManualClock\n"
        "@pytest.fixture\n"
        "def foliot_app():\n"
        "    from shop import app\n"
        "    return app\n"
        "@pytest.fixture\n"
        "def foliot_clock():\n"
        "    return ManualClock(datetime(2027, 1, 1, tzinfo=UTC))\n"
    )
    test = (
        "def test_it(foliot):\n"
        "    assert foliot.clock.now().year == 2027\n"
        "    assert foliot.app.clock is foliot.clock\n"
    )
    assert "1 passed" in run(conftest=conftest, shop=SHOP, test_shop=test)


def test_a_test_without_an_app_is_told_what_to_do(run: Run) -> None:
    said = run(test_shop="def test_it(foliot):\n    foliot.run_until_idle()\n", fails=True)
    assert 'say foliot.use(app), or foliot_app = "shop:app" in the settings of pytest' in said


def test_an_assertion_ends_where_the_test_stands(run: Run) -> None:
    test = (
        "import shop\n"
        "def test_it(foliot):\n"
        "    foliot.use(shop.app)\n"
        "    foliot.assert_submitted('send_email', to='ada')\n"
    )
    said = run(shop=SHOP, test_shop=test, fails=True)
    assert "send_email with to='ada' was not submitted; nothing was submitted" in said
    assert "harness.py" not in said


def test_who_does_not_use_it_does_not_pay_for_it(run: Run) -> None:
    test = (
        "import sys\n"
        "def test_it():\n"
        "    assert 'foliot.testing.plugin' in sys.modules\n"
        "    heavy = {'psycopg', 'msgspec', 'sqlite3', 'asyncio', 'foliot.client', 'foliot.store'}\n"
        "    assert not heavy & set(sys.modules)\n"
    )
    assert "1 passed" in run("-p", "no:anyio", "-p", "no:randomly", test_it=test)


def test_it_can_be_switched_off(run: Run) -> None:
    said = run("-p", "no:foliot", test_it="def test_it(foliot): ...", fails=True)
    assert "fixture 'foliot' not found" in said

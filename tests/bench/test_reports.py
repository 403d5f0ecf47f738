"""What each bench reports, from small real runs. How fast is not asked here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from foliot import Foliot, JobState
from foliot.bench import drain, idle
from foliot.bench.probe import open_probe
from foliot.bench.sustained import sustained
from foliot.cli.main import main
from foliot.config import Settings, StoreSettings
from foliot.store.open import upgrade_store

Run = Callable[..., tuple[int, str, str]]
Bench = Callable[..., dict[str, Any]]


def builtins(report: dict[str, object]) -> dict[str, Any]:
    """As it is printed."""
    found: dict[str, Any] = msgspec.to_builtins(report)
    return found


def check_surroundings(report: dict[str, Any]) -> None:
    assert set(report["versions"]) == {"foliot", "python"}
    assert report["store"]["engine"] in {"PostgreSQL", "SQLite"}
    assert report["store"]["server_version"]
    assert report["cpus"] >= 1
    if report["store"]["engine"] == "PostgreSQL":
        assert {"fsync", "synchronous_commit"} <= set(report["store"])


def check_percentiles(found: dict[str, float]) -> None:
    assert set(found) == {"p50", "p95", "p99"}
    assert 0 <= found["p50"] <= found["p95"] <= found["p99"]


def test_drain_reports_the_median_of_its_runs(bench: Bench, url: str) -> None:
    report = bench("drain", "--jobs", "300", "--runs", "3", "--processes", "2")
    check_surroundings(report)
    assert report["bench"] == "drain"
    assert report["jobs_per_second"] == sorted(report["drain"]["runs"])[1] > 0
    assert report["settings"]["jobs"] == 300
    assert report["settings"]["processes"] == 2
    assert report["settings"]["concurrency"] == 100
    probe = open_probe(url)
    assert not probe.busy()
    assert list(probe.finished()) == []
    probe.close()


def test_drain_runs_sync_functions_too(bench: Bench) -> None:
    report = bench("drain", "--jobs", "300", "--runs", "1", "--processes", "1", "--kind", "sync")
    assert report["settings"]["kind"] == "sync"
    assert report["jobs_per_second"] > 0


def test_drain_compares_itself_with_the_best_floor_and_with_a_crowded_store(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foliot.bench.floor._BATCHES", (50,))
    monkeypatch.setattr("foliot.bench.floor._CONNECTIONS", (1, 2))
    plan = drain.Plan(jobs=200, runs=1, floor=True, backdrop=1000)
    report = builtins(drain.drain(settings, plan, print))
    tried = [(one["shape"]["batch"], one["shape"]["connections"]) for one in report["floor_sweep"]]
    assert sorted(tried) == [(50, 1), (50, 2)]
    assert tuple(report["floor_shape"].values()) in tried
    rate = report["jobs_per_second"]
    beside = report["beside_backdrop"]["median"]
    assert report["ratio_to_floor"] == pytest.approx(rate / report["floor"]["median"], abs=0.01)
    assert report["ratio_beside_backdrop"] == pytest.approx(beside / rate, abs=0.01)


def test_submit_reports_batches_and_single_submissions(bench: Bench) -> None:
    report = bench("submit", "--seconds", "0.2", "--runs", "1", "--threads", "4", "--batch", "50")
    check_surroundings(report)
    assert report["jobs_per_second"] == report["submit_many"]["median"] > 0
    assert report["one_thread"]["median"] > 0
    assert report["4_threads"]["median"] > 0


def test_sustained_reports_rates_and_sizes_over_time(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foliot.bench.sustained.SLICE", 0.1)
    report = builtins(sustained(settings, 1.0, print, force=False))
    check_surroundings(report)
    assert report["jobs_per_second"] > 0
    assert len(report["slices"]) >= 1
    moment = report["moments"][0]
    assert moment["claim_ms"] > 0
    assert {"bytes", "live_rows", "dead_rows"} == set(moment["table"])


def test_latency_reports_percentiles(bench: Bench) -> None:
    report = bench("latency", "--jobs", "100", "--gap", "0.002")
    check_surroundings(report)
    check_percentiles(report["latency_ms"])
    check_percentiles(report["from_call_ms"])
    assert report["settings"]["jobs"] == 100


def test_idle_reports_statements_cpu_and_memory(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foliot.bench.idle._SETTLE", 0.0)
    report = builtins(idle.idle(settings, idle.Plan(seconds=1.5, jobs=200), print))
    check_surroundings(report)
    assert report["cpu_share"] >= 0
    assert len(report["memory_bytes"]) == 11
    assert min(report["memory_bytes"]) > 1_000_000
    if report["store"]["engine"] == "PostgreSQL":
        assert report["statements_per_second"] > 0
    else:
        assert report["statements_per_second"] is None


def test_a_store_with_jobs_is_refused_unless_forced(run: Run, bench: Bench, url: str) -> None:
    asyncio.run(upgrade_store(StoreSettings(url=url)))
    with Foliot(url) as app:

        @app.job
        def precious() -> None: ...

        handle = precious.submit()
        code, _, said = run("drain", "--jobs", "10", "--runs", "1")
        assert code == 2
        assert "has jobs in it" in said
        assert "--force" in said
        assert bench("drain", "--jobs", "10", "--runs", "1", "--force")["jobs_per_second"] > 0
        # Untouched; by now perhaps held, for no worker that lives knows its kind.
        assert handle.status() in (JobState.READY, JobState.HELD)


@pytest.mark.parametrize(
    "arguments",
    [
        ("drain", "--jobs", "0"),
        ("drain", "--runs", "0"),
        ("drain", "--backdrop", "-1"),
        ("drain", "--processes", "none"),
        ("drain", "--kind", "both"),
        ("submit", "--seconds", "0"),
        ("submit", "--sustained", "0"),
        ("latency", "--gap", "-1"),
        ("latency", "--url", "sqlite:///:memory:"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *arguments]) == 2
    assert not list(tmp_path.iterdir())


def test_waiters_reports_what_waiting_costs_and_how_soon_it_ends(
    bench: Bench, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foliot.bench.waiters._SETTLE", 0.5)
    kind = "sync" if url.startswith("sqlite") else "async"
    report = bench("waiters", "--handles", "20", "--seconds", "2", "--gap", "0", "--kind", kind)
    check_surroundings(report)
    assert report["statements_per_second"] > 0
    most = report["latency_ms"].pop("max")
    check_percentiles(report["latency_ms"])
    assert most >= report["latency_ms"]["p99"]
    assert report["settings"]["handles"] == 20

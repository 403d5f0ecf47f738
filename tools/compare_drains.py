"""Drains of this checkout and of another one in turns, on one PostgreSQL server with a database for each.

    python tools/compare_drains.py ../foliot-before --pairs 8 --jobs 100000
    python tools/compare_drains.py . --before FOLIOT_WORKER_IN_FLIGHT=3

Prints for each pair how many jobs a second both ran, and how much processor time a job took: of the workers and the
bench, and of the server. A machine that others use as well changes the former much more than the latter.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import NamedTuple

from foliot.testing.postgres import TemporaryPostgres

HERE = Path(__file__).resolve().parent.parent
_BENCH = "import sys; from foliot.cli.main import main; sys.exit(main(sys.argv[1:]))"
_TICKS = os.sysconf("SC_CLK_TCK")


class Drain(NamedTuple):
    rate: float  # jobs a second
    cost: float  # microseconds of processor time a job, without the server's
    server: float  # the server's


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("other", type=Path, help="a checkout of what to compare with")
    parser.add_argument(
        "--before",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="its environment",
    )
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=100_000)
    asked = parser.parse_args()
    places = {"before": asked.other.resolve(), "now": HERE}
    settings: dict[str, dict[str, str]] = {"before": dict(asked.before), "now": {}}
    ratios: list[Drain] = []
    with TemporaryPostgres(durable=True) as server:
        urls = {name: server.create_database(name) for name in places}
        postmaster = int((server.directory / "data" / "postmaster.pid").read_text().split()[0])
        for pair in range(1, asked.pairs + 1):
            found: dict[str, Drain] = {}
            for name in sorted(places, reverse=pair % 2 == 0):
                found[name] = _drain(
                    places[name], urls[name], asked.jobs, postmaster, settings[name]
                )
            ratios.append(
                Drain(*(n / b for n, b in zip(found["now"], found["before"], strict=True)))
            )
            both = ", ".join(
                f"{name} {one.rate:,.0f} jobs/s, {one.cost:.1f} + {one.server:.1f} µs a job"
                for name, one in sorted(found.items())
            )
            print(f"pair {pair}: {both}; ratio {ratios[-1].rate:.3f}", flush=True)
    rate, cost, served = (median(column) for column in zip(*ratios, strict=True))
    print(
        f"median of the ratios: jobs/s {rate:.3f}, processor time {cost:.3f}, server {served:.3f}"
    )


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not like FOLIOT_WORKER_IN_FLIGHT=3")
    return name, value


def _drain(place: Path, url: str, jobs: int, postmaster: int, settings: dict[str, str]) -> Drain:
    ours, servers = _used_by_children(), _used_by_server(postmaster)
    command = [sys.executable, "-c", _BENCH, "bench", "drain", "--runs", "1", "--json"]
    told = subprocess.run(  # noqa: S603 - the bench of a checkout that somebody named
        [*command, "--jobs", str(jobs), "--url", url],
        env={
            **os.environ,  # noqa: TID251 - handed on as it is
            "PYTHONPATH": str(place / "src"),
            "PYTHONDONTWRITEBYTECODE": "",  # or what each process compiles is counted as well
            **settings,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    rate = float(json.loads(told.stdout)["jobs_per_second"])
    spent = (_used_by_children() - ours, _used_by_server(postmaster) - servers)
    return Drain(rate, *(seconds / jobs * 1e6 for seconds in spent))


def _used_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _used_by_server(postmaster: int) -> float:
    """By backends that have ended, which all of a bench have, and by the server itself."""
    fields = Path(f"/proc/{postmaster}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / _TICKS


if __name__ == "__main__":
    main()

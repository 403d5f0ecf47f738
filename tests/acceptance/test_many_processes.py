"""Many processes at once: no job starts twice, and the server sees no deadlock."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from acceptance.conftest import FleetMaker
from foliot.ids import JobId
from foliot.testing.postgres import TemporaryPostgres
from support.fleet import TESTS, Fleet


@pytest.mark.parametrize("partitions", [1, 8])
def test_eight_processes_claiming_at_once_start_nothing_twice(
    server: TemporaryPostgres, make_fleet: FleetMaker, partitions: int
) -> None:
    # Beats are not what this is about, and eight processes share few cores.
    fleet = make_fleet(partitions=partitions, worker_lease="30s", worker_beat="3s")
    fleet.submit_quick(20_000)
    workers = fleet.scale(8)
    fleet.wait_until_done(90)
    fleet.check_all_succeeded()
    starts = fleet.events("start")
    assert len(starts) == 20_000
    assert len({event.pid for event in starts}) > 1
    assert all(worker.alive for worker in workers)
    assert "deadlock detected" not in server.log_text()


def test_four_processes_on_one_file_start_nothing_twice(
    make_fleet: FleetMaker, sqlite_url: str
) -> None:
    fleet = make_fleet(sqlite_url, worker_lease="30s", worker_beat="3s")
    fleet.submit_quick(5_000)
    fleet.scale(4)
    fleet.wait_until_done(90)
    fleet.check_all_succeeded()
    assert len(fleet.events("start")) == 5_000


SUBMITTER = """
import sys
from acceptance.jobs import Jobs
jobs = Jobs(sys.argv[1])
print("up", flush=True)
sys.stdin.readline()
print(jobs.gated.options(key="order-42").submit(sys.argv[2]).id, flush=True)
jobs.app.close()
"""


def test_one_key_submitted_from_everywhere_at_once_is_one_run(any_fleet: Fleet) -> None:
    fleet = any_fleet
    gate = fleet.gate("open")
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", SUBMITTER, fleet.url, str(gate)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": str(TESTS)},
            text=True,
        )
        for _ in range(8)
    ]
    for program in programs:
        assert program.stdout is not None and program.stdout.readline() == "up\n"
    ids: set[JobId] = set()

    def submit() -> None:
        ids.add(fleet.jobs.gated.options(key="order-42").submit(str(gate)).id)

    threads = [threading.Thread(target=submit) for _ in range(12)]
    for thread in threads:
        thread.start()
    outputs = [program.communicate("go\n", timeout=30)[0] for program in programs]
    for thread in threads:
        thread.join()
    ids |= {JobId(output.strip()) for output in outputs}
    assert len(ids) == 1, ids
    fleet.submitted += ids
    fleet.start()
    fleet.wait_for("start")
    assert fleet.jobs.gated.options(key="order-42").submit(str(gate)).id in ids
    gate.touch()
    fleet.wait_until_done()
    fleet.check_all_succeeded()
    assert len(fleet.events("start")) == 1
    # The key is free again when the job has ended.
    after = fleet.submit(fleet.jobs.gated.options(key="order-42").submit(str(gate)))
    assert after.id not in ids
    assert after.result(timeout=30) == 1

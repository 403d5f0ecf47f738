"""`foliot workflows`, as people and pipelines type it, with a worker that runs what is submitted."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from cli.conftest import Answer, Shell
from client.conftest import run_in_thread
from foliot import Fixed, Foliot, InvalidValue, JobCancelled, JobState, current_job
from foliot.author import this_user
from foliot.ids import inner_id
from support.fleet import eventually
from support.stores import Place

pytestmark = pytest.mark.parametrize("place", ["sqlite-1", "postgres-8"], indirect=True)
NOBODY = "0192d5f0-5b7c-7a3b-8000-5c1f2e3d4c5b"


def second(again: int = 0) -> str:
    """Only the second attempt succeeds, or none."""
    if current_job().attempt == 1 or again:
        raise ValueError("no luck\nat first")
    return "good"


class Lab:
    """An app on the shell's store, and the jobs that workflows here are made of."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.app = app = Foliot(shell.url)
        self.gate = threading.Event()  # what `wait` waits for
        self.good = threading.Event()  # what `sometimes` needs

        @app.job
        def count(to: int) -> list[int]:
            return list(range(to))

        @app.job
        def double(number: int) -> int:
            return 2 * number

        @app.job
        def total(numbers: list[int]) -> int:
            return sum(numbers)

        @app.job
        def wait(number: int = 1) -> None:
            if number:
                self.gate.wait(60)

        @app.job(max_attempts=1)
        def sometimes() -> str:
            if not self.good.is_set():
                raise ValueError("no luck")
            return "good"

        self.count, self.double, self.total = count, double, total
        self.wait, self.sometimes = wait, sometimes
        app.job(max_attempts=2, retry=Fixed(0.2))(second)

    def fan(self, to: int, **options: Any) -> str:
        with self.app.workflow("fan", **options) as flow:
            numbers = flow.add(self.count.prepare(to))
            doubled = flow.map(self.double, over=numbers.result)
            flow.add(self.total.prepare(numbers=doubled.result))
        return flow.id

    def failing(self, **options: Any) -> str:
        with self.app.workflow("failing", **options) as flow:
            first = flow.add(self.double.prepare(1), name="first")
            failed = flow.add(self.sometimes.prepare(), after=[first])
            flow.add(self.double.prepare(2), after=[failed], name="last")
        return flow.id

    def approval(self) -> str:
        with self.app.workflow("approval") as flow:
            number = flow.wait_for("approval", name="asked")
            flow.add(self.double.prepare(number.result))
        return flow.id

    def ended(self, id: str) -> str:
        """Its id, when it has ended."""
        flow = self.app.get_workflow(id)
        eventually(lambda: flow.status().final)
        return id


@pytest.fixture
def shell(place: Place, anyio_backend: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(place.settings.url, capsys)


@pytest.fixture
def lab(shell: Shell) -> Iterator[Lab]:
    lab = Lab(shell)
    with lab.app:
        stop = run_in_thread(lab.app)
        eventually(lambda: shell.ask(lambda store: store.definitions.all()))
        yield lab
        lab.gate.set()
        stop()


@pytest.fixture
def etl(tmp_path: Path) -> Path:
    path = tmp_path / "etl.toml"
    path.write_text(
        """
name = "etl"
[[steps]]
name = "numbers"
kind = "count"
payload = { to = 4 }
[[steps]]
name = "doubled"
kind = "double"
over = { "$result" = "numbers" }
[[steps]]
name = "rest"
sleep = 0.01
after = ["doubled"]
[[steps]]
name = "sum"
kind = "total"
after = ["doubled", "rest"]
payload = { numbers = { "$result" = "doubled" } }
"""
    )
    return path


def refused(answer: Answer, said: str, code: int) -> None:
    assert said in answer.err
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.startswith("error: ")
    assert "Traceback" not in answer.err and "\x1b" not in answer.err


def test_workflows_are_listed_newest_first(shell: Shell, lab: Lab) -> None:
    ids = [lab.ended(lab.fan(number)) for number in range(3)]
    failed = lab.ended(lab.failing())
    header, *lines = shell("workflows", "list").out.splitlines()
    assert header.split() == [
        *("id", "state", "name", "steps", "failed", "created", "took", "about")
    ]
    assert [line.split()[:5] for line in lines] == [
        [failed, "failed", "failing", "3/3", "1"],
        [ids[2], "succeeded", "fan", "5/5", "0"],
        [ids[1], "succeeded", "fan", "4/4", "0"],
        [ids[0], "succeeded", "fan", "3/3", "0"],
    ]
    told = shell("workflows", "list", "--name", "fan", "--state", "succeeded", "--json").json
    assert ([one["id"] for one in told["workflows"]], told["next"]) == (ids[::-1], None)
    assert shell("workflows", "list", "--name", "other").out == "none\n"


def test_paused_workflows_are_listed_alone(shell: Shell, lab: Lab) -> None:
    ids = [lab.approval() for _ in range(3)]
    shell("workflows", "pause", ids[0])
    shell("workflows", "pause", ids[1])
    shell("workflows", "cancel", ids[1])
    paused = shell("workflows", "list", "--state", "paused")
    assert [line.split()[:2] for line in paused.out.splitlines()[1:]] == [[ids[0], "paused"]]
    running = shell("workflows", "list", "--state", "running", "--json").json["workflows"]
    assert [one["id"] for one in running] == [ids[2], ids[0]]
    assert [one.id for one in lab.app.workflows(state="paused")] == [ids[0]]
    with pytest.raises(InvalidValue, match="did you mean paused"):
        lab.app.workflows(state="pausd")


def test_a_long_list_is_paged(shell: Shell, lab: Lab) -> None:
    ids = [lab.ended(lab.fan(0)) for _ in range(3)]
    first = shell("workflows", "list", "--limit", "2", "--json").json
    assert ([one["id"] for one in first["workflows"]], first["next"]) == (ids[:0:-1], ids[1])
    rest = shell("workflows", "list", "--limit", "2", "--after", ids[1], "--json").json
    assert ([one["id"] for one in rest["workflows"]], rest["next"]) == ([ids[0]], None)
    assert shell("workflows", "list", "--limit", "2").out.endswith(
        f"there may be more with: --after {ids[1]}\n"
    )


def test_a_workflow_is_drawn_and_its_steps_are_listed(shell: Shell, lab: Lab) -> None:
    id = lab.ended(lab.fan(2, deadline=3600))
    answer = shell("workflows", "show", id)
    assert answer.code == 0, answer.err
    fields, picture, table = answer.out.split("\n\n", 1)[0], answer.out, answer.out.split("\n\n")[3]
    assert fields.splitlines()[:4] == [
        f"id:             {id}",
        "name:           fan",
        "namespace:      default",
        "policy:         fail_fast",
    ]
    assert "\ndeadline_at:    20" in picture and "fan   succeeded · 5 steps · " in picture
    assert re.search(r"│ ✓ count +├──▶│ ✓ double × 2 +├──▶│ ✓ total +│", picture)
    header, *lines = table.splitlines()
    assert header.split() == ["step", "state", "started", "took", "job", "reason"]
    assert [line.split()[0] for line in lines] == [
        *("count", "double", "double[0]", "double[1]", "total")
    ]
    told = shell("workflows", "show", id, "--json").json
    assert (told["state"], told["policy"], told["remaining"]) == ("succeeded", "fail_fast", 0)
    [last] = [one for one in told["steps"] if one["name"] == "total"]
    assert (last["result"], last["error"], last["state"]) == (2, None, "succeeded")


def test_what_went_wrong_is_said_beside_each_step(shell: Shell, lab: Lab) -> None:
    id = lab.ended(lab.failing())
    out = shell("workflows", "show", id).out
    assert "\n✗ sometimes dead: ValueError: no luck\n" in out
    _, first, failed, last = out.rstrip().rsplit("\n\n", 1)[1].splitlines()
    assert " succeeded  " in first
    assert failed.endswith("  ValueError: no luck")
    assert last.endswith(("  sometimes is dead", "  fail_fast"))
    steps = shell("workflows", "show", id, "--json").json["steps"]
    assert [one["error"] for one in steps] == [None, "ValueError: no luck", None]


def test_what_steps_wait_for_is_said(shell: Shell, lab: Lab) -> None:
    inner = lab.app.workflow("inner")
    inner.wait_for("go")
    with lab.app.workflow("outer") as flow:
        flow.add(lab.double.prepare(1), after=[flow.add(inner), flow.wait_for("approval")])
    eventually(lambda: flow["inner"].status() is JobState.HELD)
    out = shell("workflows", "show", flow.id).out
    id = inner_id(flow["inner"].id)
    assert f"  workflow {id} runs\n" in out and "  waits for signal approval\n" in out
    shown = shell("workflows", "show", id).out
    assert f"\njob:            {flow['inner'].id} stands for it\n" in shown
    explained = shell("jobs", "explain", flow["double"].id).out
    assert explained.startswith("waiting: 0 of its 2 parents have ended, not yet: inner (held), ")


def test_a_step_whose_kind_nobody_knows_is_shown_with_it(shell: Shell, lab: Lab) -> None:
    with Foliot(shell.url) as elsewhere:
        other = elsewhere.job(kind="publish")(lambda: None)
        with elsewhere.workflow("news") as flow:
            flow.add(other.prepare(), name="last")
        eventually(lambda: flow["last"].status() is JobState.HELD)
    out = shell("workflows", "show", flow.id).out
    assert "held: unknown kind publish" in out
    assert "  the kind 'publish' was unknown to its worker\n" in out


@pytest.mark.parametrize("part", [slice(0, 23), slice(-8, None)])
def test_the_beginning_or_the_end_of_an_id_is_enough(shell: Shell, lab: Lab, part: slice) -> None:
    id = lab.ended(lab.fan(0))
    assert shell("workflows", "show", id[part].upper(), "--json").json["id"] == id


def test_a_part_of_several_ids_names_them(shell: Shell, lab: Lab) -> None:
    ids = [lab.approval() for _ in range(2)]
    common = ids[0][:8]  # of the same moment, as the first characters are the time
    answer = shell("workflows", "cancel", common)
    refused(answer, f"id: '{common}' is the beginning of several ids: {ids[1]}, {ids[0]}", 2)


def test_a_list_says_until_when_and_what_was_asked_to_end(shell: Shell, lab: Lab) -> None:
    with lab.app.workflow("slow", deadline=3600) as flow:
        flow.add(lab.wait.prepare())
    eventually(lambda: flow["wait"].status() is JobState.RUNNING)
    assert "  until 20" in shell("workflows", "list").out
    shell("workflows", "cancel", flow.id)
    assert shell("workflows", "list").out.endswith("  asked to end\n")
    assert "\ncancel:         it was asked to end\n" in shell("workflows", "show", flow.id).out


@pytest.mark.parametrize(
    ("id", "said", "code"),
    [
        (NOBODY, f"no workflow has the id '{NOBODY}'", 1),
        (NOBODY[:8], f"no workflow has the id '{NOBODY[:8]}'", 1),
        ("etl", "hint: ids of workflows with a name: foliot workflows list --name etl", 2),
        (
            NOBODY[:6],
            f"'{NOBODY[:6]}' is not a workflow's id: its first or last 8 characters are the least",
            2,
        ),
        ("", "id: '' is not a workflow's id", 2),
        ("e t l\x1b[2J", "is not a workflow's id", 2),
    ],
)
@pytest.mark.parametrize(
    "command",
    ["show", "cancel", "pause", "resume", "retry", "rerun", "graph", "signal"],
)
def test_a_wrong_id_is_refused_by_every_command(
    shell: Shell, command: str, id: str, said: str, code: int
) -> None:
    more = ["approval"] if command == "signal" else []
    for form in ([], ["--json"]):
        refused(shell("workflows", command, id, *more, *form), said, code)


def test_the_id_of_a_step_says_which_workflow_was_meant(shell: Shell, lab: Lab) -> None:
    id = lab.ended(lab.fan(0))
    step = lab.app.get_workflow(id)["total"].id
    refused(shell("workflows", "show", step), f"hint: it is a step of {id}", 1)
    job = lab.double.submit(1).id
    refused(shell("workflows", "show", job), f"hint: see: foliot jobs show {job}", 1)
    refused(shell("jobs", "show", id), f"on the command line foliot workflows show {id}", 1)


def test_a_part_of_a_workflows_id_is_told_where_a_job_is_meant(shell: Shell, lab: Lab) -> None:
    """It is of the same moment as its steps, so that its beginning is theirs as well."""
    id = lab.ended(lab.fan(1))
    for part in (id[:9], id[-8:]):
        for command in ("explain", "show"):
            answer = shell("jobs", command, part)
            assert f"foliot workflows show {id}" in answer.err, answer.err
            assert answer.out == "" and "workflow" in answer.err
    [job] = [lab.double.submit(1)]
    assert "workflow" not in shell("jobs", "explain", job.id[-8:]).err


def test_a_job_that_stands_for_a_workflow_says_for_which(shell: Shell, lab: Lab) -> None:
    draft = lab.app.workflow("nightly")
    draft.add(lab.double.prepare(1))
    job = lab.app.schedule("nightly", draft, "@daily").trigger()
    assert job is not None
    refused(shell("workflows", "show", job.id), f"hint: it stands for {inner_id(job.id)}", 1)


def test_arguments_of_a_schedule_that_fires_a_workflow_cannot_be_changed(
    shell: Shell, lab: Lab
) -> None:
    draft = lab.app.workflow("nightly")
    draft.add(lab.double.prepare(1))
    lab.app.schedule("nightly", draft, "@daily")
    refused(shell("schedules", "update", "nightly", "number=2"), "fires a workflow", 1)
    assert shell("schedules", "update", "nightly", "--expression", "@hourly").code == 0


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["list", "--state", "done"], "Choose from"),
        (["list", "--limit", "0"], "limit: 0 is not a whole number from 1"),
        (["list", "--limit", "many"], "limit"),
        (["list", "--after", "etl"], "id: 'etl' is not a workflow's id"),
        (["cancel"], "ids are missing"),
        (["signal", NOBODY], "foliot workflows signal needs NAME"),
        (["signal", NOBODY, "a b"], "signal: 'a b' is not 1 to 200 letters"),
        (["signal", NOBODY, "a:b"], "signal: 'a:b' is not 1 to 200 letters"),
        (["signal", NOBODY, "go", "--payload", "{"], "payload: '{' is not JSON"),
        (["signal", NOBODY, "go", "--payload", "@nowhere.json"], "nowhere.json"),
        (["graph", NOBODY, "--format", "png"], "Choose from"),
        (["submit"], "foliot workflows submit needs FILE"),
    ],
)
def test_what_is_typed_wrong_is_refused(shell: Shell, typed: list[str], said: str) -> None:
    refused(shell("workflows", *typed), said, 2)


def test_a_signal_goes_to_the_step_that_waits_for_it(shell: Shell, lab: Lab) -> None:
    id = lab.approval()
    answer = shell("workflows", "signal", id, "approval", "--payload", "21", "--by", "ada")
    assert (answer.code, answer.out) == (0, "sent approval\n")
    lab.ended(id)
    told = shell("workflows", "show", id, "--json").json
    assert [one["result"] for one in told["steps"]] == [21, 42]
    assert [(one["action"], one["actor"]) for one in told["audit"]] == [("signal", "ada")]
    assert told["audit"][0]["detail"] == {"signal": "approval", "payload": "21"}
    assert shell("workflows", "show", id).out.count("\nsignal by ada at 20") == 1
    refused(shell("workflows", "signal", id, "approval"), f"workflow {id} is succeeded", 1)


def test_an_approval_that_was_wrong_is_asked_for_again(shell: Shell, lab: Lab) -> None:
    id = lab.approval()
    shell("workflows", "signal", id, "approval", "--payload", '"many"')
    lab.ended(id)
    assert shell("workflows", "retry", id, "--step", "asked").out == (
        "retried: 2 steps of 1 workflow\n"
    )
    shell("workflows", "signal", id, "approval", "--payload", "21")
    assert lab.app.get_workflow(lab.ended(id)).result() == {"double": 42}


@pytest.mark.parametrize("source", ["file", "stdin"])
def test_the_payload_of_a_signal_may_come_from_elsewhere(
    shell: Shell, lab: Lab, source: str, tmp_path: Path, feed: Any
) -> None:
    id, path = lab.approval(), tmp_path / "number.json"
    path.write_text("21")
    feed("21")
    payload = f"@{path}" if source == "file" else "-"
    sent = shell("workflows", "signal", id, "approval", "--payload", payload, "--json")
    assert sent.json == {"signal": "approval"}
    assert lab.app.get_workflow(lab.ended(id)).result() == {"double": 42}


def test_a_signal_that_no_step_waits_for_is_refused(shell: Shell, lab: Lab) -> None:
    id = lab.approval()
    refused(shell("workflows", "signal", id, "aproval"), "did you mean approval?", 2)
    assert shell("workflows", "signal", id, "later", "--early").out == "sent later\n"


def test_a_paused_workflow_says_so_and_goes_on_when_it_is_resumed(shell: Shell, lab: Lab) -> None:
    with lab.app.workflow("slow") as flow:
        flow.add(lab.double.prepare(1), after=[flow.add(lab.wait.prepare())])
    eventually(lambda: flow["wait"].status() is JobState.RUNNING)
    answer = shell("workflows", "pause", flow.id, "--note", "until monday", "--by", "ada")
    assert (answer.code, answer.out) == (0, f"paused {flow.id}\n")
    [_, line] = shell("workflows", "list").out.splitlines()
    assert (
        line.split()[1] == "paused"
        and "  paused at 20" in line
        and line.endswith("Z by ada: until monday")
    )
    assert "\n‖ paused by ada: until monday\n" in shell("workflows", "show", flow.id).out
    lab.gate.set()
    eventually(lambda: flow["double"].status() is JobState.HELD)
    assert "  the workflow is paused\n" in shell("workflows", "show", flow.id).out
    assert shell("jobs", "explain", flow["double"].id).out.startswith(
        "held: workflow slow was paused by ada at 20"
    )
    resumed = shell("workflows", "resume", flow.id, "--json").json
    assert (resumed["id"], resumed["paused_at"], resumed["note"]) == (flow.id, None, None)
    lab.ended(flow.id)
    for command in ("pause", "resume"):
        refused(shell("workflows", command, flow.id), f"workflow {flow.id} is succeeded", 1)


def test_what_code_does_to_a_workflow_is_told_like_what_is_typed(shell: Shell, lab: Lab) -> None:
    with lab.app.workflow("asked") as flow:
        flow.add(lab.double.prepare(1), after=[flow.wait_for("one"), flow.wait_for("two")])
    flow.signal("one", 1, by="ada")
    flow.signal("later", early=True)
    flow.cancel(by="bob")
    told = shell("workflows", "show", flow.id, "--json").json["audit"]
    assert [(one["action"], one["actor"]) for one in told] == [
        ("signal", "ada"),
        ("signal", this_user()),
        ("cancel", "bob"),
    ]


def test_cancelling_tells_what_runs_and_what_had_ended(shell: Shell, lab: Lab) -> None:
    done, waiting = lab.ended(lab.fan(0)), lab.approval()
    with lab.app.workflow("slow") as slow:
        slow.add(lab.wait.prepare())
    eventually(lambda: slow["wait"].status() is JobState.RUNNING)
    answer = shell("workflows", "cancel", done, waiting, slow.id)
    assert answer.code == 1
    assert answer.out.splitlines() == [
        "cancelled: 1",
        f"asked to end: {slow.id}, 1 of its steps has not ended",
    ]
    assert answer.err == f"refused: {done}: it is succeeded\n"
    lab.gate.set()
    lab.ended(slow.id)
    again = shell("workflows", "cancel", waiting, "--json")
    assert (again.code, again.json) == (
        0,
        {"changed": 1, "ids": [waiting], "still_running": 0, "refused": {}},
    )
    [_, listed] = shell(
        "workflows", "list", "--state", "cancelled", "--name", "approval"
    ).out.splitlines()
    assert listed.split()[4] == "-" and listed.endswith("  requested, 2 failed or cancelled")
    assert (
        "cancelled (requested) · 2 steps · 2 cancelled" in shell("workflows", "show", waiting).out
    )


def test_nobody_asked_for_the_end_of_steps_whose_deadline_has_passed(
    shell: Shell, lab: Lab
) -> None:
    with lab.app.workflow("late", deadline=0.3) as flow:
        flow.add(lab.double.prepare(1), after=[flow.wait_for("approval")])
    out = shell("workflows", "show", lab.ended(flow.id)).out
    assert "late   failed (deadline) · 2 steps · 2 cancelled" in out
    assert "⊘ approval cancelled: deadline" in out and "requested" not in out
    told = json.loads(shell("workflows", "show", flow.id, "--json").out)
    assert {step["reason"] for step in told["steps"]} == {"deadline"}
    with pytest.raises(JobCancelled, match="was cancelled: deadline"):
        flow["double"].result()


def test_a_map_is_listed_with_how_its_elements_are(shell: Shell, lab: Lab) -> None:
    with lab.app.workflow("waits") as flow:
        waited = flow.map(lab.wait, over=[0, 1])
        flow.add(lab.double.prepare(1), after=[waited])
    eventually(lambda: flow["wait[1]"].status() is JobState.RUNNING)
    eventually(lambda: flow["wait[0]"].status() is JobState.SUCCEEDED)
    out = shell("workflows", "show", flow.id).out
    [line] = [line for line in out.splitlines() if line.startswith("wait  ")]
    assert line.split()[1] == "succeeded"
    assert line.endswith("  its elements: 1 succeeded, 1 running")
    lab.gate.set()
    out = shell("workflows", "show", lab.ended(flow.id)).out
    [line] = [line for line in out.splitlines() if line.startswith("wait  ")]
    assert line.split()[1] == "succeeded" and line.endswith("  its elements: 2 succeeded")
    steps = {
        step["name"]: step for step in shell("workflows", "show", flow.id, "--json").json["steps"]
    }
    told = [(steps[name]["state"], steps[name]["elements"]) for name in ("wait", "wait[0]")]
    assert told == [("succeeded", {"succeeded": 2}), ("succeeded", None)]
    assert steps["wait"]["result"] == [None, None]


def test_what_a_job_stands_for_is_shown_by_its_steps(shell: Shell, lab: Lab) -> None:
    inner = lab.app.workflow("inner")
    inner.add(lab.double.prepare(1), after=[inner.wait_for("go")])
    with lab.app.workflow("outer") as flow:
        flow.add(inner)
    out = shell("jobs", "show", flow["inner"].id).out
    assert "step:           go: waits for the signal go\n" in out
    assert 'step:           double: double {"number":1}, after go\n' in out
    assert "payload" not in out


def test_several_workflows_are_retried_by_their_ids_or_by_what_they_are(
    shell: Shell, lab: Lab
) -> None:
    failed = [lab.ended(lab.failing()) for _ in range(3)]
    done = lab.ended(lab.fan(1))
    lab.good.set()
    refused(shell("workflows", "retry"), "ids are missing", 2)
    refused(shell("workflows", "retry", done, "--state", "failed"), "ids go without --name", 2)
    refused(shell("workflows", "retry", "--name", "failing"), "--yes is missing", 2)
    answer = shell("workflows", "retry", failed[0], done)
    assert (answer.code, answer.out) == (0, "retried: 2 steps of 1 workflow\n")
    lab.ended(failed[0])
    answer = shell(
        "workflows", "retry", "--state", "failed", "--name", "failing", "--yes", "--json"
    )
    assert answer.code == 0
    assert answer.json["retried"] == {
        id: [lab.app.get_workflow(id)[name].id for name in ("sometimes", "last")]
        for id in failed[:0:-1]
    }
    for id in failed:
        assert lab.app.get_workflow(lab.ended(id)).result() == {"last": 4}
    nothing = shell("workflows", "retry", "--name", "failing")
    assert (nothing.code, nothing.err) == (1, "nothing was changed: no step has failed\n")


def test_a_watched_workflow_that_failed_is_an_exit_code(shell: Shell, lab: Lab) -> None:
    id = lab.ended(lab.failing())
    assert shell("workflows", "show", id, "--watch").code == 1
    assert shell("workflows", "show", id, "--watch", "--json").code == 1
    assert shell("workflows", "show", id).code == 0


def test_what_failed_is_retried_by_name_or_all(shell: Shell, lab: Lab) -> None:
    id = lab.ended(lab.failing())
    refused(shell("workflows", "retry", id, "--step", "last"), "was skipped: it has not failed", 2)
    refused(shell("workflows", "retry", id, "--step", "sometime"), "did you mean sometimes?", 2)
    lab.good.set()
    answer = shell("workflows", "retry", id, "--step", "sometimes", "--by", "ada")
    assert (answer.code, answer.out) == (0, "retried: 2 steps of 1 workflow\n")
    assert lab.app.get_workflow(lab.ended(id)).result() == {"last": 4}
    nothing = shell("workflows", "retry", id, "--json")
    assert (nothing.code, nothing.json) == (1, {"retried": {}, "succeeded": [], "refused": {}})
    assert nothing.err == "nothing was changed: no step has failed\n"


def test_a_retry_of_what_was_cancelled_when_all_had_run_says_that_nothing_had_to(
    shell: Shell, lab: Lab
) -> None:
    def cancelled() -> str:
        lab.gate.clear()
        with lab.app.workflow("slow") as flow:
            flow.add(lab.wait.prepare())
        eventually(lambda: flow["wait"].status() is JobState.RUNNING)
        flow.cancel()
        lab.gate.set()
        return lab.ended(flow.id)

    id = cancelled()
    answer = shell("workflows", "retry", id)
    assert (answer.code, answer.out) == (0, f"succeeded: {id}: nothing had to run again\n")
    assert lab.app.get_workflow(id).status() == "succeeded"
    assert shell("workflows", "retry", id).err == "nothing was changed: no step has failed\n"
    id = cancelled()
    answer = shell(
        "workflows", "retry", "--name", "slow", "--state", "cancelled", "--yes", "--json"
    )
    assert (answer.code, answer.json) == (0, {"retried": {}, "succeeded": [id], "refused": {}})


def test_dead_steps_are_refused_by_a_retry_of_a_filter(shell: Shell, lab: Lab) -> None:
    """They are retried with their workflow: who asked for both has to know."""
    with lab.app.workflow("flaky") as flow:
        flow.add(lab.sometimes.prepare())
    plain = lab.sometimes.submit()
    lab.ended(flow.id)
    eventually(lambda: plain.status() == "dead")
    lab.good.set()
    dead = ("dead", "retry", "--filter", "kind:sometimes")
    answer = shell(*dead, "--yes")
    assert (answer.code, answer.out) == (1, "retried: 1\n")
    assert answer.err.startswith("refused: ") and answer.err.count("\n") == 1
    assert f"foliot workflows retry {flow.id}" in answer.err
    assert plain.result(timeout=20) == "good"
    answer = shell(*dead, "--yes", "--json")
    assert (answer.code, answer.json["changed"], answer.json["refused_count"]) == (1, 0, 1)
    assert len(answer.json["refused"]) == 1


def test_a_rerun_is_a_new_workflow_of_the_same_graph(shell: Shell, lab: Lab) -> None:
    old = lab.ended(lab.failing(key="monday"))
    lab.good.set()
    new = shell("workflows", "rerun", old, "--by", "ada").out.strip()
    assert lab.app.get_workflow(lab.ended(new)).result() == {"last": 4}
    assert new != old != shell("workflows", "rerun", old, "--json").json["id"] != new
    [entry, _] = shell("workflows", "show", old, "--json").json["audit"]
    assert (entry["action"], entry["actor"], entry["detail"]) == ("rerun", "ada", {"workflow": new})


def test_a_file_is_submitted(shell: Shell, lab: Lab, etl: Path, feed: Any) -> None:
    id = shell("workflows", "submit", str(etl)).out.strip()
    assert lab.app.get_workflow(lab.ended(id)).result() == {"sum": 12}
    submitted = [
        shell("workflows", "submit", str(etl), "--key", "monday", "--json").json for _ in range(2)
    ]
    keyed = [told["id"] for told in submitted]
    assert keyed[0] == keyed[1] != id
    assert [told["is_new"] for told in submitted] == [True, False]
    told = shell("workflows", "submit", str(etl), "--key", "monday", "--wait", "--json").json
    assert (told["id"], told["is_new"]) == (keyed[0], False)
    again = shell("workflows", "submit", str(etl), "--key", "monday")
    assert (again.out, again.err) == (f"{keyed[0]}\n", "there already, by its key\n")
    waited = shell("workflows", "submit", str(etl), "--key", "monday", "--wait")
    assert waited.err.startswith(f"there already, by its key: {keyed[0]}\n")
    assert "submitted" not in waited.err
    feed(etl.read_text().replace("to = 4", "to = 5"))
    other = shell("workflows", "submit", "-", "--key", "monday")
    refused(other, "belongs to a run of etl with another graph", 2)


def test_a_step_that_may_outlive_the_deadline_is_warned_of(
    shell: Shell, lab: Lab, etl: Path
) -> None:
    etl.write_text(etl.read_text().replace('"etl"', '"etl"\ndeadline = 5').replace("0.01", "60"))
    answer = shell("workflows", "submit", str(etl))
    assert answer.code == 0
    assert answer.err == (
        "warning: step rest: its delay, 60 s, is longer than the deadline of the workflow, 5 s\n"
    )


def test_waiting_shows_each_step_and_prints_the_result(shell: Shell, lab: Lab, etl: Path) -> None:
    answer = shell("workflows", "submit", str(etl), "--wait")
    assert (answer.code, answer.out) == (0, '{"sum":12}\n')
    first, *lines = answer.err.splitlines()
    assert first.startswith("submitted 01")
    steps = [line.split(" ", 2)[2] for line in lines]
    assert next(step for step in steps if step.endswith(" succeeded")) == "numbers succeeded"
    assert {"doubled succeeded", "doubled[3] succeeded", "rest succeeded"} < set(steps)
    assert steps[-1] == "sum succeeded"
    told = shell("workflows", "submit", str(etl), "--wait", "--json")
    assert (told.code, told.json["state"], told.json["result"]) == (0, "succeeded", {"sum": 12})
    assert (told.json["error"], told.json["failed"], told.err) == (None, [], "")


def test_waiting_says_what_keeps_it_when_nothing_changes(
    shell: Shell, lab: Lab, tmp_path: Path
) -> None:
    path = tmp_path / "asked.toml"
    path.write_text('name = "asked"\n[[steps]]\nname = "boss"\nwait_for = "ok"\n')

    def send() -> None:
        [found] = lab.app.workflows()
        lab.app.get_workflow(found.id).signal("ok", 1)

    threading.Timer(5, send).start()
    answer = shell("workflows", "submit", str(path), "--wait")
    assert (answer.code, answer.out) == (0, '{"boss":1}\n')
    _, held, why, until, done = answer.err.splitlines()
    assert held.endswith("boss held: waits for signal ok")
    assert why == "step boss waits for the signal 'ok'"
    assert until.startswith("  until it comes: foliot workflows signal ")
    assert done.endswith(" boss succeeded")


def test_waiting_for_a_failure_exits_with_1(shell: Shell, lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "failing.json"
    path.write_text('{"name": "failing", "steps": [{"name": "a", "kind": "sometimes"}]}')
    answer = shell("workflows", "submit", str(path), "--wait")
    assert (answer.code, answer.out) == (1, "")
    *_, step, error = answer.err.splitlines()
    assert step.endswith("Z a dead: ValueError: no luck")
    assert error.startswith("error: workflow 01")
    assert error.endswith(" is failed: step a is dead: ValueError: no luck")
    told = shell("workflows", "submit", str(path), "--wait", "--json")
    assert (told.code, told.json["state"], told.json["failed"]) == (1, "failed", ["a"])
    assert told.json["error"] == "step a is dead: ValueError: no luck"


@pytest.mark.parametrize("again", [0, 1])
def test_failed_attempts_are_said_while_one_waits(
    shell: Shell, lab: Lab, tmp_path: Path, again: int
) -> None:
    path = tmp_path / "lucky.toml"
    step = f'name = "a"\nkind = "second"\npayload = {{ again = {again} }}'
    path.write_text(f'name = "lucky"\n[[steps]]\n{step}\n')
    answer = shell("workflows", "submit", str(path), "--wait")
    said = [line.split(" ", 2)[2] for line in answer.err.splitlines()[1:]]
    failed = [line for line in said if "attempt" in line]
    assert failed == ["a attempt 1 of 2 failed: at first"], answer.err
    end = "a dead: ValueError: no luck\\nat first" if again else "a succeeded"
    assert end in said[said.index(failed[0]) :]


def test_watching_goes_on_until_the_end(shell: Shell, lab: Lab) -> None:
    id = lab.approval()
    threading.Timer(0.3, lambda: lab.app.get_workflow(id).signal("approval", 21)).start()
    answer = shell("workflows", "show", id, "--watch")
    changes, rest = answer.out.split("\nid: ", 1)
    assert [line.split(" ", 2)[2] for line in changes.splitlines()] == [
        "asked held: waits for signal approval",
        "asked succeeded",
        "double succeeded",
    ] or "double " in changes
    assert "approval   succeeded · 2 steps · " in rest


def test_watching_in_json_is_an_object_for_each_change(shell: Shell, lab: Lab) -> None:
    id = lab.approval()
    threading.Timer(0.3, lambda: lab.app.get_workflow(id).signal("approval", 21)).start()
    lines = shell("workflows", "show", id, "--watch", "--json").out.splitlines()
    told = [Answer(0, line, "").json for line in lines]
    assert len(told) >= 2 and all(one["id"] == id for one in told)
    assert [one["state"] for one in told if one["remaining"] == 0] == ["succeeded"]
    assert told[-1]["steps"][1]["result"] == 42


def test_a_graph_is_written_as_mermaid_or_svg(
    shell: Shell, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = lab.ended(lab.fan(2))
    mermaid = shell("workflows", "graph", id).out
    assert mermaid.startswith("flowchart LR\n  accTitle: fan\n  accDescr: succeeded · 5 steps")
    assert shell("workflows", "graph", id, "--json").json == {
        "format": "mermaid",
        "graph": mermaid,
    }
    svg = shell("workflows", "graph", id, "--format", "svg").out
    assert ET.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    file = tmp_path / "fan.svg"
    answer = shell("workflows", "graph", id, "--output", str(file))
    assert (answer.code, answer.out) == (0, "") and file.read_text() == svg
    told = shell("workflows", "graph", id, "--output", str(file), "--force", "--json").json
    assert told == {"format": "svg", "file": str(file)}
    page = tmp_path / "fan.md"
    shell("workflows", "graph", id, "--output", str(page))
    assert page.read_text() == f"```mermaid\n{mermaid}```\n"
    monkeypatch.chdir(tmp_path)
    said = "output: 'fan.png' is no .svg, .mmd or .md, which can be written"
    refused(shell("workflows", "graph", id, "--output", "fan.png"), said, 2)
    assert not (tmp_path / "fan.png").exists()
    away = str(tmp_path / "nowhere" / "fan.svg")
    refused(shell("workflows", "graph", id, "--output", away), "cannot be written", 2)


@pytest.mark.parametrize("form", ["mermaid", "svg"])
def test_the_graph_of_a_file_needs_no_store(shell: Shell, etl: Path, feed: Any, form: str) -> None:
    typed = ("workflows", "graph", str(etl), "--format", form)
    drawn = shell(*typed, url=False)
    assert drawn.code == 0, drawn.err
    assert "not submitted · 4 steps" in drawn.out and "doubled × n" in drawn.out
    assert shell(*typed, url=False).out == drawn.out
    feed(etl.read_text())
    assert shell("workflows", "graph", "-", "--format", form, url=False).out == drawn.out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("steps = []", "name of the workflow is missing"),
        ('name = "etl"', "steps are missing"),
        ('name = "etl"', 'steps = [{ name = "extract", kind = "extract" }]'),
        ('{"name": "etl"}', '"steps": [{"name": "extract", "kind": "extract"}]'),
        ("{", "workflow is not JSON"),
        ('name = "etl"\nsteps = [1]', "step 1: 1 is not an object"),
        ('name = "etl"\nsteps = [{name = "a", sleep = 1, after = ["a"]}]', "a → a"),
        ('name = "etl"\nsteps = [{name = "\\u001B[2J", sleep = 1}]', "step 1: name: "),
        (b"\xff\xfe", "is not UTF-8 text"),
    ],
)
@pytest.mark.parametrize("command", ["graph", "submit"])
def test_a_file_that_is_no_workflow_is_refused(
    shell: Shell, tmp_path: Path, feed: Any, command: str, text: str | bytes, said: str
) -> None:
    raw = text if isinstance(text, bytes) else text.encode()
    path = tmp_path / ("etl.json" if text[:1] in ("{", b"{") else "etl.toml")
    path.write_bytes(raw)
    refused(shell("workflows", command, str(path)), said, 2)
    feed(raw)
    refused(shell("workflows", command, "-"), said, 2)
    refused(shell("workflows", command, str(tmp_path / "no.toml")), "cannot be read: No such", 2)


@pytest.mark.parametrize("command", ["graph", "submit"])
@pytest.mark.parametrize("name", ["etl.yaml", "etl.py", "etl"])
def test_a_file_of_another_kind_is_told_which_are_read(
    shell: Shell, tmp_path: Path, command: str, name: str
) -> None:
    path = tmp_path / name
    path.write_text("name: etl\nsteps:\n  - name: a\n")
    refused(shell("workflows", command, str(path)), "a .toml or a .json file is expected", 2)


def test_a_file_without_a_suffix_is_read_as_what_it_is(
    shell: Shell, lab: Lab, etl: Path, tmp_path: Path
) -> None:
    path = tmp_path / "etl"
    path.write_text(etl.read_text())
    assert shell("workflows", "submit", str(path)).code == 0


def test_a_kind_like_no_other_is_refused_with_those_there_are(
    shell: Shell, lab: Lab, tmp_path: Path
) -> None:
    path = tmp_path / "etl.toml"
    path.write_text('name = "etl"\n[[steps]]\nname = "a"\nkind = "qqq"\n')
    answer = shell("workflows", "submit", str(path))
    assert "step a: no job of kind 'qqq' is registered" in answer.err
    assert "hint: there are count, double, second, sometimes, total, wait" in answer.err
    assert "a worker that starts announces its own" in answer.err
    assert "foliot." not in answer.err


def test_an_empty_stdin_is_told(shell: Shell, feed: Any) -> None:
    for nothing in ("", " \n"):
        feed(nothing)
        answer = shell("workflows", "submit", "-")
        assert answer.code == 2
        assert answer.err.startswith("error: stdin was empty\nhint: ")


def test_old_workflows_go_when_the_store_is_pruned(
    shell: Shell, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = lab.ended(lab.fan(1))
    assert shell("db", "prune", "--json").json == {"pruned": 0}
    monkeypatch.setenv("FOLIOT_RETENTION_HISTORY", "1s")

    def is_gone() -> bool:
        assert shell("db", "prune").code == 0
        return not shell("workflows", "list", "--json").json["workflows"]

    eventually(is_gone)
    refused(shell("workflows", "show", id), "it has been pruned", 1)

"""`foliot schedules` and `foliot calendars`, as people and pipelines type them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Shell
from foliot import Foliot, commands
from foliot.store.port import Store
from support.stores import Place

pytestmark = pytest.mark.parametrize("place", ["sqlite-1", "postgres-8"], indirect=True)
STANDUP = ("schedules", "create", "standup", "send_email", "every weekday at 9am")
BERLIN = ("--timezone", "Europe/Berlin")


@pytest.fixture
def shell(place: Place, anyio_backend: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A store to which an app has announced its jobs."""
    shell = Shell(place.settings.url, capsys)
    app = Foliot(shell.url)

    @app.job(queue="mail")
    def send_email(to: str, copies: int = 1) -> str:
        return to

    @app.job
    def tidy() -> None: ...

    async def announce(store: Store) -> None:
        await commands.announce(store, app.registry)

    shell.ask(announce)
    return shell


def create(shell: Shell, name: str, expression: str, *options: str) -> dict[str, Any]:
    answer = shell("schedules", "create", name, "tidy", expression, *options, "--json")
    assert answer.code == 0, answer.err
    told: dict[str, Any] = answer.json
    return told


def test_a_schedule_says_why_it_fires_or_does_not(shell: Shell) -> None:
    create(shell, "standup", "every day at 9am")
    said = shell("schedules", "explain", "standup").out.splitlines()
    assert said[0].startswith("active: next at 20")
    assert said[2] == "no live process does the scheduler's duties"
    assert said[-1] == "every day at 09:00, UTC"
    shell("schedules", "pause", "standup", "--note", "the office is closed", "--by", "ada")
    said = shell("schedules", "explain", "standup").out.splitlines()
    assert said[0] == "paused: paused by ada: the office is closed"
    assert said[1].startswith("  since 20")
    assert said[2] == "  until foliot schedules resume standup"
    told = shell("schedules", "explain", "standup", "--json").json
    assert (told["state"], told["last"]) == ("paused", [])
    assert shell("schedules", "explain", "stndup").code == 1


def test_a_schedule_of_a_workflow_shows_its_steps(shell: Shell) -> None:
    with Foliot(shell.url) as app:

        @app.job
        def double(number: int) -> int:
            return 2 * number

        inner = app.workflow("inner")
        inner.add(double.prepare(1))
        flow = app.workflow("nightly")
        first = flow.add(double.prepare(2), name="first")
        flow.map(double, over=[1, 2], name="each")
        asked = flow.wait_for("ok", name="asked", after=[flow.sleep(60, after=[first])])
        flow.add(inner, after=[asked], rule="all_done")
        app.schedule("nightly", flow, "every day at 2am")
    out = shell("schedules", "show", "nightly").out
    assert [line[15:].strip() for line in out.splitlines() if line.startswith("step:")] == [
        'first: double {"number":2}',
        "each: double {}, for each of [1,2]",
        "sleep: sleeps 1m, after first",
        "asked: waits for the signal ok, after sleep",
        "inner: workflow of double, after asked, if all_done",
    ]
    assert "lane" not in out and "payload" not in out


def test_a_schedule_is_created_listed_and_shown(shell: Shell) -> None:
    answer = shell(*STANDUP, "to=ada@example.org", "copies=2", *BERLIN, "--tags", "team,daily")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("standup created: every weekday at 09:00 (Europe/Berlin), next 20")
    header, line = shell("schedules", "list").out.splitlines()
    assert header.split() == ["schedule", "state", "kind", "when", "next", "tags", "about"]
    assert line.startswith("standup   active  send_email  every weekday at 9am Europe/Berlin  20")
    assert line.endswith("team, daily")
    shown = shell("schedules", "show", "standup").out
    assert "english:        every weekday at 09:00 (Europe/Berlin)\n" in shown
    assert '"to": "ada@example.org"' in shown
    assert shown.count("fires:") == 10
    told = shell("schedules", "show", "standup", "--json").json
    assert told["payload"] == {"to": "ada@example.org", "copies": 2}
    assert (told["queue"], told["version"], len(told["next_fires"])) == ("mail", 1, 10)
    assert told["next_at"].endswith("Z")
    assert told["next_fires"][0]["local"][11:16] == "09:00"


def test_creating_again_changes_it_or_leaves_it(shell: Shell) -> None:
    assert create(shell, "tidy", "@daily")["outcome"] == "created"
    assert create(shell, "tidy", "@daily")["outcome"] == "unchanged"
    changed = create(shell, "tidy", "@hourly", "--overlap", "allow", "--by", "ada")
    assert (changed["outcome"], changed["version"]) == ("changed", 2)
    changed, created = shell("schedules", "show", "tidy", "--json").json["audit"]
    assert (changed["actor"], changed["action"]) == ("ada", "change")
    assert (created["action"], created["detail"]) == ("create", {"expression": "@daily"})


def test_a_change_of_one_that_is_paused_says_so(shell: Shell) -> None:
    create(shell, "tidy", "@daily")
    shell("schedules", "pause", "tidy")
    changed = shell("schedules", "update", "tidy", "--expression", "@hourly")
    assert changed.out == "tidy changed: every hour (UTC), paused\n"


def test_a_schedule_may_follow_its_runs(shell: Shell) -> None:
    typed = ("schedules", "create", "poll", "send_email", "--after-completion", "10m", "to=ada")
    assert shell(*typed).out.startswith("poll created: 10m after the end of the last run (UTC)")
    told = shell("schedules", "show", "poll", "--json").json
    assert (told["rules"]["after_completion"], told["payload"]) == (600.0, {"to": "ada"})
    assert "10m after completion" in shell("schedules", "list").out


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["standup", "send_email", "every weekday at 9am", "copies=2"], "to"),
        (["standup", "send_email", "@daily", "to=ada", "copies=many"], "copies"),
        (["standup", "send_mail", "@daily"], "send_email"),
        (["standup", "send_email"], "expression is missing"),
        (["standup", "tidy", "every wensday"], "at character 7"),
        (["standup", "tidy", "@daily", "--timezone", "Europe/Berln"], "Europe/Berlin"),
        (["standup", "tidy", "@daily", "--start", "tomorrow"], "is not a time with its zone"),
        (["standup", "tidy", "@daily", "--after-completion", "10m"], "is not name=value"),
        (["standup", "tidy", "@daily", "--buffer", "3"], "overlap=buffer_all"),
        (["", "tidy", "@daily"], "name"),
        (["standup", "tidy", "0 0 30 2 *"], "never"),
        (["standup", "tidy", "2020-01-01T00:00:00Z"], "no time ahead"),
    ],
)
def test_a_wrong_schedule_is_refused_and_nothing_is_made(
    shell: Shell, typed: list[str], message: str
) -> None:
    answer = shell("schedules", "create", *typed)
    assert answer.code != 0
    assert message in answer.err
    assert shell("schedules", "list", "--json").json == {"schedules": []}


def test_a_payload_may_come_whole(shell: Shell) -> None:
    answer = shell(*STANDUP, "--payload", '{"to": "ada"}', "--json")
    assert answer.json["payload"] == {"to": "ada"}
    both = shell(*STANDUP, "--payload", '{"to": "ada"}', "copies=2")
    assert both.code == 2
    assert "payload cannot be given together with fields" in both.err


def test_what_is_named_is_changed_and_the_rest_stays(shell: Shell) -> None:
    shell(*STANDUP, "to=ada", "copies=2", *BERLIN, "--max-runs", "5", "--priority", "high")
    answer = shell("schedules", "update", "standup", "copies=3", "--queue", "slow")
    assert answer.out.startswith("standup changed: every weekday at 09:00 (Europe/Berlin), next")
    told = shell("schedules", "show", "standup", "--json").json
    assert told["payload"] == {"to": "ada", "copies": 3}
    assert (told["queue"], told["priority"]) == ("slow", 1)
    assert (told["rules"]["max_runs"], told["version"]) == (5, 2)
    told = shell(
        "schedules", "update", "standup", "--expression", "@daily", "--clear", "max-runs", "--json"
    ).json
    assert (told["english"], told["version"]) == ("every day at 00:00", 3)
    assert "max_runs" not in told["rules"]
    assert shell("schedules", "update", "standup", "--expression", "@daily").out.startswith(
        "standup is as it was"
    )


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["standup"], "change is missing"),
        (["stand-up", "--overlap", "allow"], "did you mean standup"),
        (["standup", "copies=many"], "copies"),
        (["standup", "--clear", "max_run"], "max_run"),
        (["standup", "--overlap", "never"], "overlap"),
    ],
)
def test_a_wrong_change_is_refused(shell: Shell, typed: list[str], message: str) -> None:
    shell(*STANDUP, "to=ada")
    answer = shell("schedules", "update", *typed)
    assert answer.code != 0
    assert message in answer.err
    assert shell("schedules", "show", "standup", "--json").json["version"] == 1


def test_schedules_are_paused_with_a_note_and_resumed(shell: Shell) -> None:
    create(shell, "a", "@daily")
    create(shell, "b", "@daily")
    paused = shell("schedules", "pause", "a", "--note", "moving house", "--by", "ada")
    assert (paused.code, paused.out) == (0, "paused a\n")
    a, b = shell("schedules", "list").out.splitlines()[1:]
    assert a.startswith("a         paused") and a.endswith("Z by ada: moving house")
    assert b.startswith("b         active")
    again = shell("schedules", "pause", "a")
    assert (again.code, again.out, again.err) == (0, "", "a is as it was\n")
    assert shell("schedules", "resume", "a").out == "resumed a\n"
    audit = shell("schedules", "show", "a", "--json").json["audit"]
    assert [deed["action"] for deed in audit] == ["resume", "pause", "create"]
    unknown = shell("schedules", "pause", "aa")
    assert (unknown.code, "did you mean a?" in unknown.err) == (1, True)


def test_a_tag_means_many(shell: Shell) -> None:
    for name in ("a", "b"):
        create(shell, name, "@daily", "--tags", "nightly")
    create(shell, "c", "@daily")
    assert shell("schedules", "pause", "--tag", "nightly", "--json").json == {
        "paused": ["a", "b"],
        "unchanged": [],
    }
    listed = shell("schedules", "list", "--state", "paused", "--json").json["schedules"]
    assert sorted(one["name"] for one in listed) == ["a", "b"]
    unsure = shell("schedules", "delete", "--tag", "nightly")
    assert (unsure.code, "--yes is missing" in unsure.err) == (2, True)
    assert sorted(shell("schedules", "delete", "--tag", "nightly", "--yes").out.split()) == [
        "a",
        "b",
        "deleted",
        "deleted",
    ]
    [left] = shell("schedules", "list", "--name", "*", "--json").json["schedules"]
    assert left["name"] == "c"


@pytest.mark.parametrize("action", ["pause", "resume", "delete"])
def test_names_or_a_tag_are_needed(shell: Shell, action: str) -> None:
    assert "names are missing" in shell("schedules", action).err
    both = shell("schedules", action, "a", "--tag", "b", *(["--yes"] * (action == "delete")))
    assert (both.code, "cannot be given together" in both.err) == (2, True)


def test_a_schedule_is_run_by_hand(shell: Shell) -> None:
    create(shell, "tidy", "@yearly")
    first = shell("schedules", "trigger", "tidy", "--by", "ada")
    assert first.code == 0
    job = shell("jobs", "show", first.out.strip(), "--json").json
    assert (job["job"]["kind"], job["job"]["extras"]["schedule"]) == ("tidy", "tidy")
    second = shell("schedules", "trigger", "tidy")
    assert (second.code, second.out) == (1, "")
    assert "an earlier run has not ended" in second.err
    assert shell("schedules", "trigger", "tidy", "--overlap", "allow", "--json").json["id"]


def test_a_preview_needs_no_store(shell: Shell) -> None:
    typed = ("schedules", "preview", "every", "day", "at", "02:30", *BERLIN)
    moved = "clocks go forward: 02:30 does not exist, runs at 03:00"
    change = "clocks go forward from 2026-03-29 02:00 to 2026-03-29 03:00"
    answer = shell(*typed, "--after", "2026-03-27T12:00Z", "--count", "3", url=False)
    assert answer.code == 0
    assert answer.out.splitlines() == [
        "every day at 02:30 (Europe/Berlin)",
        "read as: 30 2 * * *",
        "",
        "utc                   local                           note",
        "2026-03-28 01:30:00Z  Sat 2026-03-28 02:30:00 +01:00",
        f"2026-03-29 01:00:00Z  Sun 2026-03-29 03:00:00 +02:00  {moved}",
        f"2026-03-29 01:00:00Z  {'':<30}  {change}",
        "2026-03-30 00:30:00Z  Mon 2026-03-30 02:30:00 +02:00",
    ]
    told = shell(*typed, "--dst-gap", "skip", "--json", url=False).json
    assert (told["english"], len(told["fires"])) == ("every day at 02:30", 10)
    over = shell("schedules", "preview", "2020-01-01T00:00:00Z", url=False).out
    assert over.splitlines()[2:] == ["", "it does not fire any more"]
    wrong = shell("schedules", "preview", "every blue moon", url=False)
    assert (wrong.code, "at character 7" in wrong.err) == (2, True)


def test_the_ledger_is_a_table_of_jobs_and_reasons(shell: Shell) -> None:
    create(shell, "tidy", "every second")
    create(shell, "paused", "every second")
    shell("schedules", "pause", "paused")
    [first, *_] = fired(shell, "tidy", 2)
    answer = shell("schedules", "fires", "tidy")
    header, *lines = answer.out.splitlines()
    assert header.split() == ["nominal", "job", "or", "reason", "state", "late", "about"]
    [line] = [line for line in lines if first["job"] in line]
    day, time, _, state, late = line.split()
    assert f"{day}T{time}" == first["nominal"]
    assert state == "succeeded" and late.endswith("s")
    told = shell("schedules", "fires", "paused", "--json").json["fires"]
    assert told[-1]["reason"] == "paused"
    assert "paused" in shell("schedules", "fires", "paused", "--limit", "1").out
    unknown = shell("schedules", "fires", "tidyy")
    assert (unknown.code, "did you mean tidy" in unknown.err) == (1, True)


def fired(shell: Shell, name: str, count: int) -> list[dict[str, Any]]:
    """The answers of a schedule, when so many of them are jobs."""

    app = Foliot(shell.url)

    @app.job
    def tidy() -> None: ...

    async def run() -> None:
        async with app.worker():
            schedule = await app.aget_schedule(name)
            while True:
                if sum(one.job is not None for one in await schedule.afires()) >= count:
                    return
                await asyncio.sleep(0.05)

    with app:
        asyncio.run(run())
    told: list[dict[str, Any]] = shell("schedules", "fires", name, "--json").json["fires"]
    return [answer for answer in told if answer["job"]]


def test_a_span_is_backfilled_once(shell: Shell) -> None:
    create(shell, "tidy", "@daily", "--start", "2020-01-01T00:00Z")
    now = datetime.now(UTC).replace(microsecond=0)
    span = ("--from", (now - timedelta(days=3)).isoformat(), "--to", now.isoformat())
    made = shell("schedules", "backfill", "tidy", *span, "--by", "ada")
    assert made.code == 0, made.err
    assert (len(made.out.split()), made.err) == (3, "submitted: 3\n")
    assert shell("schedules", "backfill", "tidy", *span, "--json").json == {"ids": []}
    deed = shell("schedules", "show", "tidy", "--json").json["audit"][0]
    assert (deed["action"], deed["actor"], deed["detail"]["jobs"]) == ("backfill", "ada", 3)
    old = ("--from", "2020-01-01T00:00Z", "--to", "2020-01-03T00:00Z")
    refused = shell("schedules", "backfill", "tidy", *old)
    assert (refused.code, "is further back than history goes" in refused.err) == (2, True)
    assert shell("schedules", "backfill", "tidy", *old, "--force").err == "submitted: 3\n"


def test_the_forecast_draws_hours_and_names_herds(shell: Shell) -> None:
    # At no time of the minute that is now: what is past of it is not ahead any more.
    minute = (datetime.now(UTC).minute + 10) % 60
    for name in ("a", "b", "c"):
        create(shell, name, f"{minute} * * * *")
    create(shell, "quiet", f"{(minute + 20) % 60} * * * *")
    answer = shell("schedules", "forecast", "--hours", "3")
    assert answer.code == 0
    *hours, total, herd, _, _ = answer.out.splitlines()
    assert total == "12 fires in 3 hours; times are UTC"
    assert "█" in answer.out and "busiest minute" in hours[-2]
    told_at = f":{minute:02}:00Z"
    assert herd.startswith("herd: 20") and herd.endswith(f"{told_at}  3 schedules in one second")
    told = shell("schedules", "forecast", "--json").json
    assert (len(told["minutes"]), told["total"], told["exact"]) == (24 * 60, 96, True)
    assert told["herds"][0]["count"] == 3
    assert told["herds"][0]["at"].endswith(told_at)


def test_the_forecast_fits_a_narrow_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    create(shell, "tidy", "* * * * * *", "--overlap", "allow")
    lines = shell("schedules", "forecast", "--hours", "3").out.splitlines()
    assert max(map(len, lines)) <= 80
    monkeypatch.setenv("COLUMNS", "200")
    wide = shell("schedules", "forecast", "--hours", "3").out
    assert "█" * 40 in wide and "█" * 41 not in wide


def test_runs_are_shown_where_they_are_counted(shell: Shell) -> None:
    create(shell, "tidy", "@daily")
    create(shell, "thrice", "@daily", "--max-runs", "3")
    assert "runs:" not in shell("schedules", "show", "tidy").out
    assert shell("schedules", "show", "tidy", "--json").json["runs"] is None
    assert "runs:           0\n" in shell("schedules", "show", "thrice").out
    assert shell("schedules", "show", "thrice", "--json").json["runs"] == 0


def test_what_a_schedule_says_twice_is_shown_once(shell: Shell) -> None:
    create(shell, "tidy", "@daily", "--carry-result")
    assert "extras:" not in shell("schedules", "show", "tidy").out


def test_an_empty_forecast_is_one(shell: Shell) -> None:
    answer = shell("schedules", "forecast", "--hours", "1")
    assert (answer.code, "0 fires in 1 hours" in answer.out) == (0, True)


def test_calendars_are_set_listed_and_deleted(shell: Shell) -> None:
    entries = ("12-25", "2027-08-02..2027-08-13", "0 0 * * SAT,SUN")
    assert shell("calendars", "set", "holidays", *entries, "--by", "ada").out == "set holidays\n"
    assert shell("calendars", "set", "holidays", *entries).out == "holidays is as it was\n"
    assert (
        shell("calendars", "list")
        .out.splitlines()[1]
        .startswith("holidays  12-25, 2027-08-02..2027-08-13, 0 0 * * SAT,SUN  20")
    )
    [told] = shell("calendars", "list", "--json").json["calendars"]
    assert (told["entries"], told["updated_by"]) == (list(entries), "ada")
    [deed] = shell.ask(lambda store: store.audit.list(target="calendar:holidays"))
    assert (deed.action, deed.actor) == ("set", "ada")
    assert shell("calendars", "set", "holidays").code == 2
    wrong = shell("calendars", "set", "holidays", "2027-02-30")
    assert (wrong.code, "is not a day that there is" in wrong.err) == (2, True)
    assert shell("calendars", "delete", "holidays").out == "deleted holidays\n"
    assert shell("calendars", "delete", "holidays").code == 1


FILE = """
[calendars]
holidays = ["12-25"]

[schedules.standup]
kind = "send_email"
payload = { to = "ada" }
expression = "every weekday at 9am"
timezone = "Europe/Berlin"
calendars = ["holidays"]

[schedules.tidy]
kind = "tidy"
expression = "@daily"
"""


def test_a_file_is_compared_and_applied(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "rota.toml"
    file.write_text(FILE)
    before = shell("schedules", "diff", str(file))
    assert before.code == 1
    assert [line.split(":")[0] for line in before.out.splitlines()] == [
        "+ calendar holidays",
        "+ standup",
        "+ tidy",
    ]
    assert shell("schedules", "list", "--json").json == {"schedules": []}
    assert shell("schedules", "apply", str(file), "--by", "ada").out == before.out
    again = shell("schedules", "apply", str(file))
    assert (again.code, again.out) == (0, "nothing to change\n")
    assert shell("schedules", "diff", str(file), "--json").json == {"changes": [], "unchanged": 2}

    file.write_text(FILE.partition("[schedules.tidy]")[0].replace("9am", "10am"))
    changed = shell("schedules", "diff", str(file))
    assert "~ standup: expression every weekday at 9am → every weekday at 10am" in changed.out
    assert "- tidy" not in changed.out
    assert "- tidy" in shell("schedules", "apply", str(file), "--prune").out
    [left] = shell("schedules", "list", "--json").json["schedules"]
    assert (left["name"], left["version"]) == ("standup", 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[schedules.a]\nkind = 'tidi'\nexpression = '@daily'", "[schedules.a]"),
        ("[schedules.a]\nkind = 'tidy'\nexpresion = '@daily'", "expression"),
        ("[schedules.a]\nkind = 'send_email'\nexpression = '@daily'", "to"),
        ("[schedules.a]\nkind = 'tidy'\nexpression = 'sometimes'", "'a'"),
        ("[calendars]\nholidays = '12-25'", "calendars.holidays"),
        ("[schedule.a]", "schedules"),
        ("[schedules", "is not TOML"),
    ],
)
def test_a_wrong_file_changes_nothing(
    shell: Shell, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "rota.toml"
    file.write_text(f"[schedules.good]\nkind = 'tidy'\nexpression = '@daily'\n{text}\n")
    for command in ("diff", "apply"):
        answer = shell("schedules", command, str(file))
        assert answer.code != 0
        assert message in answer.err
    assert shell("schedules", "list", "--json").json == {"schedules": []}


def test_a_workflow_that_is_named_as_a_kind_is_said_to_be_one(shell: Shell) -> None:
    with Foliot(shell.url) as app:

        @app.job
        def settle() -> None: ...

        with app.workflow("etl") as flow:
            flow.add(settle.prepare())
    answer = shell("schedules", "create", "nightly", "etl", "every day at 3am")
    assert answer.code == 1
    assert (
        "'etl' is a workflow, not a kind of job: it is scheduled by its file, or in code"
        in answer.err
    )
    assert (
        'hint: foliot schedules create … "every day at 3am" --workflow FILE; in code: '
        in answer.err
    )
    assert ': app.schedule("…", etl, ' in answer.err
    assert (
        "no job of kind 'elt'" in shell("schedules", "create", "x", "elt", "every day at 3am").err
    )

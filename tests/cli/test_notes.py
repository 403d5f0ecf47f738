"""What people write down for those who wonder: text that can be shown, whatever it is written to."""

from __future__ import annotations

import pytest

from cli.conftest import Shell
from foliot import Foliot
from foliot.errors import InvalidValue
from foliot.store.port import Store

COMMANDS = {
    "queue": ("queues", "pause", "mail"),
    "schedule": ("schedules", "pause", "standup"),
    "workflow": ("workflows", "pause", "FLOW"),
    "limit": ("limits", "set", "queue:mail", "--concurrency", "1"),
    "opened breaker": ("breakers", "open", "stripe"),
    "closed breaker": ("breakers", "close", "stripe"),
}
BAD = ("", "x" * 513, "a\x1b[31mb", "a\nb")


def _command(shell: Shell, what: str) -> list[str]:
    """On something that is there."""
    app = Foliot(shell.url)

    @app.job(breaker="stripe")
    def tidy() -> None: ...

    app.breaker("stripe")
    app.schedule("standup", tidy.prepare(), "@daily")
    with app.workflow("etl") as flow:
        flow.add(tidy.prepare())
    app.close()
    assert shell("breakers", "open", "stripe", "--new").code == 0
    return [flow.id if word == "FLOW" else word for word in COMMANDS[what]]


@pytest.mark.parametrize("what", COMMANDS)
def test_a_note_is_text_that_can_be_shown(shell: Shell, what: str) -> None:
    command = _command(shell, what)
    for note in BAD:
        answer = shell(*command, "--note", note)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("error: note: ")
        assert "is not printable text of 1 to 512 characters" in answer.err
    assert shell(*command, "--note", "x" * 512).code == 0


def test_code_writes_such_notes_as_well(shell: Shell) -> None:
    app = Foliot(shell.url)

    @app.job
    def tidy() -> None: ...

    schedule = app.schedule("standup", tidy.prepare(), "@daily")
    with app.workflow("etl") as flow:
        flow.add(tidy.prepare())
    for note in BAD:
        with pytest.raises(InvalidValue, match="is not printable text"):
            schedule.pause(note)
        with pytest.raises(InvalidValue, match="is not printable text"):
            app.pause_schedules(note=note)
        with pytest.raises(InvalidValue, match="is not printable text"):
            flow.pause(note)
    app.close()


def test_a_line_break_in_what_is_stored_makes_no_line_of_its_own(shell: Shell) -> None:
    """As an older version stored it, or what an error says."""

    async def pause(store: Store) -> None:
        await store.queues.pause("mail", by="ann", note="moved\nsucceeded: all is well")

    [id] = shell.submit(queue="mail")
    shell.ask(pause)
    lines = shell("jobs", "explain", id).out.splitlines()
    assert "moved\\nsucceeded: all is well" in lines[0]
    assert not any(line.startswith("succeeded") for line in lines)

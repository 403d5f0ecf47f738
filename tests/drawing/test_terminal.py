"""Workflows in a terminal: some as they stand, and that any can be read back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawing.reading import read_lanes, read_panels
from drawing.sketch import NOW, START, edges_of, graphs, job_id, many, sketch, steps_of, workflow_of
from foliot.drawing import draw_terminal, to_ascii
from foliot.drawing.boxes import MARKS, boxes_of
from foliot.drawing.ink import Piece, paint, width_of
from foliot.drawing.lanes import draw_lanes, draw_list
from foliot.drawing.panels import draw_panels
from foliot.model.workflow import Rule, Step

SIGNAL = {"state": "held", "reason": "signal", "signal": "approval"}
INNER = {"state": "held", "reason": "workflow", "kind": "foliot.workflow"}
ESCAPE = re.compile(r"\x1b\[[\d;]*m")


def draw(steps: list[Step], width: int = 80, **fields: Any) -> list[str]:
    errors = fields.pop("errors", {})
    workflow = workflow_of(steps, **fields)
    text = draw_terminal(workflow, steps, width=width, colour=False, now=NOW, errors=errors)
    return text.splitlines()


def plain(picture: list[list[Piece]]) -> list[str]:
    return [paint(line, colour=False) for line in picture]


def test_a_chain_goes_from_left_to_right() -> None:
    assert draw(sketch("extract > clean > load", clean="running", load="waiting")) == [
        "etl   running · 1 of 3 steps done · 1m00s",
        "",
        "╭────────────────────╮   ╭───────────────────╮   ╭───────────╮",
        "│ ✓ extract          ├──▶│ ● clean           ├──▶│ ◌ load    │",
        "╰─ succeeded · 1.5s ─╯   ╰─ running · 1m00s ─╯   ╰─ waiting ─╯",
    ]


def test_a_diamond_parts_and_joins() -> None:
    steps = sketch("extract > clean, check > load", clean="dead", check="cancelled", load="skipped")
    assert draw(steps, errors={job_id(1): "ValueError: no luck"}) == [
        "etl   failed · 4 steps · 1 failed · 1 cancelled · 1m00s",
        "",
        "                          ╭───────────────╮",
        "                       ╭─▶│ ✗ clean       ├─╮",
        "╭────────────────────╮ │  ╰─ dead · 1.5s ─╯ │  ╭───────────╮",
        "│ ✓ extract          ├─┤                    ├─▶│ ↷ load    │",
        "╰─ succeeded · 1.5s ─╯ │  ╭───────────────╮ │  ╰─ skipped ─╯",
        "                       ╰─▶│ ⊘ check       ├─╯",
        "                          ╰─ cancelled ───╯",
        "",
        "✗ clean dead: ValueError: no luck",
    ]


def test_a_tree_stands_in_the_middle_of_its_branches() -> None:
    steps = sketch("a > b, c", "b > d, e", "c > f, g", **dict.fromkeys("abcdefg", "waiting"))
    assert draw(steps)[2:] == [
        "                                  ╭───────────╮",
        "                               ╭─▶│ ◌ d       │",
        "                 ╭───────────╮ │  ╰─ waiting ─╯",
        "              ╭─▶│ ◌ b       ├─┤",
        "              │  ╰─ waiting ─╯ │  ╭───────────╮",
        "              │                ╰─▶│ ◌ e       │",
        "╭───────────╮ │                   ╰─ waiting ─╯",
        "│ ◌ a       ├─┤",
        "╰─ waiting ─╯ │                   ╭───────────╮",
        "              │                ╭─▶│ ◌ f       │",
        "              │  ╭───────────╮ │  ╰─ waiting ─╯",
        "              ╰─▶│ ◌ c       ├─┤",
        "                 ╰─ waiting ─╯ │  ╭───────────╮",
        "                               ╰─▶│ ◌ g       │",
        "                                  ╰─ waiting ─╯",
    ]


def test_what_a_step_waits_for_is_said_and_a_workflow_has_a_frame_of_its_own() -> None:
    steps = sketch("approval > inner > tell", approval=SIGNAL, inner=INNER, tell="waiting")
    assert draw(steps, paused_at=START, paused_by="ada", note="until monday") == [
        "etl   running · 0 of 3 steps done · 1m00s",
        "‖ paused by ada: until monday",
        "",
        "╭──────────────────────╮   ╔═════════════════════╗   ╭───────────╮",
        "│ ‖ approval           ├──▶║ ‖ inner             ╟──▶│ ◌ tell    │",
        "╰─ waits for approval ─╯   ╚═ its workflow runs ═╝   ╰─ waiting ─╯",
    ]


def test_many_that_are_alike_are_one_box() -> None:
    many = ", ".join(f"read-{number}" for number in range(10_000))
    failed = {f"read-{number}": "dead" for number in range(7)}
    steps = sketch(f"find > {many} > report", report={"state": "skipped"}, **failed)
    assert draw(steps)[2:] == [
        "╭────────────────────╮   ╒═══════════════════════╕   ╭───────────╮",
        "│ ✓ find             ├──▶│ ✗ read × 10,000       ├──▶│ ↷ report  │",
        "╰─ succeeded · 1.5s ─╯   ╰─ ✓ 9,993  ✗ 7 · 1.5s ─╯   ╰─ skipped ─╯",
        "",
        *(f"✗ read-{number} dead" for number in range(5)),
        "  and 2 more",
    ]


def test_what_is_too_long_for_boxes_is_drawn_in_lanes() -> None:
    rule = {"rule": Rule.ANY_FAILED, "state": "waiting"}
    steps = sketch("ask > approval > pay", "approval > give_up", approval=SIGNAL, give_up=rule)
    assert draw(steps)[2:] == [
        "✓    ask        succeeded · 1.5s",
        "│",
        "‖    approval   waits for approval",
        "├─╮",
        "│ ✓  pay        succeeded · 1.5s",
        "◌    give_up    if any_failed · waiting",
    ]


def test_lines_that_cross_do_not_touch() -> None:
    steps = sketch("a > d, e", "b > e, f", "c > d, f", "d, e, f > g", "a > g")
    assert draw(steps)[2:] == [
        "✓            a          succeeded · 1.5s",
        "├─┬─╮",
        "│ │ │ ✓      b          succeeded · 1.5s",
        "│ │ │ ├─╮",
        "│ │ ├─│─╯",
        "│ │ ✓ │      e          succeeded · 1.5s",
        "│ │ │ │ ✓    c          succeeded · 1.5s",
        "│ │ │ │ ├─╮",
        "│ ├─│─│─│─╯",
        "│ ✓ │ │ │    d          succeeded · 1.5s",
        "│ │ │ ├─╯",
        "│ │ │ ✓      f          succeeded · 1.5s",
        "├─┴─┴─╯",
        "✓            g          succeeded · 1.5s",
    ]


def test_a_long_name_is_broken_and_not_cut() -> None:
    name = "read_the_weather_of_every_city_that_there_is_on_this_planet"
    assert draw(sketch(f"{name} > b"), width=50)[2:] == [
        "✓  read_the_weather_of_every_     succeeded · 1.5s",
        "│  city_that_there_is_on_this_",
        "│  planet",
        "│",
        "✓  b                              succeeded · 1.5s",
    ]


def test_where_names_and_words_do_not_fit_side_by_side_they_stand_below_each_other() -> None:
    rule = {"rule": Rule.ANY_SUCCEEDED, "state": "held", "reason": "elsewhere"}
    name = "read_the_weather_of_every_city"
    assert draw(steps_of({"a": [], name: ["a"]}, {name: rule}), width=40)[3:] == [
        "✓  a",
        "│  succeeded · 1.5s",
        "│",
        "‖  read_the_weather_of_every_city",
        "   if any_succeeded · held: elsewhere",
    ]


def test_a_reason_of_the_whole_is_said() -> None:
    [head, *_] = draw(sketch("a", a="cancelled"), reason="deadline", name="late")
    assert head == "late   failed (deadline) · 1 step · 1 cancelled · 1m00s"


def test_more_boxes_than_one_can_look_at_are_drawn_in_lanes() -> None:
    lines = draw(sketch(" > ".join(f"s{number}" for number in range(41))), width=100_000)
    assert len(lines) == 2 + 41 and lines[-1].startswith("✓  s40")


def test_what_no_drawing_makes_clear_is_a_list() -> None:
    layers = [", ".join(f"{letter}{n}" for n in range(12)) for letter in "ab"]
    kinds = {f"{letter}{n}": {"kind": f"{letter}{n}"} for letter in "ab" for n in range(12)}
    picture = draw(sketch(" > ".join(layers), **kinds))
    assert picture[2] == "✓ a0         succeeded · 1.5s"
    assert picture[-2:] == [
        "✓ b11        succeeded · 1.5s",
        "    after a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11",
    ]


@pytest.mark.parametrize("width", [40, 80, 160])
@many
@given(steps=graphs(most=12))
def test_a_picture_keeps_within_its_width_and_shows_every_step(
    steps: list[Step], width: int
) -> None:
    lines = draw(steps, width)
    assert max(map(width_of, lines)) <= width
    text = " ".join(lines)
    assert all(re.search(rf"{step.name}\b", text) for step in steps)


@many
@given(steps=graphs())
def test_boxes_can_be_read_back(steps: list[Step]) -> None:
    picture = draw_panels(boxes_of(steps, now=NOW), width=10_000)
    if picture is not None:  # else it is drawn otherwise
        assert read_panels(plain(picture)) == edges_of(steps)


@many
@given(steps=graphs(most=12))
def test_lanes_can_be_read_back(steps: list[Step]) -> None:
    picture = draw_lanes(boxes_of(steps, now=NOW), width=1_000)
    assert picture is not None
    assert read_lanes(plain(picture)) == edges_of(steps)


@many
@given(steps=graphs(), seed=st.randoms(use_true_random=False))
def test_the_same_workflow_is_the_same_picture(steps: list[Step], seed: Any) -> None:
    shuffled = list(steps)
    seed.shuffle(shuffled)
    assert draw(steps) == draw(shuffled)


@many
@given(steps=graphs(most=6))
def test_colours_change_nothing_but_the_colour(steps: list[Step]) -> None:
    workflow = workflow_of(steps)
    coloured = draw_terminal(workflow, steps, width=80, colour=True, now=NOW)
    assert ESCAPE.search(coloured)
    assert [line.rstrip() for line in ESCAPE.sub("", coloured).split("\n")] == draw(steps)


def test_a_name_cannot_drive_the_terminal() -> None:
    names = ["\x1b[2J\x1b]0;x\x07", "line\nbreak", "\u202eright to left", "\u200b"]
    steps = steps_of({name: [] for name in names})
    lines = draw(steps, name="\x1b[31mred", paused_at=START, paused_by="\r", note="\x1b[0m")
    assert all(line.isprintable() for line in lines)
    assert "\\x1b[2J\\x1b]0;x\\x07" in "\n".join(lines)


def test_wide_letters_keep_the_frames_straight() -> None:
    lines = draw(sketch("開始する > データを読み込む, x > 終わり"), width=100)
    assert len({width_of(line[: line.rindex("╮") + 1]) for line in lines if "╮" in line}) <= 3
    tops = [line for line in lines if line.startswith("╭")]
    feet = [line for line in lines if line.startswith("╰")]
    assert len(tops) == len(feet) == 1
    assert width_of(tops[0].split("╮")[0]) == width_of(feet[0].split("╯")[0])


def test_without_our_signs_it_is_the_same_picture_in_ascii() -> None:
    steps = sketch("a > b, c > d", b="dead", c={"kind": "foliot.workflow"}, d="skipped")
    lines = draw(steps)
    plainer = [to_ascii(line) for line in lines]
    assert all(line.isascii() for line in plainer)
    assert list(map(len, plainer)) == list(map(len, lines))
    assert plainer[3:6] == [
        "                       +->| X b                +-+",
        "+--------------------+ |  +- dead - 1.5s ------+ |  +-----------+",
        "| v a                +-+                         +->| / d       |",
    ]
    assert len({to_ascii(mark) for mark in MARKS.values()}) == len(MARKS)


@pytest.mark.parametrize(("width", "boxes"), [(50, False), (74, False), (80, True)])
def test_what_is_drawn_again_and_again_does_not_jump(width: int, boxes: bool) -> None:
    """At first there would be room for boxes where there is none in the end."""

    def top(*states: str) -> str:
        steps = sketch("a > b > c", **dict(zip("abc", states, strict=True)))
        workflow = workflow_of(steps)
        drawn = draw_terminal(workflow, steps, width=width, colour=False, now=NOW, steady=True)
        return drawn.splitlines()[2]

    first, last = top("running", "waiting", "waiting"), top(*["succeeded"] * 3)
    assert first.startswith("╭") == last.startswith("╭") == boxes
    assert not boxes or first == last


def test_a_list_names_all_parents() -> None:
    picture = plain(draw_list(boxes_of(sketch("a, b > c")), width=80))
    assert picture[-1] == "    after a, b"

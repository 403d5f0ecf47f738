"""Workflows as Mermaid: the graph, and names that mean nothing to it."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawing.sketch import NOW, START, edges_of, graphs, many, sketch, steps_of, workflow_of
from foliot.drawing import to_mermaid
from foliot.model.workflow import Rule, Step

NODE = re.compile(r'^  (s\d+)[\[({/]+"(.*)"[\])}/]+:::(\w+)$')
EDGE = re.compile(r"^  (s\d+) (?:-->|-\.->) (s\d+)$")
LABEL = re.compile(r"^(.) <b>(.*)</b><br/>(.*)$")
PLAIN = re.compile(r"[^#\"&<>`\\%*_~$;|\[\]{}]|#\d+;")


def read(text: str) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """Nodes with their titles as they will be seen, and edges between titles."""
    first, title, described, *lines = text.splitlines()
    assert (first, title[:12], described[:12]) == ("flowchart LR", "  accTitle: ", "  accDescr: ")
    titles, edges = {}, set()
    for line in lines:
        if node := NODE.match(line):
            label = LABEL.match(node[2])
            assert label, line
            assert PLAIN.sub("", label[2]) == "", "something in it has a meaning"
            titles[node[1]] = html.unescape(label[2].replace("#", "&#"))
        elif edge := EDGE.match(line):
            edges.add((titles[edge[1]], titles[edge[2]]))
        else:
            assert line.startswith("  classDef "), line
    return titles, edges


def draw(steps: list[Step]) -> str:
    return to_mermaid(workflow_of(steps), steps, now=NOW)


def test_a_workflow_as_it_stands() -> None:
    steps = sketch(
        "ask > approval > pay",
        "approval > give_up",
        approval={"signal": "approval"},
        give_up={"state": "skipped", "rule": Rule.ANY_FAILED},
    )
    assert draw(steps) == (
        "flowchart LR\n"
        "  accTitle: etl\n"
        "  accDescr: succeeded · 4 steps · 1m00s\n"
        '  s0("✓ <b>ask</b><br/>succeeded · 1.5s"):::succeeded\n'
        '  s1{{"✓ <b>approval</b><br/>succeeded · 1.5s"}}:::succeeded\n'
        '  s2("✓ <b>pay</b><br/>succeeded · 1.5s"):::succeeded\n'
        '  s3("↷ <b>give#95;up</b><br/>if any#95;failed · skipped"):::skipped\n'
        "  s0 --> s1\n"
        "  s1 --> s2\n"
        "  s1 -.-> s3\n"
        "  classDef succeeded fill:#dafbe1,stroke:#1a7f37,color:#0a3d1a\n"
        "  classDef skipped fill:#eaeef2,stroke:#afb8c1,color:#59636e\n"
    )


@many
@given(steps=graphs(most=12))
def test_the_graph_can_be_read_back(steps: list[Step]) -> None:
    titles, edges = read(draw(steps))
    assert sorted(titles.values()) == sorted(step.name for step in steps)
    assert edges == edges_of(steps)


@many
@given(names=st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=5, unique=True))
def test_no_name_means_anything(names: list[str]) -> None:
    titles, _ = read(draw(steps_of({name: [] for name in names})))
    shown = {"".join(c if c.isprintable() else ascii(c)[1:-1] for c in name) for name in names}
    assert set(titles.values()) == shown


@pytest.mark.parametrize("name", ["%%{init: {}}%%", "x\n  s9 --> s1", "end", '"]:::x', "a\u2028b"])
def test_the_name_of_the_whole_is_a_line_of_text(name: str) -> None:
    steps = sketch("a")
    workflow = workflow_of(steps, name=name, paused_at=START, paused_by="ada", note=name)
    text = to_mermaid(workflow, steps, now=NOW)
    assert len(text.splitlines()) == 5
    assert "%%" not in text
    assert "· paused by ada: " in text.splitlines()[2]


def test_all_shapes_and_the_same_text_twice() -> None:
    inner = {"kind": "foliot.workflow"}
    read_all = {"kind": "foliot.map", "state": "waiting"}
    steps = sketch("inner > read", inner=inner, read=read_all)
    text = draw(steps)
    assert '  s0[/"✓ <b>inner</b>' in text
    assert '  s1[["◌ <b>read × n</b><br/>waiting"]]:::waiting' in text
    assert text == draw(steps[::-1])

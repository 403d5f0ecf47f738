"""A workflow as a Mermaid flowchart, which many wikis and code forges show as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from foliot.drawing.boxes import MARKS, Box, Shape, boxes_of, printable
from foliot.drawing.terminal import said_of_pause, summary
from foliot.model.job import JobState
from foliot.model.workflow import Step, Workflow

_CLASSES: Final = {
    JobState.SUCCEEDED: "fill:#dafbe1,stroke:#1a7f37,color:#0a3d1a",
    JobState.DEAD: "fill:#ffebe9,stroke:#cf222e,stroke-width:2px,color:#6e0a12",
    JobState.CANCELLED: "fill:#fbefff,stroke:#8250df,color:#3e1f79",
    JobState.RUNNING: "fill:#ddf4ff,stroke:#0969da,stroke-width:2px,color:#0a3069",
    JobState.READY: "fill:#ffffff,stroke:#0969da,color:#0a3069",
    JobState.HELD: "fill:#fff8c5,stroke:#9a6700,color:#4d2d00",
    JobState.SCHEDULED: "fill:#ffffff,stroke:#9a6700,color:#4d2d00",
    JobState.WAITING: "fill:#f6f8fa,stroke:#818b98,stroke-dasharray:4 3,color:#454c54",
    JobState.SKIPPED: "fill:#eaeef2,stroke:#afb8c1,color:#59636e",
}
_SHAPES: Final[dict[Shape, tuple[str, str]]] = {
    "step": ("(", ")"),
    "many": ("[[", "]]"),
    "signal": ("{{", "}}"),
    "workflow": ("[/", "/]"),
}
# Everything that Mermaid, or the Markdown and HTML inside of its labels, gives a meaning to.
_ENTITIES: Final = str.maketrans({letter: f"#{ord(letter)};" for letter in '#"&<>`\\%*_~$;|[]{}'})


def to_mermaid(workflow: Workflow, steps: Sequence[Step], *, now: datetime | None = None) -> str:
    """`now`: for how long what has not ended has been going on."""
    boxes = boxes_of(steps, now=now)
    said = summary(workflow, boxes, now)
    if workflow.paused_at is not None:
        said.append(said_of_pause(workflow))
    return "\n".join(_lines(workflow.name, said, boxes)) + "\n"


def _lines(name: str, said: Sequence[str], boxes: Sequence[Box]) -> Iterator[str]:
    yield "flowchart LR"
    yield f"  accTitle: {_plain(name)}"
    yield f"  accDescr: {_plain(' · '.join(said))}"
    for number, box in enumerate(boxes):
        opening, closing = _SHAPES[box.shape]
        words = _escape(" · ".join(box.words))
        label = f"{MARKS[box.state]} <b>{_escape(box.title)}</b><br/>{words}"
        yield f'  s{number}{opening}"{label}"{closing}:::{box.state}'
    for number, box in enumerate(boxes):
        for child in box.children:
            skipped = boxes[child].state is JobState.SKIPPED
            yield f"  s{number} {'-.->' if skipped else '-->'} s{child}"
    used = {box.state for box in boxes}
    for state, looks in _CLASSES.items():
        if state in used:
            yield f"  classDef {state} {looks}"


def _plain(text: str) -> str:
    """Where there are no entities: a line of text, in which only the sign of a comment means anything."""
    return printable(text).replace("%%", "% %")


def _escape(text: str) -> str:
    return text.translate(_ENTITIES)

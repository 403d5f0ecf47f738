"""Pictures of workflows: in the terminal, as Mermaid and as SVG. Pure: whoever draws brings what there is to draw."""

from foliot.drawing.boxes import boxes_of, counted, overall, took
from foliot.drawing.draft import not_submitted
from foliot.drawing.ink import to_ascii
from foliot.drawing.mermaid import to_mermaid
from foliot.drawing.svg import to_svg
from foliot.drawing.terminal import draw_terminal, why_failed

__all__ = [
    "boxes_of",
    "counted",
    "draw_terminal",
    "not_submitted",
    "overall",
    "to_ascii",
    "to_mermaid",
    "to_svg",
    "took",
    "why_failed",
]

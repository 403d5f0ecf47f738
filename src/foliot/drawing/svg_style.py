"""How a picture in SVG looks: its colours by day and by night, and the sign of each state."""

from __future__ import annotations

from typing import Final

from foliot.model.job import JobState

SANS: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MONO: Final = (
    "ui-monospace, SFMono-Regular, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
)

# By state: the strong colour, the border and the ground of its card; by day, then by night.
_COLOURS: Final = {
    JobState.SUCCEEDED: (("#1a7f37", "#a6d8b4", "#ffffff"), ("#3fb950", "#23562f", "#161b22")),
    JobState.DEAD: (("#cf222e", "#f0928f", "#fff5f4"), ("#f85149", "#a1322d", "#2a1618")),
    JobState.CANCELLED: (("#8250df", "#cdb5f5", "#fcf9ff"), ("#a884f3", "#54409a", "#1d1930")),
    JobState.RUNNING: (("#0969da", "#6cb2f7", "#f1f8ff"), ("#4493f8", "#2566b8", "#10213a")),
    JobState.READY: (("#0969da", "#b6d6f7", "#ffffff"), ("#4493f8", "#27466d", "#161b22")),
    JobState.HELD: (("#9a6700", "#e3c15c", "#fffbea"), ("#d29922", "#7a5a16", "#261f10")),
    JobState.SCHEDULED: (("#9a6700", "#e8d59c", "#ffffff"), ("#d29922", "#574519", "#161b22")),
    JobState.WAITING: (("#6e7781", "#c4ccd4", "#fbfcfd"), ("#848d97", "#3a424b", "#12171e")),
    JobState.SKIPPED: (("#8c959f", "#dde2e7", "#f6f8fa"), ("#6e7681", "#2b323a", "#12171e")),
}
_HOLLOW: Final = (JobState.READY, JobState.SCHEDULED, JobState.WAITING)
# What is not told by a state: ground, ink, faint ink, lines ahead, lines behind.
_DAY: Final = ("#f6f8fa", "#1f2328", "#59636e", "#c3cbd4", "#7d8894")
_NIGHT: Final = ("#0d1117", "#e6edf3", "#9198a1", "#3d444d", "#768390")

# Drawn in a circle of radius 9 around 0,0.
SIGNS: Final = {
    JobState.SUCCEEDED: '<path d="M-4 .4-1.2 3.2 4-2.8"/>',
    JobState.DEAD: '<path d="M-3.2-3.2 3.2 3.2M3.2-3.2-3.2 3.2"/>',
    JobState.CANCELLED: '<path d="M-4 4 4-4"/>',
    JobState.RUNNING: '<path d="M-2.2-3.6 4 0-2.2 3.6Z" class="full"/>',
    JobState.READY: '<path d="M-2.2-3.6 4 0-2.2 3.6Z"/>',
    JobState.HELD: '<path d="M-2.2-3.4V3.4M2.2-3.4V3.4"/>',
    JobState.SCHEDULED: '<path d="M0-4.6V0L3.2 1.9"/>',
    JobState.WAITING: "",
    JobState.SKIPPED: '<path d="M-3.8-3-.8 0-3.8 3M.8-3 3.8 0 .8 3"/>',
}


def style() -> str:
    """One style sheet. Nothing in it reaches beyond the picture."""
    night = _scheme(1)
    return f"""
.foliot text {{ font-family: {SANS}; font-size: 12px }}
.foliot .name {{ font-family: {MONO}; font-size: 13px; font-weight: 600 }}
.foliot .head {{ font-size: 17px; font-weight: 650 }}
.foliot .card {{ stroke-width: 1.25 }}
.foliot .running .card, .foliot .dead .card {{ stroke-width: 1.75 }}
.foliot .waiting .card {{ stroke-dasharray: 5 4 }}
.foliot .waiting .disc {{ stroke-dasharray: 3.2 2.45 }}
.foliot .disc {{ stroke-width: 1.5 }}
.foliot .sign {{ fill: none; stroke-width: 1.8; stroke-linecap: round; stroke-linejoin: round }}
.foliot .edge {{ fill: none; stroke-width: 1.5 }}
.foliot .passed {{ stroke-dasharray: 4 4 }}
{_scheme(0)}
@media (prefers-color-scheme: dark) {{
{night}
}}
"""


def _scheme(which: int) -> str:
    ground, ink, faint, ahead, behind = (_DAY, _NIGHT)[which]
    rules = [
        f".foliot .ground {{ fill: {ground} }}",
        f".foliot text {{ fill: {ink} }}",
        f".foliot .faint, .foliot .waiting text, .foliot .skipped text {{ fill: {faint} }}",
        f".foliot .edge {{ stroke: {ahead} }} .foliot .tip {{ fill: {ahead} }}",
        f".foliot .edge.behind {{ stroke: {behind} }} .foliot .tip.behind {{ fill: {behind} }}",
    ]
    for state, colours in _COLOURS.items():
        strong, border, card = colours[which]
        one = f".foliot .{state}"
        hollow = state in _HOLLOW
        rules += [
            f"{one} .card {{ fill: {card}; stroke: {border} }}",
            f"{one} .disc {{ fill: {card if hollow else strong}; stroke: {strong} }}",
            f"{one} .sign {{ stroke: {strong if hollow else card} }}",
            f"{one} .full {{ fill: {card} }}",
            f"{one} .said {{ fill: {strong} }}",
            f".foliot .bar-{state} {{ fill: {border if hollow else strong} }}",
        ]
    return "\n".join(rules)

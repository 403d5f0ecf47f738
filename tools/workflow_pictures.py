"""Draws the pictures of docs/workflows.md: the examples in examples/workflows, run on a clock that stands still but
for the time that their jobs are said to take, and drawn by `graph`. `--check` says whether the pictures are current."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from foliot import Flow, Foliot
from foliot.testing import Harness

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "workflows"
PICTURES = ROOT / "docs" / "pictures"
SECONDS = {"find_cities": 0.24, "read_city": 0.9, "report": 0.06, "ask": 0.12}


def pictures() -> dict[Path, str]:
    return {
        PICTURES / "workflow-etl.svg": picture("etl", "etl.py", "5 minutes"),
        PICTURES / "workflow-approval.svg": picture("payment", "approval.py", "25 minutes"),
    }


def picture(name: str, script: str, until: str) -> str:
    """Of what the example draws, so much time after it was submitted."""
    found = runpy.run_path(str(EXAMPLES / script))
    app: Foliot = found["app"]
    draw: Callable[[Flow], None] = found["draw"]
    with Harness(app) as foliot:
        take_time(app, foliot, SECONDS)
        with app.workflow(name) as flow:
            draw(flow)
        foliot.advance(until, reraise=True)
        return flow.graph("svg")


def take_time(app: Foliot, foliot: Harness, seconds: Mapping[str, float]) -> None:
    """A job takes what is said of its kind."""

    @app.middleware
    def take(job: Any, call_next: Callable[[], Any]) -> Any:
        foliot.advance(seconds[job.kind])
        return call_next()

    @app.middleware
    async def take_too(job: Any, call_next: Callable[[], Any]) -> Any:
        await foliot.aadvance(seconds[job.kind])
        return await call_next()


if __name__ == "__main__":
    for path, drawn in pictures().items():
        if "--check" in sys.argv:
            if not path.exists() or path.read_text("utf-8") != drawn:
                sys.exit(f"{path.name} is not current: run tools/{Path(__file__).name}")
        else:
            path.write_text(drawn, "utf-8")

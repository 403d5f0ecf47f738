"""Writes docs/configuration.md from the settings themselves; `--check` says whether it is current."""

from __future__ import annotations

import sys
from pathlib import Path

from foliot.config import SECTIONS, SETTINGS, environment_name, load

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
HEAD = """# Configuration

Defaults, then `foliot.toml` in the current directory (or the file that FOLIOT_CONFIG or `--config` names), then the
environment, then flags: what comes later wins. A wrong key or value is refused, with the nearest right one.
`foliot config show` prints every setting, its value and where it came from.

Durations are `250ms`, `15s`, `5m`, `2h`, `7d`, `1h30m`, or a number of seconds; sizes `256KiB`, `1MiB`, or a number
of bytes.

```toml
[store]
url = "postgresql://user:secret@host/database"

[worker]
processes = 4
concurrency = 100
lease = "15s"
```
"""


def page() -> str:
    defaults = load(env={}).origins
    parts = [HEAD]
    for section, kind in SECTIONS.items():
        parts.append(f"## {section}\n\n{(kind.__doc__ or '').strip()}\n")
        parts.append("| key | default | variable | what it is |\n| --- | --- | --- | --- |")
        rows = [
            f"| `{key}` | `{defaults[key].text}` | `{environment_name(key)}` | {setting.help} |"
            for key, setting in SETTINGS.items()
            if key.startswith(f"{section}.")
        ]
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts) + "\nFOLIOT_URL is a short name for FOLIOT_STORE_URL.\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        current = PAGE.read_text() == page()
        sys.exit(0 if current else f"{PAGE.name} is not current: run tools/configuration_page.py")
    PAGE.write_text(page())

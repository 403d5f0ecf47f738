"""`foliot config show`: every setting, its value and where it came from."""

from __future__ import annotations

from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import print_json, print_table
from foliot.config import SETTINGS


def show(*, options: Options = DEFAULT_OPTIONS) -> None:
    """Show every setting, its value and where it came from."""
    origins = options.load().origins
    if options.json:
        print_json(
            {
                key: {"value": one.value, "source": one.source, "help": SETTINGS[key].help}
                for key, one in origins.items()
            }
        )
        return
    print_table(
        ("setting", "value", "from", "what it is"),
        [(key, one.text, one.source, SETTINGS[key].help) for key, one in origins.items()],
    )

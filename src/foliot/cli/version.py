"""`foliot version`: what is installed, for bug reports."""

from __future__ import annotations

import platform
import sqlite3

from foliot import __version__
from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import print_json


def version(*, options: Options = DEFAULT_OPTIONS) -> None:
    """Show the versions of Foliot, Python and SQLite."""
    if options.json:
        print_json(
            {
                "foliot": __version__,
                "python": platform.python_version(),
                "sqlite": sqlite3.sqlite_version,
            }
        )
        return
    print(f"foliot {__version__}")
    print(f"python {platform.python_version()}, sqlite {sqlite3.sqlite_version}")

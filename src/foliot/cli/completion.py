"""`foliot completion`: a script that teaches a shell the commands and their options."""

from __future__ import annotations

from typing import Literal

from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import print_json


def completion(
    shell: Literal["bash", "zsh", "fish"], *, options: Options = DEFAULT_OPTIONS
) -> None:
    """Print a script for the shell: source it, or put it where the shell looks for completions.

    Parameters
    ----------
    shell
        Which one.
    """
    from foliot.cli.main import build_app

    script = build_app().generate_completion(prog_name="foliot", shell=shell)
    if options.json:
        print_json({"shell": shell, "script": script})
    else:
        print(script)

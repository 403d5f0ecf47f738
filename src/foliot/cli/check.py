"""`foliot check`: whether an application can run what is in the store, for a deployment pipeline."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from foliot.cli.ask import ask_store
from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import print_json, print_table
from foliot.fitting import Fitting, check_fitting
from foliot.target import load_app


def check(
    app: str,
    *,
    dead: Annotated[bool, Parameter(negative="")] = False,
    options: Options = DEFAULT_OPTIONS,
) -> int:
    """List the jobs in the store that an application could not run. Exit code 1: there are some.

    Parameters
    ----------
    app
        Where it is: module:attribute.
    dead
        Look at dead jobs as well.
    """
    loaded = options.load().settings.store
    found = load_app(app)
    # What the app's own code says about its store counts more than file and environment.
    settings = loaded if options.url is not None else found.settings.store
    fitting = asyncio.run(
        ask_store(settings, lambda store: check_fitting(store, found.registry, dead=dead))
    )
    if options.json:
        print_json({"ok": not fitting.unfit, **_shape(fitting)})
    else:
        _print(fitting)
    return 1 if fitting.unfit else 0


def _shape(fitting: Fitting) -> dict[str, object]:
    return {
        "checked": fitting.checked,
        "complete": fitting.complete,
        "unfit": fitting.unfit,
    }


def _print(fitting: Fitting) -> None:
    if fitting.unfit:
        print_table(
            ("kind", "version", "jobs", "problem", "for example"),
            [
                (m.kind, str(m.version), f"{m.count:,}", m.problem, " ".join(m.examples))
                for m in fitting.unfit
            ],
        )
    else:
        print("everything fits")
    print(f"checked: {fitting.checked:,} jobs")
    if not fitting.complete:
        print("there are more: only the newest were looked at")

"""`foliot hooks`: who is told what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import print_json, print_table, print_unknown, printable

if TYPE_CHECKING:
    from foliot.model.event import Listener
    from foliot.store.port import Store


def list_hooks(*, options: Options = DEFAULT_OPTIONS) -> None:
    """List the hooks that listen, to which events, the modules that declare them, since when, and since when no live
    worker runs them."""
    from foliot.cli.ask import ask
    from foliot.cli.shape import show_time

    async def read(store: Store) -> list[Listener]:
        return await store.events.listeners()

    found = ask(options, read)
    if options.json:
        print_json({"hooks": [_to_json(one) for one in found]})
        return
    print_table(
        ("hook", "event", "kinds", "queues", "module", "since", "absent since"),
        [
            (
                one.hook,
                one.listens.event,
                ", ".join(one.listens.kinds) or "all",
                ", ".join(one.listens.queues) or "all",
                one.origin,
                show_time(one.since),
                show_time(one.absent_since),
            )
            for one in found
        ],
        whole=["hook"],
    )


def remove(hook: str, *, by: str | None = None, options: Options = DEFAULT_OPTIONS) -> int:
    """Let a hook listen no longer, at once, if its code is gone. Exit code 1: there is none of this name.

    Parameters
    ----------
    hook
        Its name, as `foliot hooks list` shows it.
    by
        Who asks for it, for the audit log (else user@host).
    """
    from foliot.author import Author
    from foliot.cli.ask import ask
    from foliot.hook_sync import remove_hook
    from foliot.ids import Ids

    author = Author(Ids(), by)

    async def run(store: Store) -> tuple[bool, list[Listener]]:
        return await remove_hook(store, hook, by=author), await store.events.listeners()

    removed, others = ask(options, run)
    if options.json:
        print_json({"hook": hook, "removed": removed})
    elif removed:
        print(printable(f"removed {hook}"))
    else:
        print_unknown("hook", hook, [one.hook for one in others])
    return 0 if removed else 1


def _to_json(listener: Listener) -> dict[str, object]:
    return {
        "hook": listener.hook,
        "event": listener.listens.event,
        "kinds": listener.listens.kinds,
        "queues": listener.listens.queues,
        "module": listener.origin,
        "since": listener.since,
        "absent_since": listener.absent_since,
    }

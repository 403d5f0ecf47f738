"""Who does something by hand, and how that is written down."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Sequence
from typing import Any

from foliot.errors import InvalidValue
from foliot.ids import Ids
from foliot.model.audit import Deed
from foliot.store.searching import Record

_LONGEST = 200


class Author:
    """`name` is what the audit log says; by default the user of this process."""

    def __init__(self, ids: Ids, name: str | None = None) -> None:
        self.name = this_user() if name is None else _check(name)
        self._ids = ids

    def deed(self, action: str, target: str, **detail: Any) -> Deed:
        return Deed(self._ids.job(), self.name, action, target, detail)

    def each(self, action: str, **detail: Any) -> Record:
        """One entry for each job, queue or session that was changed."""

        def record(changed: Sequence[str]) -> list[Deed]:
            return [self.deed(action, target, **detail) for target in changed]

        return record


def by_hand(
    by: Author | str | None, action: str, **detail: Any
) -> tuple[str | None, Record | None]:
    """The name of who acts, and what is written down: only an author's acts are."""
    if isinstance(by, Author):
        return by.name, by.each(action, **detail)
    return by, None


def this_user() -> str:
    """user@host"""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a number without a name, as in many containers
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def _check(name: object) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST or not name.isprintable():
        problem = f"is not printable text of 1 to {_LONGEST} characters"
        raise InvalidValue("by", name, problem, example="ada@example.org")
    return name

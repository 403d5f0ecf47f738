"""What one setting may hold: reads a value given as text or as TOML, or says what it expects.

`read` raises ValueError with the end of a sentence whose beginning (key, value) the caller has.
"""

from __future__ import annotations

import re
from typing import TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from foliot.shown import did_you_mean, redact
from foliot.units import read_duration, read_size, show_duration, show_size

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")  # of queues, kinds and the like
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_WEIGHT = re.compile(r"[1-9]\d{0,2}", re.ASCII)
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_LONGEST_TEXT = 2048

N = TypeVar("N", int, float)


class Setting(Struct, frozen=True):
    """The help line of a setting, an example, and how to read and show its value."""

    help: str
    example: str

    @property
    def literal(self) -> str:
        """The example as it is written in TOML."""
        return f'"{self.example}"'

    def read(self, given: object) -> object:
        raise NotImplementedError

    def show(self, value: object) -> str:
        return str(value)

    def public(self, value: object) -> object:
        """The value as it may be printed or logged."""
        return value


class Whole(Setting, frozen=True):
    """A whole number within bounds."""

    least: int
    most: int

    @property
    def literal(self) -> str:
        return self.example

    def read(self, given: object) -> int:
        if isinstance(given, str) and _WHOLE.fullmatch(given.strip()):
            given = int(given)
        if not isinstance(given, int) or isinstance(given, bool):
            raise ValueError(f"is not a whole number between {self.least} and {self.most}")
        return _between(given, self.least, self.most, f"{self.least} and {self.most}")


class Duration(Setting, frozen=True):
    """A duration within bounds, in seconds. With `endless`, "forever" is None."""

    least: float
    most: float
    endless: bool = False

    def read(self, given: object) -> float | None:
        if self.endless and given == "forever":
            return None
        bounds = f"{show_duration(self.least)} and {show_duration(self.most)}"
        if self.endless:
            bounds += ', or "forever"'
        return _between(read_duration(given), self.least, self.most, bounds)

    def show(self, value: object) -> str:
        return show_duration(value) if isinstance(value, int | float) else "forever"


class Size(Setting, frozen=True):
    """A number of bytes within bounds."""

    least: int
    most: int

    def read(self, given: object) -> int:
        bounds = f"{show_size(self.least)} and {show_size(self.most)}"
        return _between(read_size(given), self.least, self.most, bounds)

    def show(self, value: object) -> str:
        return show_size(value) if isinstance(value, int) else str(value)


class Flag(Setting, frozen=True):
    """Yes or no, in exactly two words."""

    @property
    def literal(self) -> str:
        return self.example

    def read(self, given: object) -> bool:
        if isinstance(given, str):
            given = {"true": True, "false": False}.get(given.strip())
        if not isinstance(given, bool):
            raise ValueError("is neither true nor false")
        return given

    def show(self, value: object) -> str:
        return "true" if value else "false"


class Choice(Setting, frozen=True):
    """One of a few words."""

    words: tuple[str, ...]

    def read(self, given: object) -> str:
        if not isinstance(given, str) or given not in self.words:
            problem = f"is not one of {', '.join(self.words)}"
            near = did_you_mean(given.lower(), self.words) if isinstance(given, str) else None
            raise ValueError(f"{problem}; {near}" if near else problem)
        return given


class Names(Setting, frozen=True):
    """A list of names; as text, separated by commas."""

    weighted: bool = False

    @property
    def literal(self) -> str:
        return "[" + ", ".join(f'"{name}"' for name in self.example.split(",")) + "]"

    def read(self, given: object) -> tuple[str, ...]:
        if isinstance(given, str):
            given = [part.strip() for part in given.split(",")]
        if not isinstance(given, list | tuple):
            raise ValueError("is not a list of names")
        names = [self._name(item) for item in given]
        if len(set(names)) < len(names):
            raise ValueError("holds the same name twice")
        return tuple(given)

    def _name(self, given: object) -> str:
        """Without its weight."""
        if not isinstance(given, str) or not given.strip():
            raise ValueError("holds an empty name or something that is no text")
        name, equals, weight = given.partition("=") if self.weighted else (given, "", "")
        if not NAME.fullmatch(name):
            raise ValueError(
                "holds a name that is not 1 to 200 letters, digits, and any of _ . : -"
            )
        if equals and not _WEIGHT.fullmatch(weight):
            raise ValueError("holds a weight that is not a whole number from 1 to 999")
        return name

    def show(self, value: object) -> str:
        return (", ".join(value) if isinstance(value, tuple) else str(value)) or "none"


class Weighted(Names, frozen=True):
    """A list of names of which each may have a weight: mail=3."""

    weighted: bool = True


class Url(Setting, frozen=True):
    """The address of a store. Its password is never shown."""

    schemes: tuple[str, ...]

    def read(self, given: object) -> str:
        if not isinstance(given, str):
            raise ValueError("is not a URL")
        url = given.strip()
        if not url:
            raise ValueError("is empty")
        if len(url) > _LONGEST_TEXT or not url.isprintable():
            raise ValueError("is too long or holds characters that cannot be printed")
        scheme, colon, rest = url.partition("://")
        if not colon or scheme not in self.schemes:
            begin = " or ".join(f"{word}://" for word in self.schemes)
            raise ValueError(f"does not begin with {begin}")
        if scheme != "sqlite":
            _check_server(url, rest)
        return url

    def show(self, value: object) -> str:
        return redact(value) if isinstance(value, str) else "none"

    def public(self, value: object) -> object:
        return redact(value) if isinstance(value, str) else value


def _between(value: N, least: N, most: N, bounds: str) -> N:
    if not least <= value <= most:
        raise ValueError(f"is not between {bounds}")
    return value


def _check_server(url: str, rest: str) -> None:
    """Refuse a user or password that the driver would take apart in another way."""
    try:
        urlsplit(url)
    except ValueError:
        raise ValueError("is not a URL") from None
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    path = rest[len(authority) :].partition("?")[0]
    hosts = authority.rpartition("@")[2].split(",")
    ports = [host.rpartition("]")[2].partition(":")[2] for host in hosts]
    odd = not all(_is_port(port) for port in ports if port)
    if (
        authority.count("@") > 1
        or "@" in path
        or _BAD_PERCENT.search(rest)
        or (odd and "@" in rest)
    ):
        raise ValueError("has a user or password with @, /, #, ? or % in it: percent-encode them")
    if odd:
        raise ValueError("has a port that is not a number between 1 and 65535")


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65_536

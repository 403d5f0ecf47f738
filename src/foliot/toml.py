"""Reads a TOML file and knows on which line a key stands, so that errors can say it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from msgspec import Struct

from foliot.errors import ConfigError

_LARGEST = 1 << 20
_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)$")
_HEADER = re.compile(r"\s*\[\s*[\"']?([\w-]+)[\"']?\s*\]")
_KEY = re.compile(r"\s*([\w\"'. -]+?)\s*=")


class Document(Struct, frozen=True):
    """The tables of a file, and the line of each (section, key); a section's own key is ""."""

    file: Path
    tables: dict[str, Any]
    lines: dict[tuple[str, str], int]

    def place(self, section: str, key: str = "") -> str:
        """file:line of a key or, where the line is not known, the file."""
        line = self.lines.get((section, key)) or self.lines.get((section, ""))
        return f"{self.file}:{line}" if line else str(self.file)


def read_toml(file: Path) -> Document:
    """The file's contents. Raises ConfigError."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise _unreadable(file, "is larger than a configuration file can be, 1MiB")
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
        return Document(file, tomllib.loads(text), _lines(text))
    except tomllib.TOMLDecodeError as error:
        raise _broken(file, str(error)) from None
    except UnicodeDecodeError:
        raise _unreadable(file, "is not UTF-8 text") from None
    except RecursionError:
        raise _unreadable(file, "is nested too deeply") from None
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(file, f"cannot be read: {reason}") from None


def _unreadable(file: Path, problem: str) -> ConfigError:
    return ConfigError("configuration file", str(file), problem)


def _broken(file: Path, message: str) -> ConfigError:
    found = _AT_LINE.search(message)
    place = f"{file}:{found[1]}:{found[2]}" if found else str(file)
    problem = _AT_LINE.sub("", message)
    return ConfigError(place, problem=f"is not TOML: {problem}", example='lease = "15s"')


def _lines(text: str) -> dict[tuple[str, str], int]:
    """Good enough for the shapes people write; a line inside a long string may mislead it."""
    lines: dict[tuple[str, str], int] = {}
    section = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if header := _HEADER.match(line):
            section = header[1]
            lines.setdefault((section, ""), number)
        elif key := _KEY.match(line):
            parts = [part.strip(" \"'") for part in key[1].split(".")]
            table, name = (section, parts[0]) if section else (parts[0], "".join(parts[1:2]))
            lines.setdefault((table, name), number)
    return lines

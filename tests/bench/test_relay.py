"""The relay that counts statements: nothing is lost on the way, every statement is counted."""

from __future__ import annotations

import itertools
from pathlib import Path

import psycopg
import pytest

from foliot.bench.relay import Relay, StatementCount
from support.stores import Databases


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


CLIENT = b"".join(
    [
        message(b"", b"\0\3\0\0user\0ada\0\0"),
        message(b"Q", b"SELECT 1\0"),
        message(b"P", b"name\0SELECT 2\0"),
        message(b"B", b"E" * 20),
        message(b"E", b"\0\0\0\0\0"),
        message(b"S", b""),
        message(b"X", b""),
    ]
)


@pytest.mark.parametrize("piece", [1, 2, 3, 7, len(CLIENT)])
def test_statements_are_counted_however_the_bytes_arrive(piece: int) -> None:
    count = StatementCount()
    for start in range(0, len(CLIENT), piece):
        count.read(CLIENT[start : start + piece])
    assert count.statements == 2


def test_what_goes_through_is_counted_and_unchanged(databases: Databases, tmp_path: Path) -> None:
    with Relay(databases.server.url(), tmp_path) as relay:
        with psycopg.connect(relay.url, autocommit=True) as connection:
            before = relay.statements
            row = connection.execute("SELECT %s::text", ["ä" * 100_000]).fetchone()
            assert row == ("ä" * 100_000,)
            for _ in itertools.repeat(None, 5):
                connection.execute("SELECT 1", prepare=True)
        assert relay.statements == before + 6

"""What these tests ask the database again and again."""

from __future__ import annotations

import psycopg


def names(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT name FROM item ORDER BY name")]


def value(connection: psycopg.Connection, statement: str) -> object:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]

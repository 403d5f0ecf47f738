"""A gate in the database that holds up whoever fires, in the middle of the transaction, while it is shut."""

from __future__ import annotations

from typing import LiteralString, Self

import psycopg

from support.fleet import eventually

SETUP: tuple[LiteralString, ...] = (
    """
    CREATE OR REPLACE FUNCTION public.wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock_shared(42);
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER wait_at_gate BEFORE INSERT ON foliot.jobs FOR EACH ROW
    WHEN (NEW.extras LIKE '%"nominal"%') EXECUTE FUNCTION public.wait_at_gate()
    """,
)


class FireGate:
    """Open at first. Processes are known by the application_name of their connections."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def __enter__(self) -> Self:
        for statement in SETUP:
            self._connection.execute(statement)
        return self

    def __exit__(self, *_: object) -> None:
        self.open()
        self._connection.execute("DROP TRIGGER wait_at_gate ON foliot.jobs")
        self._connection.close()

    def shut(self) -> None:
        self._connection.execute("SELECT pg_advisory_lock(42)")

    def open(self) -> None:
        self._connection.execute("SELECT pg_advisory_unlock_all()")

    def wait_for_one(self) -> str:
        """The name of a process that has begun to insert jobs and waits here."""
        return eventually(lambda: self._first("l.locktype = 'advisory' AND l.objid = 42"))

    def shut_before(self) -> None:
        """None that fires comes as far as to insert anything."""
        self._connection.execute("BEGIN")
        self._connection.execute("SELECT id FROM foliot.triggers ORDER BY id FOR UPDATE")

    def open_before(self) -> None:
        self._connection.execute("ROLLBACK")

    def wait_for_one_before(self) -> str:
        """The name of a process that is about to fire."""
        return eventually(lambda: self._first("l.locktype IN ('transactionid', 'tuple')"))

    def _first(self, lock: LiteralString) -> str:
        found = self._connection.execute(
            "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"
            " WHERE a.datname = current_database() AND NOT l.granted AND " + lock
        ).fetchall()
        return found[0][0] if found else ""

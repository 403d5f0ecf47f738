"""What a database does in the middle of a transaction that fires, or delivers: hold it up, or write down who it is.

Processes are known by the application_name of their connections.
"""

from __future__ import annotations

from collections import Counter
from typing import LiteralString, Self

import psycopg

from support.fleet import eventually

WAIT: LiteralString = "PERFORM pg_advisory_xact_lock_shared(42);"
NOTE: LiteralString = "INSERT INTO public.fired VALUES (current_setting('application_name'));"


class OnFire:
    """PL/pgSQL that is run for each job that a schedule becomes, before it is inserted."""

    when: LiteralString = """NEW.extras LIKE '%"nominal"%'"""

    def __init__(self, url: str, body: LiteralString) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._body = body

    def __enter__(self) -> Self:
        execute = self._connection.execute
        execute("CREATE TABLE IF NOT EXISTS public.fired (name text)")
        execute("CREATE SEQUENCE IF NOT EXISTS public.fires")
        execute("ALTER SEQUENCE public.fires RESTART")
        execute(
            "CREATE OR REPLACE FUNCTION public.on_fire() RETURNS trigger LANGUAGE plpgsql AS $$"
            " BEGIN " + self._body + " RETURN NEW; END $$"
        )
        execute(
            "CREATE OR REPLACE TRIGGER on_fire BEFORE INSERT ON foliot.jobs FOR EACH ROW"
            " WHEN (" + self.when + ") EXECUTE FUNCTION public.on_fire()"
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.execute("DROP TRIGGER on_fire ON foliot.jobs")
        self._connection.execute("DROP TABLE public.fired")
        self._connection.close()


class FireNotes(OnFire):
    """How many jobs each process has made."""

    def __init__(self, url: str) -> None:
        super().__init__(url, NOTE)

    def fired(self) -> Counter[str]:
        notes = self._connection.execute("SELECT name, count(*) FROM public.fired GROUP BY name")
        return Counter(dict(notes.fetchall()))


class FireGate(OnFire):
    """Whoever comes to it waits while it is shut. It is open at first."""

    def __init__(self, url: str, body: LiteralString = WAIT) -> None:
        super().__init__(url, body)
        # Not the one that looks: within a transaction, pg_stat_activity shows what it showed at first.
        self._before = psycopg.connect(url)

    def __exit__(self, *_: object) -> None:
        self._before.close()
        self.open()
        super().__exit__()

    def shut(self) -> None:
        self._connection.execute("SELECT pg_advisory_lock(42)")

    def open(self) -> None:
        self._connection.execute("SELECT pg_advisory_unlock_all()")

    def wait_for_one(self) -> str:
        """The name of a process that has begun to insert jobs and waits here."""
        return eventually(lambda: self._first("l.locktype = 'advisory' AND l.objid = 42"))

    def shut_before(self) -> None:
        """None that fires comes as far as to insert anything."""
        self._before.execute("SELECT id FROM foliot.triggers ORDER BY id FOR UPDATE")

    def open_before(self) -> None:
        self._before.rollback()

    def wait_for_one_before(self) -> str:
        """The name of a process that is about to fire."""
        return eventually(lambda: self._first("l.locktype IN ('transactionid', 'tuple')"))

    def _first(self, lock: LiteralString) -> str:
        found = self._connection.execute(
            "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"
            " WHERE a.datname = current_database() AND NOT l.granted AND " + lock
        ).fetchall()
        return found[0][0] if found else ""


class DeliveryGate(FireGate):
    """The same for those who make jobs of hooks."""

    when = "NEW.kind LIKE 'on.%'"


def named(url: str, name: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}application_name={name}"

"""What PostgreSQL's errors mean to users of Foliot: none of the driver's own reaches them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from foliot.errors import FoliotError, KeyHeld, SchemaMissing, StoreRefused, StoreUnavailable
from foliot.shown import redact

# A plan or a prepared statement that a new connection will not have.
_OF_THE_CONNECTION: Final = ("0A000", "26000", "42P05")
# Without a connection there is no code of the error, only its text.
_REFUSED: Final = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry"
    r'|FATAL:\s+(database|role) ".*" does not exist'
)
_SEVERAL: Final = "Multiple connection attempts"  # one host may refuse while another is away
CROSSED: Final = (errors.DeadlockDetected, errors.SerializationFailure)
_UNAVAILABLE: Final = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.InternalError,
    errors.ReadOnlySqlTransaction,
)


@contextmanager
def translate(conninfo: str) -> Iterator[None]:
    """Around every use of a connection that is not of the pool; what those do may be done again."""
    try:
        yield
    except psycopg.Error as error:
        if _REFUSED.search(str(error)) and _SEVERAL not in str(error):
            raise StoreRefused(f"PostgreSQL: {text_of(error)}") from error
        explained = explain(error, role=role_of(conninfo))
        if isinstance(explained, StoreUnavailable):
            explained.unknown = False
        raise explained from error


def explain(error: psycopg.Error, *, role: str) -> FoliotError:
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
        return SchemaMissing()
    if isinstance(error, errors.InsufficientPrivilege):
        return _forbidden(error, role)
    if isinstance(error, errors.LockNotAvailable):
        return KeyHeld(
            f"PostgreSQL: a transaction that has not ended holds the key: {text_of(error)}"
        )
    if isinstance(error, CROSSED):
        explained = StoreUnavailable(f"PostgreSQL: {primary(error)}: the transaction was undone")
        explained.crossed = True
        return explained
    if isinstance(error, _UNAVAILABLE) or error.sqlstate in _OF_THE_CONNECTION:
        # Told by the server: the transaction did not commit. Otherwise the reply is missing.
        told = error.sqlstate is not None and not error.sqlstate.startswith(("08", "57P"))
        return unavailable(error, unknown=not told)
    return FoliotError(redact(f"PostgreSQL: {text_of(error)}"))


def unavailable(error: Exception, *, unknown: bool) -> StoreUnavailable:
    return StoreUnavailable(f"PostgreSQL: {text_of(error)}", unknown=unknown)


def primary(error: psycopg.Error) -> str:
    """What it says in one line: which processes have waited for which rows is nothing to a user."""
    return error.diag.message_primary or type(error).__name__


def silenced() -> StoreUnavailable:
    return StoreUnavailable(
        "PostgreSQL: the server has ended a transaction in the middle of which this process said nothing for too long:"
        " its event loop was blocked, or the machine too busy. Nothing of it was stored"
    )


def role_of(conninfo: str) -> str:
    given = conninfo_to_dict(conninfo).get("user")
    if given:
        return str(given)
    defaults = {option.keyword: option.val for option in Conninfo.get_defaults()}
    return (defaults.get(b"user") or b"of this process").decode(errors="replace")


def _forbidden(error: psycopg.Error, role: str) -> FoliotError:
    said = error.diag.message_primary or text_of(error)
    name = f'"{role}"'
    if "for database" in said:
        hint = f"as its owner: GRANT CREATE ON DATABASE {said.rpartition(' ')[2]} TO {name}"
    elif "for table" in said:
        hint = (
            "as their owner: GRANT SELECT, INSERT, UPDATE, DELETE"
            f" ON ALL TABLES IN SCHEMA foliot TO {name}"
        )
    elif "must be owner" in said:
        hint = f"do this as its owner, or make {name} a member of that role"
    else:
        hint = f"as its owner: GRANT USAGE, CREATE ON SCHEMA foliot TO {name}"
    return FoliotError(f"PostgreSQL: the role {role} may not do this: {said}", hint=hint)


def text_of(error: Exception) -> str:
    """In one line."""
    return " ".join(str(error).split()) or type(error).__name__

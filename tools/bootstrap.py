"""Makes the virtual environment that the Makefile works in: `python3 tools/bootstrap.py demo|dev`.

Standard library only, and written so that any Python parses it and says clearly what is missing.
Settings: PYTHON (the interpreter to use), VENV (where to put the environment, default .venv).
"""

import hashlib
import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)
NAMES = ("python3.14", "python3.13", "python3.12", "python3.11", "python3", "python")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, os.path.expanduser(os.environ.get("VENV") or ".venv"))
VENV_PYTHON = os.path.join(VENV, "bin", "python")
VENV_PARTS = {"bin", "include", "lib", "lib64", "share", "pyvenv.cfg", ".gitignore"}
EXTRAS = {"demo": "", "dev": "[dev]"}
PROBE = """
import sys
def has(name):
    try:
        __import__(name)
    except Exception:
        return 0
    return 1
sys.stdout.write("%d %d %d %d %s" % (sys.version_info[0], sys.version_info[1],
    has("venv") and has("ensurepip"), has("virtualenv"), sys.prefix))
"""


class Problem(Exception):
    """Something the user has to do; shown as it is, without a traceback."""


class Python:
    """An interpreter that answered: its version, and how it can make an environment."""

    def __init__(self, command, answer):
        major, minor, venv, virtualenv, prefix = answer.split(None, 4)
        self.command = command
        self.version = (int(major), int(minor))
        self.maker = "venv" if venv == "1" else "virtualenv" if virtualenv == "1" else None
        self.prefix = prefix.strip()

    def __str__(self):
        return "{} (Python {}.{})".format(self.command, *self.version)


def main(arguments):
    what = arguments[0] if arguments else "demo"
    if what not in EXTRAS:
        raise Problem("say one of: {}".format(", ".join(sorted(EXTRAS))))
    lock = lock_checkout()
    try:
        ready = probe(VENV_PYTHON)
        if ready is None or not usable(ready):
            make_environment()
        if not installed(what):
            install(what)
    finally:
        if lock is not None:
            os.close(lock)


def lock_checkout():
    """Two makes at once take turns. The lock is on the directory: nothing is left behind."""
    try:
        import fcntl

        lock = os.open(ROOT, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock
    except (ImportError, OSError):
        return None


def probe(command):
    """The interpreter behind a command, or None if it does not run."""
    try:
        process = subprocess.Popen(
            [command, "-c", PROBE],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        answer = process.communicate()[0]
        return Python(command, answer)
    except (OSError, ValueError):
        return None


def usable(python):
    """Is this the environment at its place, new enough, and of the Python that was asked for?"""
    asked = os.environ.get("PYTHON")
    wanted = probe(asked) if asked else None
    same = os.path.realpath(python.prefix) == os.path.realpath(VENV) and not moved()
    return same and python.version >= OLDEST and (not wanted or wanted.version == python.version)


def moved():
    """The scripts of a copied or moved environment still start the Python of its old place."""
    try:
        with open(os.path.join(VENV, "bin", "pip"), "rb") as stream:
            return VENV.encode("utf-8") not in stream.read(1000)
    except (OSError, IOError):
        return False


def find_python():
    asked = os.environ.get("PYTHON")
    found = [probe(name) for name in ([asked] if asked else NAMES)]
    found = [python for python in found if python is not None]
    if asked and not found:
        raise Problem("PYTHON={} does not run".format(asked))
    # The environment that is being replaced may be first on PATH: it cannot replace itself.
    found = [
        python for python in found if os.path.realpath(python.prefix) != os.path.realpath(VENV)
    ]
    new = [python for python in found if python.version >= OLDEST]
    if not new:
        oldest = ".".join(map(str, OLDEST))
        raise Problem(
            "Foliot needs Python {} or newer. Found: {}.\n"
            "Install a newer Python, or name one: make PYTHON=/path/to/python{}".format(
                oldest, ", ".join(map(str, found)) or "none", oldest
            )
        )
    for python in new:
        if python.maker:
            return python
    version = "{}.{}".format(*new[0].version)
    raise Problem(
        "{} cannot make virtual environments: its venv or ensurepip module is missing.\n"
        "On Debian or Ubuntu: apt install python{}-venv\n"
        "Elsewhere: pip install virtualenv, or name another Python with make PYTHON=...".format(
            new[0], version
        )
    )


def make_environment():
    python = find_python()
    clear_place()
    say("Making a virtual environment with {} ...".format(python))
    run([python.command, "-m", python.maker, VENV], "The virtual environment could not be made")


def clear_place():
    """Remove what is left of an older environment; anything else there is not ours to remove."""
    try:
        if os.path.islink(VENV):
            os.unlink(VENV)
        elif os.path.isdir(VENV):
            if not is_ours():
                raise Problem("{} exists and was not made here. Move it away.".format(VENV))
            shutil.rmtree(VENV)
        os.makedirs(VENV)
    except OSError as error:
        raise Problem(
            "{} cannot be written ({}).\n"
            "Make it writable, or put the environment elsewhere: make VENV=~/foliot-venv".format(
                VENV, error.strerror
            )
        )


def is_ours():
    """An environment at the usual place, whole or half made, or one that bears our stamp."""
    inside = set(os.listdir(VENV))
    usual = os.path.join(ROOT, ".venv")
    if usual == VENV and ("pyvenv.cfg" in inside or inside <= VENV_PARTS):
        return True
    return not inside or any(os.path.exists(stamp_path(what)) for what in EXTRAS)


def stamp_path(what):
    return os.path.join(VENV, ".foliot-{}".format(what))


def stamp_text():
    """Changes when the dependencies do, or when another checkout uses the same environment."""
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as stream:
        return hashlib.sha256(stream.read() + ROOT.encode("utf-8")).hexdigest()


def installed(what):
    """What dev installs contains what demo needs."""
    for name in {what, "dev"}:
        try:
            with open(stamp_path(name)) as stream:
                if stream.read() == stamp_text():
                    return True
        except (OSError, IOError):
            pass
    return False


def install(what):
    say(
        "Installing Foliot and what it needs into {} ...".format(os.path.relpath(VENV, os.getcwd()))
    )
    if not os.path.exists(os.path.join(VENV, "bin", "pip")):
        run([VENV_PYTHON, "-m", "ensurepip", "--upgrade"], "pip could not be installed")
    command = [VENV_PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--prefer-binary", "--retries", "2", "--editable", ROOT + EXTRAS[what]]
    run(command, "The packages could not be installed")
    with open(stamp_path(what), "w") as stream:
        stream.write(stamp_text())


def run(command, failure):
    """Run a command quietly; show the end of what it said only if it failed."""
    environment = dict(os.environ, PIP_ROOT_USER_ACTION="ignore", PYTHONWARNINGS="ignore")
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
        )
        output = process.communicate()[0]
    except OSError as error:
        raise Problem("{}: {}".format(failure, error))
    if process.returncode:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        telling = [line for line in lines if "error:" in line.lower()] or lines
        tail = "\n".join("  " + line[:200] for line in telling[-5:])
        raise Problem("{}:\n{}\n{}".format(failure, tail, advice(output)))


def advice(output):
    text = output.lower()
    if "no space left" in text:
        return "The disk is full."
    if "permission denied" in text or "read-only file system" in text:
        return "Make the place writable, or put the environment elsewhere: make VENV=~/foliot-venv"
    if "no module named pip" in text or "ensurepip" in text:
        return "On Debian or Ubuntu: apt install python3-venv. Then remove {}.".format(VENV)
    if "failed building wheel" in text or "failed to build" in text:
        return "A package had to be compiled: install a C compiler and Python's headers."
    return (
        "Is the package index reachable from here? Behind a proxy set HTTPS_PROXY; "
        "for another index set PIP_INDEX_URL. Then run it again."
    )


def say(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Problem as problem:
        say("error: {}".format(problem))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)

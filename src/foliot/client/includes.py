"""Includes: the modules that an app's jobs are in, imported when somebody needs to know all jobs.

Not before: such a module usually imports the module of the app, which is then still being made.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

from foliot.checks import check_name
from foliot.client.jobs import WAITING, Jobs
from foliot.errors import FoliotError, InvalidValue

_EXAMPLE = 'Foliot(include=["shop.mail", "shop.reports"])'


class Includes:
    """`join` takes each collection of jobs that is found."""

    def __init__(self, join: Callable[[Jobs], None]) -> None:
        self._join = join
        self._waiting: list[Callable[[], None]] = []
        self._loading = False

    def add(self, found: object) -> None:
        """Jobs at once; a module by what is in it; the name of a module when it is needed."""
        if isinstance(found, Jobs):
            self._join(found)
        elif isinstance(found, ModuleType):
            self._join_all(found)
        elif isinstance(found, str) and all(part.isidentifier() for part in found.split(".")):
            self._wait(lambda: self._join_all(load_module("include", found)))
        else:
            problem = "is neither Jobs, nor a module, nor the name of one"
            raise InvalidValue("include", found, problem, example=_EXAMPLE)

    def discover(self, package: str, name: str) -> None:
        check_name("package", package, example='app.autodiscover("shop")')
        check_name("module", name, example='app.autodiscover("shop", module="jobs")')
        self._wait(lambda: self._discover(package, name))

    def load(self) -> None:
        """Import what was named and has not been imported. What cannot be imported is an error every time."""
        if self._loading:
            return  # one of the modules asks, while it is imported
        self._loading = True
        try:
            while self._waiting:
                self._waiting[0]()
                self._waiting.pop(0)
            WAITING.discard(self)
        finally:
            self._loading = False

    def _wait(self, load: Callable[[], None]) -> None:
        self._waiting.append(load)
        WAITING.add(self)

    def _discover(self, package: str, name: str) -> None:
        found = load_module("package", package)
        if not hasattr(found, "__path__"):
            raise InvalidValue("package", package, "is a module, not a package", example="shop")
        for module in find_modules(found, name):
            self._join_all(load_module("package", module))

    def _join_all(self, module: ModuleType) -> None:
        for value in list(vars(module).values()):
            if isinstance(value, Jobs):
                self._join(value)


def find_modules(package: ModuleType, name: str) -> Iterator[str]:
    """The modules of this name in the package and in all packages within it."""
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if found.name.rpartition(".")[2] == name:
            yield found.name
        if found.ispkg:
            yield from find_modules(load_module("package", found.name), name)


def load_module(field: str, name: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InvalidValue(
                field,
                name,
                f"cannot be imported: there is no module {error.name}",
                example=_EXAMPLE,
            ) from error
        raise FoliotError(
            f"{field}: {name} cannot be imported: it imports {error.name}, which there is not"
        ) from error
    except Exception as error:
        raise FoliotError(
            f"{field}: {name} cannot be imported: {type(error).__name__}: {error}"
        ) from error

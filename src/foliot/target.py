"""Where an app is: `module:attribute`, or the path of a script that makes one."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

from foliot.errors import FoliotError, InvalidValue
from foliot.registry import Registry

_EXAMPLE = "myproject.jobs:app"
_IMPORTING = Event()


def load_app(target: str) -> Any:
    """The object that `target` names; it has a registry and settings. The current directory is importable."""
    name, _, attribute = target.partition(":")
    if not all(part.isidentifier() for part in name.split(".")) and not name.endswith(".py"):
        raise InvalidValue("app", target, "names no module", example=_EXAMPLE)
    if "" not in sys.path:
        sys.path.insert(0, "")
    _IMPORTING.set()
    try:
        module = _load_script(Path(name)) if name.endswith(".py") else _load_module(name, target)
        # The registry of an app imports the modules that it includes.
        return _named_app(module, attribute, target) if attribute else _only_app(module, target)
    except FoliotError:
        raise
    except Exception as error:
        raise FoliotError(f"{name} cannot be imported\n{_told(error)}") from error
    finally:
        _IMPORTING.clear()


def _told(error: Exception) -> str:
    """The traceback without how we came to import it: what is left is the user's own code."""
    told = traceback.TracebackException.from_exception(error)
    ours = (__file__, importlib.__file__, "<frozen ")
    told.stack[:] = [frame for frame in told.stack if not frame.filename.startswith(ours)]
    return "".join(told.format()).rstrip()


def importing() -> bool:
    """Whether an app is being loaded right now: its code must define jobs, and start nothing."""
    return _IMPORTING.is_set()


def load_registry(target: str) -> Registry:
    registry: Registry = load_app(target).registry
    return registry


def place_of_app(app: object) -> str | None:
    """Where an app that exists can be imported from, as a target; None where no module has it."""
    for name, module in list(sys.modules.items()):
        # Not everything that stands there is a module.
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is app and name != "__main__":
                return f"{name}:{attribute}"
    return running_script()


def running_script() -> str | None:
    """The script that was started with `python script.py`, as a target; None where there is none."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    return str(Path(file).resolve()) if file and file.endswith(".py") else None


def _load_module(name: str, target: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise  # the module is there, and something it imports is not
        raise InvalidValue(
            "app", target, f"cannot be imported: there is no module {error.name}", example=_EXAMPLE
        ) from None


def _load_script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("__foliot_main__", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InvalidValue("app", str(path), "is not a Python file", example=_EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module


def _named_app(module: ModuleType, attribute: str, target: str) -> Any:
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not isinstance(getattr(found, "registry", None), Registry):
        place = target.partition(":")[0]
        raise InvalidValue("app", target, f"names no Foliot app in {place}", example=_EXAMPLE)
    return found


def _only_app(module: ModuleType, target: str) -> Any:
    apps = [
        value
        for value in vars(module).values()
        if isinstance(getattr(value, "registry", None), Registry)
    ]
    if len(apps) != 1:
        found = "no app" if not apps else "several apps"
        raise InvalidValue("app", target, f"has {found}: name one", example=_EXAMPLE)
    return apps[0]

"""References: where the payload of a step names the result of another, and what stands there when it runs.

    {"$result": "extract"}                          the whole result
    {"$result": "extract", "at": "rows.0.id"}       a part of it; at may also be a list: ["rows", 0, "id"]

The result of a map step is the list of its elements' results, in their order.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

import msgspec

from foliot.errors import InvalidValue, MissingInput
from foliot.model.job import JobState, Parent
from foliot.shown import did_you_mean

MARK: Final = "$result"
_AT: Final = "at"
_EXAMPLE: Final = '{"$result": "extract", "at": "rows.0.id"}'
_MARK_BYTES: Final = b'"$result"'
_ESCAPE: Final = b"\\u"  # by which JSON that was given as it is may write any letter
_MOST_NAMED: Final = 5  # names in an object
_LONGEST_NAMED: Final = 40
_INDEX: Final = re.compile(r"-?\d{1,9}", re.ASCII)
_ELEMENT: Final = re.compile(r"\[(\d+)\]$", re.ASCII)

Path = tuple[str | int, ...]


class HasResult:
    """A step that was drawn: not a value, but its `result` stands for one."""

    def belongs_to(self, flow: object) -> bool:
        """Whether it is a step of this workflow: a Flow, or the id of one."""
        raise NotImplementedError


class Ref(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """The result of a step, or a part of it, before there is one: `step.result["rows"][0]`. Encodes as a reference."""

    step: str = msgspec.field(name=MARK)
    path: Path = msgspec.field(name=_AT, default=())

    @classmethod
    def to(cls, step: HasResult, name: str, path: Path = ()) -> Ref:
        """It knows its step, for as long as it is no JSON: of the same name there may be one in any workflow."""
        made = cls(name, path)
        made.__dict__["source"] = step
        return made

    @property
    def source(self) -> HasResult | None:
        """None: whichever step has the name."""
        found: HasResult | None = self.__dict__.get("source")
        return found

    def __getitem__(self, part: str | int) -> Ref:
        if isinstance(part, bool) or not isinstance(part, str | int):
            raise InvalidValue(
                "reference", part, "is neither a name nor an index", example='result["rows"][0]'
            )
        return self._inside((part,))

    __iter__ = None  # or Python would ask for [0], [1], … without end

    def at(self, path: str) -> Ref:
        """By a path: at("rows.0.id")."""
        return self._inside(_read_path(path))

    def _inside(self, more: Path) -> Ref:
        path = (*self.path, *more)
        return Ref(self.step, path) if self.source is None else Ref.to(self.source, self.step, path)

    def to_json(self) -> dict[str, Any]:
        return {MARK: self.step, _AT: list(self.path)} if self.path else {MARK: self.step}

    def __format__(self, _: str) -> NoReturn:
        problem = "is no text before the step has run, and cannot stand within one"
        raise InvalidValue(
            f"the result of {self!s}", problem=problem, example="say.prepare(rows=rows.result)"
        )

    def __str__(self) -> str:
        return ".".join(map(str, (self.step, *self.path)))


def element_name(name: str, index: int) -> str:
    """Of the step that a map step makes of one element. No name that people give has brackets."""
    return f"{name}[{index}]"


def has_refs(encoded: bytes) -> bool:
    """Whether there may be any in this JSON: to find none costs next to nothing."""
    return _MARK_BYTES in encoded


def find_refs(payload: Any) -> list[tuple[str, Path]]:
    """All references, in their order. Raises InvalidValue for what was meant to be one."""
    try:
        return list(_walk(payload))
    except RecursionError:
        raise InvalidValue("payload", problem="is nested too deeply") from None


def near_ref(value: object) -> str | None:
    """A hint, if it looks as if it was meant to be a reference."""
    if not isinstance(value, dict) or len(value) > len((MARK, _AT)):
        return None
    return next((hint for key in value if (hint := did_you_mean(str(key), [MARK]))), None)


def held_refs(value: Any) -> Iterator[Ref]:
    """Those among arguments, before these are JSON."""
    match value:
        case Ref():
            yield value
        case dict():
            yield from held_refs(list(value.values()))
        case list() | tuple() | set() | frozenset():
            for one in value:
                yield from held_refs(one)
        case msgspec.Struct():
            yield from held_refs(msgspec.structs.astuple(value))
        case _ if hasattr(type(value), "__attrs_attrs__"):
            yield from held_refs([getattr(value, one.name) for one in type(value).__attrs_attrs__])
        case _ if dataclasses.is_dataclass(value):
            yield from held_refs([getattr(value, one.name) for one in dataclasses.fields(value)])


class Unresolved(bytes):
    """A payload with results of steps that are still to run: for the workflow of these alone."""

    refs: Mapping[str, Sequence[Ref]] = {}  # by the argument that they stand in


def check_given(kind: str, payload: bytes, flow: object) -> None:
    """What code gives a step of this flow, or of this id. There a reference is an object, so that data which looks like
    one is not: it may be somebody else's, and would be given the result of whichever step it names."""
    known = payload.refs if isinstance(payload, Unresolved) else {}
    for refs in known.values():
        check_sources(refs, flow)
    if not has_refs(payload) and _ESCAPE not in payload:
        return
    for name, value in msgspec.json.decode(payload).items():
        own = Counter(msgspec.json.encode(ref) for ref in known.get(name, ()))
        for other in Counter(msgspec.json.encode(one) for one in _marked(value)) - own:
            problem = f"has the key {MARK}, and in code a result is an object and no data"
            hint = "data that is no reference stands there as text, or under another key"
            raise InvalidValue(
                f"argument {name} of {kind}()",
                msgspec.json.decode(other),
                problem,
                example=f"{name}=step.result",
                hint=hint,
            )


def _marked(value: Any) -> Iterator[dict[str, Any]]:
    match value:
        case dict():
            if MARK in value:
                yield value
            yield from _marked(list(value.values()))
        case list():
            for one in value:
                yield from _marked(one)


def check_sources(refs: Sequence[Ref], flow: object) -> None:
    """What a step of another workflow returns is nothing that one of this flow, or of this id, can be given."""
    for ref in refs:
        if ref.source is not None and not ref.source.belongs_to(flow):
            raise InvalidValue("reference", ref.step, "is a step of another workflow")


def _walk(value: Any) -> Iterator[tuple[str, Path]]:
    match value:
        case Ref():
            yield value.step, value.path
        case dict() if MARK in value:
            yield _read(value)
        case dict():
            for one in value.values():
                yield from _walk(one)
        case list() | tuple():
            for one in value:
                yield from _walk(one)


def _read(value: Mapping[str, Any]) -> tuple[str, Path]:
    step = value[MARK]
    if not isinstance(step, str) or not step:
        raise InvalidValue(f"reference {MARK}", step, "is not the name of a step", example=_EXAMPLE)
    for key in value:
        if key not in (MARK, _AT):
            raise InvalidValue("reference", key, f"is neither {MARK} nor at", example=_EXAMPLE)
    return step, _read_path(value.get(_AT, ()))


def _read_path(given: object) -> Path:
    if isinstance(given, str):
        given = given.split(".") if given else [""]
    if isinstance(given, list | tuple) and all(_is_part(part) for part in given):
        return tuple(given)
    raise InvalidValue("reference at", given, "is not a path", example=_EXAMPLE)


def _is_part(part: object) -> bool:
    return (isinstance(part, str) and part != "") or (
        isinstance(part, int) and not isinstance(part, bool)
    )


def resolve(payload: bytes, parents: Sequence[Parent]) -> bytes:
    """The payload with every reference replaced. Raises MissingInput with the path that leads nowhere."""
    if not has_refs(payload):
        return payload
    return msgspec.json.encode(_replace(msgspec.json.decode(payload), _Results(parents)))


def resolve_value(value: Any, parents: Sequence[Parent]) -> Any:
    """The same for a value that was decoded."""
    return msgspec.json.decode(msgspec.json.encode(_replace(value, _Results(parents))))


def _replace(value: Any, results: _Results) -> Any:
    match value:
        case dict() if MARK in value:
            return results.get(*_read(value))
        case dict():
            return {name: _replace(one, results) for name, one in value.items()}
        case list():
            return [_replace(one, results) for one in value]
    return value


class _Results:
    """What the parents of a step resulted in."""

    def __init__(self, parents: Sequence[Parent]) -> None:
        self._parents = {parent.name: parent for parent in parents}
        self._elements: dict[str, list[Parent]] = {}
        for parent in parents:
            if parent.mapped is not None:
                self._elements.setdefault(parent.mapped, []).append(parent)

    def get(self, step: str, path: Path) -> Any:
        parent = self._parents.get(step)
        if parent is None:
            raise MissingInput(step, path, f"{step} is not a parent of this step")
        _check_succeeded(parent, step, path)
        elements = self._elements.get(parent.id)
        if elements is None:
            # Without a path nobody has to read it: it is copied as it is.
            return _part(parent.result, step, path) if path else _raw(parent)
        elements = sorted(elements, key=index_of)
        for element in elements:
            _check_succeeded(element, step, path)
        if not path:
            return [_raw(element) for element in elements]
        return _part([element.result for element in elements], step, path)


def _raw(parent: Parent) -> msgspec.Raw:
    return msgspec.Raw(b"null" if parent.raw is None else parent.raw)


def index_of(element: Parent) -> int:
    """Its place in the list that it was made of."""
    found = _ELEMENT.search(element.name)
    return int(found[1]) if found else 0


def _check_succeeded(parent: Parent, step: str, path: Path) -> None:
    if parent.state is not JobState.SUCCEEDED:
        how = "has not ended" if parent.state is None else f"is {parent.state.value}"
        raise MissingInput(step, path, f"{parent.name} {how}")


def _part(value: Any, step: str, path: Path) -> Any:
    for depth, part in enumerate(path):
        try:
            value = _inside(value, part)
        except (KeyError, IndexError, TypeError):
            before = ".".join(map(str, (step, *path[:depth])))
            problem = f"there is no {part} in {before}, which is {_kind_of(value)}"
            raise MissingInput(step, path, problem) from None
    return value


def _inside(value: Any, part: str | int) -> Any:
    if isinstance(value, list):
        if isinstance(part, str) and not _INDEX.fullmatch(part):
            raise KeyError(part)
        return value[int(part)]
    if isinstance(value, dict):
        return value[str(part)]
    raise KeyError(part)


def _named(value: Mapping[str, Any]) -> str:
    names = [f"{name[:_LONGEST_NAMED]}…" if len(name) > _LONGEST_NAMED else name for name in value]
    return ", ".join(names[:_MOST_NAMED]) + (" …" if len(names) > _MOST_NAMED else "")


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return f"an object of {len(value)}" + (f": {_named(value)}" if value else "")
        case list():
            return f"a list of {len(value)}"
        case str():
            return "text"
        case bool():
            return "true or false"
    return "a number"

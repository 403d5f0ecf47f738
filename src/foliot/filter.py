"""The filter language of every list, count and bulk command: state:dead kind:send_* created>-2h -tag:test

All terms must hold; "-" negates one, a comma lists alternatives, "*" stands for any text, and alone for
"has one". Values are read in filter_value.py; filter_sql.py asks a store, matches() asks it of one job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from operator import eq, ge, gt, le, lt
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from foliot.errors import InvalidValue
from foliot.filter_value import (
    ANY,
    FIELDS,
    ID_FORM,
    Constant,
    Day,
    Number,
    Text,
    Value,
    example,
    is_id_prefix,
    moment,
    quote,
    read,
    show,
)
from foliot.model.job import Job, JobState
from foliot.shown import did_you_mean, shown

LONGEST: Final = 1_000
MOST_TERMS: Final = 32
MOST_VALUES: Final = 64
MOST_STEPS: Final = 16

Operator: TypeAlias = Literal[":", ">", ">=", "<", "<="]

_EXAMPLE: Final = "state:dead kind:send_* created>-2h"
_EXAMPLE_PATH: Final = 'payload.items[0]."unit price">10'
_UNORDERED: Final = {"text", "id", "state"}
_CONNECTIVES: Final = {
    "and": "a space between two terms already means and",
    "or": "alternatives are written with a comma: state:dead,cancelled",
    "not": "a term is negated with a dash: -tag:test",
}

_NAME: Final = re.compile(r'[^\s:<>=."\[]*')
_STEP: Final = re.compile(r'\.([^\s.:<>="\[\]\\]+)|\[([0-9]{1,6})\]')
_OPERATOR: Final = re.compile(r">=|<=|[:<>]")
_SPACES: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"\S*")
_PLAIN: Final = re.compile(r'[^\s,"*]*')
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_ESCAPE: Final = re.compile(r'\\(["\\])')
_SAFE_KEY: Final = re.compile(r"[\w-]+")
_NO_KEY: Final = re.compile(r'["\\\x00-\x1f]')
_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ":": eq,
    ">": gt,
    ">=": ge,
    "<": lt,
    "<=": le,
}
_CONSTANTS: Final = {"true": True, "false": False, "null": None}


class Term(msgspec.Struct, frozen=True):
    """Holds when one of the values does; `path` is where in the payload to look: keys and indexes."""

    field: str
    operator: Operator
    values: tuple[Value, ...]
    path: tuple[str | int, ...] = ()
    negated: bool = False

    def __str__(self) -> str:
        steps = "".join(_show_step(step) for step in self.path)
        values = ",".join(show(value, json=self.field == "payload") for value in self.values)
        return f"{'-' if self.negated else ''}{self.field}{steps}{self.operator}{values}"

    def states(self) -> frozenset[JobState]:
        """The states of the jobs for which it can hold."""
        if self.field == "finished" and not self.negated:
            return frozenset(state for state in JobState if state.final)
        if self.field != "state":
            return frozenset(JobState)
        texts = [value for value in self.values if isinstance(value, Text)]
        return frozenset(
            state for state in JobState if any(t.fits(state) for t in texts) != self.negated
        )


class Filter(msgspec.Struct, frozen=True):
    """Terms that must all hold; none of them, and every job is meant. str() gives the text back."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    def states(self) -> frozenset[JobState] | None:
        """The states of the jobs it can match, None for all: where to search, and where not."""
        every = frozenset(JobState)
        states = every.intersection(*(term.states() for term in self.terms))
        return None if states == every else states


def parse(text: str) -> Filter:
    """The filter written in this text, or InvalidValue with the place of the first mistake."""
    if not isinstance(text, str):
        raise InvalidValue("filter", text, "is not text", example=_EXAMPLE)
    if len(text) > LONGEST:
        raise InvalidValue("filter", text, f"is longer than {LONGEST:,} characters")
    reader = _Reader(text)
    if unfit := _NO_TEXT.search(text):
        raise reader.refusal("has a character that no text can hold", unfit.start())
    filter = Filter(tuple(reader.terms()))
    if len(str(filter)) > LONGEST:
        raise InvalidValue("filter", text, f"is longer than {LONGEST:,} characters, written out")
    return filter


def matches(filter: Filter, job: Job, *, now: datetime) -> bool:
    """Whether this job is meant: the same answer as a store gives to the compiled filter."""
    return all(_holds(term, job, now) != term.negated for term in filter.terms)


class _Reader:
    """Reads terms from left to right; `at` is where it is."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.values = 0

    def refusal(
        self,
        problem: str,
        at: int,
        *,
        because: str = "",
        example: str = _EXAMPLE,
        hint: str | None = None,
    ) -> InvalidValue:
        placed = f"{problem} at character {at + 1}{because}"
        return InvalidValue("filter", self.text, placed, example=example, hint=hint)

    def terms(self) -> list[Term]:
        terms: list[Term] = []
        self.take(_SPACES)
        while self.at < len(self.text):
            if len(terms) == MOST_TERMS:
                raise self.refusal(f"has more than {MOST_TERMS} terms", self.at)
            terms.append(self.term())
            self.take(_SPACES)
        return terms

    def take(self, pattern: re.Pattern[str]) -> str:
        """What the pattern finds here, which may be nothing."""
        found = pattern.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        return found[0]

    def next_is(self, character: str) -> bool:
        return self.text.startswith(character, self.at)

    def term(self) -> Term:
        negated = self.next_is("-")
        self.at += negated
        start = self.at
        name = self.take(_NAME)
        path = self.path() if name == "payload" else ()
        if self.next_is("="):
            raise self.refusal('has "="', self.at, hint='equality is written with ":"')
        found = _OPERATOR.match(self.text, self.at)
        if found is None:
            return self.bare_word(start, negated=negated)
        if name not in FIELDS:
            hint = did_you_mean(name, FIELDS) or f"the fields are {', '.join(FIELDS)}"
            raise self.refusal(f"has the unknown field {shown(name)}", start, hint=hint)
        if name == "payload" and not path:
            raise self.refusal("names no place in the payload", start, example=example(name))
        self.at = found.end()
        operator = cast(Operator, found[0])
        return Term(name, operator, self.listed(name, operator), path, negated)

    def path(self) -> tuple[str | int, ...]:
        steps: list[str | int] = []
        start = self.at
        while self.next_is(".") or self.next_is("["):
            steps.append(self.step())
        if len(steps) > MOST_STEPS:
            raise self.refusal(f"has a path of more than {MOST_STEPS} steps", start)
        return tuple(steps)

    def step(self) -> str | int:
        start = self.at
        if self.next_is('."'):
            self.at += 1
            key = self.quoted()
        else:
            found = _STEP.match(self.text, self.at)
            if found is None:
                raise self.refusal("has a broken path", start, example=_EXAMPLE_PATH)
            self.at = found.end()
            if found[2] is not None:
                return int(found[2])
            key = found[1]
        if _NO_KEY.search(key):
            problem = "has a key with a quote, a backslash or a control character"
            raise self.refusal(problem, start + 1, example=_EXAMPLE_PATH)
        return key

    def bare_word(self, start: int, *, negated: bool) -> Term:
        self.at = start
        word = self.take(_WORD)
        prefix = word.lower()
        if len(prefix) >= 8 and is_id_prefix(prefix):
            self.count(start)
            whole = len(prefix) == len(ID_FORM)
            return Term("id", ":", (Text((prefix,) if whole else (prefix, "")),), negated=negated)
        if not word:
            raise self.refusal("has nothing to negate", start, example="-tag:test")
        working = example(prefix) if prefix in FIELDS else _EXAMPLE
        hint = _CONNECTIVES.get(
            prefix, "only an id, or its first 8 or more characters, stands alone"
        )
        raise self.refusal(f"has {shown(word)} without a field", start, example=working, hint=hint)

    def listed(self, field: str, operator: Operator) -> tuple[Value, ...]:
        start = self.at
        if operator != ":" and FIELDS[field] in _UNORDERED:
            at = start - len(operator)
            why = f", but {field} has no order"
            raise self.refusal(f"has {operator}", at, because=why, example=example(field))
        values = [self.value(field, operator)]
        while self.next_is(","):
            if operator != ":":
                problem = f"has several values after {operator}"
                raise self.refusal(problem, self.at, example=example(field))
            self.at += 1
            values.append(self.value(field, operator))
        return tuple(values)

    def count(self, at: int) -> None:
        self.values += 1
        if self.values > MOST_VALUES:
            raise self.refusal(f"has more than {MOST_VALUES} values", at)

    def value(self, field: str, operator: Operator) -> Value:
        start = self.at
        self.count(start)
        text = self.pieces()
        written = self.text[start : self.at]
        if not written:
            raise self.refusal(f"has no value for {field}", start, example=example(field))
        try:
            return read(text, field, operator, quoted='"' in written)
        except ValueError as error:
            raise self.refusal(
                f"has {shown(written)}",
                start,
                because=f", which {error}",
                example=example(field),
                hint=did_you_mean(written, JobState) if field == "state" else None,
            ) from None

    def pieces(self) -> Text:
        pieces = [""]
        while True:
            if self.next_is('"'):
                pieces[-1] += self.quoted()
            elif self.next_is("*"):
                self.at += 1
                pieces.append("")
            elif plain := self.take(_PLAIN):
                pieces[-1] += plain
            else:
                break
        if len(pieces) == 1:
            return Text((pieces[0],))
        return Text((pieces[0], *filter(None, pieces[1:-1]), pieces[-1]))

    def quoted(self) -> str:
        found = _QUOTED.match(self.text, self.at)
        if found is None:
            hint = 'in quotes, a quote is written \\" and a backslash \\\\'
            raise self.refusal("opens a quote that does not end", self.at, hint=hint)
        self.at = found.end()
        return _ESCAPE.sub(r"\1", found[1])


def _show_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _SAFE_KEY.fullmatch(step) else f".{quote(step)}"


def _holds(term: Term, job: Job, now: datetime) -> bool:
    return any(
        _fits(value, term.operator, actual, now)
        for actual in _actual(term, job)
        for value in term.values
    )


def _actual(term: Term, job: Job) -> Sequence[object]:
    """What the job has there: nothing, one thing, or several tags."""
    if term.field == "tag":
        return job.tags
    if term.field == "payload":
        return _at_path(job.payload, term.path)
    name = f"{term.field}_at" if FIELDS[term.field] == "time" else term.field
    actual = getattr(job, name)
    return () if actual is None else (actual,)


def _at_path(payload: bytes, path: Sequence[str | int]) -> Sequence[object]:
    try:
        found = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return ()
    for step in path:
        match found, step:
            case dict(), str() if step in found:
                found = found[step]
            case list(), int() if step < len(found):
                found = found[step]
            case _:
                return ()
    return (found,)


def _fits(value: Value, operator: Operator, actual: Any, now: datetime) -> bool:
    match value:
        case Text():
            return value == ANY or (isinstance(actual, str) and value.fits(actual))
        case Number():
            is_number = isinstance(actual, int | float) and not isinstance(actual, bool)
            return is_number and bool(_COMPARE[operator](actual, value.value))
        case Constant():
            return actual is _CONSTANTS[value.name]
        case Day() if operator == ":":
            return bool(moment(value, now) <= actual <= value.last)
    return _COMPARE[operator](actual, moment(value, now))

"""A filter as the WHERE condition of a statement over the alias `j`, for each store and table.

Every value is a parameter; only states are written out, so that indexes over the jobs of one state can be used, and
they are our own words. A positive condition may be NULL where a column is, which WHERE takes for no; a negated one says
IS NOT TRUE, so that -key:x also means the jobs without a key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal, TypeAlias

import msgspec

from foliot.filter import Filter, Operator, Term
from foliot.filter_value import (
    ANY,
    FIELDS,
    ID_FORM,
    Constant,
    Day,
    Instant,
    Number,
    Text,
    Value,
    is_id_prefix,
    moment,
)
from foliot.model.job import JobState

Dialect: TypeAlias = Literal["postgres", "sqlite"]
Table: TypeAlias = Literal["jobs", "history", "dead"]

TABLE_STATES: Final[dict[Table, frozenset[JobState]]] = {
    "jobs": frozenset(state for state in JobState if not state.final),
    "history": frozenset({JobState.SUCCEEDED, JobState.CANCELLED, JobState.SKIPPED}),
    "dead": frozenset({JobState.DEAD}),
}
_COLUMNS: Final = {
    "created": "created_at",
    "run": "run_at",
    "started": "started_at",
    "finished": "finished_at",
    "tag": "tags",
}
_LIVE_COLUMNS: Final = {**_COLUMNS, "started": "claimed_at", "reason": "hold"}
_ALWAYS: Final = {
    "id", "kind", "queue", "namespace", "priority", "attempt", "losses", "created", "run"
}  # fmt: skip
_INDEXED: Final[dict[Table, frozenset[str]]] = {
    "jobs": frozenset({"id", "state", "key"}),
    "history": frozenset({"id"}),
    "dead": frozenset({"id"}),
}
_FEW: Final = frozenset({JobState.HELD, JobState.RUNNING})
_CLOCK_STEP: Final = timedelta(hours=1)  # that a store's clock may have gone back
_COMPARE: Final = {":": "=", ">": ">", ">=": ">=", "<": "<", "<=": "<="}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LIKE: Final = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_"})
_GLOB: Final = str.maketrans({"*": "[*]", "?": "[?]", "[": "[[]"})


class Condition(msgspec.Struct, frozen=True):
    """`sql` is "false" when nothing in the table can match, "true" when everything does."""

    sql: str
    values: dict[str, object]


def narrow(filter: Filter, *, now: datetime, table: Table) -> Filter:
    """The same with what follows from it for a table. What was created after a time has also finished after it, so
    that days of history need not be looked at."""
    if table != "history":
        return filter
    since = [
        moment(term.values[0], now)
        for term in filter.terms
        if term.field == "created" and not term.negated and len(term.values) == 1
        if term.operator in (">", ">=") or isinstance(term.values[0], Day)
        if term.operator not in ("<", "<=")
    ]
    if not since or max(since) < _EPOCH + _CLOCK_STEP:
        return filter
    return Filter((*filter.terms, Term("finished", ">=", (Instant(max(since) - _CLOCK_STEP),))))


def indexed(filter: Filter, dialect: Dialect, *, now: datetime, table: Table) -> Filter:
    """Of the filter, what an index tells: jobs by state and key, all by id. History in PostgreSQL is kept by day: whole
    days are told apart without a look at their rows."""
    terms = [term for term in filter.terms if _is_indexed(term, table)]
    if dialect == "postgres" and table == "history":
        terms += [
            day
            for term in filter.terms
            if term.field == "finished" and not term.negated and len(term.values) == 1
            if term.values[0] != ANY
            for day in _days(term, moment(term.values[0], now))
        ]
    return Filter(tuple(terms))


def compile(
    filter: Filter, dialect: Dialect, *, now: datetime, table: Table, prefix: str = "f"
) -> Condition:
    """The filter for one table of one store; ages are counted from `now`. Its parameters begin with `prefix`."""
    states = filter.states()
    if states is not None and not states & TABLE_STATES[table]:
        return Condition("false", {})
    kind = _Postgres if dialect == "postgres" else _Sqlite
    writer: _Writer = kind(now, table, prefix)
    terms = [writer.term(term) for term in filter.terms]
    if "false" in terms:
        return Condition("false", {})
    needed = [term for term in terms if term != "true"]
    return Condition(" AND ".join(needed) or "true", writer.values)


def _is_indexed(term: Term, table: Table) -> bool:
    if term.field not in _INDEXED[table]:
        return False
    if term.field == "state":
        return True
    if term.negated or ANY in term.values:
        return False
    texts = [value for value in term.values if isinstance(value, Text)]
    if term.field == "key":
        return all(text.exact for text in texts)
    return all(text.exact or _is_prefix(text) for text in texts)


def _days(term: Term, time: datetime) -> list[Term]:
    """The whole days in which the term can hold."""
    since = Term("finished", ">=", (Day(time.date()),))
    if term.operator in (">", ">=") or time.date() == date.max:
        return [since] if term.operator in (">", ">=", ":") else []
    until = Term("finished", "<", (Day(time.date() + timedelta(days=1)),))
    return [since, until] if term.operator == ":" else [until]


def _is_prefix(text: Text) -> bool:
    """The beginning of an id."""
    return text.pieces == (text.pieces[0], "") and is_id_prefix(text.pieces[0])


class _Writer(ABC):
    """Writes terms and keeps their values. The two stores differ in what is abstract here."""

    def __init__(self, now: datetime, table: Table, prefix: str) -> None:
        self._now = now
        self._prefix = prefix
        self._live = table == "jobs"
        self._states = TABLE_STATES[table]
        self._columns = _LIVE_COLUMNS if table == "jobs" else _COLUMNS
        self._never = {"finished"} if table == "jobs" else set()
        self._always = _ALWAYS if table == "jobs" else _ALWAYS | {"finished"}
        self.values: dict[str, object] = {}

    def put(self, value: object, type: str) -> str:
        """A parameter with this value."""
        name = f"{self._prefix}{len(self.values)}"
        self.values[name] = value
        return self.parameter(name, type)

    def term(self, term: Term) -> str:
        if term.field == "state":
            return self._in_states(term)
        if term.field in self._never or (term.field in self._always and ANY in term.values):
            return "true" if (term.field in self._never) == term.negated else "false"
        if term.field == "tag":
            alternatives = [self.tag(value) for value in term.values if isinstance(value, Text)]
        elif term.field == "payload":
            alternatives = self.payload(term)
        else:
            column = self._column(term.field)
            alternatives = [
                self.compare(column, term.field, term.operator, value) for value in term.values
            ]
        either = alternatives[0] if len(alternatives) == 1 else f"({' OR '.join(alternatives)})"
        return f"({either}) IS NOT TRUE" if term.negated else either

    def _column(self, field: str) -> str:
        return self.schedule() if field == "schedule" else f"j.{self._columns.get(field, field)}"

    def _in_states(self, term: Term) -> str:
        states = term.states() & self._states
        if states == self._states:
            return "true"
        return self.in_states(states)

    def in_states(self, states: frozenset[JobState]) -> str:
        words = [f"'{state}'" for state in sorted(states)]
        return f"j.state = {words[0]}" if len(words) == 1 else f"j.state IN ({', '.join(words)})"

    def compare(self, column: str, field: str, operator: Operator, value: Value) -> str:
        match value:
            case Text() if value == ANY:
                return f"{column} IS NOT NULL"
            case Text():
                return (
                    self._id(column, value) if FIELDS[field] == "id" else self.text(column, value)
                )
            case Number():
                return f"{column} {_COMPARE[operator]} {self.put(value.value, 'bigint')}"
            case Day() if operator == ":":
                first, last = self.time(moment(value, self._now)), self.time(value.last)
                return f"{column} BETWEEN {first} AND {last}"
        return f"{column} {_COMPARE[operator]} {self.time(moment(value, self._now))}"

    def _id(self, column: str, text: Text) -> str:
        start = text.pieces[0]
        if text.exact:
            return f"{column} = {self.put(start, 'uuid')}"
        if _is_prefix(text):
            first = self.put(start + ID_FORM[len(start) :], "uuid")
            last = self.put(start + ID_FORM.replace("0", "f")[len(start) :], "uuid")
            return f"{column} BETWEEN {first} AND {last}"
        return self.text(self.id_text(column), text)

    def text(self, column: str, text: Text) -> str:
        if text.exact:
            return f"{column} = {self.put(text.pieces[0], 'text')}"
        return self.like(column, text)

    @abstractmethod
    def parameter(self, name: str, type: str) -> str: ...

    @abstractmethod
    def time(self, time: datetime) -> str: ...

    @abstractmethod
    def id_text(self, column: str) -> str: ...

    @abstractmethod
    def like(self, column: str, text: Text) -> str: ...

    @abstractmethod
    def tag(self, text: Text) -> str: ...

    @abstractmethod
    def schedule(self) -> str: ...

    @abstractmethod
    def payload(self, term: Term) -> list[str]: ...


class _Postgres(_Writer):
    def parameter(self, name: str, type: str) -> str:
        return f":{name}::{type}"

    def time(self, time: datetime) -> str:
        return self.put(time, "timestamptz")

    def id_text(self, column: str) -> str:
        return f"{column}::text"

    def like(self, column: str, text: Text) -> str:
        pattern = "%".join(piece.translate(_LIKE) for piece in text.pieces)
        return f"{column} LIKE {self.put(pattern, 'text')}"

    def tag(self, text: Text) -> str:
        if text.exact:
            return f"j.tags @> ARRAY[{self.put(text.pieces[0], 'text')}]"
        if text == ANY:
            return "cardinality(j.tags) > 0"
        like = self.like("t.tag", text)
        return f"EXISTS (SELECT 1 FROM unnest(j.tags) AS t (tag) WHERE {like})"  # noqa: S608 - no value

    def schedule(self) -> str:
        return "(j.extras::jsonb ->> 'schedule')"

    def payload(self, term: Term) -> list[str]:
        # jsonb cannot hold the character zero, and one such job must not fail every search.
        document = r"replace(convert_from(j.payload, 'UTF8'), '\u0000', '\ufffd')::jsonb"
        # Strict: a key is found in an object only, an index in an array only, as in SQLite; "->" and
        # "#>" also take a number for a key, or a scalar for an array of one.
        path = self.put(f"strict {_to_path(term.path)}", "jsonpath")
        found = f"jsonb_path_query_first({document}, {path}, '{{}}', true)"
        return [self._json(found, term.operator, value) for value in term.values]

    def _json(self, found: str, operator: Operator, value: Value) -> str:
        match value:
            case Text() if value == ANY:
                return f"{found} IS NOT NULL"
            case Text() if not value.exact:
                text = self.like(f"{found} #>> '{{}}'", value)
                return f"(jsonb_typeof({found}) = 'string' AND {text})"
            case Number() if operator != ":":
                number = self.put(_to_json(value), "jsonb")
                return f"(jsonb_typeof({found}) = 'number' AND {found} {operator} {number})"
        return f"{found} = {self.put(_to_json(value), 'jsonb')}"


class _Sqlite(_Writer):
    """It would rather walk through all jobs by their ids than sort the few that an index knows: those it is told."""

    def in_states(self, states: frozenset[JobState]) -> str:
        if states - _FEW:
            return super().in_states(states)
        return _among(" OR ".join(f"s.state = '{state}'" for state in sorted(states)))

    def compare(self, column: str, field: str, operator: Operator, value: Value) -> str:
        if column == "j.key" and self._live and isinstance(value, Text) and value.exact:
            return _among(f"s.key = {self.put(value.pieces[0], 'text')} AND s.key IS NOT NULL")
        return super().compare(column, field, operator, value)

    def parameter(self, name: str, type: str) -> str:
        return f":{name}"

    def time(self, time: datetime) -> str:
        return self.put((time - _EPOCH) // timedelta(microseconds=1), "integer")

    def id_text(self, column: str) -> str:
        return column

    def like(self, column: str, text: Text) -> str:
        pattern = "*".join(piece.translate(_GLOB) for piece in text.pieces)
        return f"{column} GLOB {self.put(pattern, 'text')}"

    def tag(self, text: Text) -> str:
        where = "true" if text == ANY else self.text("t.value", text)
        return f"EXISTS (SELECT 1 FROM json_each(j.tags) AS t WHERE {where})"  # noqa: S608 - no value

    def schedule(self) -> str:
        return "json_extract(j.extras, '$.schedule')"

    def payload(self, term: Term) -> list[str]:
        path = self.put(_to_path(term.path), "text")
        text = "CAST(j.payload AS TEXT)"
        found = f"(CASE WHEN json_valid({text}) THEN {text} END, {path})"
        return [self._json(found, term.operator, value) for value in term.values]

    def _json(self, found: str, operator: Operator, value: Value) -> str:
        match value:
            case Text() if value == ANY:
                return f"json_type{found} IS NOT NULL"
            case Text():
                return f"(json_type{found} = 'text' AND {self.text(f'json_extract{found}', value)})"
            case Constant():
                return f"json_type{found} = {self.put(value.name, 'text')}"
        # Read by the same hand as the payload: SQLite and Python may round the last digit differently.
        number = f"json_extract({self.put(_to_json(value), 'text')}, '$')"
        compared = f"json_extract{found} {_COMPARE[operator]} {number}"
        return f"(json_type{found} IN ('integer', 'real') AND {compared})"


def _among(condition: str) -> str:
    """Live jobs that an index finds."""
    return f"j.rowid IN (SELECT s.rowid FROM foliot_jobs s WHERE {condition})"  # noqa: S608 - no value


def _to_path(steps: Sequence[str | int]) -> str:
    # No escapes: the parser refuses keys that would need them, which SQLite does not read.
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f'."{step}"' for step in steps)


def _to_json(value: Value) -> str:
    match value:
        case Text():
            return msgspec.json.encode(value.pieces[0]).decode()
        case Number():
            return msgspec.json.encode(value.value).decode()
        case Constant():
            return value.name
    raise AssertionError(f"{value} is not JSON")

"""The words of English schedules: a sentence becomes tokens, each with its place in the text."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

LONGEST_SENTENCE = 1_000

WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")

_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen", "twenty",
)  # fmt: skip
_ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth",
    "eighteenth", "nineteenth", "twentieth",
)  # fmt: skip

NUMBERS = {word: number for number, word in enumerate(_SMALL)} | {
    "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90,
}  # fmt: skip
ORDINALS = {word: number for number, word in enumerate(_ORDINALS, start=1)} | {
    "thirtieth": 30, "thirty-first": 31,
} | {f"twenty-{word}": 20 + number for number, word in enumerate(_ORDINALS[:9], start=1)}  # fmt: skip

DAY_NAMES = (
    {name: number for number, name in enumerate(WEEKDAYS)}
    | {name[:3]: number for number, name in enumerate(WEEKDAYS)}
    | {"tues": 2, "thur": 4, "thurs": 4}
)
PLURAL_DAYS = {f"{name}s": number for number, name in enumerate(WEEKDAYS)}
MONTH_NAMES = (
    {name: number for number, name in enumerate(MONTHS, start=1)}
    | {name[:3]: number for number, name in enumerate(MONTHS, start=1)}
    | {"sept": 9}
)
UNIT_NAMES = (
    {unit: unit for unit in UNITS}
    | {f"{unit}s": unit for unit in UNITS}
    | {
        "sec": "second", "secs": "second", "min": "minute", "mins": "minute",
        "hr": "hour", "hrs": "hour",
    }
)  # fmt: skip

_SHORT_UNITS = {"d": "day", "h": "hour", "m": "minute", "s": "second"}

_TOKEN = re.compile(
    r"(?P<instant>\d{4}-\d\d-\d\dt\d\d:\d\d(?::\d\d)?(?:z|[+-]\d\d:\d\d)?(?![\w:]))"
    r"|(?P<date>\d{4}-\d\d-\d\d(?![\w-]))"
    r"|(?P<clock>\d{1,2}:\d\d(?::\d\d)?(?![\d:.]))"
    r"|(?P<minute>:\d\d(?![\d:.]))"
    r"|(?P<short>(?:\d{1,9}[dhms])+(?![\w.:]))"
    r"|(?P<ordinal>\d{1,2}(?:st|nd|rd|th)(?!\w))"
    r"|(?P<number>\d{1,9}(?:\.\d{1,3})?(?![\d.:/]))"
    r"|(?P<half>[ap]\.m\.?(?!\w))"
    r"|(?P<word>[a-z]+(?:'[a-z]+)?(?![\w']))"
    r"|(?P<mark>[,&()-])",
    re.ASCII,
)
_SPACE = re.compile(r"[ \t]*")
_ORDINAL_ENDS = {1: "st", 2: "nd", 3: "rd"}
# Letters as wide as a Chinese one, and the marks that word processors make of ours.
_PLAIN = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    0x2018: "'", 0x2019: "'", 0x2013: "-", 0x2014: "-", 0x2011: "-", 0x00A0: " ", 0x3000: " ",
}  # fmt: skip


class Stop(Exception):
    """Where the reading of a sentence ended, and why."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position
        self.problem = problem


class Token(NamedTuple):
    kind: str
    text: str
    start: int

    @property
    def shown(self) -> str:
        return "the end" if self.kind == "end" else f"'{self.text}'"


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text, in small letters, with an `end` behind the last."""
    plain = text.translate(_PLAIN).lower()
    if len(plain) != len(text):  # a letter that is two when small: no English has it
        raise Stop(0, "is not written in English letters")
    found: list[Token] = []
    place = _skip_space(plain, 0)
    while place < len(plain):
        match = _TOKEN.match(plain, place)
        if match is None:
            raise Stop(place, _unread(plain, place))
        assert match.lastgroup is not None
        kind, word = match.lastgroup, match.group()
        if kind == "half":
            kind, word = "word", f"{word[0]}m"
        found += _spelled(word, place) if kind == "short" else [Token(kind, word, place)]
        place = _skip_space(plain, match.end())
    return [*_joined(found), Token("end", "", len(text))]


def _spelled(word: str, place: int) -> list[Token]:
    """1h30m: numbers and units, as in settings."""
    found: list[Token] = []
    for part in re.finditer(r"(\d+)([dhms])", word):
        found.append(Token("number", part[1], place + part.start()))
        found.append(Token("word", _SHORT_UNITS[part[2]], place + part.start(2)))
    return found


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th."""
    end = "th" if 10 < number % 100 < 14 else _ORDINAL_ENDS.get(number % 10, "th")
    return f"{number}{end}"


def _skip_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    assert match is not None
    return match.end()


def _unread(text: str, place: int) -> str:
    rest = text[place:].split(maxsplit=1)[0][:20]
    if "\n" in text or "\r" in text:
        return "is more than one line: one schedule at a time"
    if re.match(r"\d{1,4}[./]\d", rest, re.ASCII):
        return (
            f"holds {rest!r}, which can be read in two ways: write 2026-03-02, 09:30 or 1.5 hours"
        )
    return f"is not understood from {rest!r} on"


def _joined(found: list[Token]) -> list[Token]:
    """Words with a hyphen inside that are one: twenty-first, twenty-five."""
    joined: list[Token] = []
    for token in found:
        if len(joined) > 1 and joined[-1].text == "-" and joined[-2].text in ("twenty", "thirty"):
            word = f"{joined[-2].text}-{token.text}"
            if word in ORDINALS or (token.text in _SMALL[1:10]):
                joined[-2:] = [Token("word", word, joined[-2].start)]
                continue
        joined.append(token)
    return joined


class Cursor:
    """A place in the tokens of a sentence."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def take(self) -> Token:
        token = self.peek()
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def sees(self, *texts: str, ahead: int = 0) -> bool:
        """Whether the next token is one of these."""
        token = self.peek(ahead)
        return token.kind != "end" and token.text in texts

    def reads(self, *texts: str) -> bool:
        """Whether the next tokens are these, one after the other; if so they are taken."""
        if all(self.sees(text, ahead=place) for place, text in enumerate(texts)):
            self._at += len(texts)
            return True
        return False

    def reads_any(self, *texts: str) -> bool:
        """Whether the next token is one of these; if so it is taken."""
        return any(self.reads(text) for text in texts)

    def expect(self, *texts: str) -> None:
        if not self.reads_any(*texts):
            self.stop(f"goes on with {self.peek().shown} where {texts[0]!r} is due")

    def mark(self) -> int:
        return self._at

    def back(self, mark: int) -> None:
        self._at = mark

    def stop(self, problem: str | None = None, *, at: Token | None = None) -> NoReturn:
        token = at or self.peek()
        said = (
            "ends too early" if token.kind == "end" else f"is not understood from {token.shown} on"
        )
        raise Stop(token.start, problem or said)

    # Numbers, in digits and in words

    def number(self) -> int | None:
        """A whole number, if one is next."""
        token = self.peek()
        if token.kind == "number" and "." not in token.text:
            self.take()
            return int(token.text)
        tens, _, ones = token.text.partition("-")
        if token.kind == "word" and tens in NUMBERS and (not ones or ones in NUMBERS):
            self.take()
            return NUMBERS[tens] + (NUMBERS[ones] if ones else 0)
        return None

    def ordinal(self) -> int | None:
        """An ordinal, if one is next: 1st, first."""
        token = self.peek()
        if token.kind == "ordinal":
            number = int(token.text[:-2])
            if ordinal(number) != token.text:
                self.stop(f"holds {token.text!r}: {ordinal(number)}?")
            self.take()
            return number
        if token.kind == "word" and token.text in ORDINALS:
            self.take()
            return ORDINALS[token.text]
        return None

    def unit(self) -> str | None:
        """A unit of time, if one is next."""
        token = self.peek()
        if token.kind == "word" and token.text in UNIT_NAMES:
            self.take()
            return UNIT_NAMES[token.text]
        return None

    def joins(self) -> bool:
        """Whether a list goes on: a comma, "and", or both are taken."""
        comma = self.reads(",")
        return self.reads_any("and", "&") or comma

"""A piece of the text that is being read."""

from __future__ import annotations

from msgspec import Struct

from foliot.errors import InvalidExpression


class Part(Struct, frozen=True, gc=False):
    """A piece of an expression, with its place for error messages, and the zone its wall times are in."""

    text: str
    whole: str
    position: int
    timezone: str

    def refuse(
        self, problem: str, *, code: str = "syntax", hint: str | None = None
    ) -> InvalidExpression:
        return InvalidExpression(self.whole, problem, position=self.position, code=code, hint=hint)

    def part(self, text: str, offset: int) -> Part:
        return Part(text, self.whole, self.position + offset, self.timezone)

"""Fields of cron with a star in front, which says more than which values they hold."""

from __future__ import annotations

from foliot.when.natural_words import Stop, Token


def starred(
    token: Token | None, first: tuple[str, int, int], second: tuple[str, int, int]
) -> tuple[str, str]:
    """Two fields (text, lowest, highest), one of them written with a star in front."""
    text = _with_star(*first)
    if text is not None:
        return text, second[0]
    text = _with_star(*second)
    if text is not None:
        return first[0], text
    raise Stop(token.start if token else 0, "has days or times that cron cannot put together")


def _with_star(text: str, low: int, high: int) -> str | None:
    """The same values, if that can be: 0,5,7,10,... is */5,7."""
    values: set[int] = set()
    others: list[str] = []
    for item in text.split(","):
        if set(item) <= set("0123456789-/"):
            values.update(_values(item))
        else:
            others.append(item)
    for step in range(1, high - low + 1):
        steps = range(low, high + 1, step)
        if values.issuperset(steps):
            rest = [str(value) for value in sorted(values.difference(steps))]
            return ",".join([f"*/{step}" if step > 1 else "*", *rest, *others])
    return None


def _values(item: str) -> range:
    """Of a number, a range, or a range with a step."""
    span, _, step = item.partition("/")
    first, _, last = span.partition("-")
    return range(int(first), int(last or first) + 1, int(step or 1))

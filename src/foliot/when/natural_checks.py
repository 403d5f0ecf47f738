"""What a sentence leaves open, and is refused for."""

from __future__ import annotations

from foliot.when.natural_sentence import Sentence
from foliot.when.natural_words import Stop, Token


def check_clear(sentence: Sentence) -> None:
    """friday at 9: every Friday, or the next one? Nobody can tell."""
    days = sentence.days
    if not days.given or days.again or days.either:
        return
    if len(days.of_week) + len(days.of_month) == 1:
        example = "'every friday' or 'next friday'" if days.of_week else "'the 15th of every month'"
        example = "'every year on …'" if days.months else example
        raise _stop(days.where, f"may mean one day or all such days: write {example}")


def check_open(sentence: Sentence) -> None:
    """The last friday: of the month, if that is said, or if it is every month that is spoken of."""
    days = sentence.days
    monthly = sentence.every is not None and sentence.every.amounts[0][1] == "month"
    if sentence.rate is not None:
        monthly = sentence.rate[1] == "month"
    if days.open is not None and not (days.months or monthly or days.both):
        raise _stop(days.open, "does not say of what: 'of the month'")


def check_part_of_day(sentence: Sentence) -> None:
    part = sentence.part_of_day
    if part is None:
        return
    if not sentence.times:
        raise _stop(part, f"does not say at what time of the {part.text}")
    for time in sentence.times:
        clear = time.style == "said" or time.hour > 12
        fits = {
            "morning": time.hour < 12,
            "afternoon": 12 <= time.hour < 18,
            "evening": time.hour >= 16,
        }
        if not fits.get(part.text, clear) or not (clear or part.text == "morning"):
            raise _stop(time.token, f"leaves open which time of the {part.text} it means")


def _stop(token: Token | None, problem: str) -> Stop:
    return Stop(token.start if token else 0, problem)

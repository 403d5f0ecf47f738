"""What is drawn at random: a graph, and what happens to it. Nothing of it depends on how things stand then: acts beside
each other may come in either order, so that the same story may go in more than one way."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from foliot.model.job import End
from workflows.reference import RULES, Shape

Draw = Callable[[Random], Any]


class Story(msgspec.Struct, frozen=True):
    shapes: tuple[Shape, ...]
    delays: tuple[float, ...]
    policy: str
    deadline: float | None
    acts: tuple[tuple[Any, ...], ...]  # a name, and what is to be known of it


def _one_of(*values: object) -> Draw:
    return lambda random: random.choice(values)


def _which(random: Random) -> int:
    """Of whatever there is, modulo how many there are."""
    return random.randrange(12)


def _mask(random: Random) -> int:
    """Some of them."""
    return random.randrange(256)


def _ends(random: Random) -> list[End]:
    return [_end(random) for _ in range(random.randrange(1, 4))]


def _new_step(random: Random) -> tuple[str, str | None, float]:
    return (_rule(random), _signal(random), _delay(random))


MOST_ENDS: Final = (End.SUCCEED, End.SUCCEED, End.BURY, End.SUCCEED, End.RETRY)
_end: Final = _one_of(*MOST_ENDS, End.RELEASE, End.CANCEL)
_rule: Final = _one_of("all_succeeded", *RULES)
_signal: Final = _one_of(None, None, None, None, "go", "stop")
_delay: Final = _one_of(0.0, 0.0, 0.0, 30.0)
_beside: Final = _one_of(
    *("trip", "trip", "cancel_step", "cancel", "signal", "pause", "resume", "retry", "reap"),
    *("add", "make"),
)
# How often, and what is to be known of it.
ACTS: Final[dict[str, tuple[int, tuple[Draw, ...]]]] = {
    "go_on": (5, (_which,)),
    "claim": (3, (_which, _one_of(100, 1, 2))),
    "end": (4, (_which, _ends, _one_of(0, 100, 1))),
    "end_beside_each_other": (2, (_which, _ends, _ends)),
    "act_beside_each_other": (3, (_beside, _beside, _which, _mask)),
    "kill": (2, (_which, _mask, _one_of(True, False))),
    "kill_again_and_again": (1, (_which,)),
    "reap": (1, (_which,)),
    "report_too_late": (1, (_which, _end)),
    "retry": (2, (_which, _mask)),
    "add": (2, (_new_step, _mask, _mask, _which)),
    "make": (2, (_which, _one_of(0, 1, 2, 3))),
    "signal": (1, (_one_of("go", "stop"),)),
    "cancel_step": (1, (_which,)),
    "cancel": (1, (_one_of(True, False),)),
    "pause": (1, ()),
    "resume": (1, ()),
    "wait": (1, (_one_of(5, 30, 100),)),
}
_NAMES: Final = [name for name, (often, _) in ACTS.items() for _ in range(often)]


def _act(random: Random) -> tuple[Any, ...]:
    name = random.choice(_NAMES)
    return (name, *(draw(random) for draw in ACTS[name][1]))


def _graph(random: Random) -> list[Shape]:
    """Parents before their children; several without any."""
    shapes: list[Shape] = []
    for number in range(random.choice([1, 3, 5, 6, 8, 8])):
        known = [shape.name for shape in shapes]
        above = random.sample(known, min(len(known), random.choice([0, 1, 1, 2, 2, 3])))
        # For a failure there must be somebody who fails.
        rule = _rule(random) if above else "all_succeeded"
        signal = _signal(random)
        maps = signal is None and random.random() < 0.25
        shapes.append(Shape(f"s{number}", tuple(above), rule, signal, maps))
    return shapes


def stories(*, acts: int) -> st.SearchStrategy[Story]:
    """Each from a seed of its own: of what Hypothesis draws choice by choice, most is almost what it has just drawn."""

    def tell(random: Random) -> Story:
        shapes = _graph(random)
        return Story(
            tuple(shapes),
            tuple(_delay(random) for _ in shapes),
            random.choice(["fail_fast", "continue"]),
            random.choice([None, None, 100.0]),
            tuple(_act(random) for _ in range(acts)),
        )

    return st.randoms(use_true_random=True).map(tell)

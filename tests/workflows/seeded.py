"""Bugs that the random stories must come upon: switched on from outside, in a statement or in a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
import pytest

from foliot.model.job import JobState
from foliot.model.workflow import FAILED, Counts, Rule, Verdict, count, decide, is_spared
from foliot.store import adding, flowing, growing, retrying, steering
from foliot.store.reply import Rows
from machine.bugs import Edit, edit
from machine.seeded import NO_FENCE

Change = Callable[[pytest.MonkeyPatch], None]


class Bug(msgspec.Struct, frozen=True):
    """Of a store in a file: what both stores share is seen there, and soonest."""

    name: str
    changes: tuple[Edit | Change, ...]
    says: str = "was expected, it is"  # what notices it

    def switch_on(self, patch: pytest.MonkeyPatch) -> None:
        for change in self.changes:
            if callable(change):
                change(patch)
            else:
                edit(patch, "sqlite", *change)


def _retell(change: Callable[[list[str]], list[str]]) -> Change:
    """Children are told something else about the ends of their parents."""

    def switch_on(patch: pytest.MonkeyPatch) -> None:
        right = flowing._decide

        async def wrong(
            talk: flowing.Talk, found: Rows, ended: dict[str, list[str]], *others: Any
        ) -> bool:
            changed = {child: change(states) for child, states in ended.items()}
            return await right(talk, found, changed, *others)

        patch.setattr(flowing, "_decide", wrong)

    return switch_on


def _lose_early_signals(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> None: ...

    patch.setattr(flowing, "hand_over", nothing)


def _forget_the_pause(patch: pytest.MonkeyPatch) -> None:
    right = flowing.hold_of
    patch.setattr(flowing, "hold_of", lambda job, signal, paused: right(job, signal, paused=False))


def _take_skips_for_failures(patch: pytest.MonkeyPatch) -> None:
    def wrong(rule: Rule, counts: Counts, *, failing: bool = False) -> Verdict:
        skipped = counts.parents - counts.pending - counts.succeeded - counts.failed
        more = msgspec.structs.replace(counts, failed=counts.failed + skipped)
        return decide(rule, more, failing=failing)

    patch.setattr(flowing, "decide", wrong)


def _retry_what_succeeded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retrying, "FAILED", (*FAILED, JobState.SUCCEEDED))


def _count_twice_after_a_retry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retrying._Graph, "recount", lambda self, again: [])


def _leave_what_is_ruled_out(patch: pytest.MonkeyPatch) -> None:
    right = retrying._Graph.decide_anew

    def wrong(self: Any, *given: Any, **named: Any) -> dict[str, Verdict]:
        found = right(self, *given, **named)
        return {job: "wait" if verdict == "skip" else verdict for job, verdict in found.items()}

    patch.setattr(retrying._Graph, "decide_anew", wrong)


def _decide_in_the_order_of_submission(patch: pytest.MonkeyPatch) -> None:
    class InNoOrder:
        def __init__(self, parents: dict[str, object]) -> None:
            self._jobs = list(parents)

        def static_order(self) -> list[str]:
            return self._jobs

    patch.setattr(retrying, "TopologicalSorter", InNoOrder)


def _add_as_if_nothing_had_ended(patch: pytest.MonkeyPatch) -> None:
    def wrong(states: Iterable[JobState | None]) -> Counts:
        return count(None for _ in states)

    patch.setattr(growing, "count", wrong)


def _add_cycles(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(adding, "_check_cycle", lambda steps, known: None)


def _take_a_map_for_a_success(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(flowing, "counts_as", lambda state, rule, is_map: state)


def _stop_elements_of_what_is_spared(patch: pytest.MonkeyPatch) -> None:
    for module in (flowing, growing, retrying, steering):
        patch.setattr(module, "is_spared", lambda rule, map_rule: is_spared(rule))


_TOO_EARLY: Final = r"was expected, it is|} of \["  # or it is claimed at once
_BEGUN: Final = "begun = json_extract(c.n, '$[4]')"
_SKIPPED: Final = "j.extras, j.payload FROM json_each(:ids) i CROSS JOIN foliot_jobs j"
_PENDING: Final = "pending = json_extract(c.n, '$[1]')"

BUGS: Final = [
    Bug("two parents in one batch count once", (_retell(lambda states: states[:1]),)),
    Bug(
        "children are decided on stale counts",
        (("count_steps", _PENDING, "pending = foliot_steps.pending"),),
    ),
    Bug(
        "a skip is told to nobody",
        (("count_steps", _BEGUN, f"{_BEGUN}, told = json_extract(c.n, '$[5]')"),),
    ),
    Bug(
        "a skipped parent is taken for one that succeeded",
        (_retell(lambda states: ["succeeded" if s == "skipped" else s for s in states]),),
    ),
    Bug("a skipped parent is taken for one that failed", (_take_skips_for_failures,)),
    Bug("an early signal is lost", (_lose_early_signals,)),
    Bug("a step starts in a paused workflow", (_forget_the_pause,), _TOO_EARLY),
    Bug(
        "a step comes back to a paused workflow", (("hold_steps", "w.paused_at IS NOT NULL", "0"),)
    ),
    Bug(
        "a failure leaves running steps alone",
        (
            (
                "request_cancel_of_steps",
                "(NOT :running OR j.state || '' = 'running' OR EXISTS",
                "(NOT :running OR 0 AND EXISTS",
            ),
        ),
    ),
    Bug(
        "the last step does not end its workflow",
        (("settle_workflows", "remaining > l.number", "remaining >= l.number"),),
    ),
    Bug("a retry runs what succeeded", (_retry_what_succeeded,), "live again, not"),
    Bug("an end counts twice after a retry", (_count_twice_after_a_retry,)),
    Bug("a retry leaves waiting what is ruled out", (_leave_what_is_ruled_out,)),
    Bug(
        "a retry takes children before their parents",
        (_decide_in_the_order_of_submission,),
        "live again, not",
    ),
    Bug("a retry begins with the first fence", (("carry_fences", "fence = c.fence, ", ""),)),
    Bug(
        "an outcome of an earlier attempt is taken",
        (("finish_jobs", NO_FENCE, ""), ("find_refused_jobs", NO_FENCE, "")),
        "were refused, not",
    ),
    Bug("a step is added as if nothing had ended", (_add_as_if_nothing_had_ended,)),
    Bug("a map is taken for one success among others", (_take_a_map_for_a_success,), _TOO_EARLY),
    Bug("a failure stops elements of a map that it spares", (_stop_elements_of_what_is_spared,)),
    Bug(
        "what waits for a map does not wait for its elements",
        (("find_waiting_children", "c.state IS NULL", "0"),),
    ),
    Bug(
        "what is added after a map does not wait for its elements",
        (("find_elements", "WHERE", "WHERE 0 AND"),),
    ),
    Bug("steps that wait for themselves are added", (_add_cycles,), "was added, not cycle"),
    Bug(
        "a step that has ended is there still",
        (("skip_steps", "DELETE FROM foliot_jobs WHERE", "DELETE FROM foliot_jobs WHERE 0 AND"),),
        "a job is there twice",
    ),
    Bug(
        "a step that is skipped is gone",
        (("skip_steps", f"{_SKIPPED} WHERE", f"{_SKIPPED} WHERE 0 AND"),),
        "a job is missing",
    ),
]

"""The one table of a job's life: which verb leads from which state to which.

Every statement that changes a state is one of these rows; the conformance suite walks the table on both stores.
"""

from __future__ import annotations

from typing import Final

from foliot.model.job import JobState

_S = JobState
_AGAIN: Final = frozenset({_S.READY, _S.WAITING, _S.HELD, _S.SCHEDULED})

TRANSITIONS: Final[dict[tuple[JobState, str], frozenset[JobState]]] = {
    (_S.SCHEDULED, "admit"): frozenset({_S.READY, _S.HELD}),
    (_S.SCHEDULED, "cancel"): frozenset({_S.CANCELLED}),
    (_S.SCHEDULED, "hold"): frozenset({_S.HELD}),
    (_S.SCHEDULED, "skip"): frozenset({_S.SKIPPED}),
    (_S.WAITING, "admit"): frozenset({_S.READY, _S.SCHEDULED, _S.HELD}),
    (_S.WAITING, "skip"): frozenset({_S.SKIPPED}),
    (_S.WAITING, "cancel"): frozenset({_S.CANCELLED}),
    (_S.HELD, "admit"): frozenset({_S.READY, _S.SCHEDULED}),
    (_S.HELD, "hold"): frozenset({_S.HELD}),  # for another reason: its workflow is paused
    (_S.HELD, "skip"): frozenset({_S.SKIPPED}),
    (_S.HELD, "signal"): frozenset({_S.SUCCEEDED}),
    (_S.HELD, "cancel"): frozenset({_S.CANCELLED}),
    (_S.READY, "claim"): frozenset({_S.RUNNING}),
    (_S.READY, "hold"): frozenset({_S.HELD}),
    (_S.READY, "skip"): frozenset({_S.SKIPPED}),
    (_S.READY, "cancel"): frozenset({_S.CANCELLED}),
    (_S.WAITING, "change"): frozenset({_S.WAITING}),
    (_S.SCHEDULED, "change"): frozenset({_S.SCHEDULED, _S.READY, _S.HELD}),
    (_S.HELD, "change"): frozenset({_S.SCHEDULED, _S.READY, _S.HELD}),
    (_S.READY, "change"): frozenset({_S.SCHEDULED, _S.READY, _S.HELD}),
    (_S.RUNNING, "finish"): frozenset({_S.SUCCEEDED, _S.CANCELLED, _S.SCHEDULED, _S.DEAD}),
    (_S.RUNNING, "release"): frozenset({_S.READY, _S.HELD, _S.CANCELLED}),
    (_S.RUNNING, "reap"): frozenset({_S.READY, _S.SCHEDULED, _S.CANCELLED, _S.DEAD}),
    # By hand from the dead-letter queue, or with its workflow: then also what was skipped or cancelled in it.
    (_S.DEAD, "retry"): _AGAIN,
    (_S.CANCELLED, "retry"): _AGAIN,
    (_S.SKIPPED, "retry"): _AGAIN,
}

VERBS: Final = frozenset(verb for _, verb in TRANSITIONS)


def reachable(state: JobState, verb: str) -> frozenset[JobState]:
    """Where `verb` may lead from `state`; nowhere if it is not legal."""
    return TRANSITIONS.get((state, verb), frozenset())

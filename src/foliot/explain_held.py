"""Why a job is held, in words: for a turn, a kind, a limit, a signal, a pause or a workflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from foliot.explain_facts import (
    MOST_AHEAD,
    Answer,
    Facts,
    in_order,
    no_duties,
    obstacles,
    paused_queue,
    paused_workflow,
    soon,
    stopped_by_hand,
    waits,
)
from foliot.explain_gate import Reason, say_gate, say_shut, show_time
from foliot.explain_worker import count
from foliot.ids import inner_id
from foliot.model.event import HOOK_PREFIX
from foliot.model.limit import HELD_FOR_LIMIT, show_gate
from foliot.model.workflow import HELD_BY_PAUSE, HELD_FOR_SIGNAL, HELD_FOR_WORKFLOW
from foliot.shown import did_you_mean

_MOST_NAMED: Final = 10


def say_held(facts: Facts) -> Answer:
    reason = facts.job.reason or "unknown"
    answer = _HOLDS.get(reason)
    if answer is None:
        return reason, [facts.job.note or ""]
    why, more = answer(facts)
    note = facts.job.note if reason != HELD_FOR_LIMIT else None
    return why if isinstance(why, Reason) else waits(facts, why), [*more, note or ""]


def _for_admission(facts: Facts) -> Answer:
    looked = "to be looked at for its turn or its predecessors"
    nobody = no_duties(facts)
    waiting = waits(facts, f"{'is' if nobody else 'about'} {looked}")
    return in_order(*nobody, waiting, *stopped_by_hand(facts))


def _for_order(facts: Facts) -> Answer:
    key, earlier = facts.job.ordering_key, facts.standing.earlier
    if not earlier:
        found = soon(facts, f"the next of ordering key {key!r}", ", about to be made ready")
        return in_order(*found, *stopped_by_hand(facts))
    first, state = earlier[0]
    before = count(len(earlier), "job")
    if len(earlier) >= MOST_AHEAD:
        before = f"at least {before}"
    why = f"waits for job {first} ({state}) of ordering key {key!r}: {before} before it"
    change = f"it has ended; see: foliot jobs explain {first}"
    return waits(facts, why, change), [*stopped_by_hand(facts)]


def _for_kind(facts: Facts) -> Answer:
    kind, known = facts.job.kind, sorted({k for s in facts.workers for k in s.kinds})
    change, of_hook = "a worker starts whose app has it", ""
    if kind.startswith(HOOK_PREFIX):
        change = f"{change}; or the hook is let go: foliot hooks remove {kind}"
        of_hook = "a hook whose module is served without it is let go after ten minutes"
    if not facts.workers:
        why = f"the kind {kind!r} was unknown to its worker, and no worker is alive now"
        return waits(facts, why, change), [*stopped_by_hand(facts), of_hook]
    if kind in known:
        why = f"a live worker knows the kind {kind!r} by now"
        found = soon(facts, why, ": it is about to be made ready")
        return in_order(*found, *stopped_by_hand(facts))
    names = ", ".join(known[:_MOST_NAMED]) + (" …" if len(known) > _MOST_NAMED else "")
    return waits(facts, f"no live worker knows the kind {kind!r}", change), [
        *stopped_by_hand(facts),
        of_hook,
        f"they know: {names or 'none'}",
        did_you_mean(kind, known) or "",
    ]


def _for_payload(facts: Facts) -> Answer:
    why = f"its payload does not fit the arguments of {facts.job.kind!r}"
    change = f"a worker with another {facts.job.kind} starts"
    return waits(facts, why, change), [*stopped_by_hand(facts)]


def _for_gate(facts: Facts) -> Answer:
    gate, since = facts.gate, facts.waits_since
    others, shut, nobody = obstacles(facts), say_shut(facts.gates, since=since), no_duties(facts)
    if gate is not None and not gate.has_room:
        paused = len(paused_queue(facts))
        found = [*others[:paused], say_gate(gate, since=since), *shut, *others[paused:]]
        # Where what is said of the gate alone would not do, before that.
        place = paused if gate.may_be_tried(facts.now) else len(found)
        found[place:place] = nobody
    else:
        found = [*others, *shut]  # what else keeps it, although there is room here
        if gate is not None and gate.breaker is not None:  # it recovers
            found += [*nobody, say_gate(gate, since=since)]
        else:
            found += nobody if found else _asked_again(facts)
    return in_order(*found)


def _asked_again(facts: Facts) -> list[Reason]:
    name = show_gate(facts.job.note or "")
    if facts.gate is not None:
        return soon(facts, f"limit {name} has room again", ": it is about to be asked")
    why = f"waited for {name}, which is no limit any more"
    return soon(facts, why, ": it is about to be asked again")


def _for_signal(facts: Facts) -> Answer:
    flow, until = facts.flow, facts.job.expires_at
    if flow is None or flow.step.signal is None:
        return "waits for a signal", []
    change = f"it comes: foliot workflows signal {flow.workflow.id} {flow.step.signal}{facts.signal_payload}"
    return waits(facts, f"waits for the signal {flow.step.signal!r}", change), [
        "" if until is None else f"it is cancelled at {show_time(until)}, unless it comes",
    ]


def _by_pause(facts: Facts) -> Answer:
    paused = [] if facts.flow is None else paused_workflow(facts.flow.workflow)
    return paused[0] if paused else "its workflow was paused, and is about to go on", []


def _for_workflow(facts: Facts) -> Answer:
    inner = facts.inner
    if inner is None:
        return f"it stands for workflow {inner_id(facts.job.id)}, which runs", []
    done = f"{inner.total - inner.remaining:,} of {count(inner.total, 'step')} done"
    why = f"it stands for workflow {inner.name}, {inner.id}, which is {inner.state}: {done}"
    change = f"it has ended; see: foliot workflows show {inner.id}"
    return waits(facts, why, change), [*paused_workflow(inner)]


_HOLDS: Final[dict[str, Callable[[Facts], Answer]]] = {
    "admission": _for_admission,
    "turn": _for_admission,
    "order": _for_order,
    "unknown_kind": _for_kind,
    "unfitting_payload": _for_payload,
    HELD_FOR_LIMIT: _for_gate,
    HELD_FOR_SIGNAL: _for_signal,
    HELD_BY_PAUSE: _by_pause,
    HELD_FOR_WORKFLOW: _for_workflow,
}

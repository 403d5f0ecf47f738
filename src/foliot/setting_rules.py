"""Rules between settings: what each must be, given the others."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Final

from foliot.units import show_duration

if TYPE_CHECKING:
    from foliot.config import Settings

SCHEDULER_TICK: Final = 0.5

Rule = tuple[
    str, bool, str
]  # the key to change, whether it is as it must be, and what is wrong if not


def rules_of(settings: Settings, given: Container[str]) -> tuple[Rule, ...]:
    """`given` are the keys that somebody has set."""
    store, worker, term = settings.store, settings.worker, settings.scheduler.term
    history, idempotency = settings.retention.history, settings.retention.idempotency
    embedded = store.url.startswith("sqlite:")
    memory = embedded and (":memory:" in store.url or store.url == "sqlite://")
    return (
        (
            "worker.beat",
            worker.beat < worker.lease / 3,
            f"is not below a third of the lease, {show_duration(worker.lease)}",
        ),
        (
            "scheduler.term",
            term > 2 * SCHEDULER_TICK,
            "is not above twice the scheduler's tick, 500ms",
        ),
        (
            "worker.processes",
            worker.processes == 1 or not memory,
            "need a store that they can share",
        ),
        (
            "store.listen_url",
            store.listen_url is None or not embedded,
            "needs a PostgreSQL store.url",
        ),
        ("store.pooler", store.pooler != "yes" or not embedded, "needs a PostgreSQL store.url"),
        (
            "retention.idempotency",
            history is None or idempotency <= history or "retention.idempotency" not in given,
            f"is longer than retention.history, {show_duration(history or 0)}",
        ),
    )

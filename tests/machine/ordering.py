"""The invariants of who comes before whom: by priority and due time, in the line of a key, in turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from foliot.ids import JobId
from machine.admission import takes_turns
from machine.content import Live
from machine.history import Claim, Event
from machine.naming import Named
from machine.past import Past, first_served

MOST_AHEAD: Final = 2  # turns that one fair key has before another that waits

I14: Final = Named("I14 priority")
I15: Final = Named("I15 order within a priority")
I15_KEY: Final = Named("I15 strict order of a key")
I15_TURNS: Final = Named("I15 turns")


@I14
def priority(event: Event, past: Past) -> None:
    for job, left in _passed_over(event, past):
        mine, other = past.attempted[job].priority, past.attempted[left].priority
        I14.expect(mine <= other, f"{job} ({mine}) was claimed before {left} ({other})")


@I15
def order_within_a_priority(event: Event, past: Past) -> None:
    """By due time, then id; and no more than was asked for."""
    if isinstance(event, Claim):
        count = len(event.claimed)
        I15.expect(count <= event.room, f"{count} claimed, {event.room} asked for")
        lanes = Counter(job.lane for job in event.claimed)
        for share in event.shares:
            taken = lanes[share.lane.number]
            I15.expect(taken <= share.quota, f"{taken} from {share.lane}, the quota {share.quota}")
    for job, left in _passed_over(event, past):
        if past.attempted[job].priority == past.attempted[left].priority:
            mine, other = (past.due[job], job), (past.due[left], left)
            I15.expect(mine < other, f"{mine} was claimed before {other}")


@I15_KEY
def strict_order_of_a_key(event: Event, past: Past) -> None:
    """The next starts only after the earlier one has ended, whatever its attempts come to; and the first is next."""
    lines: dict[object, list[Live]] = {}
    for row in event.moment.after.live:
        if row.order is not None:
            lines.setdefault(row.order, []).append(row)
    there = {row.id: row for row in event.moment.before.live}
    for order, jobs in lines.items():
        for row in (row for row in jobs if row.id in there and _left_the_line(row, there[row.id])):
            first = min(job.id for job in jobs if job.id in there)
            I15_KEY.expect(row.id == first, f"{row.id} of {order} was let go before {first}")
    if isinstance(event, Claim):
        orders = {row.id: row.order for row in event.moment.after.live}
        for job in (job for job in event.claimed if orders.get(job.id) is not None):
            others = {row.id for row in lines[orders[job.id]]} & past.begun - {job.id}
            I15_KEY.expect(not others, f"{job.id} started, and {others} had not ended")


@I15_TURNS
def turns(event: Event, past: Past) -> None:
    """While a job waits for its first claim, no other fair key is served much more often than its own. A job that
    comes back has had its turn, and one that was cancelled has used it up: what is said here is of lanes without."""
    if not isinstance(event, Claim):
        return
    for row in event.moment.after.live:
        if row.state != "ready" or not takes_turns(row.lane) or past.turns.disturbed(row):
            continue
        served = past.turns.served_since(row) + _served(event, row)
        mine = served.pop(row.fair_key, 0)
        most = max(served.values(), default=0)
        I15_TURNS.expect(
            most - mine <= MOST_AHEAD,
            f"{row.id} of {row.fair_key!r} waits, served meanwhile: {served}, of its own {mine}",
        )


def _left_the_line(after: Live, before: Live) -> bool:
    return before.in_line and not after.in_line


def _served(event: Claim, waiting: Live) -> Counter[str | None]:
    home = (waiting.partition, waiting.lane)
    served = [row for row in first_served(event) if (row.partition, row.lane) == home]
    return Counter(row.fair_key for row in served)


def _passed_over(event: Event, past: Past) -> Iterable[tuple[JobId, JobId]]:
    """Pairs of a claimed job and one of its lane, of lower place, that was ready all the while."""
    if not isinstance(event, Claim):
        return
    still = {(row.id, row.fence) for row in event.moment.after.live if row.state == "ready"}
    ready = [row for row in event.moment.before.live if row.state == "ready"]
    left = [row for row in ready if (row.id, row.fence) in still and row.id in past.attempted]
    left = [row for row in left if not takes_turns(row.lane)]
    homes = {row.id: (row.partition, row.lane) for row in ready}
    for job in event.claimed:
        if job.id in past.attempted:
            home = homes.get(job.id)
            yield from ((job.id, row.id) for row in left if (row.partition, row.lane) == home)

"""The bugs of who comes before whom, and of the dead that live again."""

from __future__ import annotations

from typing import Final

from machine import lines
from machine.bugs import Bug

ORDER_BUGS: Final = [
    Bug(
        "the last of a key is the first",
        lines.jobs_share_a_key,
        ("I15 strict order of a key",),
        both=[("admit_orders", "ORDER BY h.id LIMIT 1", "ORDER BY h.id DESC LIMIT 1")],
    ),
    Bug(
        "a failed attempt gives its place in the line away",
        lines.the_first_of_a_key_fails,
        ("I15 strict order of a key",),
        postgres=[
            (
                "retry_jobs",
                "SET state = 'scheduled',",
                (
                    "SET state = CASE WHEN j.ordering_key IS NULL THEN 'scheduled' ELSE 'held' END,"
                    " hold = CASE WHEN j.ordering_key IS NOT NULL THEN 'order' END,"
                ),
            ),
            ("admit_orders", "ORDER BY h.id LIMIT 1", "ORDER BY h.run_at, h.id LIMIT 1"),
        ],
        sqlite=[
            (
                "retry_jobs",
                "SET state = 'scheduled',",
                (
                    "SET state = CASE WHEN ordering_key IS NULL THEN 'scheduled' ELSE 'held' END,"
                    " hold = CASE WHEN ordering_key IS NOT NULL THEN 'order' END,"
                ),
            ),
            ("admit_orders", "ORDER BY h.id LIMIT 1", "ORDER BY h.run_at, h.id LIMIT 1"),
        ],
    ),
    Bug(
        "nobody walks the keys whose last job is gone",
        lines.the_first_of_a_key_is_cancelled,
        ("I1 no loss",),
        both=[("admit_orders", "hold IN ('admission', 'order')", "hold IN ('admission')")],
    ),
    Bug(
        "a key has all its turns at once",
        lines.a_light_key_comes_after_a_heavy_one,
        ("I15 turns",),
        postgres=[("admit_turns", "+ p.step * (row_number()", "+ 0 * (row_number()")],
        sqlite=[
            (
                "admit_turns",
                "+ d.step * (row_number() OVER key - 1)",
                "+ 0 * (row_number() OVER key - 1)",
            )
        ],
    ),
    Bug(
        "a key that comes back begins anew",
        lines.a_light_key_comes_after_a_heavy_one,
        ("I15 turns",),
        postgres=[("admit_turns", "SELECT f.tag FROM", "SELECT 0::bigint FROM")],
        sqlite=[("admit_turns", "SELECT f.tag FROM", "SELECT 0 FROM")],
    ),
    Bug(
        "a retry by hand begins with a new fence",
        lines.a_dead_job_is_retried,
        ("I5 fences rise",),
        both=[("retry_dead_jobs", "n.id, n.fence,", "n.id, 0,")],
    ),
    Bug(
        "a retried job stays among the dead",
        lines.a_dead_job_is_retried,
        ("I3 one submit",),
        both=[("remove_retried_jobs", "WHERE", "WHERE false AND")],
    ),
]

"""The bugs that must be noticed: each with the story that shows it, and the invariants that must name it."""

from __future__ import annotations

from typing import Final

from machine import bugs, overlaps, scenarios
from machine.bugs import Bug
from machine.seeded_order import ORDER_BUGS

NO_FENCE: Final = "AND j.fence = json_extract(d.value, '$[1]')"

BUGS: Final = [
    *ORDER_BUGS,
    Bug(
        "finish without the fence",
        scenarios.an_outcome_is_sent_twice,
        ("I6 fenced out",),
        postgres=[
            (
                "finish_jobs",
                "AND ((j.id, j.fence) IN (SELECT * FROM unnest(:ids::uuid[], :fences::bigint[]))) IS TRUE",
                "",
            ),
            ("finish_jobs", "AND g.fence = d.fence", ""),
        ],
        sqlite=[("finish_jobs", NO_FENCE, ""), ("find_refused_jobs", NO_FENCE, "")],
    ),
    Bug(
        "finish without the session",
        scenarios.a_zombie_finishes,
        ("I6 fenced out",),
        postgres=[("finish_jobs", " AND j.session = :session", "")],
        sqlite=[
            ("finish_jobs", " AND j.session = :session", ""),
            ("find_refused_jobs", " AND j.session = :session", ""),
        ],
    ),
    Bug(
        "finish that leaves the job where it is",
        scenarios.an_outcome_is_sent_twice,
        ("I8 completed once",),
        postgres=[
            (
                "finish_jobs",
                "DELETE FROM foliot.jobs j WHERE",
                "UPDATE foliot.jobs j SET band = j.band WHERE",
            )
        ],
        sqlite=[
            (
                "finish_jobs",
                "DELETE FROM foliot_jobs WHERE",
                "DELETE FROM foliot_jobs WHERE false AND",
            )
        ],
    ),
    Bug(
        "finish that forgets history",
        scenarios.an_outcome_is_sent_twice,
        ("I1 no loss", "I27 conservation"),
        postgres=[("finish_jobs", "FROM ended WHERE id IS NOT NULL", "FROM ended WHERE false")],
    ),
    Bug(
        "an expired session is extended",
        scenarios.a_session_wakes_up_late,
        ("I4 one lease", "I6 fenced out"),
        postgres=[("extend_session", " AND expires_at > coalesce(:now, now())", "")],
        sqlite=[("extend_session", " AND expires_at > :now", "")],
    ),
    Bug(
        "release gives the fence back",
        scenarios.a_job_is_given_back,
        ("I5 fences rise",),
        postgres=[
            (
                "release_jobs",
                "attempt = j.attempt - 1",
                "attempt = j.attempt - 1, fence = j.fence - 1",
            )
        ],
        sqlite=[
            ("release_jobs", "attempt = attempt - 1", "attempt = attempt - 1, fence = fence - 1")
        ],
    ),
    Bug(
        "claim without the state",
        scenarios.two_claim_one_after_the_other,
        ("I4 one lease", "I9 no unexplained duplicate"),
        postgres=[
            ("claim_jobs", "r.state = 'ready'", "r.state IN ('ready', 'running')"),
            ("claim_jobs", " AND j.state || '' = 'ready'", ""),
        ],
        sqlite=[
            ("claim_jobs", "j.state = 'ready'", "j.state IN ('ready', 'running')"),
            ("find_ready_lanes", "r.state = 'ready'", "r.state IN ('ready', 'running')"),
        ],
    ),
    Bug(
        "claim without a lock",
        overlaps.two_claim_at_once,
        ("I4 one lease",),
        postgres=[
            ("claim_jobs", " FOR UPDATE SKIP LOCKED", ""),
            ("claim_jobs", " AND j.state || '' = 'ready'", ""),
        ],
    ),
    Bug(
        "claim by a subquery with a limit",
        overlaps.a_claim_asks_for_three,
        ("I15 order within a priority",),
        postgres=[bugs.claim_by_subquery],
    ),
    Bug(
        "claim in spite of a pause",
        scenarios.a_queue_is_paused,
        ("I24 pause",),
        postgres=[("claim_jobs", "(SELECT q.paused_at FROM", "(SELECT NULL::timestamptz FROM")],
        sqlite=[
            ("claim_jobs", "q.paused_at IS NOT NULL", "false"),
            ("find_ready_lanes", "q.paused_at IS NOT NULL", "false"),
        ],
    ),
    Bug(
        "priority is not looked at",
        scenarios.a_low_priority_comes_first,
        ("I14 priority",),
        both=[
            (
                "submit_jobs",
                "CASE n.strategy WHEN 0 THEN n.priority ELSE 0 END",
                "0",
            )
        ],
    ),
    Bug(
        "due time is not looked at",
        scenarios.an_older_one_comes_last,
        ("I15 order within a priority",),
        postgres=[("claim_jobs", "ORDER BY r.band, r.rank, r.id", "ORDER BY r.band, r.id")],
        sqlite=[("claim_jobs", "ORDER BY j.band, j.rank, j.id", "ORDER BY j.band, j.id")],
    ),
    Bug(
        "answer before commit",
        scenarios.a_submission_is_answered,
        ("I1 no loss",),
        postgres=[bugs.answer_before_commit_in_postgres],
        sqlite=[bugs.answer_before_commit_in_sqlite],
    ),
    Bug(
        "resend with a new id",
        scenarios.a_reply_is_lost,
        ("I3 one submit",),
        both=[bugs.resend_with_a_new_id],
    ),
    Bug(
        "resend that looks within its insert",
        overlaps.a_job_ends_while_it_is_sent_again,
        ("I3 one submit", "I7 terminal stays"),
        postgres=[
            (
                "submit_jobs",
                " ON CONFLICT DO NOTHING",
                (
                    " WHERE NOT EXISTS (SELECT FROM foliot.history h"
                    " WHERE h.partition = :partition AND h.id = n.id) ON CONFLICT DO NOTHING"
                ),
            ),
            ("withdraw_resent_jobs", "j.fence = 0", "false"),
        ],
    ),
    Bug(
        "submit forgets the key",
        scenarios.a_key_is_used_twice,
        ("I3 one submit",),
        postgres=[("submit_jobs", "n.timeout, n.key, n.payload", "n.timeout, NULL, n.payload")],
        sqlite=[("submit_jobs", "n.timeout, n.key, substr", "n.timeout, NULL, substr")],
    ),
    Bug(
        "submit under another id",
        scenarios.a_submission_is_answered,
        ("I1 no loss", "I2 no phantom"),
        postgres=[
            ("submit_jobs", "smallint, n.id,", "smallint, ('f' || substr(n.id::text, 2))::uuid,")
        ],
        sqlite=[
            (
                "submit_jobs",
                "SELECT :partition, n.id,",
                "SELECT :partition, 'f' || substr(n.id, 2),",
            )
        ],
    ),
    Bug(
        "attempts are counted at their end",
        scenarios.a_job_outlives_its_deadline,
        ("I12 attempts bounded",),
        postgres=[
            ("claim_jobs", "attempt = j.attempt + 1", "attempt = j.attempt"),
            (
                "retry_jobs",
                "attempt = j.attempt - CASE",
                "attempt = j.attempt + 1 - CASE",
            ),
        ],
        sqlite=[
            ("claim_jobs", "attempt = attempt + 1", "attempt = attempt"),
            (
                "retry_jobs",
                "attempt = attempt - again",
                "attempt = attempt + 1 - again",
            ),
        ],
    ),
    Bug(
        "lost sessions are not counted",
        scenarios.a_job_kills_its_worker,
        ("I12 attempts bounded",),
        postgres=[
            (
                "reap_jobs",
                "+ CASE WHEN j.id IN (SELECT id FROM fates WHERE why = 'lost') THEN 1 ELSE 0 END",
                "",
            )
        ],
        sqlite=[
            (
                "reap_jobs",
                "losses = losses + CASE f.why WHEN 'lost' THEN 1 ELSE 0 END",
                "losses = losses",
            )
        ],
    ),
    Bug(
        "lost attempts are not recorded",
        scenarios.a_job_kills_its_worker,
        ("I9 no unexplained duplicate",),
        postgres=[("reap_jobs", "FROM fates ), again", "FROM fates WHERE false ), again")],
        sqlite=[
            (
                "reap_jobs",
                "j.claimed_at, :now FROM foliot_fates f",
                "j.claimed_at, :now FROM (SELECT * FROM foliot_fates WHERE false) f",
            )
        ],
    ),
    Bug(
        "the last attempt is not looked at",
        scenarios.a_job_fails,
        ("I12 attempts bounded",),
        both=[bugs.always_try_again],
    ),
    Bug(
        "session rows are deleted before their jobs are reaped",
        scenarios.a_session_is_forgotten,
        ("I1 no loss",),
        postgres=[
            ("prune_sessions", "AND NOT EXISTS", "OR NOT EXISTS"),
            (
                "find_lost_sessions",
                "WHERE NOT EXISTS (SELECT FROM foliot.sessions s WHERE s.id = n.session AND s.expires_at >",
                "WHERE EXISTS (SELECT FROM foliot.sessions s WHERE s.id = n.session AND s.expires_at <=",
            ),
        ],
        sqlite=[
            ("prune_sessions", "AND NOT EXISTS", "OR NOT EXISTS"),
            (
                "find_lost_sessions",
                "WHERE NOT EXISTS (SELECT 1 FROM foliot_sessions s WHERE s.id = n.session AND s.expires_at >",
                "WHERE EXISTS (SELECT 1 FROM foliot_sessions s WHERE s.id = n.session AND s.expires_at <=",
            ),
        ],
    ),
    Bug(
        "a session is named after its host",
        scenarios.two_processes_on_one_host,
        ("I6 fenced out",),
        postgres=[
            bugs.name_sessions_after_the_host,
            (
                "open_session",
                "= :count",
                "= :count ON CONFLICT (id) DO UPDATE SET pid = excluded.pid",
            ),
        ],
        sqlite=[
            bugs.name_sessions_after_the_host,
            (
                "open_session",
                "= :count",
                "= :count ON CONFLICT (id) DO UPDATE SET pid = excluded.pid",
            ),
        ],
    ),
    Bug(
        "a worker's own clock decides",
        overlaps.one_clock_is_fast,
        ("I4 one lease", "I10 not early"),
        postgres=[bugs.compare_with_our_own_clock],
    ),
    Bug(
        "admit does not look at the time",
        scenarios.a_job_is_due_later,
        ("I10 not early",),
        postgres=[("admit_jobs", "s.run_at <= coalesce(:now, now())", "true")],
        sqlite=[("admit_jobs", "run_at <= :now", "run_at IS NOT NULL")],
    ),
    Bug(
        "another attempt at once",
        scenarios.a_job_is_due_later,
        ("I10 not early",),
        postgres=[("retry_jobs", "->> 1)::float8", "->> 1)::float8 * 0")],
        sqlite=[("retry_jobs", "coalesce(json_extract(f.value, '$[5]'), 60) * 1000000", "0")],
    ),
    Bug(
        "cancel only flags",
        scenarios.jobs_are_cancelled,
        ("I23 cancel",),
        postgres=[("cancel_jobs", "AND j.cancel_requested AND", "AND false AND")],
        sqlite=[
            ("cancel_jobs", "AND j.cancel_requested AND", "AND false AND"),
        ],
    ),
    Bug(
        "a failed attempt of a cancelled job is tried again",
        scenarios.jobs_are_cancelled,
        ("I23 cancel",),
        both=[("retry_jobs", "(NOT j.cancel_requested AND", "(true AND")],
    ),
    Bug(
        "cancel rewrites what has ended",
        scenarios.an_ended_job_is_cancelled,
        ("I7 terminal stays",),
        postgres=[
            (
                "request_cancel",
                "WITH found AS",
                (
                    "WITH ended AS (UPDATE foliot.history SET state = 'cancelled'"
                    " WHERE partition = :partition AND id = ANY (:ids::uuid[])), found AS"
                ),
            )
        ],
        sqlite=[
            (
                "request_cancel",
                "UPDATE foliot_jobs SET",
                (
                    "UPDATE foliot_history SET state = 'cancelled' WHERE partition = :partition"
                    " AND id IN (SELECT value FROM json_each(:ids)); UPDATE foliot_jobs SET"
                ),
            )
        ],
    ),
    Bug(
        "the dead are pruned",
        scenarios.history_is_pruned,
        ("I13 dead letters kept",),
        postgres=[bugs.prune_the_dead],
        sqlite=[
            (
                "prune_history",
                "DELETE FROM foliot_attempts WHERE",
                "DELETE FROM foliot_dead WHERE finished_at < :before OR",
            )
        ],
    ),
    Bug(
        "the attempts of the dead are pruned",
        scenarios.history_is_pruned,
        ("I13 dead letters kept",),
        postgres=[
            (
                "prune_attempts",
                "AND NOT EXISTS (SELECT FROM foliot.dead d WHERE d.partition = :partition AND d.id = o.job)",
                "",
            )
        ],
    ),
    Bug(
        "history is not counted",
        scenarios.jobs_are_counted,
        ("I27 conservation",),
        postgres=[
            (
                "count_jobs",
                "SELECT state, count(*) FROM foliot.history GROUP BY state UNION ALL",
                "",
            )
        ],
        sqlite=[
            (
                "count_jobs",
                "SELECT state, count(*) FROM foliot_history GROUP BY state UNION ALL",
                "",
            )
        ],
    ),
]

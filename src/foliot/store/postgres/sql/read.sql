-- Looks: they change nothing.

-- name: peek_jobs
-- Every (partition, lane) with ready jobs, by skip scan; each partition's next due time, which is now if something
-- waits to be looked at; whether jobs wait for an earlier one of their key, and whether anything has expired; its next
-- trigger, and whether there are times to catch up with; whether jobs wait for a limit, and whether there are events to
-- deliver.
WITH RECURSIVE heads AS (
    (SELECT j.partition, j.lane, j.queue, j.requires FROM foliot.jobs j WHERE j.state = 'ready'
     ORDER BY j.partition, j.lane LIMIT 1)
    UNION ALL
    SELECT n.partition, n.lane, n.queue, n.requires
    FROM heads h CROSS JOIN LATERAL (
        SELECT j.partition, j.lane, j.queue, j.requires FROM foliot.jobs j
        WHERE j.state = 'ready' AND (j.partition, j.lane) > (h.partition, h.lane)
        ORDER BY j.partition, j.lane LIMIT 1
    ) n
)
SELECT h.partition, h.lane, h.queue, h.requires, NULL::float8, false, false, NULL::float8, false, false, false FROM heads h
UNION ALL
SELECT p.partition::smallint, NULL, NULL, NULL,
       -- Scalars in order, not EXISTS: of that a plan for an empty table would make a walk through all of it.
       CASE WHEN (SELECT 1 FROM foliot.jobs j WHERE j.partition = p.partition AND j.hold = 'admission'
                     AND j.ordering_key IS NOT NULL ORDER BY j.id LIMIT 1) IS NOT NULL
              OR (SELECT 1 FROM foliot.jobs j WHERE j.partition = p.partition AND j.hold IN ('admission', 'turn')
                     AND (j.hold = 'turn' OR j.ordering_key IS NULL)
                  ORDER BY j.lane, coalesce(j.fair_key, '') LIMIT 1) IS NOT NULL THEN 0
            ELSE extract(epoch FROM (SELECT j.run_at FROM foliot.jobs j
                                     WHERE j.partition = p.partition AND j.state = 'scheduled'
                                     ORDER BY j.run_at LIMIT 1) - coalesce(:now, now()))::float8 END,
       (SELECT 1 FROM foliot.jobs j WHERE j.partition = p.partition AND j.ordering_key IS NOT NULL
           AND j.hold IN ('admission', 'order') ORDER BY j.namespace, j.ordering_key LIMIT 1) IS NOT NULL,
       (SELECT 1 FROM foliot.jobs j WHERE j.partition = p.partition AND j.expires_at IS NOT NULL
           AND j.expires_at <= coalesce(:now, now()) AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready')
        ORDER BY j.expires_at LIMIT 1) IS NOT NULL
       OR (SELECT 1 FROM foliot.workflows w WHERE w.partition = p.partition AND w.state = 'running'
              AND w.deadline_at <= coalesce(:now, now()) AND NOT w.cancel_requested
           ORDER BY w.deadline_at LIMIT 1) IS NOT NULL,
       extract(epoch FROM (SELECT t.next_fire_at FROM foliot.triggers t WHERE t.partition = p.partition
                           ORDER BY t.next_fire_at LIMIT 1) - coalesce(:now, now()))::float8,
       (SELECT 1 FROM foliot.gaps g WHERE g.partition = p.partition AND NOT g.done ORDER BY g.at LIMIT 1) IS NOT NULL,
       (SELECT 1 FROM foliot.jobs j WHERE j.partition = p.partition AND j.hold = 'limit'
        ORDER BY j.hold_note LIMIT 1) IS NOT NULL,
       (SELECT 1 FROM foliot.outbox o WHERE o.partition = p.partition ORDER BY o.at LIMIT 1) IS NOT NULL
FROM generate_series(0, :partitions::integer - 1) AS p (partition);

-- name: list_running_jobs
SELECT j.id::text, j.partition, j.fence, j.cancel_requested FROM foliot.jobs j
WHERE j.partition = ANY (:partitions::smallint[]) AND j.session = :session AND j.state = 'running';

-- name: find_settled_jobs
-- Under which fences these jobs have ended or failed, and how: an outcome has taken effect if it is among them.
SELECT h.id::text, h.fence, h.state, NULL FROM foliot.history h
WHERE h.partition = :partition AND h.id = ANY (:ids::uuid[])
UNION ALL
SELECT a.job::text, a.fence, a.outcome, a.error FROM foliot.attempts a
WHERE a.partition = :partition AND a.job = ANY (:ids::uuid[]);

-- name: get_live_job
SELECT id::text, kind, state, queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, claimed_at, NULL::timestamptz, session::text, key, hold, cancel_requested, payload, NULL::bytea,
       tags, ordering_key, fair_key, requires, expires_at, max_attempts, timeout, extras, progress, hold_note,
       workflow::text
FROM foliot.jobs WHERE partition = :partition AND id = :id;

-- name: get_recent_job
-- History is kept by day: the id says when the job was made, so older days need not be looked at.
SELECT id::text, kind, state, queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session::text, key, reason, false, payload, result,
       tags, ordering_key, fair_key, NULL::text[], NULL::timestamptz, NULL::smallint, NULL::real, extras, NULL, NULL,
       workflow::text
FROM foliot.history WHERE partition = :partition AND id = :id AND finished_at >= :since
ORDER BY generation DESC LIMIT 1;

-- name: get_dead_job
SELECT id::text, kind, 'dead', queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session::text, key, reason, false, payload, NULL::bytea,
       tags, ordering_key, fair_key, requires, NULL::timestamptz, max_attempts, timeout, extras, NULL, NULL,
       workflow::text
FROM foliot.dead WHERE partition = :partition AND id = :id;

-- name: list_ended_jobs
-- As above; and the last day in any case, for ids that were made by a clock that is ahead.
SELECT id::text, kind, state, queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session::text, key, reason, false, payload, result,
       tags, ordering_key, fair_key, NULL::text[], NULL::timestamptz, NULL::smallint, NULL::real, extras, NULL, NULL,
       workflow::text
FROM foliot.history
WHERE partition = :partition AND id = ANY (:ids::uuid[])
  AND finished_at >= least(:since::timestamptz, coalesce(:now, now()) - interval '1 day')
UNION ALL
SELECT id::text, kind, 'dead', queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session::text, key, reason, false, payload, NULL::bytea,
       tags, ordering_key, fair_key, requires, NULL::timestamptz, max_attempts, timeout, extras, NULL, NULL,
       workflow::text
FROM foliot.dead WHERE partition = :partition AND id = ANY (:ids::uuid[]);

-- name: list_live_jobs
SELECT id::text, state FROM foliot.jobs WHERE partition = :partition AND id = ANY (:ids::uuid[]);

-- name: list_attempts
SELECT attempt, fence, outcome, error, traceback, session::text, started_at, finished_at, worker
FROM foliot.attempts WHERE partition = :partition AND job = :id ORDER BY fence;

-- name: count_jobs
SELECT state, count(*) FROM foliot.jobs GROUP BY state
UNION ALL
SELECT state, count(*) FROM foliot.history GROUP BY state
UNION ALL
SELECT 'dead', count(*) FROM foliot.dead;

-- name: list_last_results
-- Of each of these schedules the result of its last run that succeeded. Rides history_schedule.
SELECT s.id::text, h.result
FROM unnest(:ids::uuid[]) AS s (id)
CROSS JOIN LATERAL (
    SELECT r.result FROM foliot.history r
    WHERE r.partition = :partition AND r.schedule = s.id AND r.state = 'succeeded'
    ORDER BY r.finished_at DESC LIMIT 1
) h
WHERE h.result IS NOT NULL;

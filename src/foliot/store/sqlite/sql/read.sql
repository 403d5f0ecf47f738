-- Looks: they change nothing.

-- name: peek_jobs
-- Every (partition, lane) with ready jobs, by skip scan in two steps as above; each partition's next due time, which is
-- now if something waits to be looked at; whether jobs wait for an earlier one of their key, and whether anything
-- has expired; its next trigger, whether there are times to catch up with; whether jobs wait for a limit, and whether
-- there are events to deliver.
WITH RECURSIVE heads (partition, lane, place) AS (
    SELECT * FROM (SELECT j.partition, j.lane, j.rowid FROM foliot_jobs j
                   WHERE j.state = 'ready' ORDER BY j.partition, j.lane LIMIT 1)
    UNION ALL
    SELECT n.partition, n.lane, n.rowid
    FROM heads h CROSS JOIN foliot_jobs n ON n.rowid = coalesce(
        (SELECT j.rowid FROM foliot_jobs j
         WHERE j.state = 'ready' AND j.partition = h.partition AND j.lane > h.lane ORDER BY j.lane LIMIT 1),
        (SELECT j.rowid FROM foliot_jobs j
         WHERE j.state = 'ready' AND j.partition > h.partition ORDER BY j.partition, j.lane LIMIT 1))
)
SELECT h.partition, h.lane, j.queue, j.requires, NULL, 0, 0, NULL, 0, 0, 0
FROM heads h CROSS JOIN foliot_jobs j ON j.rowid = h.place
UNION ALL
SELECT p.value, NULL, NULL, NULL,
       CASE WHEN EXISTS (SELECT 1 FROM foliot_jobs j WHERE j.partition = p.value AND j.hold = 'admission'
                            AND j.ordering_key IS NOT NULL)
              OR EXISTS (SELECT 1 FROM foliot_jobs j WHERE j.partition = p.value AND j.hold IN ('admission', 'turn')
                            AND (j.hold = 'turn' OR j.ordering_key IS NULL))
            THEN 0.0
            ELSE ((SELECT j.run_at FROM foliot_jobs j WHERE j.partition = p.value AND j.state = 'scheduled'
                   ORDER BY j.run_at LIMIT 1) - :now) / 1000000.0 END,
       EXISTS (SELECT 1 FROM foliot_jobs j WHERE j.partition = p.value AND j.ordering_key IS NOT NULL
                  AND j.hold IN ('admission', 'order')),
       EXISTS (SELECT 1 FROM foliot_jobs j WHERE j.partition = p.value AND j.expires_at IS NOT NULL
                  AND j.expires_at <= :now AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready'))
       OR EXISTS (SELECT 1 FROM foliot_workflows w WHERE w.partition = p.value AND w.state = 'running'
                     AND w.deadline_at IS NOT NULL AND w.deadline_at <= :now AND NOT w.cancel_requested),
       ((SELECT t.next_fire_at FROM foliot_triggers t WHERE t.partition = p.value
         ORDER BY t.next_fire_at LIMIT 1) - :now) / 1000000.0,
       EXISTS (SELECT 1 FROM foliot_gaps g WHERE g.partition = p.value AND NOT g.done),
       EXISTS (SELECT 1 FROM foliot_jobs j WHERE j.partition = p.value AND j.hold = 'limit'),
       EXISTS (SELECT 1 FROM foliot_outbox o WHERE o.partition = p.value)
FROM json_each(:partitions) p;

-- name: list_running_jobs
SELECT j.id, j.partition, j.fence, j.cancel_requested
FROM json_each(:partitions) p CROSS JOIN foliot_jobs j
WHERE j.partition = p.value AND j.session = :session AND j.state = 'running';

-- name: find_settled_jobs
-- Which of these outcomes have taken effect, as this end and under this fence: a faster reaper leaves other traces.
SELECT json_extract(o.value, '$[0]') FROM json_each(:outcomes) o
WHERE EXISTS (SELECT 1 FROM foliot_history h WHERE h.partition = :partition
                AND h.id = json_extract(o.value, '$[0]') AND h.fence = json_extract(o.value, '$[1]')
                AND h.state = json_extract(o.value, '$[2]'))
   OR EXISTS (SELECT 1 FROM foliot_attempts a WHERE a.partition = :partition
                AND a.job = json_extract(o.value, '$[0]') AND a.fence = json_extract(o.value, '$[1]')
                AND a.outcome = json_extract(o.value, '$[3]') AND a.error IS json_extract(o.value, '$[4]'));

-- name: get_live_job
SELECT id, kind, state, queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, claimed_at, NULL, session, key, hold, cancel_requested, payload, NULL,
       tags, ordering_key, fair_key, requires, expires_at, max_attempts, timeout, extras, progress, hold_note,
       workflow
FROM foliot_jobs WHERE partition = :partition AND id = :id;

-- name: get_recent_job
-- History is one table here: the index finds the job however old it is.
SELECT id, kind, state, queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session, key, reason, 0, payload, result,
       tags, ordering_key, fair_key, NULL, NULL, NULL, NULL, extras, NULL, NULL,
       workflow
FROM foliot_history WHERE partition = :partition AND id = :id
ORDER BY generation DESC LIMIT 1;

-- name: get_dead_job
SELECT id, kind, 'dead', queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session, key, reason, 0, payload, NULL,
       tags, ordering_key, fair_key, requires, NULL, max_attempts, timeout, extras, NULL, NULL,
       workflow
FROM foliot_dead WHERE partition = :partition AND id = :id;

-- name: list_ended_jobs
SELECT id, kind, state, queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session, key, reason, 0, payload, result,
       tags, ordering_key, fair_key, NULL, NULL, NULL, NULL, extras, NULL, NULL,
       workflow
FROM foliot_history WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT id, kind, 'dead', queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session, key, reason, 0, payload, NULL,
       tags, ordering_key, fair_key, requires, NULL, max_attempts, timeout, extras, NULL, NULL,
       workflow
FROM foliot_dead WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids));

-- name: list_live_jobs
SELECT id, state FROM foliot_jobs WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids));

-- name: list_attempts
SELECT attempt, fence, outcome, error, traceback, session, started_at, finished_at, worker
FROM foliot_attempts WHERE partition = :partition AND job = :id ORDER BY fence;

-- name: count_jobs
SELECT state, count(*) FROM foliot_jobs GROUP BY state
UNION ALL
SELECT state, count(*) FROM foliot_history GROUP BY state
UNION ALL
SELECT 'dead', count(*) FROM foliot_dead;

-- name: list_last_results
-- Of each of these schedules the result of its last run that succeeded. Rides foliot_history_schedule.
SELECT s.value, (SELECT r.result FROM foliot_history r
                 WHERE r.partition = :partition AND r.schedule = s.value AND r.state = 'succeeded'
                 ORDER BY r.finished_at DESC LIMIT 1) AS result
FROM json_each(:ids) s WHERE result IS NOT NULL;

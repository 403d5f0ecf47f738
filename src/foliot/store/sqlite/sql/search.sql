-- Searching: live, ended and dead jobs in one snapshot, newest first.
-- As in PostgreSQL, but for one partition: there are no lateral joins, and what is read in one go is of one moment
-- anyway. {jobs}, {history} and {dead} are the places for the condition of a filter (filter_sql.py).

-- name: find_search_edge
-- The last of a window, after those that are skipped. The conditions here are what an index tells. No row: fewer than a
-- window are left.
SELECT * FROM (SELECT j.id FROM foliot_jobs j
               WHERE j.partition = :partition AND j.id < :after AND {jobs}
               ORDER BY j.id DESC LIMIT 1 OFFSET :skipped)
UNION ALL
SELECT * FROM (SELECT j.id FROM foliot_history j
               WHERE j.partition = :partition AND j.id < :after AND {history}
               ORDER BY j.id DESC LIMIT 1 OFFSET :skipped)
UNION ALL
SELECT * FROM (SELECT j.id FROM foliot_dead j
               WHERE j.partition = :partition AND j.id < :after AND {dead}
               ORDER BY j.id DESC LIMIT 1 OFFSET :skipped);

-- name: search_jobs
SELECT * FROM (
    SELECT j.id, j.kind, j.state, j.queue, j.namespace, j.priority, j.attempt, j.losses, j.generation, j.fence,
           j.created_at, j.run_at, j.claimed_at, NULL, j.session, j.key, j.hold, j.cancel_requested,
           CASE WHEN :payloads THEN j.payload ELSE x'7b7d' END, NULL,
           j.tags, j.ordering_key, j.fair_key, j.requires, j.expires_at, j.max_attempts, j.timeout, j.extras,
           j.progress, j.hold_note, j.workflow
    FROM foliot_jobs j
    WHERE j.partition = :partition AND j.id < :after AND j.id >= :edge AND {jobs}
    ORDER BY j.id DESC LIMIT :limit)
UNION ALL
SELECT * FROM (
    SELECT j.id, j.kind, j.state, j.queue, j.namespace, j.priority, j.attempt, j.losses, j.generation, j.fence,
           j.created_at, j.run_at, j.started_at, j.finished_at, j.session, j.key, j.reason, 0,
           CASE WHEN :payloads THEN j.payload ELSE x'7b7d' END, CASE WHEN :payloads THEN j.result END,
           j.tags, j.ordering_key, j.fair_key, NULL, NULL, NULL, NULL, j.extras, NULL, NULL,
           j.workflow
    FROM foliot_history j
    WHERE j.partition = :partition AND j.id < :after AND j.id >= :edge AND {history}
    ORDER BY j.id DESC LIMIT :limit)
UNION ALL
SELECT * FROM (
    SELECT j.id, j.kind, 'dead', j.queue, j.namespace, j.priority, j.attempt, j.losses, j.generation, j.fence,
           j.created_at, j.run_at, j.started_at, j.finished_at, j.session, j.key, j.reason, 0,
           CASE WHEN :payloads THEN j.payload ELSE x'7b7d' END, NULL,
           j.tags, j.ordering_key, j.fair_key, j.requires, NULL, j.max_attempts, j.timeout, j.extras, NULL, NULL,
           j.workflow
    FROM foliot_dead j
    WHERE j.partition = :partition AND j.id < :after AND j.id >= :edge AND {dead}
    ORDER BY j.id DESC LIMIT :limit);

-- name: count_found_jobs
SELECT (SELECT count(*) FROM (SELECT 1 FROM foliot_jobs j
            WHERE j.partition = :partition AND j.id < :after AND j.id >= :edge AND {jobs} LIMIT :limit))
     + (SELECT count(*) FROM (SELECT 1 FROM foliot_history j
            WHERE j.partition = :partition AND j.id < :after AND j.id >= :edge AND {history} LIMIT :limit))
     + (SELECT count(*) FROM (SELECT 1 FROM foliot_dead j
            WHERE j.partition = :partition AND j.id < :after AND j.id >= :edge AND {dead} LIMIT :limit));

-- name: count_ahead
-- Ready jobs of its lane that are claimed before it, in all partitions, for workers serve all: up to a limit. Rides
-- foliot_jobs_ready.
WITH RECURSIVE p (partition) AS (
    VALUES (0) UNION ALL SELECT p.partition + 1 FROM p WHERE p.partition + 1 < :partitions
)
SELECT count(*) FROM (
    SELECT 1 FROM foliot_jobs m CROSS JOIN p CROSS JOIN foliot_jobs r
    WHERE m.partition = :partition AND m.id = :id AND m.state || '' = 'ready'
      AND r.partition = p.partition AND r.lane = m.lane AND r.state = 'ready'
      AND (r.band, r.rank, r.id) < (m.band, m.rank, m.id)
    LIMIT :limit);

-- name: list_earlier_jobs
-- Live jobs of its ordering key that run before it: the one that is active, and those made before it. Rides
-- foliot_jobs_active and foliot_jobs_order.
SELECT a.id, a.state
FROM foliot_jobs m CROSS JOIN foliot_jobs a
WHERE m.partition = :partition AND m.id = :id
  AND a.partition = :partition AND a.namespace = m.namespace AND a.ordering_key = m.ordering_key
  AND a.ordering_key IS NOT NULL AND coalesce(a.hold, '') NOT IN ('admission', 'order') AND a.id <> :id
UNION ALL
SELECT o.id, o.state
FROM foliot_jobs m CROSS JOIN foliot_jobs o
WHERE m.partition = :partition AND m.id = :id
  AND o.partition = :partition AND o.namespace = m.namespace AND o.ordering_key = m.ordering_key
  AND o.ordering_key IS NOT NULL AND o.hold IN ('admission', 'order') AND o.id < :id
ORDER BY 1 LIMIT :limit;

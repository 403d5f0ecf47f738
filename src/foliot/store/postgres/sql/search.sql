-- Searching: live, ended and dead jobs in one snapshot, newest first.
-- {jobs}, {history} and {dead} are the places for the condition of a filter (filter_sql.py); its values are parameters.
-- A search goes by windows of ids: find_search_edge says how far down the next so many rows reach, the others look at
-- no more than those, by the primary key or by whatever else the condition allows. So there is nothing to sort but a
-- window, and however rare a match, a statement ends.

-- name: limit_search
SELECT set_config('statement_timeout', :timeout, true);

-- name: find_search_edge
-- The last of a window, after those that are skipped. The conditions here are what an index tells. No row: fewer than a
-- window are left.
SELECT e.id::text
FROM generate_series(0, :partitions::integer - 1) AS p (partition)
CROSS JOIN LATERAL (
    (SELECT j.id FROM foliot.jobs j
     WHERE j.partition = p.partition AND j.id < :after::uuid AND {jobs}
     ORDER BY j.id DESC OFFSET :skipped LIMIT 1)
    UNION ALL
    (SELECT j.id FROM foliot.history j
     WHERE j.partition = p.partition AND j.id < :after::uuid AND {history}
     ORDER BY j.id DESC OFFSET :skipped LIMIT 1)
    UNION ALL
    (SELECT j.id FROM foliot.dead j
     WHERE j.partition = p.partition AND j.id < :after::uuid AND {dead}
     ORDER BY j.id DESC OFFSET :skipped LIMIT 1)
) e
ORDER BY e.id DESC LIMIT 1;

-- name: search_jobs
SELECT f.*
FROM generate_series(0, :partitions::integer - 1) AS p (partition)
CROSS JOIN LATERAL (
    (SELECT j.id::text AS id, j.kind, j.state, j.queue, j.namespace, j.priority, j.attempt, j.losses, j.generation,
            j.fence, j.created_at, j.run_at, j.claimed_at, NULL::timestamptz, j.session::text, j.key, j.hold,
            j.cancel_requested, CASE WHEN :payloads::boolean THEN j.payload ELSE '{}' END, NULL::bytea,
            j.tags, j.ordering_key, j.fair_key, j.requires, j.expires_at, j.max_attempts, j.timeout, j.extras,
            j.progress, j.hold_note, j.workflow::text
     FROM foliot.jobs j
     WHERE j.partition = p.partition AND j.id < :after::uuid AND j.id >= :edge::uuid AND {jobs}
     ORDER BY j.id DESC LIMIT :limit)
    UNION ALL
    (SELECT j.id::text, j.kind, j.state, j.queue, j.namespace, j.priority, j.attempt, j.losses, j.generation,
            j.fence, j.created_at, j.run_at, j.started_at, j.finished_at, j.session::text, j.key, j.reason,
            false, CASE WHEN :payloads::boolean THEN j.payload ELSE '{}' END,
            CASE WHEN :payloads::boolean THEN j.result END,
            j.tags, j.ordering_key, j.fair_key, NULL::text[], NULL::timestamptz, NULL::smallint, NULL::real, j.extras,
            NULL, NULL, j.workflow::text
     FROM foliot.history j
     WHERE j.partition = p.partition AND j.id < :after::uuid AND j.id >= :edge::uuid AND {history}
     ORDER BY j.id DESC LIMIT :limit)
    UNION ALL
    (SELECT j.id::text, j.kind, 'dead', j.queue, j.namespace, j.priority, j.attempt, j.losses, j.generation,
            j.fence, j.created_at, j.run_at, j.started_at, j.finished_at, j.session::text, j.key, j.reason,
            false, CASE WHEN :payloads::boolean THEN j.payload ELSE '{}' END, NULL::bytea,
            j.tags, j.ordering_key, j.fair_key, j.requires, NULL::timestamptz, j.max_attempts, j.timeout, j.extras,
            NULL, NULL, j.workflow::text
     FROM foliot.dead j
     WHERE j.partition = p.partition AND j.id < :after::uuid AND j.id >= :edge::uuid AND {dead}
     ORDER BY j.id DESC LIMIT :limit)
) f
ORDER BY f.id COLLATE "C" DESC LIMIT :limit;

-- name: count_found_jobs
SELECT count(*)::integer
FROM (SELECT FROM generate_series(0, :partitions::integer - 1) AS p (partition)
      CROSS JOIN LATERAL (
          (SELECT FROM foliot.jobs j
           WHERE j.partition = p.partition AND j.id < :after::uuid AND j.id >= :edge::uuid AND {jobs} LIMIT :limit)
          UNION ALL
          (SELECT FROM foliot.history j
           WHERE j.partition = p.partition AND j.id < :after::uuid AND j.id >= :edge::uuid AND {history} LIMIT :limit)
          UNION ALL
          (SELECT FROM foliot.dead j
           WHERE j.partition = p.partition AND j.id < :after::uuid AND j.id >= :edge::uuid AND {dead} LIMIT :limit)
      ) f LIMIT :limit) AS found;

-- name: count_ahead
-- Ready jobs of its lane that are claimed before it, in all partitions, for workers serve all: up to a limit. Rides
-- jobs_ready.
WITH mine AS MATERIALIZED (
    SELECT m.lane, m.band, m.rank, m.id FROM foliot.jobs m
    WHERE m.partition = :partition AND m.id = :id AND m.state || '' = 'ready'
)
SELECT count(*)::integer
FROM (SELECT FROM mine m CROSS JOIN generate_series(0, :partitions::integer - 1) AS p (partition)
      CROSS JOIN LATERAL (
          SELECT FROM foliot.jobs r
          WHERE r.partition = p.partition AND r.lane = m.lane AND r.state = 'ready'
            AND (r.band, r.rank, r.id) < (m.band, m.rank, m.id)
          LIMIT :limit
      ) before LIMIT :limit) ahead;

-- name: list_earlier_jobs
-- Live jobs of its ordering key that run before it: the one that is active, and those made before it. Rides jobs_active
-- and jobs_order.
WITH mine AS MATERIALIZED (
    SELECT m.namespace, m.ordering_key FROM foliot.jobs m
    WHERE m.partition = :partition AND m.id = :id
)
SELECT before.id::text, before.state
FROM mine m CROSS JOIN LATERAL (
    SELECT a.id, a.state FROM foliot.jobs a
    WHERE a.partition = :partition AND a.namespace = m.namespace AND a.ordering_key = m.ordering_key AND a.id <> :id
      AND coalesce(a.hold, '') NOT IN ('admission', 'order')
    UNION ALL
    (SELECT o.id, o.state FROM foliot.jobs o
     WHERE o.partition = :partition AND o.namespace = m.namespace AND o.ordering_key = m.ordering_key AND o.id < :id
       AND o.hold IN ('admission', 'order')
     ORDER BY o.id LIMIT :limit)
) before
ORDER BY before.id LIMIT :limit;

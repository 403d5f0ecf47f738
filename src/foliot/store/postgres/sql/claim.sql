-- From ready to running.

-- name: claim_jobs
-- The front of each lane, up to its quota, lanes in the order they are named. The candidates are fixed by a
-- materialized CTE, so that the limit holds whatever the plan. Rides jobs_ready, then the primary key.
-- Arrays are sub-selects, behind which one lane is not estimated cheaper than ten: else every claim would be planned anew.
-- By the time of the statement: now() is when the transaction began, and what it then finished may have taken longer
-- than a job that is claimed here has been due, or than a beat ago.
-- When it was due is told where its id does not say so: after a delay or a retry, and of a run that was made up for,
-- whose id has the time that its schedule named.
WITH picked AS MATERIALIZED (
    SELECT j.id
    FROM unnest((SELECT :lanes::bigint[]), (SELECT :queues::text[]), (SELECT :quotas::integer[]),
                (SELECT :choosy::boolean[])) AS l (lane, queue, quota, choosy)
    CROSS JOIN LATERAL (
        SELECT r.id
        FROM foliot.jobs r
        WHERE r.partition = :partition AND r.lane = l.lane AND r.state = 'ready'
          AND (r.expires_at IS NULL OR r.expires_at > coalesce(:now, statement_timestamp()))
          -- Where there may be kinds that this worker does not know.
          AND (NOT l.choosy OR r.kind = ANY ((SELECT :kinds::text[])::text[]))
          -- A scalar, not NOT EXISTS: that would become a join, and mix up the order of the lanes.
          AND (SELECT q.paused_at FROM foliot.queues q WHERE q.name = l.queue) IS NULL
          -- Whoever does not know the limits that there are claims nothing.
          AND coalesce((SELECT v.version FROM foliot.rules v) = :version::bigint, true)
        ORDER BY r.band, r.rank, r.id
        LIMIT l.quota
        FOR UPDATE SKIP LOCKED
    ) j
    LIMIT (SELECT :room::integer)
), taken AS (
    UPDATE foliot.jobs j
    SET state = 'running', hold_note = NULL, session = :session, fence = j.fence + 1, attempt = j.attempt + 1,
        claimed_at = coalesce(:now, statement_timestamp()),
        deadline_at = coalesce(:now, statement_timestamp()) + make_interval(secs => j.timeout + :grace)
    WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM picked)) AND j.state || '' = 'ready'
    RETURNING j.id, j.fence, j.kind, j.payload, j.attempt, j.max_attempts, j.losses, j.timeout,
              j.ordering_key IS NOT NULL OR j.workflow IS NOT NULL AS linked,
              j.lane, j.band, j.rank, j.priority,
              CASE WHEN num_nonnulls(j.key, j.tags, j.ordering_key, j.fair_key, j.workflow) > 0
                        OR j.namespace <> 'default' OR j.run_at <> j.created_at OR strpos(j.extras, '"nominal":') > 0
                   THEN jsonb_strip_nulls(jsonb_build_object(
                       'namespace', j.namespace, 'key', j.key, 'tags', j.tags, 'ordering_key', j.ordering_key,
                       'fair_key', j.fair_key, 'workflow', j.workflow, 'extras', j.extras::jsonb, 'run_at',
                       CASE WHEN j.run_at <> j.created_at OR j.generation > 0 OR strpos(j.extras, '"nominal":') > 0
                            THEN (extract(epoch FROM j.run_at) * 1000000)::bigint END))::text
                   ELSE '{"extras":' || j.extras || '}' END AS more
)
SELECT id::text, fence, kind, payload, attempt, max_attempts, losses, timeout, linked, lane, priority, more
FROM taken ORDER BY array_position(:lanes::bigint[], lane), band, rank, id;

-- name: extend_deadlines
-- Of jobs that have waited for a process to start in: their time counts from now.
WITH found AS MATERIALIZED (
    SELECT id FROM foliot.jobs WHERE partition = :partition AND id = ANY (:ids::uuid[]) ORDER BY id FOR UPDATE
)
UPDATE foliot.jobs j
SET deadline_at = coalesce(:now, statement_timestamp()) + make_interval(secs => j.timeout + :grace)
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM found)) AND j.session = :session
  AND j.state || '' = 'running'
  AND ((j.id, j.fence) IN (SELECT * FROM unnest(:ids::uuid[], :fences::bigint[]))) IS TRUE;

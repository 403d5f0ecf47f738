-- What jobs say while they run. Lines are kept under the fence of the attempt that wrote them, so that a late one adds
-- to its own attempt and to no other; progress is a matter of the running attempt alone.

-- name: write_logs
-- The same lines sent again change nothing.
INSERT INTO foliot.logs (partition, job, fence, seq, attempt, at, level, logger, message)
SELECT :partition::smallint, l.job, l.fence, l.seq, l.attempt, l.at, l.level, l.logger, l.message
FROM unnest(:jobs::uuid[], :fences::bigint[], :seqs::integer[], :attempts::smallint[], :ats::timestamptz[],
            :levels::text[], :loggers::text[], :messages::text[])
    AS l (job, fence, seq, attempt, at, level, logger, message)
ON CONFLICT DO NOTHING;

-- name: set_progress
WITH told AS (
    SELECT jsonb_object_agg(p.id, jsonb_build_array(p.fence, p.progress)) AS facts
    FROM unnest(:ids::uuid[], :fences::bigint[], :progress::text[]) AS p (id, fence, progress)
), found AS MATERIALIZED (
    SELECT id FROM foliot.jobs WHERE partition = :partition AND id = ANY (:ids::uuid[]) ORDER BY id FOR UPDATE
)
UPDATE foliot.jobs j
SET progress = (SELECT facts FROM told) -> j.id::text ->> 1
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM found)) AND j.session = :session
  AND j.state || '' = 'running' AND j.fence = ((SELECT facts FROM told) -> j.id::text ->> 0)::bigint;

-- name: list_logs
SELECT attempt, seq, at, level, logger, message
FROM foliot.logs WHERE partition = :partition AND job = :id ORDER BY fence, seq;

-- name: prune_logs
-- By their own age: they are the first that anybody can do without. Returns how many went.
WITH gone AS (
    DELETE FROM foliot.logs l
    WHERE l.partition = :partition AND (l.job, l.fence, l.seq) IN (
        SELECT o.job, o.fence, o.seq FROM foliot.logs o
        WHERE o.partition = :partition AND o.at < coalesce(:now, now()) - make_interval(secs => :keep)
        ORDER BY o.at
        LIMIT :limit)
    RETURNING 1
)
SELECT count(*) FROM gone;

-- What leaves the dead-letter queue, by hand.

-- name: lock_dead_jobs
-- First, and by itself: what follows must see what whoever had the lock has done.
WITH locked AS MATERIALIZED (
    SELECT id FROM foliot.dead WHERE partition = :partition AND id = ANY (:ids::uuid[]) ORDER BY id FOR UPDATE
)
SELECT count(*) FROM locked;

-- name: retry_dead_jobs
-- Live again: placed as submit_jobs places a new job, from its due time, which is now. The fence is carried on, so that
-- nobody who once held the job can write to it. A conflict is a live job that has the same unique key by now. A step is
-- retried with its workflow (steering.py), as long as that is known. What it stands for has not begun in this life.
INSERT INTO foliot.jobs (partition, id, fence, lane, rank, band, priority, max_attempts, generation, state,
                         hold, namespace, kind, queue, created_at, run_at, timeout, key, workflow,
                         requires, tags, ordering_key, fair_key, schedule, extras, payload)
SELECT :partition::smallint, n.id, n.fence, n.lane & ~3::bigint | n.strategy,
       CASE n.strategy
            WHEN 3 THEN 0
            WHEN 2 THEN ((extract(epoch FROM coalesce(:now, now())) + n.priority * (
                SELECT q.aging::numeric FROM foliot.queues q WHERE q.name = n.queue)) * 1000000)::bigint
            ELSE (extract(epoch FROM coalesce(:now, now())) * 1000000)::bigint END,
       CASE n.strategy WHEN 0 THEN n.priority ELSE 0 END, n.priority, n.max_attempts, n.generation + 1,
       CASE WHEN n.ordering_key IS NOT NULL OR n.strategy = 3 THEN 'held' ELSE 'ready' END,
       CASE WHEN n.ordering_key IS NOT NULL OR n.strategy = 3 THEN 'admission' END,
       n.namespace, n.kind, n.queue, n.created_at, coalesce(:now, now()), n.timeout, n.key, NULL,
       n.requires, n.tags, n.ordering_key, n.fair_key, n.schedule,
       (coalesce(:extras, n.extras)::jsonb - 'began')::text, coalesce(:payload, n.payload)
FROM (SELECT d.*, coalesce((SELECT q.strategy FROM foliot.queues q WHERE q.name = d.queue), 0)::bigint AS strategy
      FROM foliot.dead d WHERE d.partition = :partition AND d.id = ANY (:ids::uuid[])
        AND (d.workflow IS NULL OR NOT EXISTS (
            SELECT FROM foliot.workflows w WHERE w.partition = :partition AND w.id = d.workflow))) n
ORDER BY n.kind, n.key, n.id
ON CONFLICT DO NOTHING
RETURNING id::text, lane;

-- name: remove_retried_jobs
DELETE FROM foliot.dead d WHERE d.partition = :partition AND d.id = ANY (:ids::uuid[]);

-- name: find_key_holders
-- Of those that are still dead: who has their unique key, and the workflows of steps.
SELECT d.id::text, (SELECT j.id::text FROM foliot.jobs j WHERE j.partition = :partition AND j.key = d.key
                      AND j.namespace = d.namespace AND j.kind = d.kind),
       (SELECT w.id::text FROM foliot.workflows w WHERE w.partition = :partition AND w.id = d.workflow)
FROM foliot.dead d WHERE d.partition = :partition AND d.id = ANY (:ids::uuid[]);

-- name: purge_dead_jobs
WITH gone AS (
    DELETE FROM foliot.dead d
    WHERE d.partition = :partition AND d.id = ANY (:ids::uuid[])
    RETURNING d.id
), attempts AS (
    DELETE FROM foliot.attempts a WHERE a.partition = :partition AND a.job = ANY (ARRAY(SELECT id FROM gone))
), logs AS (
    DELETE FROM foliot.logs l WHERE l.partition = :partition AND l.job = ANY (ARRAY(SELECT id FROM gone))
)
SELECT id::text FROM gone;

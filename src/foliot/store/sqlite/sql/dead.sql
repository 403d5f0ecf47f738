-- What leaves the dead-letter queue, by hand.

-- name: retry_dead_jobs
-- Live again: placed as submit_jobs places a new job, from its due time, which is now. The fence is carried on, so that
-- nobody who once held the job can write to it. A conflict is a live job that has the same unique key by now. A step is
-- retried with its workflow (steering.py), as long as that is known. What it stands for has not begun in this life.
INSERT INTO foliot_jobs (partition, id, fence, lane, rank, band, priority, max_attempts, generation, state,
                         hold, namespace, kind, queue, created_at, run_at, timeout, key, workflow,
                         requires, tags, ordering_key, fair_key, schedule, extras, payload)
SELECT :partition, n.id, n.fence, n.lane & ~3 | n.strategy,
       CASE n.strategy WHEN 3 THEN 0 WHEN 2 THEN :now + CAST(n.priority * (
                SELECT q.aging FROM foliot_queues q WHERE q.name = n.queue) * 1000000 AS INTEGER)
            ELSE :now END,
       CASE n.strategy WHEN 0 THEN n.priority ELSE 0 END, n.priority, n.max_attempts, n.generation + 1,
       CASE WHEN n.ordering_key IS NOT NULL OR n.strategy = 3 THEN 'held' ELSE 'ready' END,
       CASE WHEN n.ordering_key IS NOT NULL OR n.strategy = 3 THEN 'admission' END,
       n.namespace, n.kind, n.queue, n.created_at, :now, n.timeout, n.key, NULL,
       n.requires, n.tags, n.ordering_key, n.fair_key, n.schedule,
       json_remove(coalesce(:extras, n.extras), '$.began'), coalesce(:payload, n.payload)
FROM (SELECT d.*, coalesce((SELECT q.strategy FROM foliot_queues q WHERE q.name = d.queue), 0) AS strategy
      FROM foliot_dead d WHERE d.partition = :partition AND d.id IN (SELECT value FROM json_each(:ids))
        AND (d.workflow IS NULL OR NOT EXISTS (
            SELECT 1 FROM foliot_workflows w WHERE w.partition = :partition AND w.id = d.workflow))) n
WHERE true
ORDER BY n.id
ON CONFLICT DO NOTHING
RETURNING id, lane;

-- name: remove_retried_jobs
DELETE FROM foliot_dead WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids));

-- name: find_key_holders
-- Of those that are still dead: who has their unique key, and the workflows of steps.
SELECT d.id, (SELECT j.id FROM foliot_jobs j WHERE j.partition = :partition AND j.key = d.key
                AND j.namespace = d.namespace AND j.kind = d.kind),
       (SELECT w.id FROM foliot_workflows w WHERE w.partition = :partition AND w.id = d.workflow)
FROM foliot_dead d WHERE d.partition = :partition AND d.id IN (SELECT value FROM json_each(:ids));

-- name: purge_dead_jobs
DELETE FROM foliot_attempts
WHERE partition = :partition AND job IN (
    SELECT d.id FROM foliot_dead d
    WHERE d.partition = :partition AND d.id IN (SELECT value FROM json_each(:ids)));
DELETE FROM foliot_logs
WHERE partition = :partition AND job IN (
    SELECT d.id FROM foliot_dead d
    WHERE d.partition = :partition AND d.id IN (SELECT value FROM json_each(:ids)));
DELETE FROM foliot_dead WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids))
RETURNING id;

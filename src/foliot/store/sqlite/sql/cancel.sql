-- The end that somebody asks for.

-- name: request_cancel
-- Whatever the state. A job that is not running is ended by cancel_jobs in the same transaction.
UPDATE foliot_jobs
SET cancel_requested = 1
WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids))
RETURNING id, state;

-- name: cancel_jobs
-- One for which a workflow runs ends after that, which is asked to end as well: find_stuck_workflows.
INSERT INTO foliot_history (partition, id, fence, priority, attempt, losses, generation, state,
                            namespace, kind, queue, created_at, run_at, started_at, finished_at,
                            session, key, workflow, reason,
                            tags, ordering_key, fair_key, schedule, extras, payload)
SELECT :partition, j.id, j.fence, j.priority, j.attempt, j.losses, j.generation, 'cancelled', j.namespace,
       j.kind, j.queue, j.created_at, j.run_at, j.claimed_at, :now, j.session, j.key, j.workflow,
       'requested', j.tags, j.ordering_key, j.fair_key, j.schedule, j.extras, j.payload
FROM foliot_jobs j
WHERE j.partition = :partition AND j.id IN (SELECT value FROM json_each(:ids)) AND j.cancel_requested
  AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready')
  AND NOT EXISTS (SELECT 1 FROM foliot_workflows w
                  WHERE w.partition = :partition AND w.waiter = j.id AND w.state = 'running');
INSERT INTO foliot_outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
SELECT :partition, :now, j.generation, j.id, 'job.cancelled', j.id,
       j.namespace, j.kind, j.queue,
       json_object('attempt', j.attempt, 'reason', 'requested', 'workflow', j.workflow,
                   'schedule', json_extract(j.extras, '$.schedule'))
FROM (SELECT 1 FROM foliot_listeners WHERE event = 'job.cancelled' LIMIT 1)
CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id IN (SELECT value FROM json_each(:ids)) AND j.cancel_requested
  AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready')
  AND NOT EXISTS (SELECT 1 FROM foliot_workflows w
                  WHERE w.partition = :partition AND w.waiter = j.id AND w.state = 'running')
  AND substr(j.kind, 1, 3) <> 'on.'
  AND EXISTS (SELECT 1 FROM foliot_listeners l
              WHERE l.event = 'job.cancelled' AND l.kind IN ('*', j.kind) AND l.queue IN ('*', j.queue));
DELETE FROM foliot_jobs AS j
WHERE j.partition = :partition AND j.id IN (SELECT value FROM json_each(:ids)) AND j.cancel_requested
  AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready')
  AND NOT EXISTS (SELECT 1 FROM foliot_workflows w
                  WHERE w.partition = :partition AND w.waiter = j.id AND w.state = 'running')
RETURNING id;

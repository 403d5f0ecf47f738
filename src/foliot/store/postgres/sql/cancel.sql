-- The end that somebody asks for.

-- name: request_cancel
-- Whatever the state. A job that is not running is ended by cancel_jobs in the same transaction.
WITH found AS MATERIALIZED (
    SELECT id FROM foliot.jobs WHERE partition = :partition AND id = ANY (:ids::uuid[]) ORDER BY id FOR UPDATE
)
UPDATE foliot.jobs j
SET cancel_requested = true
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM found))
RETURNING j.id::text, j.state;

-- name: cancel_jobs
-- Of steps only those whose workflow's row is locked (`:flows`). One for which a workflow runs ends after that, which is
-- asked to end as well: find_stuck_workflows.
WITH gone AS (
    DELETE FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.cancel_requested
      AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready')
      AND (j.workflow IS NULL OR j.workflow = ANY (:flows::uuid[]))
      AND NOT EXISTS (SELECT FROM foliot.workflows w
                      WHERE w.partition = :partition AND w.waiter = j.id AND w.state = 'running')
    RETURNING j.*
), kept AS (
    INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state,
                                namespace, kind, queue, created_at, run_at, started_at, finished_at,
                                session, key, workflow, reason,
                                tags, ordering_key, fair_key, schedule, extras, payload)
    SELECT :partition::smallint, id, fence, priority, attempt, losses, generation, 'cancelled', namespace,
           kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()), session, key, workflow,
           'requested', tags, ordering_key, fair_key, schedule, extras, payload
    FROM gone
), emitted AS (
    INSERT INTO foliot.outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
    SELECT :partition::smallint, coalesce(:now, now()), e.generation, e.id, 'job.cancelled', e.id::text,
           e.namespace, e.kind, e.queue,
           jsonb_build_object('attempt', e.attempt, 'reason', 'requested', 'workflow', e.workflow,
                              'schedule', e.extras::jsonb ->> 'schedule')::text
    FROM gone e
    WHERE (SELECT 1 FROM foliot.listeners l WHERE l.event = 'job.cancelled' LIMIT 1) IS NOT NULL
      AND left(e.kind, 3) <> 'on.'
      AND ARRAY(SELECT l.kind || ' ' || l.queue FROM foliot.listeners l WHERE l.event = 'job.cancelled')
          && ARRAY['* *', e.kind || ' *', '* ' || e.queue, e.kind || ' ' || e.queue]
)
SELECT id::text FROM gone;

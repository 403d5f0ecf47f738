-- How an attempt ends. Every write names the fence. That it is the one of the claim is looked up in a set of them, which is
-- hashed once; IS TRUE keeps the planner from making a join of it, whose plan would depend on estimates.
--
-- An end is told to those who listen, by the statement that ends the job and wherever else jobs end (events.sql). That
-- anybody listens is asked once for a batch, in the first condition: where nobody does, no job is looked at for it.
-- What they have chosen is read once too: a look for each job would be estimated dearer for ten than for one, which has
-- the statement planned anew at every call (submit.sql).

-- name: lock_jobs
-- First of all where several statements end jobs in one transaction: each locks its own, and together they would not
-- follow the order of request_cancel.
WITH locked AS MATERIALIZED (
    SELECT id FROM foliot.jobs WHERE partition = :partition AND id = ANY (:ids::uuid[]) ORDER BY id FOR UPDATE
)
SELECT count(*) FROM locked;

-- name: finish_jobs
-- To history in one move. Returns the ids that were refused: the fence had moved on, or the session lost them, or the
-- job has become a step of a workflow meanwhile, whose row is not locked: nothing ends a step without that (`:flows`).
-- By itself it locks no rows beforehand, which every job would pay for. It walks the key, so in the order of the ids;
-- should a plan walk the table instead and meet a request_cancel crosswise, the one that PostgreSQL ends (40P01) is
-- run again.
WITH gone AS (
    DELETE FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.session = :session
      AND j.state || '' = 'running'
      AND ((j.id, j.fence) IN (SELECT * FROM unnest(:ids::uuid[], :fences::bigint[]))) IS TRUE
      AND (j.workflow IS NULL OR j.workflow = ANY (:flows::uuid[]))
    RETURNING j.id, j.fence, j.priority, j.attempt, j.losses, j.generation, j.namespace, j.kind, j.queue,
              j.created_at, j.run_at, j.claimed_at, j.session, j.key, j.workflow,
              j.tags, j.ordering_key, j.fair_key, j.schedule, j.extras, j.payload
), ended AS MATERIALIZED (
    SELECT d.id AS named, d.state, d.reason, d.result, g.*
    FROM unnest(:ids::uuid[], :fences::bigint[], :states::text[], :reasons::text[], :results::bytea[])
        AS d (id, fence, state, reason, result)
    FULL JOIN gone g ON g.id = d.id AND g.fence = d.fence
), kept AS (
    INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state,
                                namespace, kind, queue, created_at, run_at, started_at, finished_at,
                                session, key, workflow, reason,
                                tags, ordering_key, fair_key, schedule, extras, payload, result)
    SELECT :partition::smallint, id, fence, priority, attempt, losses, generation, state, namespace, kind,
           queue, created_at, run_at,
           CASE WHEN strpos(extras, '"began":') > 0 THEN to_timestamp((extras::jsonb ->> 'began')::bigint / 1000000.0)
                ELSE claimed_at END,
           coalesce(:now, now()), session, key, workflow, reason,
           tags, ordering_key, fair_key, schedule, extras, payload, result
    FROM ended WHERE id IS NOT NULL
), emitted AS (
    INSERT INTO foliot.outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
    SELECT :partition::smallint, coalesce(:now, now()), e.generation, e.id, 'job.' || e.state, e.id::text,
           e.namespace, e.kind, e.queue,
           jsonb_build_object('attempt', e.attempt, 'reason', e.reason, 'workflow', e.workflow,
                              'schedule', e.extras::jsonb ->> 'schedule')::text
    FROM ended e
    WHERE (SELECT 1 FROM foliot.listeners l WHERE l.event IN ('job.succeeded', 'job.cancelled') LIMIT 1) IS NOT NULL
      AND e.id IS NOT NULL AND left(e.kind, 3) <> 'on.'
      AND CASE e.state WHEN 'succeeded'
               THEN ARRAY(SELECT l.kind || ' ' || l.queue FROM foliot.listeners l WHERE l.event = 'job.succeeded')
               ELSE ARRAY(SELECT l.kind || ' ' || l.queue FROM foliot.listeners l WHERE l.event = 'job.cancelled')
          END && ARRAY['* *', e.kind || ' *', '* ' || e.queue, e.kind || ' ' || e.queue]
)
SELECT named::text FROM ended WHERE id IS NULL;

-- name: retry_jobs
-- A failed attempt with another one to follow: back to scheduled at its backoff time.
-- A job that was asked to end is left for cancel_failed_jobs, and one whose attempt was the last, without a delay, for
-- bury_jobs; but not one for which a workflow runs, which ends before it: that looks again in a minute.
-- An interrupted attempt is given back: a deployment uses up none.
WITH told AS (
    SELECT jsonb_object_agg(f.id, jsonb_build_array(f.fence, f.delay, f.reason)) AS facts
    FROM unnest(:ids::uuid[], :fences::bigint[], :delays::float8[], :reasons::text[])
        AS f (id, fence, delay, reason)
), again AS (
    UPDATE foliot.jobs j
    SET state = 'scheduled', session = NULL, deadline_at = NULL, progress = NULL,
        run_at = coalesce(:now, now())
            + make_interval(secs => coalesce(((SELECT facts FROM told) -> j.id::text ->> 1)::float8, 60)),
        -- As much later as its time is; a turn that was given round robin stays.
        rank = j.rank + CASE j.lane & 3 WHEN 3 THEN 0 ELSE (extract(epoch FROM coalesce(:now, now()) - j.run_at
            + make_interval(secs => coalesce(((SELECT facts FROM told) -> j.id::text ->> 1)::float8, 60))) * 1000000)::bigint END,
        attempt = j.attempt - CASE (SELECT facts FROM told) -> j.id::text ->> 2 WHEN 'interrupted' THEN 1 ELSE 0 END,
        losses = j.losses + CASE (SELECT facts FROM told) -> j.id::text ->> 2 WHEN 'worker_lost' THEN 1 ELSE 0 END
    WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.session = :session
      AND j.state || '' = 'running'
      AND (NOT j.cancel_requested AND (SELECT facts FROM told) -> j.id::text ->> 1 IS NOT NULL OR EXISTS (
          SELECT FROM foliot.workflows w WHERE w.partition = :partition AND w.waiter = j.id AND w.state = 'running'))
      AND j.fence = ((SELECT facts FROM told) -> j.id::text ->> 0)::bigint
      AND (j.workflow IS NULL OR j.workflow = ANY (:flows::uuid[]))
    RETURNING j.id, j.fence, j.attempt, j.claimed_at
), failed AS MATERIALIZED (
    SELECT f.reason, f.error, f.traceback, g.*
    FROM unnest(:ids::uuid[], :fences::bigint[], :reasons::text[], :errors::text[], :tracebacks::text[])
        AS f (id, fence, reason, error, traceback)
    FULL JOIN again g ON g.id = f.id AND g.fence = f.fence
), recorded AS (
    INSERT INTO foliot.attempts (partition, job, fence, attempt, outcome, error, traceback, session, worker,
                                 started_at, finished_at)
    SELECT :partition::smallint, id, fence, attempt + CASE reason WHEN 'interrupted' THEN 1 ELSE 0 END, reason,
           error, traceback, :session, (SELECT s.host || ':' || s.pid FROM foliot.sessions s WHERE s.id = :session),
           claimed_at, coalesce(:now, now())
    FROM failed WHERE id IS NOT NULL
)
SELECT id::text FROM failed WHERE id IS NOT NULL;

-- name: bury_jobs
-- The last attempt failed: to the dead-letter queue.
WITH gone AS (
    DELETE FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.session = :session
      AND j.state || '' = 'running' AND NOT j.cancel_requested
      AND ((j.id, j.fence) IN (SELECT * FROM unnest(:ids::uuid[], :fences::bigint[]))) IS TRUE
      AND (j.workflow IS NULL OR j.workflow = ANY (:flows::uuid[]))
    RETURNING j.*
), failed AS MATERIALIZED (
    SELECT f.reason AS why, f.error, f.traceback, g.*
    FROM unnest(:ids::uuid[], :fences::bigint[], :reasons::text[], :errors::text[], :tracebacks::text[])
        AS f (id, fence, reason, error, traceback)
    FULL JOIN gone g ON g.id = f.id AND g.fence = f.fence
), recorded AS (
    INSERT INTO foliot.attempts (partition, job, fence, attempt, outcome, error, traceback, session, worker,
                                 started_at, finished_at)
    SELECT :partition::smallint, id, fence, attempt, why, error, traceback, session,
           (SELECT s.host || ':' || s.pid FROM foliot.sessions s WHERE s.id = :session), claimed_at, coalesce(:now, now())
    FROM failed WHERE id IS NOT NULL
), buried AS (
    INSERT INTO foliot.dead (partition, id, fence, lane, priority, attempt, max_attempts, losses, generation,
                             namespace, kind, queue, created_at, run_at, started_at, finished_at,
                             timeout, session, key, workflow, requires, reason,
                             tags, ordering_key, fair_key, schedule, extras, payload)
    SELECT :partition::smallint, id, fence, lane, priority, attempt, max_attempts,
           losses + CASE why WHEN 'worker_lost' THEN 1 ELSE 0 END, generation,
           namespace, kind, queue, created_at, run_at,
           CASE WHEN strpos(extras, '"began":') > 0 THEN to_timestamp((extras::jsonb ->> 'began')::bigint / 1000000.0)
                ELSE claimed_at END,
           coalesce(:now, now()), timeout, session, key, workflow, requires, why,
           tags, ordering_key, fair_key, schedule, extras, payload
    FROM failed WHERE id IS NOT NULL
), emitted AS (
    INSERT INTO foliot.outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
    SELECT :partition::smallint, coalesce(:now, now()), e.generation, e.id, 'job.dead', e.id::text,
           e.namespace, e.kind, e.queue,
           jsonb_build_object('attempt', e.attempt, 'reason', e.why, 'error', e.error, 'workflow', e.workflow,
                              'schedule', e.extras::jsonb ->> 'schedule')::text
    FROM failed e
    WHERE (SELECT 1 FROM foliot.listeners l WHERE l.event = 'job.dead' LIMIT 1) IS NOT NULL
      AND e.id IS NOT NULL AND left(e.kind, 3) <> 'on.'
      AND ARRAY(SELECT l.kind || ' ' || l.queue FROM foliot.listeners l WHERE l.event = 'job.dead')
          && ARRAY['* *', e.kind || ' *', '* ' || e.queue, e.kind || ' ' || e.queue]
)
SELECT id::text FROM failed WHERE id IS NOT NULL;

-- name: cancel_failed_jobs
-- A failed attempt of a job that was asked to end: it ends as cancelled, its attempt is kept.
WITH gone AS (
    DELETE FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.session = :session
      AND j.state || '' = 'running' AND j.cancel_requested
      AND ((j.id, j.fence) IN (SELECT * FROM unnest(:ids::uuid[], :fences::bigint[]))) IS TRUE
      AND (j.workflow IS NULL OR j.workflow = ANY (:flows::uuid[]))
    RETURNING j.*
), failed AS MATERIALIZED (
    SELECT f.reason AS why, f.error, f.traceback, g.*
    FROM unnest(:ids::uuid[], :fences::bigint[], :reasons::text[], :errors::text[], :tracebacks::text[])
        AS f (id, fence, reason, error, traceback)
    FULL JOIN gone g ON g.id = f.id AND g.fence = f.fence
), recorded AS (
    INSERT INTO foliot.attempts (partition, job, fence, attempt, outcome, error, traceback, session, worker,
                                 started_at, finished_at)
    SELECT :partition::smallint, id, fence, attempt, why, error, traceback, session,
           (SELECT s.host || ':' || s.pid FROM foliot.sessions s WHERE s.id = :session), claimed_at, coalesce(:now, now())
    FROM failed WHERE id IS NOT NULL
), kept AS (
    INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state,
                                namespace, kind, queue, created_at, run_at, started_at, finished_at,
                                session, key, workflow, reason,
                                tags, ordering_key, fair_key, schedule, extras, payload)
    SELECT :partition::smallint, id, fence, priority, attempt, losses, generation, 'cancelled', namespace,
           kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()), session, key, workflow,
           'requested', tags, ordering_key, fair_key, schedule, extras, payload
    FROM failed WHERE id IS NOT NULL
), emitted AS (
    INSERT INTO foliot.outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
    SELECT :partition::smallint, coalesce(:now, now()), e.generation, e.id, 'job.cancelled', e.id::text,
           e.namespace, e.kind, e.queue,
           jsonb_build_object('attempt', e.attempt, 'reason', 'requested', 'workflow', e.workflow,
                              'schedule', e.extras::jsonb ->> 'schedule')::text
    FROM failed e
    WHERE (SELECT 1 FROM foliot.listeners l WHERE l.event = 'job.cancelled' LIMIT 1) IS NOT NULL
      AND e.id IS NOT NULL AND left(e.kind, 3) <> 'on.'
      AND ARRAY(SELECT l.kind || ' ' || l.queue FROM foliot.listeners l WHERE l.event = 'job.cancelled')
          && ARRAY['* *', e.kind || ' *', '* ' || e.queue, e.kind || ' ' || e.queue]
)
SELECT id::text FROM failed WHERE id IS NOT NULL;

-- name: release_jobs
-- Given back unstarted: the attempt is not counted, the fence stays where it is. With a hold, it waits for
-- somebody who can run it, or for its workflow: that has begun, in time, and so has the job, however late it is claimed
-- once more to say how that has ended. One that is held for a breaker which its kind did not have when it was submitted
-- stands behind it from now on. A job that was asked to end follows in cancel_jobs.
WITH told AS (
    SELECT jsonb_object_agg(r.id, jsonb_build_array(r.fence, r.hold, r.note)) AS facts
    FROM unnest(:ids::uuid[], :fences::bigint[], :holds::text[], :notes::text[]) AS r (id, fence, hold, note)
)
UPDATE foliot.jobs j
SET state = CASE WHEN (SELECT facts FROM told) -> j.id::text ->> 1 IS NULL THEN 'ready' ELSE 'held' END,
    hold = (SELECT facts FROM told) -> j.id::text ->> 1,
    hold_note = (SELECT facts FROM told) -> j.id::text ->> 2,
    expires_at = CASE WHEN (SELECT facts FROM told) -> j.id::text ->> 1 = 'workflow' THEN NULL ELSE j.expires_at END,
    claimed_at = CASE WHEN (SELECT facts FROM told) -> j.id::text ->> 1 = 'workflow' THEN j.claimed_at END,
    extras = CASE WHEN (SELECT facts FROM told) -> j.id::text ->> 1 = 'workflow'
                  THEN (coalesce(j.extras, '{}')::jsonb || jsonb_build_object(
                       'began', coalesce((j.extras::jsonb ->> 'began')::bigint,
                                         (extract(epoch FROM j.claimed_at) * 1000000)::bigint)))::text
                  WHEN (SELECT facts FROM told) -> j.id::text ->> 1 = 'limit'
                       AND starts_with((SELECT facts FROM told) -> j.id::text ->> 2, 'breaker:')
                       AND j.extras::jsonb ->> 'breaker' IS NULL
                  THEN (coalesce(j.extras, '{}')::jsonb || jsonb_build_object(
                       'breaker', substr((SELECT facts FROM told) -> j.id::text ->> 2, length('breaker:') + 1)))::text
                  ELSE j.extras END,
    attempt = j.attempt - 1, session = NULL, deadline_at = NULL
WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.session = :session
  AND j.state || '' = 'running' AND j.fence = ((SELECT facts FROM told) -> j.id::text ->> 0)::bigint
  AND (j.workflow IS NULL OR j.workflow = ANY (:flows::uuid[]))
RETURNING j.id::text;

-- How an attempt ends. Every write names the fence.
--
-- An end is told to those who listen, by the statement that ends the job and wherever else jobs end (events.sql). Those
-- who listen come first in the join: where there are none, no job is looked at for it.

-- name: finish_jobs
-- To history in one move. All parts are about the same rows; if they are fewer than were named, find_refused_jobs says
-- in between which were not.
INSERT INTO foliot_history (partition, id, fence, priority, attempt, losses, generation, state,
                            namespace, kind, queue, created_at, run_at, started_at, finished_at,
                            session, key, workflow, reason,
                            tags, ordering_key, fair_key, schedule, extras, payload, result)
SELECT j.partition, j.id, j.fence, j.priority, j.attempt, j.losses, j.generation,
       json_extract(d.value, '$[2]'), j.namespace, j.kind, j.queue, j.created_at, j.run_at,
       iif(instr(j.extras, '"began":'), json_extract(j.extras, '$.began'), j.claimed_at), :now,
       j.session, j.key, j.workflow, json_extract(d.value, '$[3]'),
       j.tags, j.ordering_key, j.fair_key, j.schedule, j.extras, j.payload,
       substr(:blob, json_extract(d.value, '$[4]'), json_extract(d.value, '$[5]'))
FROM json_each(:outcomes) d CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = json_extract(d.value, '$[0]')
  AND j.fence = json_extract(d.value, '$[1]') AND j.session = :session AND j.state || '' = 'running';
INSERT INTO foliot_outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
SELECT :partition, :now, j.generation, j.id, 'job.' || json_extract(d.value, '$[2]'), j.id,
       j.namespace, j.kind, j.queue,
       json_object('attempt', j.attempt, 'reason', json_extract(d.value, '$[3]'), 'workflow', j.workflow,
                   'schedule', json_extract(j.extras, '$.schedule'))
FROM (SELECT 1 FROM foliot_listeners WHERE event IN ('job.succeeded', 'job.cancelled') LIMIT 1)
CROSS JOIN json_each(:outcomes) d CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = json_extract(d.value, '$[0]')
  AND j.fence = json_extract(d.value, '$[1]') AND j.session = :session AND j.state || '' = 'running'
  AND substr(j.kind, 1, 3) <> 'on.'
  AND EXISTS (SELECT 1 FROM foliot_listeners l
              WHERE l.event = 'job.' || json_extract(d.value, '$[2]')
                AND l.kind IN ('*', j.kind) AND l.queue IN ('*', j.queue));
DELETE FROM foliot_jobs
WHERE rowid IN (
    SELECT j.rowid FROM json_each(:outcomes) d CROSS JOIN foliot_jobs j
    WHERE j.partition = :partition AND j.id = json_extract(d.value, '$[0]')
      AND j.fence = json_extract(d.value, '$[1]') AND j.session = :session AND j.state || '' = 'running');

-- name: find_refused_jobs
-- Outcomes that came too late: the fence had moved on, or the session lost them.
SELECT json_extract(d.value, '$[0]') FROM json_each(:outcomes) d
WHERE NOT EXISTS (
    SELECT 1 FROM foliot_jobs j
    WHERE j.partition = :partition AND j.id = json_extract(d.value, '$[0]')
      AND j.fence = json_extract(d.value, '$[1]') AND j.session = :session AND j.state || '' = 'running');

-- name: record_attempts
-- First for all failed attempts, whatever follows: what the next three do to them in PostgreSQL each for itself.
INSERT INTO foliot_attempts (partition, job, fence, attempt, outcome, error, traceback, session, worker,
                             started_at, finished_at)
SELECT :partition, j.id, j.fence, j.attempt, json_extract(f.value, '$[2]'), json_extract(f.value, '$[3]'),
       json_extract(f.value, '$[4]'), j.session,
       (SELECT s.host || ':' || s.pid FROM foliot_sessions s WHERE s.id = :session), j.claimed_at, :now
FROM json_each(:outcomes) f CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = json_extract(f.value, '$[0]')
  AND j.fence = json_extract(f.value, '$[1]') AND j.session = :session AND j.state || '' = 'running';

-- name: retry_jobs
-- A failed attempt with another one to follow: back to scheduled at its backoff time.
-- A job that was asked to end is left for cancel_failed_jobs, and one whose attempt was the last, without a delay, for
-- bury_jobs; but not one for which a workflow runs, which ends before it: that looks again in a minute.
-- An interrupted attempt is given back: a deployment uses up none.
WITH again AS MATERIALIZED (
    SELECT j.rowid AS place, :now + CAST(coalesce(json_extract(f.value, '$[5]'), 60) * 1000000 AS INTEGER) AS due_at,
           json_extract(f.value, '$[2]') = 'worker_lost' AS lost,
           json_extract(f.value, '$[2]') = 'interrupted' AS interrupted
    FROM json_each(:outcomes) f CROSS JOIN foliot_jobs j
    WHERE j.partition = :partition AND j.id = json_extract(f.value, '$[0]')
      AND j.fence = json_extract(f.value, '$[1]') AND j.session = :session AND j.state || '' = 'running'
      AND (NOT j.cancel_requested AND json_extract(f.value, '$[5]') IS NOT NULL OR EXISTS (
          SELECT 1 FROM foliot_workflows w WHERE w.partition = :partition AND w.waiter = j.id AND w.state = 'running'))
)
UPDATE foliot_jobs
SET state = 'scheduled', run_at = again.due_at,
    rank = rank + CASE lane & 3 WHEN 3 THEN 0 ELSE again.due_at - run_at END, -- as in PostgreSQL
    losses = losses + again.lost,
    attempt = attempt - again.interrupted, session = NULL, deadline_at = NULL, progress = NULL
FROM again
WHERE foliot_jobs.rowid = again.place
RETURNING id;

-- name: bury_jobs
-- The last attempt failed: to the dead-letter queue.
INSERT INTO foliot_dead (partition, id, fence, lane, priority, attempt, max_attempts, losses, generation,
                         namespace, kind, queue, created_at, run_at, started_at, finished_at,
                         timeout, session, key, workflow, requires, reason,
                         tags, ordering_key, fair_key, schedule, extras, payload)
SELECT :partition, j.id, j.fence, j.lane, j.priority, j.attempt, j.max_attempts,
       j.losses + (json_extract(f.value, '$[2]') = 'worker_lost'), j.generation,
       j.namespace, j.kind, j.queue, j.created_at, j.run_at,
       iif(instr(j.extras, '"began":'), json_extract(j.extras, '$.began'), j.claimed_at), :now,
       j.timeout, j.session, j.key, j.workflow, j.requires, json_extract(f.value, '$[2]'),
       j.tags, j.ordering_key, j.fair_key, j.schedule, j.extras, j.payload
FROM json_each(:outcomes) f CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = json_extract(f.value, '$[0]')
  AND j.fence = json_extract(f.value, '$[1]') AND j.session = :session AND j.state || '' = 'running'
  AND NOT j.cancel_requested;
INSERT INTO foliot_outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
SELECT :partition, :now, j.generation, j.id, 'job.dead', j.id,
       j.namespace, j.kind, j.queue,
       json_object('attempt', j.attempt, 'reason', json_extract(f.value, '$[2]'),
                   'error', json_extract(f.value, '$[3]'), 'workflow', j.workflow,
                   'schedule', json_extract(j.extras, '$.schedule'))
FROM (SELECT 1 FROM foliot_listeners WHERE event = 'job.dead' LIMIT 1)
CROSS JOIN json_each(:outcomes) f CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = json_extract(f.value, '$[0]')
  AND j.fence = json_extract(f.value, '$[1]') AND j.session = :session AND j.state || '' = 'running'
  AND NOT j.cancel_requested
  AND substr(j.kind, 1, 3) <> 'on.'
  AND EXISTS (SELECT 1 FROM foliot_listeners l
              WHERE l.event = 'job.dead' AND l.kind IN ('*', j.kind) AND l.queue IN ('*', j.queue));
DELETE FROM foliot_jobs
WHERE rowid IN (
    SELECT j.rowid FROM json_each(:outcomes) f CROSS JOIN foliot_jobs j
    WHERE j.partition = :partition AND j.id = json_extract(f.value, '$[0]')
      AND j.fence = json_extract(f.value, '$[1]') AND j.session = :session AND j.state || '' = 'running'
      AND NOT j.cancel_requested)
RETURNING id;

-- name: cancel_failed_jobs
-- A failed attempt of a job that was asked to end: it ends as cancelled, its attempt is kept.
INSERT INTO foliot_history (partition, id, fence, priority, attempt, losses, generation, state,
                            namespace, kind, queue, created_at, run_at, started_at, finished_at,
                            session, key, workflow, reason,
                            tags, ordering_key, fair_key, schedule, extras, payload)
SELECT :partition, j.id, j.fence, j.priority, j.attempt, j.losses, j.generation, 'cancelled', j.namespace,
       j.kind, j.queue, j.created_at, j.run_at, j.claimed_at, :now, j.session, j.key, j.workflow,
       'requested', j.tags, j.ordering_key, j.fair_key, j.schedule, j.extras, j.payload
FROM json_each(:outcomes) f CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = json_extract(f.value, '$[0]')
  AND j.fence = json_extract(f.value, '$[1]') AND j.session = :session AND j.state || '' = 'running'
  AND j.cancel_requested;
INSERT INTO foliot_outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
SELECT :partition, :now, j.generation, j.id, 'job.cancelled', j.id,
       j.namespace, j.kind, j.queue,
       json_object('attempt', j.attempt, 'reason', 'requested', 'workflow', j.workflow,
                   'schedule', json_extract(j.extras, '$.schedule'))
FROM (SELECT 1 FROM foliot_listeners WHERE event = 'job.cancelled' LIMIT 1)
CROSS JOIN json_each(:outcomes) f CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = json_extract(f.value, '$[0]')
  AND j.fence = json_extract(f.value, '$[1]') AND j.session = :session AND j.state || '' = 'running'
  AND j.cancel_requested
  AND substr(j.kind, 1, 3) <> 'on.'
  AND EXISTS (SELECT 1 FROM foliot_listeners l
              WHERE l.event = 'job.cancelled' AND l.kind IN ('*', j.kind) AND l.queue IN ('*', j.queue));
DELETE FROM foliot_jobs
WHERE rowid IN (
    SELECT j.rowid FROM json_each(:outcomes) f CROSS JOIN foliot_jobs j
    WHERE j.partition = :partition AND j.id = json_extract(f.value, '$[0]')
      AND j.fence = json_extract(f.value, '$[1]') AND j.session = :session AND j.state || '' = 'running'
      AND j.cancel_requested)
RETURNING id;

-- name: release_jobs
-- Given back unstarted: the attempt is not counted, the fence stays where it is. With a hold, it waits for
-- somebody who can run it, or for its workflow: that has begun, in time, and so has the job, however late it is claimed
-- once more to say how that has ended. One that is held for a breaker which its kind did not have when it was submitted
-- stands behind it from now on. A job that was asked to end follows in cancel_jobs.
WITH released AS MATERIALIZED (
    SELECT j.rowid AS place, json_extract(o.value, '$[2]') AS why, json_extract(o.value, '$[3]') AS note
    FROM json_each(:outcomes) o CROSS JOIN foliot_jobs j
    WHERE j.partition = :partition AND j.id = json_extract(o.value, '$[0]')
      AND j.fence = json_extract(o.value, '$[1]') AND j.session = :session AND j.state || '' = 'running'
)
UPDATE foliot_jobs
SET state = CASE WHEN r.why IS NULL THEN 'ready' ELSE 'held' END, hold = r.why,
    expires_at = CASE WHEN r.why = 'workflow' THEN NULL ELSE expires_at END,
    claimed_at = CASE WHEN r.why = 'workflow' THEN claimed_at END,
    extras = CASE WHEN r.why = 'workflow' THEN json_insert(coalesce(extras, '{}'), '$.began', claimed_at)
                  WHEN r.why = 'limit' AND r.note GLOB 'breaker:*' AND json_extract(extras, '$.breaker') IS NULL
                  THEN json_set(coalesce(extras, '{}'), '$.breaker', substr(r.note, length('breaker:') + 1))
                  ELSE extras END,
    hold_note = r.note, attempt = attempt - 1, session = NULL, deadline_at = NULL
FROM released r
WHERE foliot_jobs.rowid = r.place
RETURNING id;

-- What is done to whole workflows: signals, cancel, pause, retry, and what time does. The workflow's row is locked
-- first, by lock_workflows.

-- name: get_workflow
SELECT w.id::text, w.name, w.namespace, w.state, w.policy, w.total, w.remaining, w.failed, w.created_at, w.deadline_at,
       w.finished_at, w.paused_at, w.paused_by, w.note, w.reason, w.cancel_requested, w.waiter::text, w.chain,
       w.deadline, w.fingerprint
FROM foliot.workflows w WHERE w.partition = :partition AND w.id = :id::uuid;

-- name: list_workflows
SELECT w.id::text, w.name, w.namespace, w.state, w.policy, w.total, w.remaining, w.failed, w.created_at, w.deadline_at,
       w.finished_at, w.paused_at, w.paused_by, w.note, w.reason, w.cancel_requested, w.waiter::text, w.chain,
       w.deadline, w.fingerprint
FROM foliot.workflows w
WHERE w.partition = :partition AND NOT w.chain AND (:name::text IS NULL OR w.name = :name)
  AND (:state::text IS NULL OR w.state = :state OR :state = 'paused' AND w.state = 'running' AND w.paused_at IS NOT NULL)
  AND (:before::uuid IS NULL OR (w.created_at, w.id) < (:before_at::timestamptz, :before::uuid))
ORDER BY w.created_at DESC, w.id DESC LIMIT :limit;

-- name: take_signals
-- Rows of [workflow, name]: signals that had come before.
DELETE FROM foliot.signals g
USING jsonb_array_elements(:rows::jsonb) AS l (n)
WHERE g.partition = :partition AND g.workflow = (l.n ->> 0)::uuid AND g.name = l.n ->> 1
RETURNING g.workflow::text, g.name, g.payload;

-- name: keep_signal
INSERT INTO foliot.signals (partition, workflow, name, at, payload)
VALUES (:partition, :id::uuid, :name, coalesce(:now, now()), :payload)
ON CONFLICT (partition, workflow, name) DO UPDATE SET payload = excluded.payload, at = excluded.at;

-- name: find_signalled
-- The steps that wait for this signal.
SELECT s.job::text FROM foliot.steps s
WHERE s.partition = :partition AND s.workflow = :id::uuid AND s.signal = :name AND s.begun AND s.state IS NULL;

-- name: list_signals
-- All that steps of this workflow are there for; whether one of these has not ended, one that has had it, and one of all.
SELECT s.signal, count(*) > count(s.state), min(s.name) FILTER (WHERE s.state = 'succeeded'), min(s.name)
FROM foliot.steps s
WHERE s.partition = :partition AND s.workflow = :id::uuid AND s.signal IS NOT NULL GROUP BY s.signal ORDER BY s.signal;

-- name: end_signalled
-- Rows of [job, payload]: what they waited for has come.
WITH told AS MATERIALIZED (
    SELECT (n ->> 0)::uuid AS id, convert_to(n ->> 1, 'UTF8') AS result FROM jsonb_array_elements(:rows::jsonb) n
), gone AS (
    DELETE FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM told))
      AND j.state || '' = 'held' AND j.hold || '' = 'signal'
    RETURNING j.*
), kept AS (
    INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state,
                                namespace, kind, queue, created_at, run_at, started_at, finished_at,
                                session, key, workflow, reason,
                                tags, ordering_key, fair_key, schedule, extras, payload, result)
    SELECT :partition::smallint, g.id, fence, priority, attempt, losses, generation, 'succeeded', namespace,
           kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()), session, key, workflow,
           'signal', tags, ordering_key, fair_key, schedule, extras, payload,
           (SELECT t.result FROM told t WHERE t.id = g.id)
    FROM gone g
), emitted AS (
    INSERT INTO foliot.outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
    SELECT :partition::smallint, coalesce(:now, now()), e.generation, e.id, 'job.succeeded', e.id::text,
           e.namespace, e.kind, e.queue,
           jsonb_build_object('attempt', e.attempt, 'reason', 'signal', 'workflow', e.workflow,
                              'schedule', e.extras::jsonb ->> 'schedule')::text
    FROM gone e
    WHERE (SELECT 1 FROM foliot.listeners l WHERE l.event = 'job.succeeded' LIMIT 1) IS NOT NULL
      AND left(e.kind, 3) <> 'on.'
      AND ARRAY(SELECT l.kind || ' ' || l.queue FROM foliot.listeners l WHERE l.event = 'job.succeeded')
          && ARRAY['* *', e.kind || ' *', '* ' || e.queue, e.kind || ' ' || e.queue]
)
SELECT id::text FROM gone;

-- name: list_live_steps
-- Those that have not ended: whether each has begun, its rule, and that of the map of which it is an element.
SELECT s.job::text, s.begun, s.rule,
       (SELECT m.rule FROM foliot.steps m WHERE m.partition = :partition AND m.job = s.mapped)
FROM foliot.steps s
WHERE s.partition = :partition AND s.workflow = :id::uuid AND s.state IS NULL
ORDER BY s.job;

-- name: request_cancel_of_steps
-- Whether one runs is told by the row that was locked: the statement itself sees it as it was before it waited. One for
-- which a workflow runs does.
WITH found AS MATERIALIZED (
    SELECT j.id, j.state = 'running' OR EXISTS (
               SELECT FROM foliot.workflows w
               WHERE w.partition = :partition AND w.waiter = j.id AND w.state = 'running') AS runs
    FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
    ORDER BY j.id FOR UPDATE
)
UPDATE foliot.jobs j SET cancel_requested = true
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM found WHERE NOT :running OR runs));

-- name: cancel_workflow
UPDATE foliot.workflows SET cancel_requested = true, stopped = true, reason = coalesce(reason, :reason), paused_at = NULL
WHERE partition = :partition AND id = :id::uuid;

-- name: stop_workflow
UPDATE foliot.workflows SET stopped = true WHERE partition = :partition AND id = :id::uuid;

-- name: find_inner_workflows
-- Those that run for these jobs.
SELECT w.id::text FROM foliot.workflows w
WHERE w.partition = :partition AND w.state = 'running'
  AND w.waiter = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i));

-- name: pause_workflow
-- Once more: who paused it and why stays, unless a reason is given.
UPDATE foliot.workflows
SET paused_at = coalesce(paused_at, :now, now()),
    paused_by = CASE WHEN :note::text IS NULL AND paused_at IS NOT NULL THEN paused_by ELSE :by END,
    note = CASE WHEN :note::text IS NULL AND paused_at IS NOT NULL THEN note ELSE :note END
WHERE partition = :partition AND id = :id::uuid;

-- name: hold_steps
-- What has not started waits while its workflow is paused, also one that comes back from an attempt, or waits for
-- something else. One with an ordering key keeps its place, or others would overtake it. One for which a workflow runs
-- has started: that is paused in its stead.
UPDATE foliot.jobs j SET state = 'held', hold = 'paused', hold_note = NULL
WHERE j.partition = :partition AND j.ordering_key IS NULL
  AND (j.state || '' IN ('scheduled', 'ready') OR j.state || '' = 'held'
       AND j.hold || '' IN ('limit', 'admission', 'turn', 'unknown_kind', 'unfitting_payload'))
  AND j.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
  AND NOT EXISTS (SELECT FROM foliot.workflows w
                  WHERE w.partition = :partition AND w.waiter = j.id AND w.state = 'running')
  AND (SELECT w.paused_at FROM foliot.workflows w WHERE w.partition = :partition AND w.id = j.workflow) IS NOT NULL;

-- name: resume_workflow
UPDATE foliot.workflows SET paused_at = NULL, paused_by = NULL, note = NULL
WHERE partition = :partition AND id = :id::uuid;

-- name: resume_steps
UPDATE foliot.jobs j
SET state = CASE WHEN j.run_at > coalesce(:now, now()) THEN 'scheduled'
                 WHEN j.lane & 3 = 3 AND j.rank = 0 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN j.run_at <= coalesce(:now, now()) AND j.lane & 3 = 3 AND j.rank = 0 THEN 'turn' END
WHERE j.partition = :partition AND j.state || '' = 'held' AND j.hold || '' = 'paused'
  AND j.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
RETURNING j.lane, j.state;

-- name: find_namesakes
-- A name that a step of each of two workflows has.
SELECT s.name FROM foliot.steps s
JOIN foliot.steps t ON t.partition = :partition AND t.workflow = :id::uuid AND t.name = s.name
WHERE s.partition = :partition AND s.workflow = :other::uuid LIMIT 1;

-- name: merge_chains
-- Of two chains that run, the second becomes a part of the first, with whatever its steps are and were. Its row stays as
-- that of one which has ended, with no steps and as long as the first: what was kept for it is kept as long.
WITH moved AS (
    UPDATE foliot.steps s SET workflow = :id::uuid, number = s.number + :after
    WHERE s.partition = :partition AND s.workflow = :other::uuid
    RETURNING s.job, s.state, s.finished_at
), found AS MATERIALIZED (
    SELECT j.id FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT m.job FROM moved m WHERE m.state IS NULL))
    ORDER BY j.id FOR UPDATE
), live AS (
    UPDATE foliot.jobs j SET workflow = :id::uuid
    WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM found)) AND j.workflow = :other::uuid
), buried AS (
    UPDATE foliot.dead d SET workflow = :id::uuid
    WHERE d.partition = :partition AND d.workflow = :other::uuid
      AND d.id = ANY (ARRAY(SELECT m.job FROM moved m WHERE m.state = 'dead'))
), past AS (
    UPDATE foliot.history h SET workflow = :id::uuid
    WHERE h.partition = :partition AND h.workflow = :other::uuid
      AND h.id = ANY (ARRAY(SELECT m.job FROM moved m WHERE m.state IS NOT NULL))
      AND h.finished_at BETWEEN (SELECT min(m.finished_at) FROM moved m) AND (SELECT max(m.finished_at) FROM moved m)
), other AS (
    SELECT * FROM foliot.workflows o WHERE o.partition = :partition AND o.id = :other::uuid
), ended AS (
    UPDATE foliot.workflows w
    SET state = 'succeeded', finished_at = coalesce(:now, now()), total = 0, remaining = 0, failed = 0, forgiven = 0,
        edges = 0
    WHERE w.partition = :partition AND w.id = :other::uuid
), links AS (
    UPDATE foliot.links l SET workflow = :id::uuid WHERE l.partition = :partition AND l.workflow = :other::uuid
), handed AS (
    DELETE FROM foliot.followers b
    WHERE b.partition = :partition AND b.workflow = :other::uuid AND b.follower <> :id::uuid
    RETURNING b.follower
), followers AS (
    INSERT INTO foliot.followers (partition, workflow, follower)
    SELECT :partition::smallint, :id::uuid, h.follower FROM handed h
    UNION ALL
    SELECT :partition::smallint, :other::uuid, :id::uuid
    ON CONFLICT DO NOTHING
)
UPDATE foliot.workflows w
SET total = w.total + o.total, remaining = w.remaining + o.remaining, failed = w.failed + o.failed,
    forgiven = w.forgiven + o.forgiven, edges = w.edges + o.edges
FROM other o
WHERE w.partition = :partition AND w.id = :id::uuid;

-- name: find_changed_jobs
-- Of these, as they have ended, those that were changed while they were steps.
SELECT e.id::text, e.queue, e.priority, e.payload, jsonb_strip_nulls(jsonb_build_object(
           'tags', e.tags, 'ordering_key', e.ordering_key, 'fair_key', e.fair_key, 'extras', e.extras::jsonb))::text
FROM (SELECT h.id, h.queue, h.priority, h.payload, h.tags, h.ordering_key, h.fair_key, h.extras FROM foliot.history h
      WHERE h.partition = :partition
        AND h.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
      UNION ALL
      SELECT d.id, d.queue, d.priority, d.payload, d.tags, d.ordering_key, d.fair_key, d.extras FROM foliot.dead d
      WHERE d.partition = :partition
        AND d.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))) e
WHERE strpos(e.extras, '"changed":') > 0;

-- name: find_last_keys
-- Of these, as they have ended, their unique keys: one may have given up its own while it ran.
SELECT h.id::text, h.key FROM foliot.history h
WHERE h.partition = :partition
  AND h.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
UNION ALL
SELECT d.id::text, d.key FROM foliot.dead d
WHERE d.partition = :partition
  AND d.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i));

-- name: remove_ended_jobs
-- Before they are tried again, under the same ids.
WITH buried AS (
    DELETE FROM foliot.dead d
    WHERE d.partition = :partition
      AND d.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
)
DELETE FROM foliot.history h
WHERE h.partition = :partition
  AND h.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i));

-- name: find_taken_keys
-- Rows of [job, namespace, kind, key], in a statement after that which was to insert these: those that do not live, and
-- who has their unique key.
SELECT n ->> 0, n ->> 3, (SELECT j.id::text FROM foliot.jobs j
                          WHERE j.partition = :partition AND j.key = n ->> 3 AND j.namespace = n ->> 1
                            AND j.kind = n ->> 2)
FROM jsonb_array_elements(:rows::jsonb) n
WHERE (SELECT j.id FROM foliot.jobs j WHERE j.partition = :partition AND j.id = (n ->> 0)::uuid) IS NULL;

-- name: carry_fences
-- Rows of [job, fence, generation].
WITH told AS MATERIALIZED (
    SELECT jsonb_object_agg(n ->> 0, n) AS facts, array_agg((n ->> 0)::uuid) AS ids FROM jsonb_array_elements(:rows::jsonb) n
)
UPDATE foliot.jobs j
SET fence = ((SELECT facts FROM told) -> j.id::text ->> 1)::bigint, generation = ((SELECT facts FROM told) -> j.id::text ->> 2)::smallint
WHERE j.partition = :partition AND j.id = ANY ((SELECT ids FROM told)::uuid[]);

-- name: reset_steps
-- Rows of [job, pending, succeeded, failed, begun, generation].
WITH told AS MATERIALIZED (
    SELECT jsonb_object_agg(n ->> 0, n) AS facts, array_agg((n ->> 0)::uuid) AS ids FROM jsonb_array_elements(:rows::jsonb) n
)
UPDATE foliot.steps s
SET pending = ((SELECT facts FROM told) -> s.job::text ->> 1)::integer, succeeded = ((SELECT facts FROM told) -> s.job::text ->> 2)::integer, failed = ((SELECT facts FROM told) -> s.job::text ->> 3)::integer, begun = ((SELECT facts FROM told) -> s.job::text ->> 4)::boolean,
    generation = ((SELECT facts FROM told) -> s.job::text ->> 5)::smallint,
    told = false, state = NULL, result = NULL, finished_at = NULL
WHERE s.partition = :partition AND s.job = ANY ((SELECT ids FROM told)::uuid[]);

-- name: reopen_workflow
UPDATE foliot.workflows w
SET remaining = w.remaining + :number, failed = w.failed - :failed, forgiven = w.failed - :failed,
    state = 'running', finished_at = NULL,
    cancel_requested = false, stopped = false, reason = NULL,
    -- Of one that ran for a job: only while that lives, or it would end for want of it.
    waiter = (SELECT j.id FROM foliot.jobs j WHERE j.partition = :partition AND j.id = w.waiter),
    deadline_at = coalesce(:now, now()) + make_interval(secs => w.deadline)
WHERE w.partition = :partition AND w.id = :id::uuid;

-- name: note_began
-- The job that stands for this workflow has seen it begin, in this life of its, and in time: with the attempt that has
-- submitted it.
UPDATE foliot.jobs j
SET expires_at = NULL,
    extras = (coalesce(j.extras, '{}')::jsonb || jsonb_build_object('began', (extract(epoch FROM
        CASE j.state WHEN 'running' THEN j.claimed_at ELSE coalesce(:now, now()) END) * 1000000)::bigint))::text
WHERE j.partition = :partition
  AND j.id = (SELECT w.waiter FROM foliot.workflows w WHERE w.partition = :partition AND w.id = :id::uuid)
  AND j.extras::jsonb ->> 'began' IS NULL;

-- name: find_stuck_workflows
-- Where something is left to carry out: whoever began it has died, or it is time. And nothing, where any runs.
(SELECT DISTINCT s.workflow::text FROM foliot.steps s
 WHERE s.partition = :partition AND s.state IS NOT NULL AND NOT s.told LIMIT :limit)
UNION
(SELECT w.id::text FROM foliot.workflows w
 WHERE w.partition = :partition AND w.state = 'running' AND w.policy = 'fail_fast' AND w.failed > w.forgiven
   AND NOT w.stopped
 LIMIT :limit)
UNION
(SELECT w.id::text FROM foliot.workflows w
 WHERE w.partition = :partition AND w.state = 'running' AND w.deadline_at <= coalesce(:now, now())
   AND NOT w.cancel_requested LIMIT :limit)
UNION
(SELECT w.id::text FROM foliot.workflows w
 WHERE w.partition = :partition AND w.state = 'running' AND w.waiter IS NOT NULL AND NOT w.cancel_requested
   AND NOT EXISTS (SELECT FROM foliot.jobs j
                   WHERE j.partition = :partition AND j.id = w.waiter AND NOT j.cancel_requested)
 LIMIT :limit)
UNION
(SELECT NULL FROM foliot.workflows w WHERE w.partition = :partition AND w.state = 'running' LIMIT 1);

-- name: read_workflow_needs
-- Whether its deadline has passed, and whether the job that it runs for is gone, or asked to end.
SELECT w.id::text, w.deadline_at <= coalesce(:now, now()),
       w.waiter IS NOT NULL AND NOT EXISTS (
           SELECT FROM foliot.jobs j
           WHERE j.partition = :partition AND j.id = w.waiter AND NOT j.cancel_requested)
FROM foliot.workflows w
WHERE w.partition = :partition AND w.state = 'running' AND NOT w.cancel_requested
  AND w.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i));

-- name: find_cancelled_waiters
-- Of workflows that have ended: the jobs that stand for them, where these were asked to end, and their workflows.
SELECT j.id::text, j.workflow::text
FROM foliot.workflows w JOIN foliot.jobs j ON j.partition = :partition AND j.id = w.waiter
WHERE w.partition = :partition AND w.state <> 'running' AND j.cancel_requested AND j.state || '' <> 'running'
  AND w.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i));

-- name: lock_old_workflows
-- Those that may be forgotten, before it is looked once more: jobs may have followed their steps since this began. Not one
-- whose job has not said yet how it ended: it would find none, and run all of it again.
SELECT w.id::text FROM foliot.workflows w
WHERE w.partition = :partition AND w.finished_at < coalesce(:now, now()) - make_interval(secs => :keep)
  AND (SELECT j.id FROM foliot.jobs j WHERE j.partition = :partition AND j.id = w.waiter) IS NULL
  AND NOT EXISTS (
      SELECT FROM foliot.followers b JOIN foliot.workflows f ON f.partition = :partition AND f.id = b.follower
      WHERE b.partition = :partition AND b.workflow = w.id
        AND (f.finished_at IS NULL OR f.finished_at >= coalesce(:now, now()) - make_interval(secs => :keep)
             OR f.total = 0))
ORDER BY w.finished_at, w.id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED;

-- name: prune_workflows
-- Of those that are locked: not what a live job stands for, nor what steps that are kept come after or stand for. A
-- follower without steps has become part of another, which keeps it. As many as have no more steps together than that,
-- or one.
WITH due AS MATERIALIZED (
    SELECT w.id, w.total, w.finished_at FROM foliot.workflows w
    WHERE w.partition = :partition AND w.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
      AND w.finished_at < coalesce(:now, now()) - make_interval(secs => :keep)
      AND (SELECT j.id FROM foliot.jobs j WHERE j.partition = :partition AND j.id = w.waiter) IS NULL
      AND NOT EXISTS (
          SELECT FROM foliot.followers b JOIN foliot.workflows f ON f.partition = :partition AND f.id = b.follower
          WHERE b.partition = :partition AND b.workflow = w.id
            AND (f.finished_at IS NULL OR f.finished_at >= coalesce(:now, now()) - make_interval(secs => :keep)
                 OR f.total = 0))
), old AS MATERIALIZED (
    SELECT p.id
    FROM (SELECT d.id, sum(d.total) OVER (ORDER BY d.finished_at, d.id) - d.total AS steps FROM due d) p
    WHERE p.steps < :limit::bigint
), steps AS (
    DELETE FROM foliot.steps s WHERE s.partition = :partition AND s.workflow = ANY (ARRAY(SELECT id FROM old))
), signals AS (
    DELETE FROM foliot.signals g WHERE g.partition = :partition AND g.workflow = ANY (ARRAY(SELECT id FROM old))
), links AS (
    DELETE FROM foliot.links l WHERE l.partition = :partition AND l.workflow = ANY (ARRAY(SELECT id FROM old))
), followed AS (
    DELETE FROM foliot.followers b WHERE b.partition = :partition AND b.follower = ANY (ARRAY(SELECT id FROM old))
)
DELETE FROM foliot.workflows w WHERE w.partition = :partition AND w.id = ANY (ARRAY(SELECT id FROM old))
RETURNING w.id::text;

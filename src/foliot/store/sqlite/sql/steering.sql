-- What is done to whole workflows: signals, cancel, pause, retry, and what time does. The workflow's row is locked
-- first, by lock_workflows.

-- name: get_workflow
SELECT w.id, w.name, w.namespace, w.state, w.policy, w.total, w.remaining, w.failed, w.created_at, w.deadline_at,
       w.finished_at, w.paused_at, w.paused_by, w.note, w.reason, w.cancel_requested, w.waiter, w.chain,
       w.deadline, w.fingerprint
FROM foliot_workflows w WHERE w.partition = :partition AND w.id = :id;

-- name: list_workflows
SELECT w.id, w.name, w.namespace, w.state, w.policy, w.total, w.remaining, w.failed, w.created_at, w.deadline_at,
       w.finished_at, w.paused_at, w.paused_by, w.note, w.reason, w.cancel_requested, w.waiter, w.chain,
       w.deadline, w.fingerprint
FROM foliot_workflows w
WHERE w.partition = :partition AND NOT w.chain AND (:name IS NULL OR w.name = :name)
  AND (:state IS NULL OR w.state || '' = :state
       OR :state = 'paused' AND w.state || '' = 'running' AND w.paused_at IS NOT NULL)
  AND (:before_at IS NULL OR (w.created_at, w.id) < (:before_at, :before))
ORDER BY w.created_at DESC, w.id DESC LIMIT :limit;

-- name: take_signals
-- Rows of [workflow, name]: signals that had come before.
DELETE FROM foliot_signals
WHERE rowid IN (
    SELECT g.rowid FROM json_each(:rows) l CROSS JOIN foliot_signals g
    WHERE g.partition = :partition AND g.workflow = json_extract(l.value, '$[0]')
      AND g.name = json_extract(l.value, '$[1]'))
RETURNING workflow, name, payload;

-- name: keep_signal
INSERT INTO foliot_signals (partition, workflow, name, at, payload)
VALUES (:partition, :id, :name, :now, :payload)
ON CONFLICT (partition, workflow, name) DO UPDATE SET payload = excluded.payload, at = excluded.at;

-- name: find_signalled
-- The steps that wait for this signal.
SELECT s.job FROM foliot_steps s
WHERE s.partition = :partition AND s.workflow = :id AND s.signal = :name AND s.begun AND s.state IS NULL;

-- name: list_signals
-- All that steps of this workflow are there for; whether one of these has not ended, one that has had it, and one of all.
SELECT s.signal, count(*) > count(s.state), min(s.name) FILTER (WHERE s.state = 'succeeded'), min(s.name)
FROM foliot_steps s
WHERE s.partition = :partition AND s.workflow = :id AND s.signal IS NOT NULL GROUP BY s.signal ORDER BY s.signal;

-- name: end_signalled
-- Rows of [job, payload]: what they waited for has come.
INSERT INTO foliot_history (partition, id, fence, priority, attempt, losses, generation, state,
                            namespace, kind, queue, created_at, run_at, started_at, finished_at,
                            session, key, workflow, reason,
                            tags, ordering_key, fair_key, schedule, extras, payload, result)
SELECT :partition, j.id, j.fence, j.priority, j.attempt, j.losses, j.generation, 'succeeded', j.namespace,
       j.kind, j.queue, j.created_at, j.run_at, j.claimed_at, :now, j.session, j.key, j.workflow,
       'signal', j.tags, j.ordering_key, j.fair_key, j.schedule, j.extras, j.payload,
       CAST(json_extract(n.value, '$[1]') AS BLOB)
FROM json_each(:rows) n CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = json_extract(n.value, '$[0]')
  AND j.state || '' = 'held' AND j.hold || '' = 'signal';
INSERT INTO foliot_outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
SELECT :partition, :now, j.generation, j.id, 'job.succeeded', j.id,
       j.namespace, j.kind, j.queue,
       json_object('attempt', j.attempt, 'reason', 'signal', 'workflow', j.workflow,
                   'schedule', json_extract(j.extras, '$.schedule'))
FROM (SELECT 1 FROM foliot_listeners WHERE event = 'job.succeeded' LIMIT 1)
CROSS JOIN json_each(:rows) n CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = json_extract(n.value, '$[0]')
  AND j.state || '' = 'held' AND j.hold || '' = 'signal'
  AND substr(j.kind, 1, 3) <> 'on.'
  AND EXISTS (SELECT 1 FROM foliot_listeners l
              WHERE l.event = 'job.succeeded' AND l.kind IN ('*', j.kind) AND l.queue IN ('*', j.queue));
DELETE FROM foliot_jobs
WHERE rowid IN (SELECT j.rowid FROM json_each(:rows) n CROSS JOIN foliot_jobs j
                WHERE j.partition = :partition AND j.id = json_extract(n.value, '$[0]')
                  AND j.state || '' = 'held' AND j.hold || '' = 'signal')
RETURNING id;

-- name: list_live_steps
-- Those that have not ended: whether each has begun, its rule, and that of the map of which it is an element.
SELECT s.job, s.begun, s.rule,
       (SELECT m.rule FROM foliot_steps m WHERE m.partition = :partition AND m.job = s.mapped)
FROM foliot_steps s INDEXED BY foliot_steps_name
WHERE s.partition = :partition AND s.workflow = :id AND s.state IS NULL
ORDER BY s.job;

-- name: request_cancel_of_steps
-- Also where only those that run are meant: one for which a workflow runs does.
UPDATE foliot_jobs SET cancel_requested = 1
WHERE rowid IN (SELECT j.rowid FROM json_each(:ids) i CROSS JOIN foliot_jobs j
                WHERE j.partition = :partition AND j.id = i.value
                  AND (NOT :running OR j.state || '' = 'running' OR EXISTS (
                      SELECT 1 FROM foliot_workflows w
                      WHERE w.partition = :partition AND w.waiter = j.id AND w.state = 'running')));

-- name: cancel_workflow
UPDATE foliot_workflows SET cancel_requested = 1, stopped = 1, reason = coalesce(reason, :reason), paused_at = NULL
WHERE partition = :partition AND id = :id;

-- name: stop_workflow
UPDATE foliot_workflows SET stopped = 1 WHERE partition = :partition AND id = :id;

-- name: find_inner_workflows
-- Those that run for these jobs.
SELECT w.id FROM json_each(:ids) i CROSS JOIN foliot_workflows w
WHERE w.partition = :partition AND w.state = 'running' AND w.waiter IS NOT NULL AND w.waiter = i.value;

-- name: pause_workflow
-- Once more: who paused it and why stays, unless a reason is given.
UPDATE foliot_workflows SET paused_at = coalesce(paused_at, :now),
    paused_by = CASE WHEN :note IS NULL AND paused_at IS NOT NULL THEN paused_by ELSE :by END,
    note = CASE WHEN :note IS NULL AND paused_at IS NOT NULL THEN note ELSE :note END
WHERE partition = :partition AND id = :id;

-- name: hold_steps
-- What has not started waits while its workflow is paused, also one that comes back from an attempt, or waits for
-- something else. One with an ordering key keeps its place, or others would overtake it. One for which a workflow runs
-- has started: that is paused in its stead.
UPDATE foliot_jobs SET state = 'held', hold = 'paused', hold_note = NULL
WHERE rowid IN (
    SELECT j.rowid FROM json_each(:ids) i CROSS JOIN foliot_jobs j
    CROSS JOIN foliot_workflows w ON w.partition = :partition AND w.id = j.workflow
    WHERE j.partition = :partition AND j.id = i.value
      AND (j.state || '' IN ('scheduled', 'ready') OR j.state || '' = 'held'
       AND j.hold || '' IN ('limit', 'admission', 'turn', 'unknown_kind', 'unfitting_payload'))
      AND NOT EXISTS (SELECT 1 FROM foliot_workflows f
                      WHERE f.partition = :partition AND f.waiter = j.id AND f.state = 'running')
      AND j.ordering_key IS NULL AND w.paused_at IS NOT NULL);

-- name: resume_workflow
UPDATE foliot_workflows SET paused_at = NULL, paused_by = NULL, note = NULL
WHERE partition = :partition AND id = :id;

-- name: resume_steps
UPDATE foliot_jobs
SET state = CASE WHEN run_at > :now THEN 'scheduled' WHEN lane & 3 = 3 AND rank = 0 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN run_at <= :now AND lane & 3 = 3 AND rank = 0 THEN 'turn' END
WHERE rowid IN (SELECT j.rowid FROM json_each(:ids) i CROSS JOIN foliot_jobs j
                WHERE j.partition = :partition AND j.id = i.value
                  AND j.state || '' = 'held' AND j.hold || '' = 'paused')
RETURNING lane, state;

-- name: find_namesakes
-- A name that a step of each of two workflows has.
SELECT s.name FROM foliot_steps s INDEXED BY foliot_steps_name
CROSS JOIN foliot_steps t ON t.partition = :partition AND t.workflow = :id AND t.name = s.name
WHERE s.partition = :partition AND s.workflow = :other LIMIT 1;

-- name: merge_chains
-- Of two chains that run, the second becomes a part of the first, with whatever its steps are and were. Its row stays as
-- that of one which has ended, with no steps and as long as the first: what was kept for it is kept as long.
UPDATE foliot_jobs SET workflow = :id
WHERE rowid IN (SELECT j.rowid FROM foliot_steps s INDEXED BY foliot_steps_name CROSS JOIN foliot_jobs j
                WHERE s.partition = :partition AND s.workflow = :other AND s.state IS NULL
                  AND j.partition = :partition AND j.id = s.job AND j.workflow = :other);
UPDATE foliot_dead SET workflow = :id
WHERE rowid IN (SELECT d.rowid FROM foliot_steps s INDEXED BY foliot_steps_name CROSS JOIN foliot_dead d
                WHERE s.partition = :partition AND s.workflow = :other AND s.state = 'dead'
                  AND d.partition = :partition AND d.id = s.job AND d.workflow = :other);
UPDATE foliot_history SET workflow = :id
WHERE rowid IN (SELECT h.rowid FROM foliot_steps s INDEXED BY foliot_steps_name CROSS JOIN foliot_history h
                WHERE s.partition = :partition AND s.workflow = :other AND s.state IS NOT NULL
                  AND h.partition = :partition AND h.id = s.job AND h.workflow = :other);
UPDATE foliot_steps SET workflow = :id, number = number + :after
WHERE partition = :partition AND workflow = :other;
UPDATE foliot_workflows
SET total = foliot_workflows.total + o.total, remaining = foliot_workflows.remaining + o.remaining,
    failed = foliot_workflows.failed + o.failed, forgiven = foliot_workflows.forgiven + o.forgiven,
    edges = foliot_workflows.edges + o.edges
FROM foliot_workflows o
WHERE foliot_workflows.partition = :partition AND foliot_workflows.id = :id
  AND o.partition = :partition AND o.id = :other;
UPDATE foliot_workflows
SET state = 'succeeded', finished_at = :now, total = 0, remaining = 0, failed = 0, forgiven = 0, edges = 0
WHERE partition = :partition AND id = :other;
UPDATE foliot_links SET workflow = :id WHERE partition = :partition AND workflow = :other;
INSERT OR IGNORE INTO foliot_followers (partition, workflow, follower)
SELECT :partition, :id, follower FROM foliot_followers
WHERE partition = :partition AND workflow = :other AND follower <> :id;
DELETE FROM foliot_followers WHERE partition = :partition AND workflow = :other AND follower <> :id;
INSERT OR IGNORE INTO foliot_followers (partition, workflow, follower) VALUES (:partition, :other, :id);

-- name: find_changed_jobs
-- Of these, as they have ended, those that were changed while they were steps.
SELECT h.id, h.queue, h.priority, h.payload, json_patch('{}', json_object(
           'tags', json(h.tags), 'ordering_key', h.ordering_key, 'fair_key', h.fair_key, 'extras', json(h.extras)))
FROM json_each(:ids) i CROSS JOIN foliot_history h
WHERE h.partition = :partition AND h.id = i.value AND instr(h.extras, '"changed":')
UNION ALL
SELECT d.id, d.queue, d.priority, d.payload, json_patch('{}', json_object(
           'tags', json(d.tags), 'ordering_key', d.ordering_key, 'fair_key', d.fair_key, 'extras', json(d.extras)))
FROM json_each(:ids) i CROSS JOIN foliot_dead d
WHERE d.partition = :partition AND d.id = i.value AND instr(d.extras, '"changed":');

-- name: find_last_keys
-- Of these, as they have ended, their unique keys: one may have given up its own while it ran.
SELECT h.id, h.key FROM json_each(:ids) i CROSS JOIN foliot_history h
WHERE h.partition = :partition AND h.id = i.value
UNION ALL
SELECT d.id, d.key FROM json_each(:ids) i CROSS JOIN foliot_dead d
WHERE d.partition = :partition AND d.id = i.value;

-- name: remove_ended_jobs
-- Before they are tried again, under the same ids.
DELETE FROM foliot_dead WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids));
DELETE FROM foliot_history WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids));

-- name: find_taken_keys
-- Rows of [job, namespace, kind, key], in a statement after that which was to insert these: those that do not live, and
-- who has their unique key.
SELECT json_extract(n.value, '$[0]'), json_extract(n.value, '$[3]'),
       (SELECT j.id FROM foliot_jobs j
        WHERE j.partition = :partition AND j.key = json_extract(n.value, '$[3]')
          AND j.namespace = json_extract(n.value, '$[1]') AND j.kind = json_extract(n.value, '$[2]'))
FROM json_each(:rows) n
WHERE NOT EXISTS (SELECT 1 FROM foliot_jobs j
                  WHERE j.partition = :partition AND j.id = json_extract(n.value, '$[0]'));

-- name: carry_fences
-- Rows of [job, fence, generation].
WITH carried AS MATERIALIZED (
    SELECT j.rowid AS place, json_extract(l.value, '$[1]') AS fence, json_extract(l.value, '$[2]') AS generation
    FROM json_each(:rows) l CROSS JOIN foliot_jobs j
    WHERE j.partition = :partition AND j.id = json_extract(l.value, '$[0]')
)
UPDATE foliot_jobs SET fence = c.fence, generation = c.generation
FROM carried c
WHERE foliot_jobs.rowid = c.place;

-- name: reset_steps
-- Rows of [job, pending, succeeded, failed, begun, generation].
WITH again AS MATERIALIZED (
    SELECT s.rowid AS place, l.value AS n
    FROM json_each(:rows) l CROSS JOIN foliot_steps s
    WHERE s.partition = :partition AND s.job = json_extract(l.value, '$[0]')
)
UPDATE foliot_steps
SET pending = json_extract(a.n, '$[1]'), succeeded = json_extract(a.n, '$[2]'), failed = json_extract(a.n, '$[3]'),
    begun = json_extract(a.n, '$[4]'), generation = json_extract(a.n, '$[5]'),
    told = 0, state = NULL, result = NULL, finished_at = NULL
FROM again a
WHERE foliot_steps.rowid = a.place;

-- name: reopen_workflow
UPDATE foliot_workflows
SET remaining = remaining + :number, failed = failed - :failed, forgiven = failed - :failed,
    state = 'running', finished_at = NULL,
    cancel_requested = 0, stopped = 0, reason = NULL,
    -- Of one that ran for a job: only while that lives, or it would end for want of it.
    waiter = (SELECT j.id FROM foliot_jobs j WHERE j.partition = :partition AND j.id = foliot_workflows.waiter),
    deadline_at = :now + CAST(deadline * 1000000 AS INTEGER)
WHERE partition = :partition AND id = :id;

-- name: note_began
-- The job that stands for this workflow has seen it begin, in this life of its, and in time: with the attempt that has
-- submitted it.
UPDATE foliot_jobs
SET expires_at = NULL,
    extras = json_set(coalesce(extras, '{}'), '$.began', CASE state WHEN 'running' THEN claimed_at ELSE :now END)
WHERE partition = :partition
  AND id = (SELECT w.waiter FROM foliot_workflows w WHERE w.partition = :partition AND w.id = :id)
  AND json_extract(extras, '$.began') IS NULL;

-- name: find_stuck_workflows
-- Where something is left to carry out: whoever began it has died, or it is time. And nothing, where any runs.
SELECT * FROM (SELECT DISTINCT s.workflow FROM foliot_steps s INDEXED BY foliot_steps_untold
               WHERE s.partition = :partition AND s.state IS NOT NULL AND NOT s.told LIMIT :limit)
UNION
SELECT * FROM (SELECT w.id FROM foliot_workflows w INDEXED BY foliot_workflows_failing
               WHERE w.partition = :partition AND w.state = 'running' AND w.policy = 'fail_fast'
                 AND w.failed > w.forgiven AND NOT w.stopped LIMIT :limit)
UNION
SELECT * FROM (SELECT w.id FROM foliot_workflows w
               WHERE w.partition = :partition AND w.state = 'running' AND w.deadline_at IS NOT NULL
                 AND w.deadline_at <= :now AND NOT w.cancel_requested LIMIT :limit)
UNION
SELECT * FROM (SELECT w.id FROM foliot_workflows w INDEXED BY foliot_workflows_waiter
               WHERE w.partition = :partition AND w.state = 'running' AND w.waiter IS NOT NULL
                 AND NOT w.cancel_requested
                 AND NOT EXISTS (SELECT 1 FROM foliot_jobs j
                                 WHERE j.partition = :partition AND j.id = w.waiter AND NOT j.cancel_requested)
               LIMIT :limit)
UNION
SELECT * FROM (SELECT NULL FROM foliot_workflows w WHERE w.partition = :partition AND w.state = 'running' LIMIT 1);

-- name: read_workflow_needs
-- Whether its deadline has passed, and whether the job that it runs for is gone, or asked to end.
SELECT w.id, w.deadline_at <= :now,
       w.waiter IS NOT NULL AND NOT EXISTS (
           SELECT 1 FROM foliot_jobs j WHERE j.partition = :partition AND j.id = w.waiter AND NOT j.cancel_requested)
FROM json_each(:ids) i CROSS JOIN foliot_workflows w
WHERE w.partition = :partition AND w.id = i.value AND w.state || '' = 'running' AND NOT w.cancel_requested;

-- name: find_cancelled_waiters
-- Of workflows that have ended: the jobs that stand for them, where these were asked to end, and their workflows.
SELECT j.id, j.workflow
FROM json_each(:ids) i CROSS JOIN foliot_workflows w CROSS JOIN foliot_jobs j
WHERE w.partition = :partition AND w.id = i.value AND w.state || '' <> 'running'
  AND j.partition = :partition AND j.id = w.waiter AND j.cancel_requested AND j.state || '' <> 'running';

-- name: prune_workflows
-- Not what steps that are kept come after or stand for. A follower without steps has become part of another, which keeps
-- it. Nor one whose job has not said yet how it ended: it would find none, and run all of it again. First which: as many
-- as have no more steps together than that, or one. Then all of these, :ids.
SELECT p.id
FROM (SELECT o.id, sum(o.total) OVER (ORDER BY o.finished_at, o.id) - o.total AS steps
      FROM (SELECT w.id, w.total, w.finished_at FROM foliot_workflows w
            WHERE w.partition = :partition AND w.finished_at IS NOT NULL
              AND w.finished_at < :now - CAST(:keep * 1000000 AS INTEGER)
              AND NOT EXISTS (SELECT 1 FROM foliot_jobs j WHERE j.partition = :partition AND j.id = w.waiter)
              AND NOT EXISTS (
                  SELECT 1 FROM foliot_followers b CROSS JOIN foliot_workflows f
                  WHERE b.partition = :partition AND b.workflow = w.id AND f.partition = :partition AND f.id = b.follower
                    AND (f.finished_at IS NULL OR f.finished_at >= :now - CAST(:keep * 1000000 AS INTEGER)
                         OR f.total = 0))
            ORDER BY w.finished_at, w.id LIMIT :limit) o) p
WHERE p.steps < :limit;
DELETE FROM foliot_steps WHERE partition = :partition AND workflow IN (SELECT value FROM json_each(:ids));
DELETE FROM foliot_signals WHERE partition = :partition AND workflow IN (SELECT value FROM json_each(:ids));
DELETE FROM foliot_links WHERE partition = :partition AND workflow IN (SELECT value FROM json_each(:ids));
DELETE FROM foliot_followers WHERE partition = :partition AND follower IN (SELECT value FROM json_each(:ids));
DELETE FROM foliot_workflows WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids));

-- Graphs of jobs. What decides is model/workflow.py, once for both dialects; these statements read and write for it, in
-- the transaction that ends a step. A workflow's row is locked first, rows in the order of their ids; what a statement
-- reads stands in one after that which has locked it. Batches are JSON: they are small, or made once. Parents and
-- children are lists of lists: those that a step was submitted with, and those that it has got since.

-- name: lock_workflows
-- Before everything else. Of a locked row the newest version is read, so it may be read here.
SELECT w.id::text, w.state, w.policy, w.cancel_requested, w.stopped, w.paused_at IS NOT NULL, w.total,
       w.failed - w.forgiven, w.edges, w.chain
FROM foliot.workflows w
WHERE w.partition = :partition AND w.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
ORDER BY w.id FOR UPDATE;

-- name: find_links
-- The workflows that these live jobs are steps of.
SELECT j.id::text, j.workflow::text FROM foliot.jobs j
WHERE j.partition = :partition AND j.workflow IS NOT NULL
  AND j.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i));

-- name: find_homes
-- The workflows that these jobs are or were steps of, and which of them are maps.
SELECT s.job::text, s.workflow::text, s.template::jsonb ->> 'kind' = 'foliot.map' FROM foliot.steps s
WHERE s.partition = :partition
  AND s.job = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i));

-- name: find_elements
-- Of these maps, in the order of their numbers.
SELECT s.job::text, s.mapped::text FROM foliot.steps s
WHERE s.partition = :partition
  AND s.workflow = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:flows::jsonb) i))
  AND s.mapped = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
ORDER BY s.mapped, s.number;

-- name: find_steps
-- Of one workflow, those with these ids and names, as far as adding others after or before them needs it.
SELECT s.job::text, s.name, s.rule, s.state, s.begun, s.mapped::text, s.added_by::text,
       s.template::jsonb ->> 'kind' = 'foliot.map'
FROM foliot.steps s
WHERE s.partition = :partition AND s.workflow = :id::uuid
  AND s.job = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
UNION
SELECT s.job::text, s.name, s.rule, s.state, s.begun, s.mapped::text, s.added_by::text,
       s.template::jsonb ->> 'kind' = 'foliot.map'
FROM foliot.steps s
WHERE s.partition = :partition AND s.workflow = :id::uuid
  AND s.name = ANY (ARRAY(SELECT n FROM jsonb_array_elements_text(:names::jsonb) n));

-- name: find_waiting_children
-- Of these steps, but for those that they have added themselves.
SELECT s.job::text, c.job::text, c.name
FROM foliot.steps s
CROSS JOIN LATERAL (SELECT s.children
                    UNION ALL
                    SELECT l.jobs FROM foliot.links l
                    WHERE s.linked AND l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
                      AND l.side = 'children') a (jobs)
CROSS JOIN jsonb_array_elements_text(a.jobs::jsonb) i
CROSS JOIN LATERAL (SELECT * FROM foliot.steps e WHERE e.partition = :partition AND e.job = i::uuid LIMIT 1) c
WHERE s.partition = :partition AND s.job = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
  AND c.state IS NULL AND NOT c.begun;

-- name: list_graph
SELECT s.job::text, s.name,
       '[' || s.parents || CASE WHEN s.linked THEN (
           SELECT coalesce(string_agg(',' || l.jobs, '' ORDER BY l.side, l.number), '') FROM foliot.links l
           WHERE l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
             AND l.side = 'parents') ELSE '' END || ']'
FROM foliot.steps s
WHERE s.partition = :partition AND s.workflow = :id::uuid;

-- name: insert_workflow
INSERT INTO foliot.workflows (partition, id, total, remaining, chain, deadline, state, policy, namespace, name,
                              created_at, deadline_at, waiter, fingerprint)
VALUES (:partition, :id::uuid, 0, 0, :chain, :deadline::real, 'running', :policy, :namespace, :name,
        coalesce(:now, now()), coalesce(:now, now()) + make_interval(secs => :deadline::float8), :waiter::uuid,
        :fingerprint)
ON CONFLICT DO NOTHING
RETURNING id::text;

-- name: insert_steps
-- Rows of [job, number, pending, succeeded, failed, begun, state, rule, name, signal, mapped, added_by, parents,
-- children, template, payload, told, result, above].
INSERT INTO foliot.steps (partition, job, workflow, number, pending, succeeded, failed, begun, state, rule, name, signal,
                          told, mapped, added_by, finished_at, parents, children, template, payload, result, above)
SELECT :partition::smallint, (s ->> 0)::uuid, :workflow::uuid, (s ->> 1)::integer, (s ->> 2)::integer,
       (s ->> 3)::integer, (s ->> 4)::integer, (s ->> 5)::boolean, s ->> 6, s ->> 7, s ->> 8, s ->> 9,
       (s ->> 16)::boolean, (s ->> 10)::uuid, (s ->> 11)::uuid, CASE WHEN s ->> 6 IS NOT NULL THEN coalesce(:now, now()) END,
       s ->> 12, s ->> 13, s ->> 14, convert_to(s ->> 15, 'UTF8'), convert_to(s ->> 17, 'UTF8'),
       (s ->> 18)::integer
FROM jsonb_array_elements(:rows::jsonb) s;

-- name: note_follower
-- Of workflows that have ended: whose jobs come after their steps, and are to see them. They are kept as long as that one.
INSERT INTO foliot.followers (partition, workflow, follower)
SELECT :partition::smallint, i::uuid, :workflow::uuid FROM jsonb_array_elements_text(:ids::jsonb) i
ON CONFLICT DO NOTHING;

-- name: note_outer
-- Of a workflow that a step of another stands for: it is kept as long as that one, and as those that keep that one.
INSERT INTO foliot.followers (partition, workflow, follower)
SELECT :partition::smallint, :id::uuid, s.workflow FROM foliot.steps s
WHERE s.partition = :partition AND s.job = :waiter::uuid
UNION
SELECT :partition::smallint, :id::uuid, b.follower FROM foliot.followers b
WHERE b.partition = :partition
  AND b.workflow = (SELECT s.workflow FROM foliot.steps s WHERE s.partition = :partition AND s.job = :waiter::uuid)
ON CONFLICT DO NOTHING;

-- name: grow_workflow
UPDATE foliot.workflows SET total = total + :number, remaining = remaining + :live, edges = edges + :edges
WHERE partition = :partition AND id = :workflow::uuid;

-- name: link_steps
-- Steps that were there before have new parents or children: rows of [step, side, jobs].
INSERT INTO foliot.links (partition, workflow, step, side, number, jobs)
SELECT :partition::smallint, :workflow::uuid, (n ->> 0)::uuid, n ->> 1,
       coalesce((SELECT max(l.number) FROM foliot.links l
                 WHERE l.partition = :partition AND l.workflow = :workflow::uuid AND l.step = (n ->> 0)::uuid
                   AND l.side = n ->> 1), 0) + 1,
       n ->> 2
FROM jsonb_array_elements(:rows::jsonb) n;

-- name: note_links
-- The same steps, each once, with how many more parents they wait for. Most have been told before that they are linked.
WITH told AS MATERIALIZED (
    SELECT jsonb_object_agg(n ->> 0, n) AS facts, array_agg((n ->> 0)::uuid) AS ids FROM jsonb_array_elements(:rows::jsonb) n
)
UPDATE foliot.steps s
SET linked = true, pending = s.pending + ((SELECT facts FROM told) -> s.job::text ->> 1)::integer,
    above = s.above + ((SELECT facts FROM told) -> s.job::text ->> 1)::integer
WHERE s.partition = :partition AND s.job = ANY ((SELECT ids FROM told)::uuid[])
  AND (NOT s.linked OR ((SELECT facts FROM told) -> s.job::text ->> 1)::integer > 0);

-- name: link_jobs
-- Jobs that were submitted by themselves become steps. One that runs is finished as such from now on.
UPDATE foliot.jobs j SET workflow = :workflow::uuid
WHERE j.partition = :partition AND j.workflow IS NULL
  AND j.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
RETURNING j.id::text;

-- name: lock_parents
-- Of jobs that others are to follow: those that live. Of one that becomes a step: what it takes to submit it again.
SELECT j.id::text, j.workflow::text,
       CASE WHEN j.workflow IS NULL THEN jsonb_strip_nulls(jsonb_build_object(
           'id', '', 'payload', '', 'kind', j.kind, 'lane', j.lane & ~3::bigint, 'queue', j.queue,
           'namespace', j.namespace, 'priority', j.priority, 'max_attempts', j.max_attempts, 'timeout', j.timeout,
           'key', j.key,
           'more', jsonb_build_object(
               'tags', j.tags, 'ordering_key', j.ordering_key, 'fair_key', j.fair_key, 'requires', j.requires,
               'extras', j.extras::jsonb, 'schedule', j.schedule)))::text END,
       CASE WHEN j.workflow IS NULL THEN j.payload END
FROM foliot.jobs j
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
ORDER BY j.id FOR UPDATE;

-- name: lock_ended_parents
-- Those that have ended, so that two who follow one do not both make it a step. In a statement after that which has
-- waited for those that live: one of them may have ended meanwhile.
WITH past AS MATERIALIZED (
    SELECT h.id FROM foliot.history h
    WHERE h.partition = :partition
      AND h.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
    ORDER BY h.id FOR UPDATE
), buried AS MATERIALIZED (
    SELECT d.id FROM foliot.dead d
    WHERE d.partition = :partition
      AND d.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
    ORDER BY d.id FOR UPDATE
)
SELECT (SELECT count(*) FROM past) + (SELECT count(*) FROM buried);

-- name: find_parents
-- Those that have ended; the newest end counts. Steps are known for longer than the history of their jobs.
SELECT DISTINCT ON (e.id) e.id::text, e.state, e.workflow::text, e.result
FROM (SELECT h.id, h.state, h.workflow, h.result, h.generation FROM foliot.history h
      WHERE h.partition = :partition
        AND h.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
      UNION ALL
      SELECT d.id, 'dead', d.workflow, NULL, d.generation FROM foliot.dead d
      WHERE d.partition = :partition
        AND d.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
      UNION ALL
      SELECT s.job, s.state, s.workflow, s.result, s.generation FROM foliot.steps s
      WHERE s.partition = :partition AND s.state IS NOT NULL
        AND s.job = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))) e
ORDER BY e.id, e.generation DESC;

-- name: check_running
-- Whether the step that adds others is still held by whoever says so.
SELECT 1 FROM foliot.jobs j
WHERE j.partition = :partition AND j.id = :job::uuid AND j.session = :session::uuid AND j.fence = :fence
  AND j.state || '' = 'running';

-- name: mark_steps
-- How the jobs of these steps have ended, in this transaction. One that has not is left alone, and so is one that has
-- become a step of a workflow that is not locked here: whoever has locked that may wait for us.
UPDATE foliot.steps s
SET (state, result, finished_at, fence, generation) = (
    SELECT e.state, e.result, CASE WHEN e.state IS NOT NULL THEN coalesce(:now, now()) END,
           coalesce(e.fence, s.fence), coalesce(e.generation, s.generation)
    FROM (SELECT) one
    LEFT JOIN (SELECT h.state, h.result, h.fence, h.generation FROM foliot.history h
               WHERE h.partition = :partition AND h.id = s.job AND h.finished_at = coalesce(:now, now())
               UNION ALL
               SELECT 'dead', NULL, d.fence, d.generation FROM foliot.dead d
               WHERE d.partition = :partition AND d.id = s.job) e ON true
    LIMIT 1)
WHERE s.partition = :partition AND s.state IS NULL
  AND s.workflow = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:flows::jsonb) i))
  AND s.job = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i));

-- name: take_untold_steps
-- Steps that have ended and whose children do not know; and whether they are maps. Rides steps_untold.
UPDATE foliot.steps s SET told = true
WHERE s.partition = :partition AND s.state IS NOT NULL AND NOT s.told
  AND s.workflow = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
RETURNING s.workflow::text, s.job::text, s.state, s.template::jsonb ->> 'kind' = 'foliot.map',
       '[' || s.children || CASE WHEN s.linked THEN (
           SELECT coalesce(string_agg(',' || l.jobs, '' ORDER BY l.side, l.number), '') FROM foliot.links l
           WHERE l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
             AND l.side IN ('children', 'grown')) ELSE '' END || ']';

-- name: settle_workflows
-- Rows of [workflow, steps told, failed ones among them]. With the last step the workflow ends, and no pause outlives
-- that: nobody could take it from one that is tried again. It is told to those who listen; of a chain, nobody listens to
-- more than its jobs.
WITH settled AS (
    UPDATE foliot.workflows w
    SET remaining = w.remaining - (l.n ->> 1)::integer, failed = w.failed + (l.n ->> 2)::integer,
        state = CASE WHEN w.remaining > (l.n ->> 1)::integer THEN w.state
                     WHEN w.reason = 'deadline' THEN 'failed'
                     WHEN w.cancel_requested THEN 'cancelled'
                     WHEN w.failed + (l.n ->> 2)::integer > 0 THEN 'failed' ELSE 'succeeded' END,
        finished_at = CASE WHEN w.remaining > (l.n ->> 1)::integer THEN NULL ELSE coalesce(:now, now()) END,
        paused_at = CASE WHEN w.remaining > (l.n ->> 1)::integer THEN w.paused_at END,
        paused_by = CASE WHEN w.remaining > (l.n ->> 1)::integer THEN w.paused_by END,
        note = CASE WHEN w.remaining > (l.n ->> 1)::integer THEN w.note END
    FROM jsonb_array_elements(:rows::jsonb) AS l (n)
    WHERE w.partition = :partition AND w.id = (l.n ->> 0)::uuid
    RETURNING w.id, w.state, w.policy, w.cancel_requested, w.stopped, w.paused_at IS NOT NULL AS paused, w.failed,
              w.forgiven, w.waiter, w.chain, w.total, w.reason, w.name, w.namespace
), emitted AS (
    INSERT INTO foliot.outbox (partition, at, number, home, event, subject, namespace, data)
    SELECT :partition::smallint, coalesce(:now, now()), 0, e.id, 'workflow.' || e.state, e.id::text, e.namespace,
           jsonb_build_object('workflow', e.name, 'steps', e.total, 'failed', e.failed, 'reason', e.reason)::text
    FROM settled e
    WHERE (SELECT 1 FROM foliot.listeners l
           WHERE l.event IN ('workflow.succeeded', 'workflow.failed', 'workflow.cancelled') LIMIT 1) IS NOT NULL
      AND e.state <> 'running' AND NOT e.chain
      AND 'workflow.' || e.state = ANY (ARRAY(SELECT l.event FROM foliot.listeners l))
    ON CONFLICT DO NOTHING
)
SELECT s.id::text, s.state, s.policy, s.cancel_requested, s.stopped, s.paused, s.failed - s.forgiven, s.waiter::text
FROM settled s;

-- name: read_steps
-- Of children whose parents have ended, those that have not begun; of an element, with its map's rule.
SELECT s.job::text, s.workflow::text, s.rule,
       (SELECT m.rule FROM foliot.steps m WHERE m.partition = :partition AND m.job = s.mapped),
       s.above, s.pending, s.succeeded, s.failed, s.signal, s.template
FROM foliot.steps s
WHERE s.partition = :partition AND s.state IS NULL AND NOT s.begun
  AND s.job = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i));

-- name: count_steps
-- Rows of [job, pending, succeeded, failed, begun, skipped].
WITH told AS MATERIALIZED (
    SELECT jsonb_object_agg(n ->> 0, n) AS facts, array_agg((n ->> 0)::uuid) AS ids FROM jsonb_array_elements(:rows::jsonb) n
)
UPDATE foliot.steps s
SET pending = ((SELECT facts FROM told) -> s.job::text ->> 1)::integer, succeeded = ((SELECT facts FROM told) -> s.job::text ->> 2)::integer, failed = ((SELECT facts FROM told) -> s.job::text ->> 3)::integer, begun = ((SELECT facts FROM told) -> s.job::text ->> 4)::boolean,
    state = CASE WHEN ((SELECT facts FROM told) -> s.job::text ->> 5)::boolean THEN 'skipped' END,
    finished_at = CASE WHEN ((SELECT facts FROM told) -> s.job::text ->> 5)::boolean THEN coalesce(:now, now()) END
WHERE s.partition = :partition AND s.job = ANY ((SELECT ids FROM told)::uuid[]) AND s.state IS NULL;

-- name: begin_steps
-- Rows of [job, hold, delay, expires_in]: they may run, now or after their delay. Placed as submit_jobs would. What each
-- is told is looked up: a join of thousands is planned as a loop in a loop where few rows are expected.
WITH told AS MATERIALIZED (
    SELECT jsonb_object_agg(n ->> 0, n) AS facts, array_agg((n ->> 0)::uuid) AS ids FROM jsonb_array_elements(:rows::jsonb) n
)
UPDATE foliot.jobs j
SET (state, hold, rank, run_at, expires_at) = (
    SELECT CASE WHEN t.hold IS NOT NULL OR j.ordering_key IS NOT NULL THEN 'held'
                WHEN t.due_at > t.now THEN 'scheduled'
                WHEN j.lane & 3 = 3 THEN 'held' ELSE 'ready' END,
           CASE WHEN t.hold IS NOT NULL THEN t.hold
                WHEN j.ordering_key IS NOT NULL THEN 'admission'
                WHEN t.due_at > t.now THEN NULL
                WHEN j.lane & 3 = 3 THEN 'admission' END,
           CASE j.lane & 3 WHEN 3 THEN 0
                ELSE j.rank + (extract(epoch FROM t.due_at - j.run_at) * 1000000)::bigint END,
           t.due_at, coalesce(t.now + make_interval(secs => t.expires_in), j.expires_at)
    FROM (SELECT s.now, s.n ->> 1 AS hold, (s.n ->> 3)::float8 AS expires_in,
                 greatest(s.now + make_interval(secs => coalesce((s.n ->> 2)::float8, 0)), j.run_at) AS due_at
          FROM (SELECT coalesce(:now, statement_timestamp()) AS now, (SELECT facts FROM told) -> j.id::text AS n) s) t)
WHERE j.partition = :partition AND j.state || '' = 'waiting' AND j.id = ANY ((SELECT ids FROM told)::uuid[])
RETURNING j.lane, j.state;

-- name: skip_steps
-- What will not run: whatever it waited for. One for which a workflow runs has begun.
WITH gone AS (
    DELETE FROM foliot.jobs j
    WHERE j.partition = :partition AND j.state || '' IN ('waiting', 'scheduled', 'held', 'ready')
      AND NOT EXISTS (SELECT FROM foliot.workflows w
                      WHERE w.partition = :partition AND w.waiter = j.id AND w.state = 'running')
      AND j.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
    RETURNING j.*
), kept AS (
    INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state,
                                namespace, kind, queue, created_at, run_at, started_at, finished_at,
                                session, key, workflow, reason,
                                tags, ordering_key, fair_key, schedule, extras, payload)
    SELECT :partition::smallint, id, fence, priority, attempt, losses, generation, 'skipped', namespace,
           kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()), session, key, workflow,
           :reason, tags, ordering_key, fair_key, schedule, extras, payload
    FROM gone
)
SELECT id::text FROM gone;

-- name: await_workflows
-- Rows of [workflow, job]: jobs that wait for one that was retried by itself, and so had nobody to tell.
UPDATE foliot.workflows w SET waiter = (l.n ->> 1)::uuid
FROM jsonb_array_elements(:rows::jsonb) AS l (n)
WHERE w.partition = :partition AND w.id = (l.n ->> 0)::uuid AND w.waiter IS NULL;

-- name: release_waiters
-- Of workflows that have ended: the jobs that stand for them go on, to say so. Also one that a pause holds, from before
-- the workflow was tried again by itself: who cancels what is around both counts on this.
UPDATE foliot.jobs j
SET state = CASE WHEN j.lane & 3 = 3 AND j.rank = 0 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN j.lane & 3 = 3 AND j.rank = 0 THEN 'turn' END, hold_note = NULL
WHERE j.partition = :partition AND j.state || '' = 'held' AND j.hold || '' IN ('workflow', 'paused')
  AND j.id = ANY (ARRAY(
      SELECT w.waiter FROM foliot.workflows w WHERE w.partition = :partition AND w.state <> 'running'
        AND w.id = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))))
RETURNING j.lane, j.state;

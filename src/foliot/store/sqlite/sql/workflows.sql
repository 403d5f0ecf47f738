-- Graphs of jobs. What decides is model/workflow.py, once for both dialects; these statements read and write for it, in
-- the transaction that ends a step. Nobody else writes meanwhile, so nothing has to be locked. Batches are JSON: they are
-- walked, and the rows are looked up (CROSS JOIN). Parents and children are lists of lists: those that a step was
-- submitted with, and those that it has got since.

-- name: any_running_workflow
-- Only here: where there is none, jobs that end are not looked up as steps. Rides foliot_workflows_running.
SELECT 1 FROM foliot_workflows w WHERE w.partition = :partition AND w.state = 'running' LIMIT 1;

-- name: lock_workflows
SELECT w.id, w.state, w.policy, w.cancel_requested, w.stopped, w.paused_at IS NOT NULL, w.total,
       w.failed - w.forgiven, w.edges, w.chain
FROM json_each(:ids) i CROSS JOIN foliot_workflows w
WHERE w.partition = :partition AND w.id = i.value
ORDER BY w.id;

-- name: find_links
-- The workflows that these live jobs are steps of.
SELECT j.id, j.workflow FROM json_each(:ids) i CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = i.value AND j.workflow IS NOT NULL;

-- name: find_homes
-- The workflows that these jobs are or were steps of, and which of them are maps.
SELECT s.job, s.workflow, json_extract(s.template, '$.kind') = 'foliot.map'
FROM json_each(:ids) i CROSS JOIN foliot_steps s
WHERE s.partition = :partition AND s.job = i.value;

-- name: find_elements
-- Of these maps, in the order of their numbers.
SELECT s.job, s.mapped FROM json_each(:flows) f CROSS JOIN foliot_steps s INDEXED BY foliot_steps_name
WHERE s.partition = :partition AND s.workflow = f.value
  AND s.mapped IN (SELECT value FROM json_each(:ids))
ORDER BY s.mapped, s.number;

-- name: find_steps
-- Of one workflow, those with these ids and names, as far as adding others after or before them needs it.
SELECT s.job, s.name, s.rule, s.state, s.begun, s.mapped, s.added_by, json_extract(s.template, '$.kind') = 'foliot.map'
FROM json_each(:ids) i CROSS JOIN foliot_steps s
WHERE s.partition = :partition AND s.job = i.value AND s.workflow = :id
UNION
SELECT s.job, s.name, s.rule, s.state, s.begun, s.mapped, s.added_by, json_extract(s.template, '$.kind') = 'foliot.map'
FROM json_each(:names) n CROSS JOIN foliot_steps s INDEXED BY foliot_steps_name
WHERE s.partition = :partition AND s.workflow = :id AND s.name = n.value;

-- name: find_waiting_children
-- Of these steps, but for those that they have added themselves.
SELECT s.job, c.job, c.name
FROM json_each(:ids) i CROSS JOIN foliot_steps s
CROSS JOIN json_each('[' || s.children || CASE WHEN s.linked THEN (
           SELECT coalesce(',' || group_concat(o.jobs), '')
           FROM (SELECT l.jobs FROM foliot_links l
                 WHERE l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
                   AND l.side = 'children' ORDER BY l.side, l.number) o) ELSE '' END || ']') a
CROSS JOIN json_each(a.value) l CROSS JOIN foliot_steps c
WHERE s.partition = :partition AND s.job = i.value
  AND c.partition = :partition AND c.job = l.value AND c.state IS NULL AND NOT c.begun;

-- name: list_graph
SELECT s.job, s.name,
       '[' || s.parents || CASE WHEN s.linked THEN (
           SELECT coalesce(',' || group_concat(o.jobs), '')
           FROM (SELECT l.jobs FROM foliot_links l
                 WHERE l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
                   AND l.side = 'parents' ORDER BY l.side, l.number) o) ELSE '' END || ']'
FROM foliot_steps s INDEXED BY foliot_steps_name
WHERE s.partition = :partition AND s.workflow = :id;

-- name: insert_workflow
INSERT INTO foliot_workflows (partition, id, total, remaining, chain, deadline, state, policy, namespace, name,
                              created_at, deadline_at, waiter, fingerprint)
VALUES (:partition, :id, 0, 0, :chain, :deadline, 'running', :policy, :namespace, :name,
        :now, :now + CAST(:deadline * 1000000 AS INTEGER), :waiter, :fingerprint)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: insert_steps
-- Rows of [job, number, pending, succeeded, failed, begun, state, rule, name, signal, mapped, added_by, parents,
-- children, template, payload, told, result, above].
INSERT INTO foliot_steps (partition, job, workflow, number, pending, succeeded, failed, begun, state, rule, name, signal,
                          told, mapped, added_by, finished_at, parents, children, template, payload, result, above)
SELECT :partition, json_extract(s.value, '$[0]'), :workflow, json_extract(s.value, '$[1]'),
       json_extract(s.value, '$[2]'), json_extract(s.value, '$[3]'), json_extract(s.value, '$[4]'),
       json_extract(s.value, '$[5]'), json_extract(s.value, '$[6]'), json_extract(s.value, '$[7]'),
       json_extract(s.value, '$[8]'), json_extract(s.value, '$[9]'), json_extract(s.value, '$[16]'),
       json_extract(s.value, '$[10]'), json_extract(s.value, '$[11]'),
       CASE WHEN json_extract(s.value, '$[6]') IS NOT NULL THEN :now END,
       json_extract(s.value, '$[12]'), json_extract(s.value, '$[13]'), json_extract(s.value, '$[14]'),
       CAST(json_extract(s.value, '$[15]') AS BLOB), CAST(json_extract(s.value, '$[17]') AS BLOB),
       json_extract(s.value, '$[18]')
FROM json_each(:rows) s;

-- name: note_follower
-- Of workflows that have ended: whose jobs come after their steps, and are to see them. They are kept as long as that one.
INSERT OR IGNORE INTO foliot_followers (partition, workflow, follower)
SELECT :partition, value, :workflow FROM json_each(:ids);

-- name: note_outer
-- Of a workflow that a step of another stands for: it is kept as long as that one, and as those that keep that one.
INSERT OR IGNORE INTO foliot_followers (partition, workflow, follower)
SELECT :partition, :id, s.workflow FROM foliot_steps s WHERE s.partition = :partition AND s.job = :waiter
UNION
SELECT :partition, :id, b.follower FROM foliot_followers b
WHERE b.partition = :partition
  AND b.workflow = (SELECT s.workflow FROM foliot_steps s WHERE s.partition = :partition AND s.job = :waiter);

-- name: grow_workflow
UPDATE foliot_workflows SET total = total + :number, remaining = remaining + :live, edges = edges + :edges
WHERE partition = :partition AND id = :workflow;

-- name: link_steps
-- Steps that were there before have new parents or children: rows of [step, side, jobs].
INSERT INTO foliot_links (partition, workflow, step, side, number, jobs)
SELECT :partition, :workflow, json_extract(n.value, '$[0]'), json_extract(n.value, '$[1]'),
       coalesce((SELECT max(l.number) FROM foliot_links l
                 WHERE l.partition = :partition AND l.workflow = :workflow
                   AND l.step = json_extract(n.value, '$[0]') AND l.side = json_extract(n.value, '$[1]')), 0) + 1,
       json_extract(n.value, '$[2]')
FROM json_each(:rows) n;

-- name: note_links
-- The same steps, each once, with how many more parents they wait for. Most have been told before that they are linked.
WITH told AS MATERIALIZED (
    SELECT s.rowid AS place, json_extract(l.value, '$[1]') AS pending
    FROM json_each(:rows) l CROSS JOIN foliot_steps s
    WHERE s.partition = :partition AND s.job = json_extract(l.value, '$[0]')
      AND (NOT s.linked OR json_extract(l.value, '$[1]') > 0)
)
UPDATE foliot_steps
SET linked = 1, pending = foliot_steps.pending + t.pending, above = foliot_steps.above + t.pending
FROM told t
WHERE foliot_steps.rowid = t.place;

-- name: link_jobs
-- Jobs that were submitted by themselves become steps. One that runs is finished as such from now on.
UPDATE foliot_jobs SET workflow = :workflow
WHERE rowid IN (SELECT j.rowid FROM json_each(:ids) i CROSS JOIN foliot_jobs j
                WHERE j.partition = :partition AND j.id = i.value AND j.workflow IS NULL)
RETURNING id;

-- name: lock_parents
-- Of jobs that others are to follow: those that live. Of one that becomes a step: what it takes to submit it again.
SELECT j.id, j.workflow,
       CASE WHEN j.workflow IS NULL THEN json_patch('{}', json_object(
           'id', '', 'payload', '', 'kind', j.kind, 'lane', j.lane & ~3, 'queue', j.queue,
           'namespace', j.namespace, 'priority', j.priority, 'max_attempts', j.max_attempts, 'timeout', j.timeout,
           'key', j.key,
           'more', json_object(
               'tags', json(j.tags), 'ordering_key', j.ordering_key, 'fair_key', j.fair_key, 'requires', json(j.requires),
               'extras', json(j.extras), 'schedule', j.schedule))) END,
       CASE WHEN j.workflow IS NULL THEN j.payload END
FROM json_each(:ids) i CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = i.value
ORDER BY j.id;

-- name: lock_ended_parents
-- There is one writer.
SELECT 1 WHERE false;

-- name: find_parents
-- Those that have ended; the newest end counts. Steps are known for longer than the history of their jobs. With max(),
-- the other columns are those of its row.
SELECT e.id, e.state, e.workflow, e.result
FROM (SELECT h.id, h.state, h.workflow, h.result, max(h.generation) AS generation
      FROM (SELECT h.id, h.state, h.workflow, h.result, h.generation
            FROM json_each(:ids) i CROSS JOIN foliot_history h WHERE h.partition = :partition AND h.id = i.value
            UNION ALL
            SELECT d.id, 'dead', d.workflow, NULL, d.generation
            FROM json_each(:ids) i CROSS JOIN foliot_dead d WHERE d.partition = :partition AND d.id = i.value
            UNION ALL
            SELECT s.job, s.state, s.workflow, s.result, s.generation
            FROM json_each(:ids) i CROSS JOIN foliot_steps s
            WHERE s.partition = :partition AND s.job = i.value AND s.state IS NOT NULL) h
      GROUP BY h.id) e;

-- name: check_running
-- Whether the step that adds others is still held by whoever says so.
SELECT 1 FROM foliot_jobs j
WHERE j.partition = :partition AND j.id = :job AND j.session = :session AND j.fence = :fence
  AND j.state || '' = 'running';

-- name: mark_steps
-- How the jobs of these steps have ended, in this transaction. One that has not is left alone.
WITH ended AS MATERIALIZED (
    SELECT s.rowid AS place, h.state, h.result, h.fence, h.generation
    FROM json_each(:ids) i CROSS JOIN foliot_steps s CROSS JOIN foliot_history h
    WHERE s.partition = :partition AND s.job = i.value AND s.state IS NULL
      AND s.workflow IN (SELECT value FROM json_each(:flows))
      AND h.partition = :partition AND h.id = i.value AND h.finished_at + 0 = :now
    UNION ALL
    SELECT s.rowid, 'dead', NULL, d.fence, d.generation
    FROM json_each(:ids) i CROSS JOIN foliot_steps s CROSS JOIN foliot_dead d
    WHERE s.partition = :partition AND s.job = i.value AND s.state IS NULL
      AND s.workflow IN (SELECT value FROM json_each(:flows))
      AND d.partition = :partition AND d.id = i.value
)
UPDATE foliot_steps
SET state = e.state, finished_at = :now, result = e.result, fence = e.fence, generation = e.generation
FROM ended e
WHERE foliot_steps.rowid = e.place;

-- name: take_untold_steps
-- Steps that have ended and whose children do not know; and whether they are maps.
UPDATE foliot_steps SET told = 1
WHERE rowid IN (SELECT s.rowid FROM json_each(:ids) i CROSS JOIN foliot_steps s INDEXED BY foliot_steps_untold
                WHERE s.partition = :partition AND s.workflow = i.value AND s.state IS NOT NULL AND NOT s.told)
RETURNING workflow, job, state, json_extract(template, '$.kind') = 'foliot.map',
       '[' || foliot_steps.children || CASE WHEN foliot_steps.linked THEN (
           SELECT coalesce(',' || group_concat(o.jobs), '')
           FROM (SELECT l.jobs FROM foliot_links l
                 WHERE l.partition = :partition AND l.workflow = foliot_steps.workflow AND l.step = foliot_steps.job
                   AND l.side IN ('children', 'grown') ORDER BY l.side, l.number) o) ELSE '' END || ']';

-- name: settle_workflows
-- Rows of [workflow, steps told, failed ones among them]. With the last step the workflow ends, and no pause outlives
-- that: nobody could take it from one that is tried again. It is told to those who listen; of a chain, nobody listens to
-- more than its jobs.
-- Whether it is paused is told by the time: `IS NOT NULL` after an UPDATE … FROM is wrong in SQLite (seen in 3.40.1).
WITH told AS MATERIALIZED (
    SELECT w.rowid AS place, json_extract(l.value, '$[1]') AS number, json_extract(l.value, '$[2]') AS failed
    FROM json_each(:rows) l CROSS JOIN foliot_workflows w
    WHERE w.partition = :partition AND w.id = json_extract(l.value, '$[0]')
)
UPDATE foliot_workflows
SET remaining = remaining - l.number, failed = foliot_workflows.failed + l.failed,
    state = CASE WHEN remaining > l.number THEN state
                 WHEN reason = 'deadline' THEN 'failed'
                 WHEN cancel_requested THEN 'cancelled'
                 WHEN foliot_workflows.failed + l.failed > 0 THEN 'failed' ELSE 'succeeded' END,
    finished_at = CASE WHEN remaining > l.number THEN NULL ELSE :now END,
    paused_at = CASE WHEN remaining > l.number THEN paused_at END,
    paused_by = CASE WHEN remaining > l.number THEN paused_by END,
    note = CASE WHEN remaining > l.number THEN note END
FROM told l
WHERE foliot_workflows.rowid = l.place
RETURNING id, state, policy, cancel_requested, stopped, paused_at, failed - forgiven, waiter;
INSERT INTO foliot_outbox (partition, at, number, home, event, subject, namespace, data)
SELECT :partition, :now, 0, w.id, 'workflow.' || w.state, w.id, w.namespace,
       json_object('workflow', w.name, 'steps', w.total, 'failed', w.failed, 'reason', w.reason)
FROM (SELECT 1 FROM foliot_listeners
      WHERE event IN ('workflow.succeeded', 'workflow.failed', 'workflow.cancelled') LIMIT 1)
CROSS JOIN json_each(:rows) l CROSS JOIN foliot_workflows w
WHERE w.partition = :partition AND w.id = json_extract(l.value, '$[0]') AND w.state <> 'running' AND NOT w.chain
  AND EXISTS (SELECT 1 FROM foliot_listeners h WHERE h.event = 'workflow.' || w.state)
ON CONFLICT DO NOTHING;

-- name: read_steps
-- Of children whose parents have ended, those that have not begun; of an element, with its map's rule.
SELECT s.job, s.workflow, s.rule,
       (SELECT m.rule FROM foliot_steps m WHERE m.partition = :partition AND m.job = s.mapped), s.above, s.pending, s.succeeded, s.failed, s.signal, s.template
FROM json_each(:ids) i CROSS JOIN foliot_steps s
WHERE s.partition = :partition AND s.job = i.value AND s.state IS NULL AND NOT s.begun;

-- name: count_steps
-- Rows of [job, pending, succeeded, failed, begun, skipped].
WITH counted AS MATERIALIZED (
    SELECT s.rowid AS place, l.value AS n
    FROM json_each(:rows) l CROSS JOIN foliot_steps s
    WHERE s.partition = :partition AND s.job = json_extract(l.value, '$[0]') AND s.state IS NULL
)
UPDATE foliot_steps
SET pending = json_extract(c.n, '$[1]'), succeeded = json_extract(c.n, '$[2]'), failed = json_extract(c.n, '$[3]'),
    begun = json_extract(c.n, '$[4]'), state = CASE WHEN json_extract(c.n, '$[5]') THEN 'skipped' END,
    finished_at = CASE WHEN json_extract(c.n, '$[5]') THEN :now END
FROM counted c
WHERE foliot_steps.rowid = c.place;

-- name: begin_steps
-- Rows of [job, hold, delay, expires_in]: they may run, now or after their delay. Placed as submit_jobs would.
WITH told AS MATERIALIZED (
    SELECT j.rowid AS place, json_extract(n.value, '$[1]') AS hold,
           max(j.run_at, :now + CAST(coalesce(json_extract(n.value, '$[2]'), 0) * 1000000 AS INTEGER)) AS due_at,
           :now + CAST(json_extract(n.value, '$[3]') * 1000000 AS INTEGER) AS expires_at
    FROM json_each(:rows) n CROSS JOIN foliot_jobs j
    WHERE j.partition = :partition AND j.id = json_extract(n.value, '$[0]') AND j.state || '' = 'waiting'
)
UPDATE foliot_jobs
SET state = CASE WHEN t.hold IS NOT NULL OR ordering_key IS NOT NULL THEN 'held'
                 WHEN t.due_at > :now THEN 'scheduled'
                 WHEN lane & 3 = 3 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN t.hold IS NOT NULL THEN t.hold
                WHEN ordering_key IS NOT NULL THEN 'admission'
                WHEN t.due_at > :now THEN NULL
                WHEN lane & 3 = 3 THEN 'admission' END,
    rank = CASE lane & 3 WHEN 3 THEN 0 ELSE rank + t.due_at - run_at END,
    run_at = t.due_at, expires_at = coalesce(t.expires_at, foliot_jobs.expires_at)
FROM told t
WHERE foliot_jobs.rowid = t.place
RETURNING lane, state;

-- name: skip_steps
-- What will not run: whatever it waited for. One for which a workflow runs has begun.
INSERT INTO foliot_history (partition, id, fence, priority, attempt, losses, generation, state,
                            namespace, kind, queue, created_at, run_at, started_at, finished_at,
                            session, key, workflow, reason,
                            tags, ordering_key, fair_key, schedule, extras, payload)
SELECT :partition, j.id, j.fence, j.priority, j.attempt, j.losses, j.generation, 'skipped', j.namespace,
       j.kind, j.queue, j.created_at, j.run_at, j.claimed_at, :now, j.session, j.key, j.workflow,
       :reason, j.tags, j.ordering_key, j.fair_key, j.schedule, j.extras, j.payload
FROM json_each(:ids) i CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = i.value AND j.state || '' IN ('waiting', 'scheduled', 'held', 'ready')
  AND NOT EXISTS (SELECT 1 FROM foliot_workflows w
                  WHERE w.partition = :partition AND w.waiter = j.id AND w.state = 'running');
DELETE FROM foliot_jobs
WHERE rowid IN (SELECT j.rowid FROM json_each(:ids) i CROSS JOIN foliot_jobs j
                WHERE j.partition = :partition AND j.id = i.value
                  AND j.state || '' IN ('waiting', 'scheduled', 'held', 'ready')
                  AND NOT EXISTS (SELECT 1 FROM foliot_workflows w
                                  WHERE w.partition = :partition AND w.waiter = j.id AND w.state = 'running'))
RETURNING id;

-- name: await_workflows
-- Rows of [workflow, job]: jobs that wait for one that was retried by itself, and so had nobody to tell.
UPDATE foliot_workflows SET waiter = json_extract(l.value, '$[1]')
FROM json_each(:rows) l
WHERE partition = :partition AND foliot_workflows.id = json_extract(l.value, '$[0]') AND waiter IS NULL;

-- name: release_waiters
-- Of workflows that have ended: the jobs that stand for them go on, to say so. Also one that a pause holds, from before
-- the workflow was tried again by itself: who cancels what is around both counts on this.
UPDATE foliot_jobs
SET state = CASE WHEN lane & 3 = 3 AND rank = 0 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN lane & 3 = 3 AND rank = 0 THEN 'turn' END, hold_note = NULL
WHERE rowid IN (
    SELECT j.rowid FROM json_each(:ids) i CROSS JOIN foliot_workflows w CROSS JOIN foliot_jobs j
    WHERE w.partition = :partition AND w.id = i.value AND w.state <> 'running'
      AND j.partition = :partition AND j.id = w.waiter AND j.state || '' = 'held'
      AND j.hold || '' IN ('workflow', 'paused'))
RETURNING lane, state;

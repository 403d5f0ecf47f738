-- What lost sessions leave behind.

-- name: find_lost_sessions
-- The (partition, session) pairs that running rows name, by skip scan, less the sessions that live;
-- and each partition, without a session, where a deadline has passed. In two steps, not by
-- (partition, session) > (…), of which SQLite would use only the first half.
WITH RECURSIVE named (partition, session) AS (
    SELECT * FROM (SELECT j.partition, j.session FROM foliot_jobs j
                   WHERE j.state = 'running' ORDER BY j.partition, j.session LIMIT 1)
    UNION ALL
    SELECT n.partition, n.session
    FROM named h CROSS JOIN foliot_jobs n ON n.rowid = coalesce(
        (SELECT j.rowid FROM foliot_jobs j
         WHERE j.state = 'running' AND j.partition = h.partition AND j.session > h.session
         ORDER BY j.session LIMIT 1),
        (SELECT j.rowid FROM foliot_jobs j
         WHERE j.state = 'running' AND j.partition > h.partition ORDER BY j.partition, j.session LIMIT 1))
)
SELECT n.partition, n.session FROM named n
WHERE NOT EXISTS (SELECT 1 FROM foliot_sessions s WHERE s.id = n.session AND s.expires_at > :now)
UNION ALL
SELECT p.value, NULL FROM json_each(:partitions) p
WHERE EXISTS (
    SELECT 1 FROM foliot_jobs j WHERE j.partition = p.value AND j.state = 'running'
       AND j.deadline_at IS NOT NULL AND j.deadline_at <= :now);

-- name: reap_jobs
-- Takes back what lost sessions held and what ran past its deadline. A job counts as executing if its session's
-- last beat named it, or came before the claim: then nobody can say that it had not started. The others are given
-- their attempt back, but that the session was lost is recorded for them too: they may have started since the beat.
-- But a job that was given back like that again and again may be what kills them, each time after the beat: where more
-- than two of three losses were not counted, this one is. So whoever kills its process ends, sooner or later.
-- What is decided once stands in a table in memory while the parts act on it. Nobody waits for these rows in another
-- order, so they need not be sorted: of 200,000 to be taken back, that made each 1000 wait 370 ms.
SELECT 1
WHERE EXISTS (SELECT 1 FROM foliot_jobs j WHERE j.partition = :partition AND j.state = 'running'
                AND j.session IN (SELECT value FROM json_each(:sessions)))
   OR EXISTS (SELECT 1 FROM foliot_jobs j WHERE j.partition = :partition AND j.state = 'running'
                AND j.deadline_at IS NOT NULL AND j.deadline_at <= :now);
CREATE TEMPORARY TABLE IF NOT EXISTS foliot_fates (
    place INTEGER PRIMARY KEY, why TEXT NOT NULL, fate TEXT NOT NULL);
DELETE FROM foliot_fates;
INSERT INTO foliot_fates (place, why, fate)
WITH candidates AS (
    SELECT * FROM (SELECT j.rowid AS place FROM foliot_jobs j
                   WHERE j.partition = :partition AND j.state = 'running'
                     AND j.session IN (SELECT value FROM json_each(:sessions))
                   LIMIT :limit)
    UNION
    SELECT * FROM (SELECT j.rowid AS place FROM foliot_jobs j
                   WHERE j.partition = :partition AND j.state = 'running' AND j.deadline_at IS NOT NULL
                     AND j.deadline_at <= :now
                   LIMIT :limit)
), taken AS MATERIALIZED (
    SELECT j.rowid AS place, j.attempt, j.max_attempts, j.losses,
           j.cancel_requested,
           -- One for which a workflow runs ends after that.
           EXISTS (SELECT 1 FROM foliot_workflows w
                   WHERE w.partition = :partition AND w.waiter = j.id AND w.state = 'running') AS stays,
           CASE WHEN j.session IN (SELECT value FROM json_each(:sessions))
                THEN CASE WHEN s.id IS NULL OR j.claimed_at >= s.beat_at
                            OR (j.session, j.id) IN (
                                SELECT x.id, e.value FROM foliot_sessions x CROSS JOIN json_each(x.executing) e
                                WHERE x.id IN (SELECT value FROM json_each(:sessions)))
                            OR (SELECT count(*) FROM foliot_attempts a WHERE a.partition = :partition
                                  AND a.job = j.id AND a.outcome = 'worker_lost') >= 3 * j.losses + 2
                          THEN 'lost' ELSE 'returned' END
                ELSE 'timed_out' END AS why
    FROM (SELECT c.place FROM candidates c LIMIT :limit) c
    CROSS JOIN foliot_jobs j ON j.rowid = c.place
    LEFT JOIN foliot_sessions s ON s.id = j.session
)
SELECT t.place, t.why,
       CASE WHEN t.stays THEN 'ready'
            WHEN t.cancel_requested THEN 'cancelled'
            WHEN t.why = 'lost' AND t.losses + 1 >= :loss_limit THEN 'dead'
            WHEN t.why = 'timed_out' AND t.attempt - t.losses >= t.max_attempts THEN 'dead'
            ELSE 'ready' END
FROM taken t;
INSERT INTO foliot_attempts (partition, job, fence, attempt, outcome, error, session, worker, started_at,
                             finished_at)
SELECT :partition, j.id, j.fence, j.attempt, CASE f.why WHEN 'timed_out' THEN f.why ELSE 'worker_lost' END,
       CASE f.why WHEN 'lost' THEN 'the session that ran it was lost'
                  WHEN 'returned' THEN 'the session that held it was lost, perhaps before it started'
                  ELSE 'it ran past its deadline' END,
       j.session, (SELECT s.host || ':' || s.pid FROM foliot_sessions s WHERE s.id = j.session), j.claimed_at, :now
FROM foliot_fates f CROSS JOIN foliot_jobs j ON j.rowid = f.place;
INSERT INTO foliot_dead (partition, id, fence, lane, priority, attempt, max_attempts, losses, generation,
                         namespace, kind, queue, created_at, run_at, started_at, finished_at,
                         timeout, session, key, workflow, requires, reason,
                         tags, ordering_key, fair_key, schedule, extras, payload)
SELECT :partition, j.id, j.fence, j.lane, j.priority, j.attempt, j.max_attempts,
       j.losses + CASE f.why WHEN 'lost' THEN 1 ELSE 0 END, j.generation,
       j.namespace, j.kind, j.queue, j.created_at, j.run_at, j.claimed_at, :now,
       j.timeout, j.session, j.key, j.workflow, j.requires,
       CASE f.why WHEN 'lost' THEN 'worker_lost' ELSE f.why END,
       j.tags, j.ordering_key, j.fair_key, j.schedule, j.extras, j.payload
FROM foliot_fates f CROSS JOIN foliot_jobs j ON j.rowid = f.place
WHERE f.fate = 'dead';
INSERT INTO foliot_history (partition, id, fence, priority, attempt, losses, generation, state,
                            namespace, kind, queue, created_at, run_at, started_at, finished_at,
                            session, key, workflow, reason,
                            tags, ordering_key, fair_key, schedule, extras, payload)
SELECT :partition, j.id, j.fence, j.priority, j.attempt, j.losses, j.generation, 'cancelled', j.namespace,
       j.kind, j.queue, j.created_at, j.run_at, j.claimed_at, :now, j.session, j.key, j.workflow,
       'requested', j.tags, j.ordering_key, j.fair_key, j.schedule, j.extras, j.payload
FROM foliot_fates f CROSS JOIN foliot_jobs j ON j.rowid = f.place
WHERE f.fate = 'cancelled';
INSERT INTO foliot_outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
SELECT :partition, :now, j.generation, j.id, 'job.' || f.fate, j.id,
       j.namespace, j.kind, j.queue,
       json_object('attempt', j.attempt,
                   'reason', CASE WHEN f.fate = 'cancelled' THEN 'requested'
                                  WHEN f.why = 'lost' THEN 'worker_lost' ELSE f.why END,
                   'error', CASE WHEN f.fate = 'cancelled' THEN NULL
                                 WHEN f.why = 'lost' THEN 'the session that ran it was lost'
                                 ELSE 'it ran past its deadline' END,
                   'workflow', j.workflow, 'schedule', json_extract(j.extras, '$.schedule'))
FROM (SELECT 1 FROM foliot_listeners WHERE event IN ('job.dead', 'job.cancelled') LIMIT 1)
CROSS JOIN foliot_fates f CROSS JOIN foliot_jobs j ON j.rowid = f.place
WHERE f.fate <> 'ready'
  AND substr(j.kind, 1, 3) <> 'on.'
  AND EXISTS (SELECT 1 FROM foliot_listeners l
              WHERE l.event = 'job.' || f.fate AND l.kind IN ('*', j.kind) AND l.queue IN ('*', j.queue));
DELETE FROM foliot_jobs
WHERE rowid IN (SELECT f.place FROM foliot_fates f WHERE f.fate <> 'ready') AND state || '' = 'running';
UPDATE foliot_jobs
SET state = 'ready', session = NULL, claimed_at = NULL, deadline_at = NULL, progress = NULL,
    attempt = attempt - CASE f.why WHEN 'returned' THEN 1 ELSE 0 END,
    losses = losses + CASE f.why WHEN 'lost' THEN 1 ELSE 0 END
FROM foliot_fates f
WHERE foliot_jobs.rowid = f.place AND f.fate = 'ready' AND foliot_jobs.state || '' = 'running';
SELECT CASE fate WHEN 'ready' THEN why ELSE fate END, count(*) FROM foliot_fates GROUP BY 1;

-- name: find_lost_steps
-- Steps that are to be taken back, once that is decided: what becomes of them concerns their workflows.
SELECT j.id, j.workflow FROM foliot_fates f CROSS JOIN foliot_jobs j ON j.rowid = f.place
WHERE j.workflow IS NOT NULL;

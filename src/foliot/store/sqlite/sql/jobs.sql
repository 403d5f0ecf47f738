-- A job's life, from top to bottom. Every statement names the state it comes from,
-- every write of a worker names the fence, and `partition` is in all of them.
--
-- Differences from PostgreSQL, all for one reason each:
-- * SQLite changes one table in one statement, so what is there one statement is here several parts, run in order in
--   one transaction. Nobody else writes meanwhile, so nothing has to be locked and every part sees the same rows.
-- * A batch is one JSON array, its byte strings one blob of which each element names its piece; large answers come
--   back as one JSON array. The driver takes and gives up Python's global lock at every row of a statement; with one
--   step for a batch the database works beside Python instead (4 to 20 k jobs/s become 20 to 30 k beside a busy
--   thread, 92 k become 124 k alone).
-- * CROSS JOIN says that the batch is walked and the rows are looked up, never the other way round.
-- * `state || ''` keeps the planner from the partial indexes where the primary key is meant.

-- name: submit_jobs
-- Only inserts. A delay is counted on the store's clock. A conflict is the same id sent again, or a live job with the same unique key.
INSERT INTO foliot_jobs (partition, id, lane, rank, band, priority, max_attempts, state, namespace,
                         kind, queue, created_at, run_at, timeout, key, payload)
SELECT :partition, n.id, n.lane, n.due_at, n.priority, n.priority, n.max_attempts,
       CASE WHEN n.due_at > :now THEN 'scheduled' ELSE 'ready' END,
       n.namespace, n.kind, n.queue, :now, n.due_at, n.timeout, n.key,
       substr(:blob, n.start, n.length)
FROM (SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS lane,
             json_extract(value, '$[2]') AS priority, json_extract(value, '$[3]') AS max_attempts,
             json_extract(value, '$[4]') AS namespace, json_extract(value, '$[5]') AS kind,
             json_extract(value, '$[6]') AS queue,
             coalesce(json_extract(value, '$[7]'),
                      :now + CAST(json_extract(value, '$[12]') * 1000000 AS INTEGER), :now) AS due_at,
             json_extract(value, '$[8]') AS timeout, json_extract(value, '$[9]') AS key,
             json_extract(value, '$[10]') AS start, json_extract(value, '$[11]') AS length
      FROM json_each(:jobs)) n
WHERE true
ON CONFLICT DO NOTHING;

-- name: withdraw_resent_jobs
-- A submission sent again may meet its job finished and moved: what was just inserted goes again.
DELETE FROM foliot_jobs
WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids)) AND fence = 0
  AND (EXISTS (SELECT 1 FROM foliot_history h WHERE h.partition = :partition AND h.id = foliot_jobs.id)
       OR EXISTS (SELECT 1 FROM foliot_dead d WHERE d.partition = :partition AND d.id = foliot_jobs.id));

-- name: find_submitted_jobs
-- Which job stands for each submission: the one with its id, live or ended; else the live one with its key.
SELECT n.key,
       coalesce((SELECT j.id FROM foliot_jobs j
                 WHERE j.partition = :partition AND j.id = json_extract(n.value, '$[0]')),
                (SELECT h.id FROM foliot_history h
                 WHERE h.partition = :partition AND h.id = json_extract(n.value, '$[0]') LIMIT 1),
                (SELECT d.id FROM foliot_dead d
                 WHERE d.partition = :partition AND d.id = json_extract(n.value, '$[0]')),
                (SELECT j.id FROM foliot_jobs j
                 WHERE j.partition = :partition AND j.key = json_extract(n.value, '$[9]')
                   AND j.namespace = json_extract(n.value, '$[4]') AND j.kind = json_extract(n.value, '$[5]')))
FROM json_each(:jobs) n;

-- name: find_ready_lanes
-- Which of these lanes have something to claim. Only here: a claim first looks, because to write is to keep all
-- others from writing. Rides foliot_jobs_ready.
SELECT json_extract(l.value, '$[0]') FROM json_each(:lanes) l
WHERE EXISTS (SELECT 1 FROM foliot_jobs r
              WHERE r.partition = :partition AND r.lane = json_extract(l.value, '$[0]') AND r.state = 'ready')
  AND NOT EXISTS (SELECT 1 FROM foliot_queues q
                  WHERE q.name = json_extract(l.value, '$[1]') AND q.paused_at IS NOT NULL);

-- name: claim_jobs
-- The front of one lane, up to its quota; there is no LATERAL here, so each lane is claimed by itself. First what the
-- worker needs to know, in order, then the claim of the same rows. Large payloads are only counted; list_payloads reads
-- them.
SELECT json_group_array(json_array(r.id, r.fence, r.kind, r.payload, r.attempt, r.max_attempts, r.losses,
                                   r.timeout, r.linked, r.lane)),
       count(*) - count(r.payload)
FROM (SELECT j.id, j.fence + 1 AS fence, j.kind,
             CASE WHEN length(j.payload) <= :small THEN hex(j.payload) END AS payload,
             j.attempt + 1 AS attempt, j.max_attempts, j.losses, j.timeout,
             j.limit_key IS NOT NULL OR j.workflow IS NOT NULL OR j.outbox AS linked,
             j.lane
      FROM foliot_jobs j
      WHERE j.partition = :partition AND j.lane = :lane AND j.state = 'ready'
        AND NOT EXISTS (SELECT 1 FROM foliot_queues q WHERE q.name = :queue AND q.paused_at IS NOT NULL)
      ORDER BY j.band, j.rank, j.id
      LIMIT :quota) r;
UPDATE foliot_jobs
SET state = 'running', session = :session, fence = fence + 1, attempt = attempt + 1, claimed_at = :now,
    deadline_at = :now + CAST((timeout + :grace) * 1000000 AS INTEGER)
WHERE rowid IN (
    SELECT j.rowid FROM foliot_jobs j
    WHERE j.partition = :partition AND j.lane = :lane AND j.state = 'ready'
      AND NOT EXISTS (SELECT 1 FROM foliot_queues q WHERE q.name = :queue AND q.paused_at IS NOT NULL)
    ORDER BY j.band, j.rank, j.id
    LIMIT :quota);

-- name: list_payloads
SELECT id, payload FROM foliot_jobs WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids));

-- name: finish_jobs
-- To history in one move. Both parts change the same rows; if they are fewer than were named, find_refused_jobs says
-- in between which were not.
INSERT INTO foliot_history (partition, id, fence, priority, attempt, losses, generation, state,
                            namespace, kind, queue, created_at, run_at, started_at, finished_at,
                            session, key, workflow, reason, payload, result)
SELECT j.partition, j.id, j.fence, j.priority, j.attempt, j.losses, j.generation,
       json_extract(d.value, '$[2]'), j.namespace, j.kind, j.queue, j.created_at, j.run_at, j.claimed_at, :now,
       j.session, j.key, j.workflow, json_extract(d.value, '$[3]'), j.payload,
       substr(:blob, json_extract(d.value, '$[4]'), json_extract(d.value, '$[5]'))
FROM json_each(:outcomes) d CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = json_extract(d.value, '$[0]')
  AND j.fence = json_extract(d.value, '$[1]') AND j.session = :session AND j.state || '' = 'running';
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
INSERT INTO foliot_attempts (partition, job, fence, attempt, outcome, error, traceback, session,
                             started_at, finished_at)
SELECT :partition, j.id, j.fence, j.attempt, json_extract(f.value, '$[2]'), json_extract(f.value, '$[3]'),
       json_extract(f.value, '$[4]'), j.session, j.claimed_at, :now
FROM json_each(:outcomes) f CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = json_extract(f.value, '$[0]')
  AND j.fence = json_extract(f.value, '$[1]') AND j.session = :session AND j.state || '' = 'running';

-- name: retry_jobs
-- A failed attempt with another one to follow: back to scheduled at its backoff time.
-- A job that was asked to end is left for cancel_failed_jobs. An interrupted attempt is given back: a deployment uses
-- up none.
WITH again AS MATERIALIZED (
    SELECT j.rowid AS place, :now + CAST(json_extract(f.value, '$[5]') * 1000000 AS INTEGER) AS due_at,
           json_extract(f.value, '$[2]') = 'worker_lost' AS lost,
           json_extract(f.value, '$[2]') = 'interrupted' AS interrupted
    FROM json_each(:outcomes) f CROSS JOIN foliot_jobs j
    WHERE j.partition = :partition AND j.id = json_extract(f.value, '$[0]')
      AND j.fence = json_extract(f.value, '$[1]') AND j.session = :session AND j.state || '' = 'running'
      AND NOT j.cancel_requested
)
UPDATE foliot_jobs
SET state = 'scheduled', run_at = again.due_at, rank = again.due_at, losses = losses + again.lost,
    attempt = attempt - again.interrupted, session = NULL, deadline_at = NULL
FROM again
WHERE foliot_jobs.rowid = again.place
RETURNING id;

-- name: bury_jobs
-- The last attempt failed: to the dead-letter queue.
INSERT INTO foliot_dead (partition, id, fence, lane, priority, attempt, max_attempts, losses, generation,
                         outbox, namespace, kind, queue, created_at, run_at, started_at, finished_at,
                         timeout, session, key, limit_key, workflow, requires, reason, payload)
SELECT :partition, j.id, j.fence, j.lane, j.priority, j.attempt, j.max_attempts,
       j.losses + (json_extract(f.value, '$[2]') = 'worker_lost'), j.generation,
       j.outbox, j.namespace, j.kind, j.queue, j.created_at, j.run_at, j.claimed_at, :now,
       j.timeout, j.session, j.key, j.limit_key, j.workflow, j.requires, json_extract(f.value, '$[2]'), j.payload
FROM json_each(:outcomes) f CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = json_extract(f.value, '$[0]')
  AND j.fence = json_extract(f.value, '$[1]') AND j.session = :session AND j.state || '' = 'running'
  AND NOT j.cancel_requested;
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
                            session, key, workflow, reason, payload)
SELECT :partition, j.id, j.fence, j.priority, j.attempt, j.losses, j.generation, 'cancelled', j.namespace,
       j.kind, j.queue, j.created_at, j.run_at, j.claimed_at, :now, j.session, j.key, j.workflow,
       'requested', j.payload
FROM json_each(:outcomes) f CROSS JOIN foliot_jobs j
WHERE j.partition = :partition AND j.id = json_extract(f.value, '$[0]')
  AND j.fence = json_extract(f.value, '$[1]') AND j.session = :session AND j.state || '' = 'running'
  AND j.cancel_requested;
DELETE FROM foliot_jobs
WHERE rowid IN (
    SELECT j.rowid FROM json_each(:outcomes) f CROSS JOIN foliot_jobs j
    WHERE j.partition = :partition AND j.id = json_extract(f.value, '$[0]')
      AND j.fence = json_extract(f.value, '$[1]') AND j.session = :session AND j.state || '' = 'running'
      AND j.cancel_requested)
RETURNING id;

-- name: release_jobs
-- Given back unstarted: the attempt is not counted, the fence stays where it is. With a hold, it waits for
-- somebody who can run it. A job that was asked to end follows in cancel_jobs.
WITH released AS MATERIALIZED (
    SELECT j.rowid AS place, json_extract(o.value, '$[2]') AS why
    FROM json_each(:outcomes) o CROSS JOIN foliot_jobs j
    WHERE j.partition = :partition AND j.id = json_extract(o.value, '$[0]')
      AND j.fence = json_extract(o.value, '$[1]') AND j.session = :session AND j.state || '' = 'running'
)
UPDATE foliot_jobs
SET state = CASE WHEN r.why IS NULL THEN 'ready' ELSE 'held' END, hold = r.why,
    attempt = attempt - 1, session = NULL, claimed_at = NULL, deadline_at = NULL
FROM released r
WHERE foliot_jobs.rowid = r.place
RETURNING id;

-- name: request_cancel
-- Whatever the state. A job that is not running is ended by cancel_jobs in the same transaction.
UPDATE foliot_jobs
SET cancel_requested = 1
WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids))
RETURNING id, state;

-- name: cancel_jobs
INSERT INTO foliot_history (partition, id, fence, priority, attempt, losses, generation, state,
                            namespace, kind, queue, created_at, run_at, started_at, finished_at,
                            session, key, workflow, reason, payload)
SELECT :partition, j.id, j.fence, j.priority, j.attempt, j.losses, j.generation, 'cancelled', j.namespace,
       j.kind, j.queue, j.created_at, j.run_at, j.claimed_at, :now, j.session, j.key, j.workflow,
       'requested', j.payload
FROM foliot_jobs j
WHERE j.partition = :partition AND j.id IN (SELECT value FROM json_each(:ids)) AND j.cancel_requested
  AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready');
DELETE FROM foliot_jobs
WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids)) AND cancel_requested
  AND state || '' IN ('scheduled', 'waiting', 'held', 'ready');

-- name: admit_jobs
-- Due scheduled jobs become ready, earliest first. Rides foliot_jobs_scheduled. Here, as in admit_kinds and reap_jobs,
-- the first part is the look before a write.
SELECT 1 FROM foliot_jobs WHERE partition = :partition AND state = 'scheduled' AND run_at <= :now LIMIT 1;
SELECT json_group_array(due.lane)
FROM (SELECT s.lane FROM foliot_jobs s
      WHERE s.partition = :partition AND s.state = 'scheduled' AND s.run_at <= :now
      ORDER BY s.run_at, s.id
      LIMIT :limit) due;
UPDATE foliot_jobs
SET state = 'ready'
WHERE rowid IN (
    SELECT s.rowid FROM foliot_jobs s
    WHERE s.partition = :partition AND s.state = 'scheduled' AND s.run_at <= :now
    ORDER BY s.run_at, s.id
    LIMIT :limit);

-- name: admit_kinds
-- What was held because nobody knew its kind, now that somebody does. Rides foliot_jobs_held.
SELECT k.value FROM json_each(:kinds) k
WHERE EXISTS (SELECT 1 FROM foliot_jobs h WHERE h.partition = :partition AND h.state = 'held'
                AND h.hold = 'unknown_kind' AND h.kind = k.value)
LIMIT 1;
SELECT json_group_array(known.lane)
FROM (SELECT h.lane FROM json_each(:kinds) k CROSS JOIN foliot_jobs h
      WHERE h.partition = :partition AND h.state = 'held' AND h.hold = 'unknown_kind' AND h.kind = k.value
      ORDER BY h.kind, h.id
      LIMIT :limit) known;
UPDATE foliot_jobs
SET state = 'ready', hold = NULL
WHERE rowid IN (
    SELECT h.rowid FROM json_each(:kinds) k CROSS JOIN foliot_jobs h
    WHERE h.partition = :partition AND h.state = 'held' AND h.hold = 'unknown_kind' AND h.kind = k.value
    ORDER BY h.kind, h.id
    LIMIT :limit);

-- name: find_lost_sessions
-- The (partition, session) pairs that running rows name, by skip scan, less the sessions that live;
-- and each partition, without a session, where a deadline has passed. In two steps, not by (partition, session) > (…),
-- of which SQLite would use only the first half.
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
    SELECT j.rowid AS place, j.attempt, j.max_attempts, j.losses, j.cancel_requested,
           CASE WHEN j.session IN (SELECT value FROM json_each(:sessions))
                THEN CASE WHEN s.id IS NULL OR j.claimed_at >= s.beat_at
                            OR (j.session, j.id) IN (
                                SELECT x.id, e.value FROM foliot_sessions x CROSS JOIN json_each(x.executing) e
                                WHERE x.id IN (SELECT value FROM json_each(:sessions)))
                          THEN 'lost' ELSE 'returned' END
                ELSE 'timed_out' END AS why
    FROM (SELECT c.place FROM candidates c LIMIT :limit) c
    CROSS JOIN foliot_jobs j ON j.rowid = c.place
    LEFT JOIN foliot_sessions s ON s.id = j.session
)
SELECT t.place, t.why,
       CASE WHEN t.cancel_requested THEN 'cancelled'
            WHEN t.why = 'lost' AND t.losses + 1 >= :loss_limit THEN 'dead'
            WHEN t.why = 'timed_out' AND t.attempt - t.losses >= t.max_attempts THEN 'dead'
            ELSE 'ready' END
FROM taken t;
INSERT INTO foliot_attempts (partition, job, fence, attempt, outcome, error, session, started_at, finished_at)
SELECT :partition, j.id, j.fence, j.attempt, CASE f.why WHEN 'timed_out' THEN f.why ELSE 'worker_lost' END,
       CASE f.why WHEN 'lost' THEN 'the session that ran it was lost'
                  WHEN 'returned' THEN 'the session that held it was lost, perhaps before it started'
                  ELSE 'it ran past its deadline' END,
       j.session, j.claimed_at, :now
FROM foliot_fates f CROSS JOIN foliot_jobs j ON j.rowid = f.place;
INSERT INTO foliot_dead (partition, id, fence, lane, priority, attempt, max_attempts, losses, generation,
                         outbox, namespace, kind, queue, created_at, run_at, started_at, finished_at,
                         timeout, session, key, limit_key, workflow, requires, reason, payload)
SELECT :partition, j.id, j.fence, j.lane, j.priority, j.attempt, j.max_attempts,
       j.losses + CASE f.why WHEN 'lost' THEN 1 ELSE 0 END, j.generation,
       j.outbox, j.namespace, j.kind, j.queue, j.created_at, j.run_at, j.claimed_at, :now,
       j.timeout, j.session, j.key, j.limit_key, j.workflow, j.requires,
       CASE f.why WHEN 'lost' THEN 'worker_lost' ELSE f.why END, j.payload
FROM foliot_fates f CROSS JOIN foliot_jobs j ON j.rowid = f.place
WHERE f.fate = 'dead';
INSERT INTO foliot_history (partition, id, fence, priority, attempt, losses, generation, state,
                            namespace, kind, queue, created_at, run_at, started_at, finished_at,
                            session, key, workflow, reason, payload)
SELECT :partition, j.id, j.fence, j.priority, j.attempt, j.losses, j.generation, 'cancelled', j.namespace,
       j.kind, j.queue, j.created_at, j.run_at, j.claimed_at, :now, j.session, j.key, j.workflow,
       'requested', j.payload
FROM foliot_fates f CROSS JOIN foliot_jobs j ON j.rowid = f.place
WHERE f.fate = 'cancelled';
DELETE FROM foliot_jobs
WHERE rowid IN (SELECT f.place FROM foliot_fates f WHERE f.fate <> 'ready') AND state || '' = 'running';
UPDATE foliot_jobs
SET state = 'ready', session = NULL, claimed_at = NULL, deadline_at = NULL,
    attempt = attempt - CASE f.why WHEN 'returned' THEN 1 ELSE 0 END,
    losses = losses + CASE f.why WHEN 'lost' THEN 1 ELSE 0 END
FROM foliot_fates f
WHERE foliot_jobs.rowid = f.place AND f.fate = 'ready' AND foliot_jobs.state || '' = 'running';
SELECT CASE fate WHEN 'ready' THEN why ELSE fate END, count(*) FROM foliot_fates GROUP BY 1;

-- name: peek_jobs
-- Every (partition, lane) with ready jobs, by skip scan in two steps as above, and each partition's next due time.
WITH RECURSIVE heads (partition, lane, place) AS (
    SELECT * FROM (SELECT j.partition, j.lane, j.rowid FROM foliot_jobs j
                   WHERE j.state = 'ready' ORDER BY j.partition, j.lane LIMIT 1)
    UNION ALL
    SELECT n.partition, n.lane, n.rowid
    FROM heads h CROSS JOIN foliot_jobs n ON n.rowid = coalesce(
        (SELECT j.rowid FROM foliot_jobs j
         WHERE j.state = 'ready' AND j.partition = h.partition AND j.lane > h.lane ORDER BY j.lane LIMIT 1),
        (SELECT j.rowid FROM foliot_jobs j
         WHERE j.state = 'ready' AND j.partition > h.partition ORDER BY j.partition, j.lane LIMIT 1))
)
SELECT h.partition, h.lane, j.queue, j.requires, NULL
FROM heads h CROSS JOIN foliot_jobs j ON j.rowid = h.place
UNION ALL
SELECT p.value, NULL, NULL, NULL,
       ((SELECT j.run_at FROM foliot_jobs j WHERE j.partition = p.value AND j.state = 'scheduled'
         ORDER BY j.run_at LIMIT 1) - :now) / 1000000.0
FROM json_each(:partitions) p;

-- name: list_running_jobs
SELECT j.id, j.partition, j.fence, j.cancel_requested
FROM json_each(:partitions) p CROSS JOIN foliot_jobs j
WHERE j.partition = p.value AND j.session = :session AND j.state = 'running';

-- name: find_settled_jobs
-- Which of these outcomes have taken effect, as this end and under this fence: a faster reaper leaves other traces.
SELECT json_extract(o.value, '$[0]') FROM json_each(:outcomes) o
WHERE EXISTS (SELECT 1 FROM foliot_history h WHERE h.partition = :partition
                AND h.id = json_extract(o.value, '$[0]') AND h.fence = json_extract(o.value, '$[1]')
                AND h.state = json_extract(o.value, '$[2]'))
   OR EXISTS (SELECT 1 FROM foliot_attempts a WHERE a.partition = :partition
                AND a.job = json_extract(o.value, '$[0]') AND a.fence = json_extract(o.value, '$[1]')
                AND a.outcome = json_extract(o.value, '$[3]') AND a.error IS json_extract(o.value, '$[4]'));

-- name: get_live_job
SELECT id, kind, state, queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, claimed_at, NULL, session, key, hold, cancel_requested, payload, NULL
FROM foliot_jobs WHERE partition = :partition AND id = :id;

-- name: get_recent_job
-- History is one table here: the index finds the job however old it is.
SELECT id, kind, state, queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session, key, reason, 0, payload, result
FROM foliot_history WHERE partition = :partition AND id = :id
ORDER BY generation DESC LIMIT 1;

-- name: get_dead_job
SELECT id, kind, 'dead', queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session, key, reason, 0, payload, NULL
FROM foliot_dead WHERE partition = :partition AND id = :id;

-- name: list_ended_jobs
SELECT id, kind, state, queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session, key, reason, 0, payload, result
FROM foliot_history WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT id, kind, 'dead', queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session, key, reason, 0, payload, NULL
FROM foliot_dead WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids));

-- name: list_attempts
SELECT attempt, fence, outcome, error, traceback, session, started_at, finished_at
FROM foliot_attempts WHERE partition = :partition AND job = :id ORDER BY fence;

-- name: count_jobs
SELECT state, count(*) FROM foliot_jobs GROUP BY state
UNION ALL
SELECT state, count(*) FROM foliot_history GROUP BY state
UNION ALL
SELECT 'dead', count(*) FROM foliot_dead;

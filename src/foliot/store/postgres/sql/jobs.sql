-- A job's life, from top to bottom. Every statement names the state it comes from,
-- every write of a worker names the fence, and `partition` is in all of them.
--
-- Plans must not depend on how many rows the planner thinks there are: they are made while a queue is empty and used
-- when it is full, or made without statistics. So:
-- * Rows to change are found by `id = ANY (...)`, never by a join; what else there is to say of each is looked up by id
--   in a jsonb object, or joined afterwards by a FULL JOIN, which cannot become a nested loop.
--   (As joins, drains of a new store ran at 350 jobs/s until the first ANALYZE; as they are, at full speed.)
-- * `state || ''` instead of `state` keeps the planner from the partial indexes where the primary key is meant:
--   behind an old open transaction their dead entries are walked again and again, those of the key are not.

-- name: submit_jobs
-- Only inserts: it touches no shared row, so it is safe in a caller's long transaction.
-- A delay is counted here, on the store's clock: the sender's may be wrong.
-- A conflict is the same id sent again, or a live job with the same unique key.
INSERT INTO foliot.jobs (partition, id, lane, rank, band, priority, max_attempts, state, namespace,
                         kind, queue, created_at, run_at, timeout, key, payload)
SELECT :partition::smallint, n.id, n.lane,
       (extract(epoch FROM n.due_at) * 1000000)::bigint,
       n.priority, n.priority, n.max_attempts,
       CASE WHEN n.due_at > coalesce(:now, now()) THEN 'scheduled' ELSE 'ready' END,
       n.namespace, n.kind, n.queue, coalesce(:now, now()), n.due_at,
       n.timeout, n.key, n.payload
FROM (SELECT u.*, coalesce(u.run_at, coalesce(:now, now()) + make_interval(secs => u.delay), :now, now()) AS due_at
      FROM unnest(:ids::uuid[], :lanes::bigint[], :priorities::smallint[], :max_attempts::smallint[],
                  :namespaces::text[], :kinds::text[], :queues::text[], :run_ats::timestamptz[],
                  :delays::float8[], :timeouts::real[], :keys::text[], :payloads::bytea[])
          AS u (id, lane, priority, max_attempts, namespace, kind, queue, run_at, delay, timeout, key, payload)) n
ON CONFLICT DO NOTHING;

-- name: withdraw_resent_jobs
-- A submission sent again may meet its job finished and moved: what was just inserted goes again.
-- In a statement of its own after the insert: asked within it, the older snapshot would miss the move.
DELETE FROM foliot.jobs j
WHERE j.partition = :partition AND j.fence = 0 AND j.id = ANY (ARRAY(
    SELECT h.id FROM foliot.history h WHERE h.partition = :partition AND h.id = ANY (:ids::uuid[])
    UNION ALL
    SELECT d.id FROM foliot.dead d WHERE d.partition = :partition AND d.id = ANY (:ids::uuid[])));

-- name: find_submitted_jobs
-- Which job stands for each submission: the one with its id, live or, if it may have been sent before, ended; else the
-- live one with its key.
SELECT n.ordinal::integer - 1,
       coalesce((SELECT j.id FROM foliot.jobs j WHERE j.partition = :partition AND j.id = n.id),
                CASE WHEN :resend THEN coalesce(
                    (SELECT h.id FROM foliot.history h WHERE h.partition = :partition AND h.id = n.id LIMIT 1),
                    (SELECT d.id FROM foliot.dead d WHERE d.partition = :partition AND d.id = n.id)) END,
                (SELECT j.id FROM foliot.jobs j WHERE j.partition = :partition AND j.key = n.key
                    AND j.namespace = n.namespace AND j.kind = n.kind))::text
FROM unnest(:ids::uuid[], :namespaces::text[], :kinds::text[], :keys::text[])
     WITH ORDINALITY AS n (id, namespace, kind, key, ordinal);

-- name: claim_jobs
-- The front of each lane, up to its quota, lanes in the order they are named. The candidates are fixed by a
-- materialized CTE, so that the limit holds whatever the plan. Rides jobs_ready, then the primary key.
-- By the time of the statement: now() is when the transaction began, and what it then finished may have taken longer
-- than a job that is claimed here has been due, or than a beat ago.
WITH picked AS MATERIALIZED (
    SELECT j.id
    FROM unnest(:lanes::bigint[], :queues::text[], :quotas::integer[]) AS l (lane, queue, quota)
    CROSS JOIN LATERAL (
        SELECT r.id
        FROM foliot.jobs r
        WHERE r.partition = :partition AND r.lane = l.lane AND r.state = 'ready'
          -- A scalar, not NOT EXISTS: that would become a join, and mix up the order of the lanes.
          AND (SELECT q.paused_at FROM foliot.queues q WHERE q.name = l.queue) IS NULL
        ORDER BY r.band, r.rank, r.id
        LIMIT l.quota
        FOR UPDATE SKIP LOCKED
    ) j
    LIMIT :room
), taken AS (
    UPDATE foliot.jobs j
    SET state = 'running', session = :session, fence = j.fence + 1, attempt = j.attempt + 1,
        claimed_at = coalesce(:now, statement_timestamp()),
        deadline_at = coalesce(:now, statement_timestamp()) + make_interval(secs => j.timeout + :grace)
    WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM picked)) AND j.state || '' = 'ready'
    RETURNING j.id, j.fence, j.kind, j.payload, j.attempt, j.max_attempts, j.losses, j.timeout,
              j.limit_key IS NOT NULL OR j.workflow IS NOT NULL OR j.outbox AS linked, j.lane, j.band, j.rank
)
SELECT id::text, fence, kind, payload, attempt, max_attempts, losses, timeout, linked, lane
FROM taken ORDER BY array_position(:lanes::bigint[], lane), band, rank, id;

-- name: lock_jobs
-- First of all where several statements end jobs in one transaction: each locks its own, and together they would not
-- follow the order of request_cancel.
WITH locked AS MATERIALIZED (
    SELECT id FROM foliot.jobs WHERE partition = :partition AND id = ANY (:ids::uuid[]) ORDER BY id FOR UPDATE
)
SELECT count(*) FROM locked;

-- name: finish_jobs
-- To history in one move. Returns the ids that were refused: the fence had moved on, or the session lost them.
-- By itself it locks no rows beforehand, which every job would pay for. It walks the key, so in the order of the ids;
-- should a plan walk the table instead and meet a request_cancel crosswise, the one that PostgreSQL ends (40P01) is
-- run again.
WITH told AS (
    SELECT jsonb_object_agg(d.id, d.fence) AS fences
    FROM unnest(:ids::uuid[], :fences::bigint[]) AS d (id, fence)
), gone AS (
    DELETE FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.session = :session
      AND j.state || '' = 'running' AND j.fence = ((SELECT fences FROM told) ->> j.id::text)::bigint
    RETURNING j.id, j.fence, j.priority, j.attempt, j.losses, j.generation, j.namespace, j.kind, j.queue,
              j.created_at, j.run_at, j.claimed_at, j.session, j.key, j.workflow, j.payload
), ended AS MATERIALIZED (
    SELECT d.id AS named, d.state, d.reason, d.result, g.*
    FROM unnest(:ids::uuid[], :fences::bigint[], :states::text[], :reasons::text[], :results::bytea[])
        AS d (id, fence, state, reason, result)
    FULL JOIN gone g ON g.id = d.id AND g.fence = d.fence
), kept AS (
    INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state,
                                namespace, kind, queue, created_at, run_at, started_at, finished_at,
                                session, key, workflow, reason, payload, result)
    SELECT :partition::smallint, id, fence, priority, attempt, losses, generation, state, namespace, kind,
           queue, created_at, run_at, claimed_at, coalesce(:now, now()), session, key, workflow, reason,
           payload, result
    FROM ended WHERE id IS NOT NULL
)
SELECT named::text FROM ended WHERE id IS NULL;

-- name: retry_jobs
-- A failed attempt with another one to follow: back to scheduled at its backoff time.
-- A job that was asked to end is left for cancel_failed_jobs. An interrupted attempt is given back: a deployment uses
-- up none.
WITH told AS (
    SELECT jsonb_object_agg(f.id, jsonb_build_array(f.fence, f.delay, f.reason)) AS facts
    FROM unnest(:ids::uuid[], :fences::bigint[], :delays::float8[], :reasons::text[])
        AS f (id, fence, delay, reason)
), again AS (
    UPDATE foliot.jobs j
    SET state = 'scheduled', session = NULL, deadline_at = NULL,
        run_at = coalesce(:now, now())
            + make_interval(secs => ((SELECT facts FROM told) -> j.id::text ->> 1)::float8),
        rank = (extract(epoch FROM coalesce(:now, now())
            + make_interval(secs => ((SELECT facts FROM told) -> j.id::text ->> 1)::float8)) * 1000000)::bigint,
        attempt = j.attempt - CASE (SELECT facts FROM told) -> j.id::text ->> 2 WHEN 'interrupted' THEN 1 ELSE 0 END,
        losses = j.losses + CASE (SELECT facts FROM told) -> j.id::text ->> 2 WHEN 'worker_lost' THEN 1 ELSE 0 END
    WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.session = :session
      AND j.state || '' = 'running' AND NOT j.cancel_requested
      AND j.fence = ((SELECT facts FROM told) -> j.id::text ->> 0)::bigint
    RETURNING j.id, j.fence, j.attempt, j.claimed_at
), failed AS MATERIALIZED (
    SELECT f.reason, f.error, f.traceback, g.*
    FROM unnest(:ids::uuid[], :fences::bigint[], :reasons::text[], :errors::text[], :tracebacks::text[])
        AS f (id, fence, reason, error, traceback)
    FULL JOIN again g ON g.id = f.id AND g.fence = f.fence
), recorded AS (
    INSERT INTO foliot.attempts (partition, job, fence, attempt, outcome, error, traceback, session,
                                 started_at, finished_at)
    SELECT :partition::smallint, id, fence, attempt + CASE reason WHEN 'interrupted' THEN 1 ELSE 0 END, reason,
           error, traceback, :session, claimed_at, coalesce(:now, now())
    FROM failed WHERE id IS NOT NULL
)
SELECT id::text FROM failed WHERE id IS NOT NULL;

-- name: bury_jobs
-- The last attempt failed: to the dead-letter queue.
WITH told AS (
    SELECT jsonb_object_agg(f.id, f.fence) AS fences
    FROM unnest(:ids::uuid[], :fences::bigint[]) AS f (id, fence)
), gone AS (
    DELETE FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.session = :session
      AND j.state || '' = 'running' AND NOT j.cancel_requested
      AND j.fence = ((SELECT fences FROM told) ->> j.id::text)::bigint
    RETURNING j.*
), failed AS MATERIALIZED (
    SELECT f.reason AS why, f.error, f.traceback, g.*
    FROM unnest(:ids::uuid[], :fences::bigint[], :reasons::text[], :errors::text[], :tracebacks::text[])
        AS f (id, fence, reason, error, traceback)
    FULL JOIN gone g ON g.id = f.id AND g.fence = f.fence
), recorded AS (
    INSERT INTO foliot.attempts (partition, job, fence, attempt, outcome, error, traceback, session,
                                 started_at, finished_at)
    SELECT :partition::smallint, id, fence, attempt, why, error, traceback, session, claimed_at,
           coalesce(:now, now())
    FROM failed WHERE id IS NOT NULL
), buried AS (
    INSERT INTO foliot.dead (partition, id, fence, lane, priority, attempt, max_attempts, losses, generation,
                             outbox, namespace, kind, queue, created_at, run_at, started_at, finished_at,
                             timeout, session, key, limit_key, workflow, requires, reason, payload)
    SELECT :partition::smallint, id, fence, lane, priority, attempt, max_attempts,
           losses + CASE why WHEN 'worker_lost' THEN 1 ELSE 0 END, generation,
           outbox, namespace, kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()),
           timeout, session, key, limit_key, workflow, requires, why, payload
    FROM failed WHERE id IS NOT NULL
)
SELECT id::text FROM failed WHERE id IS NOT NULL;

-- name: cancel_failed_jobs
-- A failed attempt of a job that was asked to end: it ends as cancelled, its attempt is kept.
WITH told AS (
    SELECT jsonb_object_agg(f.id, f.fence) AS fences
    FROM unnest(:ids::uuid[], :fences::bigint[]) AS f (id, fence)
), gone AS (
    DELETE FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.session = :session
      AND j.state || '' = 'running' AND j.cancel_requested
      AND j.fence = ((SELECT fences FROM told) ->> j.id::text)::bigint
    RETURNING j.*
), failed AS MATERIALIZED (
    SELECT f.reason AS why, f.error, f.traceback, g.*
    FROM unnest(:ids::uuid[], :fences::bigint[], :reasons::text[], :errors::text[], :tracebacks::text[])
        AS f (id, fence, reason, error, traceback)
    FULL JOIN gone g ON g.id = f.id AND g.fence = f.fence
), recorded AS (
    INSERT INTO foliot.attempts (partition, job, fence, attempt, outcome, error, traceback, session,
                                 started_at, finished_at)
    SELECT :partition::smallint, id, fence, attempt, why, error, traceback, session, claimed_at,
           coalesce(:now, now())
    FROM failed WHERE id IS NOT NULL
), kept AS (
    INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state,
                                namespace, kind, queue, created_at, run_at, started_at, finished_at,
                                session, key, workflow, reason, payload)
    SELECT :partition::smallint, id, fence, priority, attempt, losses, generation, 'cancelled', namespace,
           kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()), session, key, workflow,
           'requested', payload
    FROM failed WHERE id IS NOT NULL
)
SELECT id::text FROM failed WHERE id IS NOT NULL;

-- name: release_jobs
-- Given back unstarted: the attempt is not counted, the fence stays where it is. With a hold, it waits for
-- somebody who can run it. A job that was asked to end follows in cancel_jobs.
WITH told AS (
    SELECT jsonb_object_agg(r.id, jsonb_build_array(r.fence, r.hold)) AS facts
    FROM unnest(:ids::uuid[], :fences::bigint[], :holds::text[]) AS r (id, fence, hold)
)
UPDATE foliot.jobs j
SET state = CASE WHEN (SELECT facts FROM told) -> j.id::text ->> 1 IS NULL THEN 'ready' ELSE 'held' END,
    hold = (SELECT facts FROM told) -> j.id::text ->> 1,
    attempt = j.attempt - 1, session = NULL, claimed_at = NULL, deadline_at = NULL
WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.session = :session
  AND j.state || '' = 'running' AND j.fence = ((SELECT facts FROM told) -> j.id::text ->> 0)::bigint
RETURNING j.id::text;

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
WITH gone AS (
    DELETE FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.cancel_requested
      AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready')
    RETURNING j.*
), kept AS (
    INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state,
                                namespace, kind, queue, created_at, run_at, started_at, finished_at,
                                session, key, workflow, reason, payload)
    SELECT :partition::smallint, id, fence, priority, attempt, losses, generation, 'cancelled', namespace,
           kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()), session, key, workflow,
           'requested', payload
    FROM gone
)
SELECT id::text FROM gone;

-- name: admit_jobs
-- Due scheduled jobs become ready, earliest first. Rides jobs_scheduled.
WITH due AS MATERIALIZED (
    SELECT s.id
    FROM foliot.jobs s
    WHERE s.partition = :partition AND s.state = 'scheduled' AND s.run_at <= coalesce(:now, now())
    ORDER BY s.run_at, s.id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
UPDATE foliot.jobs j
SET state = 'ready'
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM due)) AND j.state || '' = 'scheduled'
RETURNING j.lane;

-- name: admit_kinds
-- What was held because nobody knew its kind, now that somebody does. Rides jobs_held.
WITH known AS MATERIALIZED (
    SELECT h.id
    FROM foliot.jobs h
    WHERE h.partition = :partition AND h.state = 'held' AND h.hold = 'unknown_kind'
      AND h.kind = ANY (:kinds::text[])
    ORDER BY h.kind, h.id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
UPDATE foliot.jobs j
SET state = 'ready', hold = NULL
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM known)) AND j.state || '' = 'held'
RETURNING j.lane;

-- name: find_lost_sessions
-- The (partition, session) pairs that running rows name, by skip scan, less the sessions that live;
-- and each partition, without a session, where a deadline has passed.
WITH RECURSIVE named AS (
    (SELECT j.partition, j.session FROM foliot.jobs j WHERE j.state = 'running'
     ORDER BY j.partition, j.session LIMIT 1)
    UNION ALL
    SELECT n.partition, n.session
    FROM named h CROSS JOIN LATERAL (
        SELECT j.partition, j.session FROM foliot.jobs j
        WHERE j.state = 'running' AND (j.partition, j.session) > (h.partition, h.session)
        ORDER BY j.partition, j.session LIMIT 1
    ) n
)
SELECT n.partition, n.session::text FROM named n
WHERE NOT EXISTS (SELECT FROM foliot.sessions s WHERE s.id = n.session AND s.expires_at > coalesce(:now, now()))
UNION ALL
SELECT p.partition::smallint, NULL FROM generate_series(0, :partitions::integer - 1) AS p (partition)
WHERE EXISTS (
    SELECT FROM foliot.jobs j WHERE j.partition = p.partition AND j.state = 'running'
       AND j.deadline_at IS NOT NULL AND j.deadline_at <= coalesce(:now, now()));

-- name: reap_jobs
-- Takes back what lost sessions held and what ran past its deadline. A job counts as executing if its session's
-- last beat named it, or came before the claim: then nobody can say that it had not started. The others are given
-- their attempt back, but that the session was lost is recorded for them too: they may have started since the beat.
WITH candidates AS (
    SELECT j.id FROM foliot.jobs j
    WHERE j.partition = :partition AND j.state = 'running' AND j.session = ANY (:sessions::uuid[])
    UNION
    SELECT j.id FROM foliot.jobs j
    WHERE j.partition = :partition AND j.state = 'running' AND j.deadline_at IS NOT NULL
      AND j.deadline_at <= coalesce(:now, now())
), taken AS MATERIALIZED (
    SELECT j.id, j.fence, j.attempt, j.max_attempts, j.losses, j.session, j.claimed_at, j.cancel_requested,
           CASE WHEN j.session = ANY (:sessions::uuid[])
                THEN CASE WHEN s.id IS NULL OR j.id = ANY (s.executing) OR j.claimed_at >= s.beat_at
                          THEN 'lost' ELSE 'returned' END
                ELSE 'timed_out' END AS why
    FROM foliot.jobs j LEFT JOIN foliot.sessions s ON s.id = j.session
    WHERE j.partition = :partition AND j.state || '' = 'running'
      AND j.id = ANY (ARRAY(SELECT c.id FROM candidates c ORDER BY c.id LIMIT :limit))
      AND (j.session = ANY (:sessions::uuid[]) OR j.deadline_at <= coalesce(:now, now()))
    ORDER BY j.id
    FOR UPDATE OF j SKIP LOCKED
), fates AS MATERIALIZED (
    SELECT t.*,
           CASE WHEN t.cancel_requested THEN 'cancelled'
                WHEN t.why = 'lost' AND t.losses + 1 >= :loss_limit::integer THEN 'dead'
                WHEN t.why = 'timed_out' AND t.attempt - t.losses >= t.max_attempts THEN 'dead'
                ELSE 'ready' END AS fate
    FROM taken t
), recorded AS (
    INSERT INTO foliot.attempts (partition, job, fence, attempt, outcome, error, session, started_at, finished_at)
    SELECT :partition::smallint, id, fence, attempt, CASE why WHEN 'timed_out' THEN why ELSE 'worker_lost' END,
           CASE why WHEN 'lost' THEN 'the session that ran it was lost'
                    WHEN 'returned' THEN 'the session that held it was lost, perhaps before it started'
                    ELSE 'it ran past its deadline' END,
           session, claimed_at, coalesce(:now, now())
    FROM fates
), again AS (
    UPDATE foliot.jobs j
    SET state = 'ready', session = NULL, claimed_at = NULL, deadline_at = NULL,
        attempt = j.attempt - CASE WHEN j.id IN (SELECT id FROM fates WHERE why = 'returned') THEN 1 ELSE 0 END,
        losses = j.losses + CASE WHEN j.id IN (SELECT id FROM fates WHERE why = 'lost') THEN 1 ELSE 0 END
    WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM fates WHERE fate = 'ready'))
      AND j.state || '' = 'running'
), gone AS (
    DELETE FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM fates WHERE fate <> 'ready'))
      AND j.state || '' = 'running'
    RETURNING j.*
), ended AS MATERIALIZED (
    SELECT f.why, f.fate, g.* FROM fates f FULL JOIN gone g ON g.id = f.id
), buried AS (
    INSERT INTO foliot.dead (partition, id, fence, lane, priority, attempt, max_attempts, losses, generation,
                             outbox, namespace, kind, queue, created_at, run_at, started_at, finished_at,
                             timeout, session, key, limit_key, workflow, requires, reason, payload)
    SELECT :partition::smallint, id, fence, lane, priority, attempt, max_attempts,
           losses + CASE why WHEN 'lost' THEN 1 ELSE 0 END, generation,
           outbox, namespace, kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()),
           timeout, session, key, limit_key, workflow, requires,
           CASE why WHEN 'lost' THEN 'worker_lost' ELSE why END, payload
    FROM ended WHERE id IS NOT NULL AND fate = 'dead'
), kept AS (
    INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state,
                                namespace, kind, queue, created_at, run_at, started_at, finished_at,
                                session, key, workflow, reason, payload)
    SELECT :partition::smallint, id, fence, priority, attempt, losses, generation, 'cancelled', namespace,
           kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()), session, key, workflow,
           'requested', payload
    FROM ended WHERE id IS NOT NULL AND fate = 'cancelled'
)
SELECT CASE fate WHEN 'ready' THEN why ELSE fate END, count(*) FROM fates GROUP BY 1;

-- name: peek_jobs
-- Every (partition, lane) with ready jobs, by skip scan, and each partition's next due time.
WITH RECURSIVE heads AS (
    (SELECT j.partition, j.lane, j.queue, j.requires FROM foliot.jobs j WHERE j.state = 'ready'
     ORDER BY j.partition, j.lane LIMIT 1)
    UNION ALL
    SELECT n.partition, n.lane, n.queue, n.requires
    FROM heads h CROSS JOIN LATERAL (
        SELECT j.partition, j.lane, j.queue, j.requires FROM foliot.jobs j
        WHERE j.state = 'ready' AND (j.partition, j.lane) > (h.partition, h.lane)
        ORDER BY j.partition, j.lane LIMIT 1
    ) n
)
SELECT h.partition, h.lane, h.queue, h.requires, NULL::float8 FROM heads h
UNION ALL
SELECT p.partition::smallint, NULL, NULL, NULL,
       extract(epoch FROM (SELECT j.run_at FROM foliot.jobs j
                           WHERE j.partition = p.partition AND j.state = 'scheduled'
                           ORDER BY j.run_at LIMIT 1) - coalesce(:now, now()))::float8
FROM generate_series(0, :partitions::integer - 1) AS p (partition);

-- name: list_running_jobs
SELECT j.id::text, j.partition, j.fence, j.cancel_requested FROM foliot.jobs j
WHERE j.partition = ANY (:partitions::smallint[]) AND j.session = :session AND j.state = 'running';

-- name: find_settled_jobs
-- Under which fences these jobs have ended or failed, and how: an outcome has taken effect if it is among them.
SELECT h.id::text, h.fence, h.state, NULL FROM foliot.history h
WHERE h.partition = :partition AND h.id = ANY (:ids::uuid[])
UNION ALL
SELECT a.job::text, a.fence, a.outcome, a.error FROM foliot.attempts a
WHERE a.partition = :partition AND a.job = ANY (:ids::uuid[]);

-- name: get_live_job
SELECT id::text, kind, state, queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, claimed_at, NULL::timestamptz, session::text, key, hold, cancel_requested, payload, NULL::bytea
FROM foliot.jobs WHERE partition = :partition AND id = :id;

-- name: get_recent_job
-- History is kept by day: the id says when the job was made, so older days need not be looked at.
SELECT id::text, kind, state, queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session::text, key, reason, false, payload, result
FROM foliot.history WHERE partition = :partition AND id = :id AND finished_at >= :since
ORDER BY generation DESC LIMIT 1;

-- name: get_dead_job
SELECT id::text, kind, 'dead', queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session::text, key, reason, false, payload, NULL::bytea
FROM foliot.dead WHERE partition = :partition AND id = :id;

-- name: list_ended_jobs
-- As above; and the last day in any case, for ids that were made by a clock that is ahead.
SELECT id::text, kind, state, queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session::text, key, reason, false, payload, result
FROM foliot.history
WHERE partition = :partition AND id = ANY (:ids::uuid[])
  AND finished_at >= least(:since::timestamptz, coalesce(:now, now()) - interval '1 day')
UNION ALL
SELECT id::text, kind, 'dead', queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session::text, key, reason, false, payload, NULL::bytea
FROM foliot.dead WHERE partition = :partition AND id = ANY (:ids::uuid[]);

-- name: list_attempts
SELECT attempt, fence, outcome, error, traceback, session::text, started_at, finished_at
FROM foliot.attempts WHERE partition = :partition AND job = :id ORDER BY fence;

-- name: count_jobs
SELECT state, count(*) FROM foliot.jobs GROUP BY state
UNION ALL
SELECT state, count(*) FROM foliot.history GROUP BY state
UNION ALL
SELECT 'dead', count(*) FROM foliot.dead;

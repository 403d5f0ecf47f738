-- A job's life, from top to bottom. Every statement names the state it comes from,
-- every write of a worker names the fence, and `partition` is in all of them.
--
-- `state || ''` instead of `state` keeps the planner from the partial indexes where the primary key is meant:
-- behind an old open transaction their dead entries are walked again and again, those of the key are not.

-- name: submit_jobs
-- Only inserts: it touches no shared row, so it is safe in a caller's long transaction.
-- A conflict is the same id sent again, or a live job with the same unique key.
INSERT INTO foliot.jobs (partition, id, lane, rank, band, priority, max_attempts, state, namespace,
                         kind, queue, created_at, run_at, timeout, key, payload)
SELECT :partition::smallint, n.id, n.lane,
       (extract(epoch FROM coalesce(n.run_at, :now, now())) * 1000000)::bigint,
       n.priority, n.priority, n.max_attempts,
       CASE WHEN n.run_at > coalesce(:now, now()) THEN 'scheduled' ELSE 'ready' END,
       n.namespace, n.kind, n.queue, coalesce(:now, now()), coalesce(n.run_at, :now, now()),
       n.timeout, n.key, n.payload
FROM unnest(:ids::uuid[], :lanes::bigint[], :priorities::smallint[], :max_attempts::smallint[],
            :namespaces::text[], :kinds::text[], :queues::text[], :run_ats::timestamptz[],
            :timeouts::real[], :keys::text[], :payloads::bytea[])
     AS n (id, lane, priority, max_attempts, namespace, kind, queue, run_at, timeout, key, payload)
ON CONFLICT DO NOTHING;

-- name: withdraw_resent_jobs
-- A submission sent again may meet its job finished and moved: what was just inserted goes again.
-- In a statement of its own after the insert: asked within it, the older snapshot would miss the move.
DELETE FROM foliot.jobs j
WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.fence = 0
  AND (EXISTS (SELECT FROM foliot.history h WHERE h.partition = :partition AND h.id = j.id)
       OR EXISTS (SELECT FROM foliot.dead d WHERE d.partition = :partition AND d.id = j.id));

-- name: find_submitted_jobs
-- Which job stands for each submission: the one with its id, else the live one with its key, else one that ended.
SELECT n.ordinal::integer - 1,
       coalesce((SELECT j.id FROM foliot.jobs j WHERE j.partition = :partition AND j.id = n.id),
                (SELECT j.id FROM foliot.jobs j WHERE j.partition = :partition AND j.key = n.key
                    AND j.namespace = n.namespace AND j.kind = n.kind),
                (SELECT h.id FROM foliot.history h WHERE h.partition = :partition AND h.id = n.id LIMIT 1),
                (SELECT d.id FROM foliot.dead d WHERE d.partition = :partition AND d.id = n.id))::text
FROM unnest(:ids::uuid[], :namespaces::text[], :kinds::text[], :keys::text[])
     WITH ORDINALITY AS n (id, namespace, kind, key, ordinal);

-- name: claim_jobs
-- The front of each lane, up to its quota. The candidates are fixed by a materialized CTE, so that the
-- limit holds whatever the plan. Rides jobs_ready, then the primary key.
WITH picked AS MATERIALIZED (
    SELECT j.id
    FROM unnest(:lanes::bigint[], :queues::text[], :quotas::integer[]) AS l (lane, queue, quota)
    CROSS JOIN LATERAL (
        SELECT r.id
        FROM foliot.jobs r
        WHERE r.partition = :partition AND r.lane = l.lane AND r.state = 'ready'
        ORDER BY r.band, r.rank, r.id
        LIMIT l.quota
        FOR UPDATE SKIP LOCKED
    ) j
    WHERE NOT EXISTS (SELECT FROM foliot.queues q WHERE q.name = l.queue AND q.paused_at IS NOT NULL)
    LIMIT :room
)
UPDATE foliot.jobs j
SET state = 'running', session = :session, fence = j.fence + 1, attempt = j.attempt + 1,
    claimed_at = coalesce(:now, now()),
    deadline_at = coalesce(:now, now()) + make_interval(secs => j.timeout + :grace)
FROM picked
WHERE j.partition = :partition AND j.id = picked.id AND j.state || '' = 'ready'
RETURNING j.id::text, j.fence, j.kind, j.payload, j.attempt, j.max_attempts, j.losses, j.timeout,
          j.limit_key IS NOT NULL OR j.workflow IS NOT NULL OR j.outbox;

-- name: finish_jobs
-- To history in one move. Returns the ids that were refused: the fence had moved on, or the session lost them.
WITH done AS (
    SELECT * FROM unnest(:ids::uuid[], :fences::bigint[], :states::text[], :reasons::text[], :results::bytea[])
        AS d (id, fence, state, reason, result)
), gone AS (
    DELETE FROM foliot.jobs j USING done d
    WHERE j.partition = :partition AND j.id = d.id AND j.fence = d.fence
      AND j.session = :session AND j.state || '' = 'running'
    RETURNING j.id, j.fence, j.priority, j.attempt, j.losses, j.generation, d.state, j.namespace, j.kind,
              j.queue, j.created_at, j.run_at, j.claimed_at, j.session, j.key, j.workflow, d.reason,
              j.payload, d.result
), kept AS (
    INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state,
                                namespace, kind, queue, created_at, run_at, started_at, finished_at,
                                session, key, workflow, reason, payload, result)
    SELECT :partition::smallint, id, fence, priority, attempt, losses, generation, state, namespace, kind,
           queue, created_at, run_at, claimed_at, coalesce(:now, now()), session, key, workflow, reason,
           payload, result
    FROM gone
)
SELECT d.id::text FROM done d WHERE NOT EXISTS (SELECT FROM gone g WHERE g.id = d.id);

-- name: retry_jobs
-- A failed attempt with another one to follow: back to scheduled at its backoff time.
-- A job that was asked to end is left for cancel_failed_jobs.
WITH failed AS (
    SELECT * FROM unnest(:ids::uuid[], :fences::bigint[], :delays::float8[], :reasons::text[],
                         :errors::text[], :tracebacks::text[])
        AS f (id, fence, delay, reason, error, traceback)
), again AS (
    UPDATE foliot.jobs j
    SET state = 'scheduled', run_at = coalesce(:now, now()) + make_interval(secs => f.delay),
        rank = (extract(epoch FROM coalesce(:now, now()) + make_interval(secs => f.delay)) * 1000000)::bigint,
        losses = j.losses + CASE f.reason WHEN 'worker_lost' THEN 1 ELSE 0 END,
        session = NULL, deadline_at = NULL
    FROM failed f
    WHERE j.partition = :partition AND j.id = f.id AND j.fence = f.fence AND j.session = :session
      AND j.state || '' = 'running' AND NOT j.cancel_requested
    RETURNING j.id, j.fence, j.attempt, j.claimed_at, f.reason, f.error, f.traceback
), recorded AS (
    INSERT INTO foliot.attempts (partition, job, fence, attempt, outcome, error, traceback, session,
                                 started_at, finished_at)
    SELECT :partition::smallint, id, fence, attempt, reason, error, traceback, :session, claimed_at,
           coalesce(:now, now())
    FROM again
)
SELECT id::text FROM again;

-- name: bury_jobs
-- The last attempt failed: to the dead-letter queue.
WITH failed AS (
    SELECT * FROM unnest(:ids::uuid[], :fences::bigint[], :reasons::text[], :errors::text[], :tracebacks::text[])
        AS f (id, fence, reason, error, traceback)
), gone AS (
    DELETE FROM foliot.jobs j USING failed f
    WHERE j.partition = :partition AND j.id = f.id AND j.fence = f.fence AND j.session = :session
      AND j.state || '' = 'running' AND NOT j.cancel_requested
    RETURNING j.*, f.reason AS why, f.error, f.traceback
), recorded AS (
    INSERT INTO foliot.attempts (partition, job, fence, attempt, outcome, error, traceback, session,
                                 started_at, finished_at)
    SELECT :partition::smallint, id, fence, attempt, why, error, traceback, session, claimed_at,
           coalesce(:now, now())
    FROM gone
), buried AS (
    INSERT INTO foliot.dead (partition, id, fence, lane, priority, attempt, max_attempts, losses, generation,
                             outbox, namespace, kind, queue, created_at, run_at, started_at, finished_at,
                             timeout, session, key, limit_key, workflow, requires, reason, payload)
    SELECT :partition::smallint, id, fence, lane, priority, attempt, max_attempts, losses, generation,
           outbox, namespace, kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()),
           timeout, session, key, limit_key, workflow, requires, why, payload
    FROM gone
)
SELECT id::text FROM gone;

-- name: cancel_failed_jobs
-- A failed attempt of a job that was asked to end: it ends as cancelled, its attempt is kept.
WITH failed AS (
    SELECT * FROM unnest(:ids::uuid[], :fences::bigint[], :reasons::text[], :errors::text[], :tracebacks::text[])
        AS f (id, fence, reason, error, traceback)
), gone AS (
    DELETE FROM foliot.jobs j USING failed f
    WHERE j.partition = :partition AND j.id = f.id AND j.fence = f.fence AND j.session = :session
      AND j.state || '' = 'running' AND j.cancel_requested
    RETURNING j.*, f.reason AS why, f.error, f.traceback
), recorded AS (
    INSERT INTO foliot.attempts (partition, job, fence, attempt, outcome, error, traceback, session,
                                 started_at, finished_at)
    SELECT :partition::smallint, id, fence, attempt, why, error, traceback, session, claimed_at,
           coalesce(:now, now())
    FROM gone
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

-- name: release_jobs
-- Given back unstarted: the attempt is not counted, the fence stays where it is. With a hold, it waits for
-- somebody who can run it. A job that was asked to end follows in cancel_jobs.
UPDATE foliot.jobs j
SET state = CASE WHEN r.hold IS NULL THEN 'ready' ELSE 'held' END, hold = r.hold,
    attempt = j.attempt - 1, session = NULL, claimed_at = NULL, deadline_at = NULL
FROM unnest(:ids::uuid[], :fences::bigint[], :holds::text[]) AS r (id, fence, hold)
WHERE j.partition = :partition AND j.id = r.id AND j.fence = r.fence AND j.session = :session
  AND j.state || '' = 'running'
RETURNING j.id::text;

-- name: request_cancel
-- Whatever the state. A job that is not running is ended by cancel_jobs in the same transaction.
UPDATE foliot.jobs j
SET cancel_requested = true
WHERE j.partition = :partition
  AND j.id IN (SELECT id FROM foliot.jobs WHERE partition = :partition AND id = ANY (:ids::uuid[])
               ORDER BY id FOR UPDATE)
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
FROM due
WHERE j.partition = :partition AND j.id = due.id AND j.state || '' = 'scheduled'
RETURNING j.lane;

-- name: admit_kinds
-- What was held because nobody knew its kind, now that somebody does. Rides jobs_held.
WITH known AS MATERIALIZED (
    SELECT h.id
    FROM foliot.jobs h
    WHERE h.partition = :partition AND h.state = 'held' AND h.hold = 'unknown_kind'
      AND h.kind = ANY (:kinds::text[])
    ORDER BY h.id
    FOR UPDATE SKIP LOCKED
)
UPDATE foliot.jobs j
SET state = 'ready', hold = NULL
FROM known
WHERE j.partition = :partition AND j.id = known.id AND j.state || '' = 'held'
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
-- last beat named it, or came before the claim: then nobody can say that it had not started.
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
      AND j.id IN (SELECT c.id FROM candidates c ORDER BY c.id LIMIT :limit)
      AND (j.session = ANY (:sessions::uuid[]) OR j.deadline_at <= coalesce(:now, now()))
    ORDER BY j.id
    FOR UPDATE OF j SKIP LOCKED
), fates AS (
    SELECT t.*,
           CASE WHEN t.cancel_requested THEN 'cancelled'
                WHEN t.why = 'lost' AND t.losses + 1 >= :loss_limit::integer THEN 'dead'
                WHEN t.why = 'timed_out' AND t.attempt - t.losses >= t.max_attempts THEN 'dead'
                ELSE 'ready' END AS fate
    FROM taken t
), recorded AS (
    INSERT INTO foliot.attempts (partition, job, fence, attempt, outcome, error, session, started_at, finished_at)
    SELECT :partition::smallint, id, fence, attempt, CASE why WHEN 'lost' THEN 'worker_lost' ELSE why END,
           CASE why WHEN 'lost' THEN 'the session that ran it was lost' ELSE 'it ran past its deadline' END,
           session, claimed_at, coalesce(:now, now())
    FROM fates WHERE why <> 'returned'
), again AS (
    UPDATE foliot.jobs j
    SET state = 'ready', session = NULL, claimed_at = NULL, deadline_at = NULL,
        attempt = j.attempt - CASE f.why WHEN 'returned' THEN 1 ELSE 0 END,
        losses = j.losses + CASE f.why WHEN 'lost' THEN 1 ELSE 0 END
    FROM fates f
    WHERE j.partition = :partition AND j.id = f.id AND j.state || '' = 'running' AND f.fate = 'ready'
), gone AS (
    DELETE FROM foliot.jobs j USING fates f
    WHERE j.partition = :partition AND j.id = f.id AND j.state || '' = 'running' AND f.fate <> 'ready'
    RETURNING j.*, f.why, f.fate
), buried AS (
    INSERT INTO foliot.dead (partition, id, fence, lane, priority, attempt, max_attempts, losses, generation,
                             outbox, namespace, kind, queue, created_at, run_at, started_at, finished_at,
                             timeout, session, key, limit_key, workflow, requires, reason, payload)
    SELECT :partition::smallint, id, fence, lane, priority, attempt, max_attempts,
           losses + CASE why WHEN 'lost' THEN 1 ELSE 0 END, generation,
           outbox, namespace, kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()),
           timeout, session, key, limit_key, workflow, requires,
           CASE why WHEN 'lost' THEN 'worker_lost' ELSE why END, payload
    FROM gone WHERE fate = 'dead'
), kept AS (
    INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state,
                                namespace, kind, queue, created_at, run_at, started_at, finished_at,
                                session, key, workflow, reason, payload)
    SELECT :partition::smallint, id, fence, priority, attempt, losses, generation, 'cancelled', namespace,
           kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()), session, key, workflow,
           'requested', payload
    FROM gone WHERE fate = 'cancelled'
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
-- Which of these fences have already taken effect.
SELECT o.id::text FROM unnest(:ids::uuid[], :fences::bigint[]) AS o (id, fence)
WHERE EXISTS (SELECT FROM foliot.history h WHERE h.partition = :partition AND h.id = o.id AND h.fence = o.fence)
   OR EXISTS (SELECT FROM foliot.attempts a WHERE a.partition = :partition AND a.job = o.id AND a.fence = o.fence);

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
SELECT id::text, kind, state, queue, namespace, priority, attempt, losses, generation, fence, created_at,
       run_at, started_at, finished_at, session::text, key, reason, false, payload, result
FROM foliot.history WHERE partition = :partition AND id = ANY (:ids::uuid[]) AND finished_at >= :since
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

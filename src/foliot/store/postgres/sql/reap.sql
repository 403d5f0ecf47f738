-- What lost sessions leave behind.

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
-- But a job that was given back like that again and again may be what kills them, each time after the beat: where more
-- than two of three losses were not counted, this one is. So whoever kills its process ends, sooner or later.
WITH candidates AS (
    SELECT j.id FROM foliot.jobs j
    WHERE j.partition = :partition AND j.state = 'running' AND j.session = ANY (:sessions::uuid[])
    UNION
    SELECT j.id FROM foliot.jobs j
    WHERE j.partition = :partition AND j.state = 'running' AND j.deadline_at IS NOT NULL
      AND j.deadline_at <= coalesce(:now, now())
), taken AS MATERIALIZED (
    SELECT j.id, j.fence, j.attempt, j.max_attempts, j.losses, j.session, j.claimed_at,
           j.cancel_requested,
           -- One for which a workflow runs ends after that.
           EXISTS (SELECT FROM foliot.workflows w
                   WHERE w.partition = :partition AND w.waiter = j.id AND w.state = 'running') AS stays,
           s.host || ':' || s.pid AS worker,
           CASE WHEN j.session = ANY (:sessions::uuid[])
                THEN CASE WHEN s.id IS NULL OR j.id = ANY (s.executing) OR j.claimed_at >= s.beat_at
                            OR (SELECT count(*) FROM foliot.attempts a WHERE a.partition = :partition
                                  AND a.job = j.id AND a.outcome = 'worker_lost') >= 3 * j.losses + 2
                          THEN 'lost' ELSE 'returned' END
                ELSE 'timed_out' END AS why
    FROM foliot.jobs j LEFT JOIN foliot.sessions s ON s.id = j.session
    WHERE j.partition = :partition AND j.state || '' = 'running'
      AND j.id = ANY (ARRAY(SELECT c.id FROM candidates c ORDER BY c.id LIMIT :limit))
      AND (j.session = ANY (:sessions::uuid[]) OR j.deadline_at <= coalesce(:now, now()))
      AND (j.workflow IS NULL OR j.id = ANY (:steps::uuid[]))
    ORDER BY j.id
    FOR UPDATE OF j SKIP LOCKED
), fates AS MATERIALIZED (
    SELECT t.*,
           CASE WHEN t.stays THEN 'ready'
                WHEN t.cancel_requested THEN 'cancelled'
                WHEN t.why = 'lost' AND t.losses + 1 >= :loss_limit::integer THEN 'dead'
                WHEN t.why = 'timed_out' AND t.attempt - t.losses >= t.max_attempts THEN 'dead'
                ELSE 'ready' END AS fate
    FROM taken t
), recorded AS (
    INSERT INTO foliot.attempts (partition, job, fence, attempt, outcome, error, session, worker, started_at,
                                 finished_at)
    SELECT :partition::smallint, id, fence, attempt, CASE why WHEN 'timed_out' THEN why ELSE 'worker_lost' END,
           CASE why WHEN 'lost' THEN 'the session that ran it was lost'
                    WHEN 'returned' THEN 'the session that held it was lost, perhaps before it started'
                    ELSE 'it ran past its deadline' END,
           session, worker, claimed_at, coalesce(:now, now())
    FROM fates
), again AS (
    UPDATE foliot.jobs j
    SET state = 'ready', session = NULL, claimed_at = NULL, deadline_at = NULL, progress = NULL,
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
                             namespace, kind, queue, created_at, run_at, started_at, finished_at,
                             timeout, session, key, workflow, requires, reason,
                             tags, ordering_key, fair_key, schedule, extras, payload)
    SELECT :partition::smallint, id, fence, lane, priority, attempt, max_attempts,
           losses + CASE why WHEN 'lost' THEN 1 ELSE 0 END, generation,
           namespace, kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()),
           timeout, session, key, workflow, requires,
           CASE why WHEN 'lost' THEN 'worker_lost' ELSE why END,
           tags, ordering_key, fair_key, schedule, extras, payload
    FROM ended WHERE id IS NOT NULL AND fate = 'dead'
), kept AS (
    INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state,
                                namespace, kind, queue, created_at, run_at, started_at, finished_at,
                                session, key, workflow, reason,
                                tags, ordering_key, fair_key, schedule, extras, payload)
    SELECT :partition::smallint, id, fence, priority, attempt, losses, generation, 'cancelled', namespace,
           kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()), session, key, workflow,
           'requested', tags, ordering_key, fair_key, schedule, extras, payload
    FROM ended WHERE id IS NOT NULL AND fate = 'cancelled'
), emitted AS (
    INSERT INTO foliot.outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
    SELECT :partition::smallint, coalesce(:now, now()), e.generation, e.id, 'job.' || e.fate, e.id::text,
           e.namespace, e.kind, e.queue,
           jsonb_build_object('attempt', e.attempt,
                              'reason', CASE WHEN e.fate = 'cancelled' THEN 'requested'
                                             WHEN e.why = 'lost' THEN 'worker_lost' ELSE e.why END,
                              'error', CASE WHEN e.fate = 'cancelled' THEN NULL
                                            WHEN e.why = 'lost' THEN 'the session that ran it was lost'
                                            ELSE 'it ran past its deadline' END,
                              'workflow', e.workflow, 'schedule', e.extras::jsonb ->> 'schedule')::text
    FROM ended e
    WHERE (SELECT 1 FROM foliot.listeners l WHERE l.event IN ('job.dead', 'job.cancelled') LIMIT 1) IS NOT NULL
      AND e.id IS NOT NULL AND left(e.kind, 3) <> 'on.'
      AND CASE e.fate WHEN 'dead'
               THEN ARRAY(SELECT l.kind || ' ' || l.queue FROM foliot.listeners l WHERE l.event = 'job.dead')
               ELSE ARRAY(SELECT l.kind || ' ' || l.queue FROM foliot.listeners l WHERE l.event = 'job.cancelled')
          END && ARRAY['* *', e.kind || ' *', '* ' || e.queue, e.kind || ' ' || e.queue]
)
SELECT CASE fate WHEN 'ready' THEN why ELSE fate END, count(*) FROM fates GROUP BY 1;

-- name: find_lost_steps
-- Steps that are to be taken back: the rows of their workflows are locked before. Those that reap_jobs comes to first,
-- which goes by ids: of others it would take none, ever. Sorted apart, or the key would be walked for their order.
WITH lost AS MATERIALIZED (
    SELECT j.id, j.workflow FROM foliot.jobs j
    WHERE j.partition = :partition AND j.state = 'running' AND j.session = ANY (:sessions::uuid[])
    UNION
    SELECT j.id, j.workflow FROM foliot.jobs j
    WHERE j.partition = :partition AND j.state = 'running' AND j.deadline_at IS NOT NULL
      AND j.deadline_at <= coalesce(:now, now())
)
SELECT l.id::text, l.workflow::text FROM lost l WHERE l.workflow IS NOT NULL ORDER BY l.id LIMIT :limit;

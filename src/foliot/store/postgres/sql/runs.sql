-- Runs of schedules that look at their own runs: what may follow while an earlier one has not ended, how often, and
-- when to stop. Whether a run is live is never stored twice: its row among the jobs says so, however it ends.

-- name: fire_stateful
-- As fire_schedules, and: a run that may not follow is written down, in a range with the one before; a limit of runs is
-- counted, and ends the schedule; failures in a row pause it. Runs that wait for the one before share an ordering key,
-- so that whoever finishes one admits the next (order.sql). Returns lanes, and the runs that are to be asked to end.
WITH due AS MATERIALIZED (
    SELECT s.id, f.nominal, f.trigger, s.overlap, s.max_runs, s.runs, s.pause_after, s.key IS NOT NULL AS keyed,
           (SELECT count(*) FROM (SELECT 1 FROM foliot.jobs j WHERE j.partition = :partition AND j.schedule = s.id
                                  LIMIT coalesce(s.buffer, 0) + 2) l) AS live,
           coalesce(s.buffer, 0) AS buffer,
           CASE WHEN s.pause_after IS NOT NULL THEN (
               SELECT count(*) = s.pause_after AND bool_and(e.dead)
               FROM (SELECT * FROM (
                         (SELECT d.finished_at, true AS dead FROM foliot.dead d
                          WHERE d.partition = :partition AND d.schedule = s.id AND d.finished_at > s.active_from
                          ORDER BY d.finished_at DESC LIMIT s.pause_after)
                         UNION ALL
                         (SELECT h.finished_at, false FROM foliot.history h
                          WHERE h.partition = :partition AND h.schedule = s.id AND h.finished_at > s.active_from
                            AND h.state = 'succeeded'
                          ORDER BY h.finished_at DESC LIMIT 1)) u
                     ORDER BY u.finished_at DESC LIMIT s.pause_after) e) ELSE false END AS failing
    FROM unnest(:triggers::bigint[], :nominals::bigint[], :cursors::uuid[], :uppers::uuid[])
        AS f (trigger, nominal, cursor, upper)
    CROSS JOIN LATERAL (
        SELECT * FROM foliot.schedules s
        WHERE s.partition = :partition AND s.trigger = f.trigger
          AND s.id > coalesce(f.cursor, '00000000-0000-0000-0000-000000000000'::uuid)
          AND s.id <= coalesce(f.upper, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
          AND s.active_from <= to_timestamp(f.nominal)
          AND (s.active_until IS NULL OR s.active_until >= to_timestamp(f.nominal))
          AND (:policy::text IS NULL OR s.misfire = :policy::text AND (
              s.misfire_window IS NULL
              OR to_timestamp(f.nominal) >= coalesce(:now, now()) - make_interval(secs => s.misfire_window)))
    ) s
), judged AS MATERIALIZED (
    SELECT d.*, CASE WHEN d.failing THEN 'paused'
                     WHEN d.max_runs IS NOT NULL AND d.runs >= d.max_runs THEN 'ended'
                     WHEN d.overlap = 'skip' AND d.live > 0 THEN 'overlap'
                     WHEN d.overlap IN ('buffer_one', 'buffer_all') AND d.live > d.buffer THEN 'overlap' END AS reason
    FROM due d
), fired AS (
    INSERT INTO foliot.jobs (partition, id, lane, rank, band, priority, max_attempts, state, hold, namespace,
                             kind, queue, created_at, run_at, timeout, key, payload,
                             tags, ordering_key, fair_key, schedule, expires_at, requires, extras)
    SELECT :partition::smallint,
           (lpad(to_hex(n.nominal * 1000), 12, '0') || '7' || substr(n.id::text, 16, 3) || '8'
            || substr(md5(n.id::text || ':' || n.nominal), 1, 15))::uuid,
           n.lane | n.strategy,
           CASE n.strategy WHEN 3 THEN 0
                WHEN 2 THEN ((extract(epoch FROM n.due_at) + n.priority * n.aging) * 1000000)::bigint
                ELSE (extract(epoch FROM n.due_at) * 1000000)::bigint END,
           CASE n.strategy WHEN 0 THEN n.priority ELSE 0 END, n.priority, n.max_attempts,
           CASE WHEN n.ordering_key IS NOT NULL THEN 'held'
                WHEN n.due_at > coalesce(:now, now()) THEN 'scheduled'
                WHEN n.strategy = 3 THEN 'held' ELSE 'ready' END,
           CASE WHEN n.ordering_key IS NOT NULL THEN 'admission'
                WHEN n.strategy = 3 AND n.due_at <= coalesce(:now, now()) THEN 'admission' END,
           n.namespace, n.kind, n.queue, coalesce(:now, now()), n.due_at, n.timeout, n.key, n.payload,
           CASE WHEN n.told -> 'tags' IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(n.told -> 'tags')) END,
           n.ordering_key, n.told ->> 'fair_key', n.id,
           least(coalesce(to_timestamp((n.told ->> 'expires_at')::float8 / 1000000),
                          coalesce(:now, now()) + make_interval(secs => (n.told ->> 'expires_in')::float8)),
                 to_timestamp(n.nominal + n.start_deadline)),
           CASE WHEN n.told -> 'requires' IS NOT NULL
                THEN ARRAY(SELECT jsonb_array_elements_text(n.told -> 'requires')) END,
           left(n.extras, -1) || ',"nominal":' || n.nominal || '}'
    FROM (SELECT s.*, g.nominal, s.more::jsonb AS told, coalesce(q.strategy, 0)::bigint AS strategy, q.aging,
                 CASE WHEN s.overlap IN ('buffer_one', 'buffer_all', 'cancel_other') THEN 'schedule:' || s.id
                      ELSE s.more::jsonb ->> 'ordering_key' END AS ordering_key,
                 greatest(to_timestamp(g.nominal + coalesce(s.phase, 0) + CASE WHEN s.jitter IS NULL THEN 0 ELSE
                              ('x' || substr(md5(s.id::text || ':' || g.nominal), 16, 8))::bit(32)::bigint
                              % (s.jitter + 1) END),
                          coalesce(:now, now()) + make_interval(secs => :place::float8 / s.catchup_rate)) AS due_at
          FROM judged g
          JOIN foliot.schedules s ON s.partition = :partition AND s.id = g.id
          LEFT JOIN foliot.queues q ON q.name = s.queue
          WHERE g.reason IS NULL) n
    ON CONFLICT DO NOTHING
    RETURNING lane, state, schedule
), counted AS (
    UPDATE foliot.schedules s
    SET runs = s.runs + 1,
        state = CASE WHEN s.runs + 1 >= s.max_runs THEN 'ended' ELSE s.state END,
        trigger = CASE WHEN s.runs + 1 >= s.max_runs THEN NULL ELSE s.trigger END
    WHERE s.partition = :partition AND s.max_runs IS NOT NULL AND s.id = ANY (ARRAY(SELECT f.schedule FROM fired f))
), paused AS (
    UPDATE foliot.schedules s
    SET state = 'paused', trigger = NULL, paused_at = coalesce(:now, now()), paused_by = 'foliot',
        note = s.pause_after || ' failures in a row', updated_at = coalesce(:now, now())
    WHERE s.partition = :partition AND s.id = ANY (ARRAY(SELECT g.id FROM judged g WHERE g.reason = 'paused'))
), over AS (
    -- Its limit was lowered, or it was changed after its last run.
    UPDATE foliot.schedules s SET state = 'ended', trigger = NULL, updated_at = coalesce(:now, now())
    WHERE s.partition = :partition AND s.id = ANY (ARRAY(SELECT g.id FROM judged g WHERE g.reason = 'ended'))
), longer AS (
    UPDATE foliot.ledger l SET to_at = to_timestamp(g.nominal), count = l.count + 1
    FROM judged g JOIN foliot.triggers t ON t.partition = :partition AND t.id = g.trigger
    WHERE l.partition = :partition AND l.schedule = g.id AND l.reason = g.reason AND g.reason = 'overlap'
      AND l.to_at = t.fired_at AND t.fired_at < to_timestamp(g.nominal)
    RETURNING l.schedule
), written AS (
    INSERT INTO foliot.ledger (partition, schedule, from_at, to_at, count, reason)
    SELECT :partition::smallint, g.id, to_timestamp(g.nominal),
           CASE WHEN g.reason = 'paused' THEN NULL ELSE to_timestamp(g.nominal) END,
           CASE WHEN g.reason = 'paused' THEN NULL ELSE 1 END, g.reason
    FROM judged g WHERE g.reason IS NOT NULL AND g.id NOT IN (SELECT l.schedule FROM longer l)
    UNION ALL
    -- It may follow and became no job: a live one has its unique key.
    SELECT :partition::smallint, g.id, to_timestamp(g.nominal), to_timestamp(g.nominal), 1, 'key'
    FROM judged g
    WHERE g.reason IS NULL AND g.keyed AND g.id NOT IN (SELECT f.schedule FROM fired f)
    ON CONFLICT DO NOTHING
)
SELECT f.lane, f.state, count(*)::integer, NULL::text FROM fired f GROUP BY f.lane, f.state
UNION ALL
SELECT NULL, NULL, NULL, j.id::text
FROM judged g JOIN foliot.jobs j ON j.partition = :partition AND j.schedule = g.id
WHERE g.overlap IN ('cancel_other', 'terminate_other') AND g.id = ANY (ARRAY(SELECT f.schedule FROM fired f));

-- name: find_last_end
-- When the last run of a schedule ended, and whether one is live.
SELECT (SELECT 1 FROM foliot.jobs j WHERE j.partition = :partition AND j.schedule = :id ORDER BY j.id LIMIT 1) IS NOT NULL,
       extract(epoch FROM greatest(
           (SELECT h.finished_at FROM foliot.history h WHERE h.partition = :partition AND h.schedule = :id
            ORDER BY h.finished_at DESC LIMIT 1),
           (SELECT d.finished_at FROM foliot.dead d WHERE d.partition = :partition AND d.schedule = :id
            ORDER BY d.finished_at DESC LIMIT 1)))::float8,
       extract(epoch FROM coalesce(:now, statement_timestamp()))::float8;

-- name: find_live_runs
SELECT j.id::text FROM foliot.jobs j WHERE j.partition = :partition AND j.schedule = :id ORDER BY j.id;

-- name: list_runs
-- Of these jobs those that there are, wherever they are. A run started with its first attempt; what follows is retries.
SELECT r.id::text, r.state, r.created_at,
       coalesce((SELECT a.started_at FROM foliot.attempts a
                 WHERE a.partition = :partition AND a.job = r.id AND a.started_at IS NOT NULL
                 ORDER BY a.fence LIMIT 1), r.started_at)
FROM (SELECT j.id, j.state, j.created_at, j.claimed_at AS started_at FROM foliot.jobs j
      WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[])
      UNION ALL
      SELECT h.id, h.state, h.created_at, h.started_at FROM foliot.history h
      WHERE h.partition = :partition AND h.id = ANY (:ids::uuid[])
      UNION ALL
      SELECT d.id, 'dead', d.created_at, d.started_at FROM foliot.dead d
      WHERE d.partition = :partition AND d.id = ANY (:ids::uuid[])) r;

-- name: list_recent_runs
SELECT r.id::text, r.state, r.created_at,
       coalesce((SELECT a.started_at FROM foliot.attempts a
                 WHERE a.partition = :partition AND a.job = r.id AND a.started_at IS NOT NULL
                 ORDER BY a.fence LIMIT 1), r.started_at), r.extras
FROM (
    (SELECT j.id, j.state, j.created_at, j.claimed_at AS started_at, j.extras FROM foliot.jobs j
     WHERE j.partition = :partition AND j.schedule = :id ORDER BY j.id DESC LIMIT :limit)
    UNION ALL
    (SELECT h.id, h.state, h.created_at, h.started_at, h.extras FROM foliot.history h
     WHERE h.partition = :partition AND h.schedule = :id ORDER BY h.finished_at DESC LIMIT :limit)
    UNION ALL
    (SELECT d.id, 'dead', d.created_at, d.started_at, d.extras FROM foliot.dead d
     WHERE d.partition = :partition AND d.schedule = :id ORDER BY d.finished_at DESC LIMIT :limit)) r
ORDER BY r.created_at DESC LIMIT :limit;

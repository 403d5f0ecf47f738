-- Runs of schedules that look at their own runs: what may follow while an earlier one has not ended, how often, and
-- when to stop. Whether a run is live is never stored twice: its row among the jobs says so, however it ends.

-- name: fire_stateful
-- As fire_schedules, and: a run that may not follow is written down, in a range with the one before; a limit of runs is
-- counted, and ends the schedule; failures in a row pause it. Runs that wait for the one before share an ordering key,
-- so that whoever finishes one admits the next (order.sql). The first part judges: schedule, time, trigger, why not,
-- whether earlier runs are to be asked to end, whether runs are counted, whether there is a unique key. The others take
-- what it has found; the last two, one run at a time, write down why there is none.
SELECT d.id, d.nominal, d.trigger,
       CASE WHEN d.failing THEN 'paused'
            WHEN d.max_runs IS NOT NULL AND d.runs >= d.max_runs THEN 'ended'
            WHEN d.overlap = 'skip' AND d.live > 0 THEN 'overlap'
            WHEN d.overlap IN ('buffer_one', 'buffer_all') AND d.live > d.buffer THEN 'overlap' END,
       d.overlap IN ('cancel_other', 'terminate_other') AND d.live > 0, d.max_runs IS NOT NULL, d.keyed
FROM (SELECT s.id, json_extract(f.value, '$[1]') AS nominal, s.trigger, s.overlap, s.max_runs, s.runs,
             s.key IS NOT NULL AS keyed,
             coalesce(s.buffer, 0) AS buffer,
             CASE WHEN s.buffer IS NOT NULL
                  THEN (SELECT count(*) FROM foliot_jobs j WHERE j.partition = :partition AND j.schedule = s.id)
                  ELSE EXISTS (SELECT 1 FROM foliot_jobs j WHERE j.partition = :partition AND j.schedule = s.id)
             END AS live,
             s.pause_after IS NOT NULL AND s.pause_after <= (
                 SELECT count(*) FROM foliot_dead l
                 WHERE l.partition = :partition AND l.schedule = s.id AND l.finished_at > max(s.active_from, coalesce(
                     (SELECT h.finished_at FROM foliot_history h
                      WHERE h.partition = :partition AND h.schedule = s.id AND h.state = 'succeeded'
                      ORDER BY h.finished_at DESC LIMIT 1), 0))) AS failing
      FROM json_each(:moves) f
      CROSS JOIN foliot_schedules s
          ON s.partition = :partition AND s.trigger = json_extract(f.value, '$[0]')
         AND s.id > coalesce(json_extract(f.value, '$[2]'), '') AND s.id <= coalesce(json_extract(f.value, '$[3]'), 'g')
      WHERE s.active_from <= json_extract(f.value, '$[1]') * 1000000
        AND (s.active_until IS NULL OR s.active_until >= json_extract(f.value, '$[1]') * 1000000)
        AND (:policy IS NULL OR s.misfire = :policy AND (
            s.misfire_window IS NULL OR json_extract(f.value, '$[1]') >= :now / 1000000.0 - s.misfire_window))) d;
SELECT j.id, j.schedule FROM json_each(:others) n
CROSS JOIN foliot_jobs j ON j.partition = :partition AND j.schedule = n.value;
INSERT INTO foliot_jobs (partition, id, lane, rank, band, priority, max_attempts, state, hold, namespace,
                         kind, queue, created_at, run_at, timeout, key, payload,
                         tags, ordering_key, fair_key, schedule, expires_at, requires, extras)
SELECT :partition, fire_id(n.id, n.nominal), n.lane | n.strategy,
       CASE n.strategy WHEN 3 THEN 0 WHEN 2 THEN n.due_at + CAST(n.priority * n.aging * 1000000 AS INTEGER)
            ELSE n.due_at END,
       CASE n.strategy WHEN 0 THEN n.priority ELSE 0 END, n.priority, n.max_attempts,
       CASE WHEN n.ordering_key IS NOT NULL THEN 'held'
            WHEN n.due_at > :now THEN 'scheduled'
            WHEN n.strategy = 3 THEN 'held' ELSE 'ready' END,
       CASE WHEN n.ordering_key IS NOT NULL THEN 'admission'
            WHEN n.strategy = 3 AND n.due_at <= :now THEN 'admission' END,
       n.namespace, n.kind, n.queue, :now, n.due_at, n.timeout, n.key, n.payload,
       json_extract(n.more, '$.tags'), n.ordering_key, json_extract(n.more, '$.fair_key'), n.id,
       coalesce(min(n.expires_at, n.start_by), n.expires_at, n.start_by), json_extract(n.more, '$.requires'),
       substr(n.extras, 1, length(n.extras) - 1) || ',"nominal":' || n.nominal || '}'
FROM (SELECT s.*, json_extract(f.value, '$[1]') AS nominal, coalesce(q.strategy, 0) AS strategy, q.aging,
             CASE WHEN s.overlap IN ('buffer_one', 'buffer_all', 'cancel_other') THEN 'schedule:' || s.id
                  ELSE json_extract(s.more, '$.ordering_key') END AS ordering_key,
             coalesce(json_extract(s.more, '$.expires_at'),
                      :now + CAST(json_extract(s.more, '$.expires_in') * 1000000 AS INTEGER)) AS expires_at,
             CAST((json_extract(f.value, '$[1]') + s.start_deadline) * 1000000 AS INTEGER) AS start_by,
             max((json_extract(f.value, '$[1]') + coalesce(s.phase, 0) + CASE WHEN s.jitter IS NULL THEN 0
                     ELSE fire_jitter(s.id, json_extract(f.value, '$[1]'), s.jitter) END) * 1000000,
                 coalesce(:now + CAST(:place / s.catchup_rate * 1000000 AS INTEGER), 0)) AS due_at
      FROM json_each(:runs) f
      CROSS JOIN foliot_schedules s ON s.partition = :partition AND s.id = json_extract(f.value, '$[0]')
      LEFT JOIN foliot_queues q ON q.name = s.queue) n
WHERE true
ON CONFLICT DO NOTHING
RETURNING lane, state, schedule;
UPDATE foliot_schedules
SET runs = runs + 1,
    state = CASE WHEN runs + 1 >= max_runs THEN 'ended' ELSE state END,
    trigger = CASE WHEN runs + 1 >= max_runs THEN NULL ELSE trigger END
WHERE partition = :partition AND id IN (SELECT value FROM json_each(:counted)) AND max_runs IS NOT NULL;
UPDATE foliot_schedules
SET state = 'paused', trigger = NULL, paused_at = :now, paused_by = 'foliot',
    note = pause_after || ' failures in a row', updated_at = :now
WHERE partition = :partition
  AND id IN (SELECT value FROM json_each(:failing));
UPDATE foliot_schedules SET state = 'ended', trigger = NULL, updated_at = :now
WHERE partition = :partition AND id IN (SELECT value FROM json_each(:over));
UPDATE foliot_ledger SET to_at = :nominal * 1000000, count = count + 1
WHERE partition = :partition AND schedule = :id AND reason = :reason AND :reason = 'overlap'
  AND to_at = (SELECT t.fired_at FROM foliot_triggers t
               WHERE t.partition = :partition AND t.id = :trigger AND t.fired_at < :nominal * 1000000);
INSERT INTO foliot_ledger (partition, schedule, from_at, to_at, count, reason)
SELECT :partition, :id, :nominal * 1000000, CASE WHEN :reason <> 'paused' THEN :nominal * 1000000 END,
       CASE WHEN :reason <> 'paused' THEN 1 END, :reason
WHERE NOT EXISTS (SELECT 1 FROM foliot_ledger l WHERE l.partition = :partition AND l.schedule = :id
                    AND l.reason = :reason AND l.to_at = :nominal * 1000000)
ON CONFLICT DO NOTHING;

-- name: find_last_end
-- When the last run of a schedule ended, and whether one is live.
SELECT EXISTS (SELECT 1 FROM foliot_jobs j WHERE j.partition = :partition AND j.schedule = :id),
       (SELECT max(e.at) / 1000000.0
        FROM (SELECT max(h.finished_at) AS at FROM foliot_history h WHERE h.partition = :partition AND h.schedule = :id
              UNION ALL
              SELECT max(d.finished_at) FROM foliot_dead d WHERE d.partition = :partition AND d.schedule = :id) e),
       :now / 1000000.0;

-- name: find_live_runs
SELECT j.id FROM foliot_jobs j WHERE j.partition = :partition AND j.schedule = :id ORDER BY j.id;

-- name: list_runs
-- Of these jobs those that there are, wherever they are. A run started with its first attempt; what follows is retries.
SELECT r.id, r.state, r.created_at,
       coalesce((SELECT a.started_at FROM foliot_attempts a
                 WHERE a.partition = :partition AND a.job = r.id AND a.started_at IS NOT NULL
                 ORDER BY a.fence LIMIT 1), r.started_at)
FROM (SELECT j.id, j.state, j.created_at, j.claimed_at AS started_at FROM foliot_jobs j
      WHERE j.partition = :partition AND j.id IN (SELECT value FROM json_each(:ids))
      UNION ALL
      SELECT h.id, h.state, h.created_at, h.started_at FROM foliot_history h
      WHERE h.partition = :partition AND h.id IN (SELECT value FROM json_each(:ids))
      UNION ALL
      SELECT d.id, 'dead', d.created_at, d.started_at FROM foliot_dead d
      WHERE d.partition = :partition AND d.id IN (SELECT value FROM json_each(:ids))) r;

-- name: list_recent_runs
SELECT r.id, r.state, r.created_at,
       coalesce((SELECT a.started_at FROM foliot_attempts a
                 WHERE a.partition = :partition AND a.job = r.id AND a.started_at IS NOT NULL
                 ORDER BY a.fence LIMIT 1), r.started_at), r.extras
FROM (SELECT * FROM (SELECT j.id, j.state, j.created_at, j.claimed_at AS started_at, j.extras FROM foliot_jobs j
                     WHERE j.partition = :partition AND j.schedule = :id ORDER BY j.id DESC LIMIT :limit)
      UNION ALL
      SELECT * FROM (SELECT h.id, h.state, h.created_at, h.started_at, h.extras FROM foliot_history h
                     WHERE h.partition = :partition AND h.schedule = :id ORDER BY h.finished_at DESC LIMIT :limit)
      UNION ALL
      SELECT * FROM (SELECT d.id, 'dead', d.created_at, d.started_at, d.extras FROM foliot_dead d
                     WHERE d.partition = :partition AND d.schedule = :id ORDER BY d.finished_at DESC LIMIT :limit)) r
ORDER BY r.created_at DESC LIMIT :limit;

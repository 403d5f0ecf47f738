-- A job's life is written in these files, in this order: submit, claim, finish, cancel, admit, reap; read only looks.
-- Every statement names the state it comes from, every write of a worker names the fence, and `partition` is in all
-- of them.
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
-- Only inserts. A delay is counted on the store's clock. A conflict is the same id sent again, or a live job with the
-- same unique key. The queue's strategy decides lane, band and rank (model/lane.py); what has to be compared with
-- others before it may run, its turn or its predecessors, is held for admission; a step of a workflow waits for its
-- parents. `more` is what a plain job does not have.
INSERT INTO foliot_jobs (partition, id, lane, rank, band, priority, max_attempts, state, hold, namespace,
                         kind, queue, created_at, run_at, timeout, key, payload,
                         tags, ordering_key, fair_key, schedule, workflow, expires_at, requires, extras)
SELECT :partition, n.id, n.lane | n.strategy,
       CASE n.strategy WHEN 3 THEN 0 WHEN 2 THEN n.due_at + CAST(n.priority * (
                SELECT q.aging FROM foliot_queues q WHERE q.name = n.queue) * 1000000 AS INTEGER)
            ELSE n.due_at END,
       CASE n.strategy WHEN 0 THEN n.priority ELSE 0 END, n.priority, n.max_attempts,
       CASE WHEN json_extract(n.more, '$.waits') IS NOT NULL THEN 'waiting'
            WHEN json_extract(n.more, '$.hold') IS NOT NULL
              OR json_extract(n.more, '$.ordering_key') IS NOT NULL THEN 'held'
            WHEN n.due_at > :now THEN 'scheduled'
            WHEN n.strategy = 3 THEN 'held' ELSE 'ready' END,
       CASE WHEN json_extract(n.more, '$.hold') IS NOT NULL THEN json_extract(n.more, '$.hold')
            WHEN json_extract(n.more, '$.ordering_key') IS NOT NULL THEN 'admission'
            WHEN json_extract(n.more, '$.waits') IS NOT NULL THEN NULL
            WHEN n.strategy = 3 AND n.due_at <= :now THEN 'admission' END,
       n.namespace, n.kind, n.queue, :now, n.due_at, n.timeout, n.key, substr(:blob, n.start, n.length),
       json_extract(n.more, '$.tags'), json_extract(n.more, '$.ordering_key'), json_extract(n.more, '$.fair_key'),
       json_extract(n.more, '$.schedule'), json_extract(n.more, '$.workflow'),
       coalesce(json_extract(n.more, '$.expires_at'),
                :now + CAST(json_extract(n.more, '$.expires_in') * 1000000 AS INTEGER)),
       json_extract(n.more, '$.requires'), json_extract(n.more, '$.extras')
FROM (SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS lane,
             json_extract(value, '$[2]') AS priority, json_extract(value, '$[3]') AS max_attempts,
             json_extract(value, '$[4]') AS namespace, json_extract(value, '$[5]') AS kind,
             json_extract(value, '$[6]') AS queue,
             coalesce(json_extract(value, '$[7]'),
                      :now + CAST(json_extract(value, '$[12]') * 1000000 AS INTEGER), :now) AS due_at,
             json_extract(value, '$[8]') AS timeout, json_extract(value, '$[9]') AS key,
             json_extract(value, '$[10]') AS start, json_extract(value, '$[11]') AS length,
             json_extract(value, '$[13]') AS more,
             coalesce((SELECT q.strategy FROM foliot_queues q WHERE q.name = json_extract(value, '$[6]')), 0) AS strategy
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
-- Which job stands for each submission: the one with its id, live or ended; else the live one with its key, with the
-- submission whose content that took over, if any.
SELECT n.key,
       coalesce((SELECT j.id FROM foliot_jobs j
                 WHERE j.partition = :partition AND j.id = json_extract(n.value, '$[0]')),
                (SELECT h.id FROM foliot_history h
                 WHERE h.partition = :partition AND h.id = json_extract(n.value, '$[0]') LIMIT 1),
                (SELECT d.id FROM foliot_dead d
                 WHERE d.partition = :partition AND d.id = json_extract(n.value, '$[0]')),
                (SELECT j.id FROM foliot_jobs j
                 WHERE j.partition = :partition AND j.key = json_extract(n.value, '$[9]')
                   AND j.namespace = json_extract(n.value, '$[4]') AND j.kind = json_extract(n.value, '$[5]'))),
       (SELECT json_extract(j.extras, '$.submission') FROM foliot_jobs j
        WHERE j.partition = :partition AND j.key = json_extract(n.value, '$[9]')
          AND j.namespace = json_extract(n.value, '$[4]') AND j.kind = json_extract(n.value, '$[5]'))
FROM json_each(:jobs) n;

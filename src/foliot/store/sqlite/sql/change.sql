-- What becomes of a job that has not started: changed by hand, or by a submission that has its unique key.

-- name: release_key
-- A job that runs has begun with its arguments: it gives up its key to the submission that cannot change them any more,
-- unless it took them over from that submission itself, which was then sent again. Rides foliot_jobs_key.
UPDATE foliot_jobs
SET key = NULL
WHERE partition = :partition AND namespace = :namespace AND kind = :kind AND key = :key
  AND state || '' = 'running' AND json_extract(extras, '$.submission') IS NOT :submission;

-- name: change_job
-- Lane, band, rank and state as submit_jobs finds them. What is held because nobody knows its kind stays so, or with its
-- workflow, and what is held because its payload does not fit, until that changes. A step takes along what it was changed
-- to: a retry of its workflow makes it anew (steering.py).
UPDATE foliot_jobs
SET queue = n.queue, priority = n.priority, max_attempts = n.max_attempts, run_at = n.due_at,
    attempt = CASE WHEN :whole THEN 0 ELSE foliot_jobs.attempt END,
    losses = CASE WHEN :whole THEN 0 ELSE foliot_jobs.losses END,
    lane = CASE WHEN n.moves THEN n.lane | n.strategy ELSE foliot_jobs.lane END,
    rank = CASE WHEN NOT n.moves THEN foliot_jobs.rank
                WHEN n.strategy = 3 THEN 0
                WHEN n.strategy = 2 THEN n.due_at + CAST(n.priority * (
                    SELECT q.aging FROM foliot_queues q WHERE q.name = n.queue) * 1000000 AS INTEGER)
                ELSE n.due_at END,
    band = CASE WHEN NOT n.moves THEN foliot_jobs.band WHEN n.strategy = 0 THEN n.priority ELSE 0 END,
    state = CASE WHEN foliot_jobs.state = 'waiting' OR n.stuck OR NOT n.moves THEN foliot_jobs.state
                 WHEN n.ordering_key IS NOT NULL THEN 'held'
                 WHEN n.due_at > :now THEN 'scheduled'
                 WHEN n.strategy = 3 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN foliot_jobs.state = 'waiting' OR n.stuck OR NOT n.moves THEN foliot_jobs.hold
                WHEN n.ordering_key IS NOT NULL THEN 'admission'
                WHEN n.strategy = 3 AND n.due_at <= :now THEN 'admission' END,
    hold_note = CASE WHEN n.stuck OR NOT n.moves THEN foliot_jobs.hold_note END,
    timeout = n.timeout,
    payload = coalesce(:payload, foliot_jobs.payload),
    tags = CASE WHEN json_extract(:more, '$.tags') IS NOT NULL
                THEN nullif(json_extract(:more, '$.tags'), '[]')
                WHEN NOT :whole THEN foliot_jobs.tags END,
    expires_at = coalesce(json_extract(:more, '$.expires_at'),
                          :now + CAST(json_extract(:more, '$.expires_in') * 1000000 AS INTEGER),
                          CASE WHEN NOT :whole THEN foliot_jobs.expires_at END),
    ordering_key = n.ordering_key,
    fair_key = CASE WHEN :whole THEN json_extract(:more, '$.fair_key') ELSE foliot_jobs.fair_key END,
    requires = n.requires,
    extras = CASE WHEN foliot_jobs.workflow IS NULL THEN n.extras
                  ELSE json_set(coalesce(n.extras, '{}'), '$.changed', json_patch('{}', json_object(
                      'lane', n.lane, 'max_attempts', n.max_attempts, 'timeout', n.timeout,
                      'requires', json(n.requires)))) END
FROM (SELECT x.id, x.queue, x.priority, x.max_attempts, x.lane, x.due_at, x.ordering_key, x.stuck, x.timeout, x.requires,
             x.extras,
             :moves OR (coalesce(x.hold, '') = 'unfitting_payload' AND NOT x.stuck) AS moves,
             coalesce((SELECT q.strategy FROM foliot_queues q WHERE q.name = x.queue), 0) AS strategy
      FROM (SELECT o.id, o.hold, coalesce(:queue, o.queue) AS queue, coalesce(:priority, o.priority) AS priority,
                   coalesce(:max_attempts, o.max_attempts) AS max_attempts, coalesce(:lane, o.lane & ~3) AS lane,
                   CASE WHEN :retime THEN coalesce(:run_at, :now + CAST(:delay * 1000000 AS INTEGER), :now)
                        ELSE o.run_at END AS due_at,
                   CASE WHEN :whole THEN json_extract(:more, '$.ordering_key') ELSE o.ordering_key END AS ordering_key,
                   CASE WHEN :whole THEN :timeout ELSE coalesce(:timeout, o.timeout) END AS timeout,
                   CASE WHEN :whole THEN json_extract(:more, '$.requires') ELSE o.requires END AS requires,
                   CASE WHEN :whole THEN json_extract(:more, '$.extras') ELSE o.extras END AS extras,
                   coalesce(o.hold, '') = 'paused' AND (NOT :whole OR json_extract(:more, '$.ordering_key') IS NULL)
                       OR NOT :whole AND (
                       coalesce(o.hold, '') IN ('unknown_kind', 'signal', 'workflow') OR (
                       coalesce(o.hold, '') = 'unfitting_payload' AND :payload IS NULL)) AS stuck
            FROM foliot_jobs o
            WHERE o.partition = :partition AND o.id = coalesce(:id, (
                SELECT k.id FROM foliot_jobs k
                WHERE k.partition = :partition AND k.namespace = :namespace AND k.kind = :kind AND k.key = :key
                  AND json_extract(k.extras, '$.submission') IS NOT :submission))) x) n
WHERE foliot_jobs.partition = :partition AND foliot_jobs.id = n.id
  AND foliot_jobs.state || '' IN ('scheduled', 'waiting', 'held', 'ready')
RETURNING id, lane, state;

-- Gates of limits: what is asked before a job may start where there are any. What decides is model/door.py, once for both
-- dialects. There is one writer, so whoever writes is alone in the door, and nobody changes a limit meanwhile.

-- name: leave_limits
-- Slots that jobs held which have ended. What a limit was deleted of meanwhile is not there to be given back to.
WITH gone AS MATERIALIZED (
    SELECT u.name, json_extract(l.value, '$[1]') AS number
    FROM json_each(:left) l CROSS JOIN foliot_uses u
    WHERE u.name = json_extract(l.value, '$[0]')
)
UPDATE foliot_uses SET used = max(0, foliot_uses.used - g.number)
FROM gone g
WHERE foliot_uses.name = g.name;

-- name: pick_jobs
-- What could start: of what waits for one limit that was left, as many as have left it, whoever can run them, from a place
-- on and then before it; and of one lane, as claim_jobs, but past those that had to wait. With each its place, and what is known of the use of its key.
SELECT j.band, j.rank, j.id, j.lane, j.queue, j.kind, j.namespace, json_extract(j.extras, '$.limit_key'),
       json_extract(j.extras, '$.breaker'), 1,
       (SELECT json_array(u.used, u.tokens, u.at) FROM foliot_uses u
        WHERE u.name = CASE j.namespace WHEN 'default' THEN 'key:' || json_extract(j.extras, '$.limit_key')
                                        ELSE 'key@' || j.namespace || '@' || json_extract(j.extras, '$.limit_key') END),
       :name
FROM foliot_jobs j
WHERE j.partition = :partition AND j.hold = 'limit' AND j.hold_note = :name AND j.state || '' = 'held'
  AND (j.lane, j.band, j.rank, j.id) >= (:lane, :band, :rank, :id)
  AND (j.expires_at IS NULL OR j.expires_at > :now)
  AND NOT EXISTS (SELECT 1 FROM foliot_queues q WHERE q.name = j.queue AND q.paused_at IS NOT NULL)
ORDER BY j.lane, j.band, j.rank, j.id
LIMIT :number;
SELECT j.band, j.rank, j.id, j.lane, j.queue, j.kind, j.namespace, json_extract(j.extras, '$.limit_key'),
       json_extract(j.extras, '$.breaker'), 1,
       (SELECT json_array(u.used, u.tokens, u.at) FROM foliot_uses u
        WHERE u.name = CASE j.namespace WHEN 'default' THEN 'key:' || json_extract(j.extras, '$.limit_key')
                                        ELSE 'key@' || j.namespace || '@' || json_extract(j.extras, '$.limit_key') END),
       :name
FROM foliot_jobs j
WHERE j.partition = :partition AND j.hold = 'limit' AND j.hold_note = :name AND j.state || '' = 'held'
  AND (j.lane, j.band, j.rank, j.id) < (:lane, :band, :rank, :id)
  AND (j.expires_at IS NULL OR j.expires_at > :now)
  AND NOT EXISTS (SELECT 1 FROM foliot_queues q WHERE q.name = j.queue AND q.paused_at IS NOT NULL)
ORDER BY j.lane, j.band, j.rank, j.id
LIMIT :number;
SELECT c.band, c.rank, c.id, c.lane, c.queue, c.kind, c.namespace, c.limit_key, c.breaker, 0,
       (SELECT json_array(u.used, u.tokens, u.at) FROM foliot_uses u
        WHERE c.limit_key IS NOT NULL AND u.name = CASE c.namespace WHEN 'default' THEN 'key:' || c.limit_key
                                                   ELSE 'key@' || c.namespace || '@' || c.limit_key END),
       NULL
FROM (SELECT j.band, j.rank, j.id, j.lane, j.queue, j.kind, j.namespace,
             json_extract(j.extras, '$.limit_key') AS limit_key, json_extract(j.extras, '$.breaker') AS breaker
      FROM foliot_jobs j
      WHERE j.partition = :partition AND j.lane = :lane AND j.state = 'ready'
        AND (j.expires_at IS NULL OR j.expires_at > :now)
        AND (:kinds IS NULL OR j.kind IN (SELECT value FROM json_each(:kinds)))
        AND NOT EXISTS (SELECT 1 FROM foliot_queues q WHERE q.name = :queue AND q.paused_at IS NOT NULL)
      ORDER BY j.band, j.rank, j.id
      LIMIT :look) c;

-- name: read_uses
-- And what time it is: a row for each that is used, or one without.
SELECT :now / 1000000.0, u.name, u.used, u.tokens, u.at, u.taken_in, u.next_in, u.next_until
FROM (SELECT 1) LEFT JOIN foliot_uses u ON u.name IN (SELECT value FROM json_each(:names));

-- name: take_jobs
-- Those that may start, as claim_jobs takes them: first what the worker needs to know, then the claim of the same rows.
SELECT json_group_array(json_array(r.id, r.fence, r.kind, r.payload, r.attempt, r.max_attempts, r.losses,
                                   r.timeout, r.linked, r.lane, r.priority, r.more || '')),
       count(*) - count(r.payload)
FROM (SELECT j.id, j.fence + 1 AS fence, j.kind,
             CASE WHEN length(j.payload) <= :small THEN hex(j.payload) END AS payload,
             j.attempt + 1 AS attempt, j.max_attempts, j.losses, j.timeout,
             coalesce(j.ordering_key, j.workflow) IS NOT NULL AS linked,
             j.lane, j.priority,
             CASE WHEN coalesce(j.key, j.tags, j.ordering_key, j.fair_key, j.workflow, j.extras) IS NOT NULL
                       OR j.namespace <> 'default' OR j.run_at <> j.created_at
                  THEN json_patch('{}', json_object(
                      'namespace', j.namespace, 'key', j.key, 'tags', json(j.tags), 'ordering_key',
                      j.ordering_key, 'fair_key', j.fair_key, 'workflow', j.workflow, 'extras', json(j.extras),
                      'run_at', CASE WHEN j.run_at <> j.created_at OR j.generation > 0
                                          OR instr(j.extras, '"nominal":')
                                     THEN j.run_at END)) END AS more
      FROM json_each(:ids) i CROSS JOIN foliot_jobs j ON j.partition = :partition AND j.id = i.value
      WHERE j.state || '' IN ('ready', 'held')
      ORDER BY i.key) r;
UPDATE foliot_jobs
SET state = 'running', hold = NULL, hold_note = NULL, session = :session, fence = fence + 1, attempt = attempt + 1,
    claimed_at = :now, deadline_at = :now + CAST((timeout + :grace) * 1000000 AS INTEGER)
WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids)) AND state || '' IN ('ready', 'held');

-- name: hold_gated
-- Those for which a limit is full: [job, limit].
WITH waiting AS MATERIALIZED (
    SELECT j.rowid AS place, json_extract(w.value, '$[1]') AS name
    FROM json_each(:waiting) w CROSS JOIN foliot_jobs j
    WHERE j.partition = :partition AND j.id = json_extract(w.value, '$[0]') AND j.state || '' IN ('ready', 'held')
)
UPDATE foliot_jobs SET state = 'held', hold = 'limit', hold_note = w.name
FROM waiting w
WHERE foliot_jobs.rowid = w.place;

-- name: admit_gated
-- Those that could start, and not here: to be asked again by who can run them. As in admit_held, the note stays.
UPDATE foliot_jobs SET state = 'ready', hold = NULL
WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids))
  AND state || '' = 'held' AND hold || '' = 'limit'
RETURNING lane, state;

-- name: write_uses
-- [name, used, tokens, at, taken_in, next_in, next_until]
INSERT INTO foliot_uses (name, used, tokens, at, taken_in, next_in, next_until)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'),
       json_extract(value, '$[4]'), json_extract(value, '$[5]'), json_extract(value, '$[6]')
FROM json_each(:uses)
WHERE true
ON CONFLICT (name) DO UPDATE
SET used = excluded.used, tokens = excluded.tokens, at = excluded.at, taken_in = excluded.taken_in,
    next_in = excluded.next_in, next_until = excluded.next_until;

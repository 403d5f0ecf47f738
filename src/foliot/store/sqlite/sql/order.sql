-- What is compared with others before it may run: jobs that share an ordering key run one after the other, in the order
-- of their ids; those of a queue that is served round robin take turns by their fair keys. What `admission`, `order` and
-- `turn` mean is written in PostgreSQL's file. There is one writer, so nothing has to be locked.

-- name: find_held_jobs
-- What waits to be compared with earlier ones of its ordering key. Rides foliot_jobs_admission.
SELECT j.id, j.namespace, j.ordering_key
FROM foliot_jobs j
WHERE j.partition = :partition AND j.hold = 'admission' AND j.ordering_key IS NOT NULL AND j.state || '' = 'held'
ORDER BY j.id LIMIT :limit;

-- name: find_turns
-- What waits for its turn: the next fair keys after this one, by skip scan in two steps, then the first jobs of each.
-- Rides foliot_jobs_turns.
WITH RECURSIVE named (lane, fair_key, number) AS (
    SELECT :lane, :key, 0
    UNION ALL
    SELECT n.lane, coalesce(n.fair_key, ''), k.number + 1
    FROM named k CROSS JOIN foliot_jobs n ON n.rowid = coalesce(
        (SELECT j.rowid FROM foliot_jobs j
         WHERE j.partition = :partition
           AND j.hold IN ('admission', 'turn') AND (j.hold = 'turn' OR j.ordering_key IS NULL)
           AND j.lane = k.lane AND coalesce(j.fair_key, '') > k.fair_key
         ORDER BY coalesce(j.fair_key, '') LIMIT 1),
        (SELECT j.rowid FROM foliot_jobs j
         WHERE j.partition = :partition
           AND j.hold IN ('admission', 'turn') AND (j.hold = 'turn' OR j.ordering_key IS NULL)
           AND j.lane > k.lane
         ORDER BY j.lane, coalesce(j.fair_key, '') LIMIT 1))
    WHERE k.number < :limit
)
SELECT k.lane, k.fair_key FROM named k WHERE k.number > 0 ORDER BY k.number;
SELECT j.id, j.lane, coalesce(j.fair_key, '') FROM foliot_jobs j
WHERE j.partition = :partition
  AND j.hold IN ('admission', 'turn') AND (j.hold = 'turn' OR j.ordering_key IS NULL)
  AND j.lane = :lane AND coalesce(j.fair_key, '') = :key AND j.state || '' = 'held'
ORDER BY j.id LIMIT :quota;

-- name: find_idle_orders
-- The next keys after this one that have jobs waiting, by skip scan in two steps, and whether none of each is active.
WITH RECURSIVE named (namespace, ordering_key, place, number) AS (
    SELECT :namespace, :key, 0, 0
    UNION ALL
    SELECT n.namespace, n.ordering_key, n.rowid, k.number + 1
    FROM named k CROSS JOIN foliot_jobs n ON n.rowid = coalesce(
        (SELECT j.rowid FROM foliot_jobs j
         WHERE j.partition = :partition AND j.ordering_key IS NOT NULL AND j.hold IN ('admission', 'order')
           AND j.namespace = k.namespace AND j.ordering_key > k.ordering_key
         ORDER BY j.ordering_key LIMIT 1),
        (SELECT j.rowid FROM foliot_jobs j
         WHERE j.partition = :partition AND j.ordering_key IS NOT NULL AND j.hold IN ('admission', 'order')
           AND j.namespace > k.namespace
         ORDER BY j.namespace, j.ordering_key LIMIT 1))
    WHERE k.number < :limit
)
SELECT k.namespace, k.ordering_key,
       NOT EXISTS (SELECT 1 FROM foliot_jobs a
                   WHERE a.partition = :partition AND a.namespace = k.namespace AND a.ordering_key = k.ordering_key
                     AND coalesce(a.hold, '') NOT IN ('admission', 'order'))
FROM named k WHERE k.number > 0 ORDER BY k.number;

-- name: admit_orders
-- Of each of these keys the first, if none is active. Rides foliot_jobs_active, foliot_jobs_order, then the row.
UPDATE foliot_jobs
SET state = CASE WHEN run_at > :now THEN 'scheduled' WHEN lane & 3 = 3 AND rank = 0 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN run_at <= :now AND lane & 3 = 3 AND rank = 0 THEN 'turn' END
WHERE rowid IN (
    SELECT (SELECT h.rowid FROM foliot_jobs h
            WHERE h.partition = :partition AND h.namespace = json_extract(o.value, '$[0]')
              AND h.ordering_key = json_extract(o.value, '$[1]') AND h.ordering_key IS NOT NULL
              AND h.hold IN ('admission', 'order') AND h.state || '' = 'held'
            ORDER BY h.id LIMIT 1)
    FROM json_each(:orders) o
    WHERE NOT EXISTS (SELECT 1 FROM foliot_jobs a
                      WHERE a.partition = :partition AND a.namespace = json_extract(o.value, '$[0]')
                        AND a.ordering_key = json_extract(o.value, '$[1]') AND a.ordering_key IS NOT NULL
                        AND coalesce(a.hold, '') NOT IN ('admission', 'order')))
  AND state || '' = 'held'
RETURNING lane, state;

-- name: order_jobs
-- What was looked at and not admitted waits for an earlier one of its key.
UPDATE foliot_jobs SET hold = 'order'
WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids)) AND state || '' = 'held'
  AND hold = 'admission' AND ordering_key IS NOT NULL;

-- name: admit_turns
-- Gives each its place: where the last one of its fair key ended, or where its lane is now if that is further. Each ends
-- one turn after it begins; with weight 3, a third of a turn. A lane is where its first ready job is, at its last place if it has none, and never
-- behind where it was: a job that comes back with an old place does not pull newcomers before everybody else.
-- What is decided once stands in a table in memory while the parts act on it.
CREATE TEMPORARY TABLE IF NOT EXISTS foliot_places (
    place INTEGER PRIMARY KEY, lane INTEGER NOT NULL, fair_key TEXT NOT NULL, head INTEGER, rank INTEGER,
    ends INTEGER);
DELETE FROM foliot_places;
INSERT INTO foliot_places (place, lane, fair_key, head, rank, ends)
WITH picked AS MATERIALIZED (
    SELECT j.rowid AS place, j.id, j.lane, j.queue, coalesce(j.fair_key, '') AS fair_key,
           j.lane & 3 = 3 AND j.rank = 0 AND j.run_at <= :now AS turn
    FROM json_each(:ids) i CROSS JOIN foliot_jobs j
    WHERE j.partition = :partition AND j.id = i.value AND j.state || '' = 'held'
      AND (j.hold = 'turn' OR j.hold = 'admission' AND j.ordering_key IS NULL)
), heads AS MATERIALIZED (
    SELECT l.lane,
           max(coalesce((SELECT t.head FROM foliot_turns t WHERE t.partition = :partition AND t.lane = l.lane), 0),
               coalesce((SELECT r.rank FROM foliot_jobs r
                         WHERE r.partition = :partition AND r.lane = l.lane AND r.state = 'ready'
                         ORDER BY r.band, r.rank, r.id LIMIT 1),
                        (SELECT t.tail FROM foliot_turns t WHERE t.partition = :partition AND t.lane = l.lane), 1)) AS head
    FROM (SELECT DISTINCT p.lane FROM picked p WHERE p.turn) l
), placed AS MATERIALIZED (
    SELECT p.place, p.id, p.lane, p.fair_key, (SELECT h.head FROM heads h WHERE h.lane = p.lane) AS head,
           coalesce((SELECT f.tag FROM foliot_fair f
                     WHERE f.partition = :partition AND f.lane = p.lane AND f.fair_key = p.fair_key), 0) AS tag,
           CAST(:turn / coalesce((SELECT w.value FROM foliot_queues q CROSS JOIN json_each(q.weights) w
                                  WHERE q.name = p.queue AND w.key = p.fair_key), 1.0) AS INTEGER) AS step
    FROM picked p WHERE p.turn
)
SELECT d.place, d.lane, d.fair_key, d.head,
       max(d.head, d.tag) + d.step * (row_number() OVER key - 1),
       max(d.head, d.tag) + d.step * row_number() OVER key
FROM placed d
WINDOW key AS (PARTITION BY d.lane, d.fair_key ORDER BY d.id)
UNION ALL
SELECT p.place, p.lane, p.fair_key, NULL, NULL, NULL FROM picked p WHERE NOT p.turn;
INSERT INTO foliot_fair (partition, lane, fair_key, tag)
SELECT :partition, p.lane, p.fair_key, max(p.ends) FROM foliot_places p WHERE p.rank IS NOT NULL
GROUP BY p.lane, p.fair_key
ON CONFLICT (partition, lane, fair_key) DO UPDATE SET tag = excluded.tag;
INSERT INTO foliot_turns (partition, lane, head, tail)
SELECT :partition, p.lane, max(p.head), max(p.ends) FROM foliot_places p WHERE p.rank IS NOT NULL GROUP BY p.lane
ON CONFLICT (partition, lane) DO UPDATE SET head = excluded.head, tail = max(tail, excluded.tail);
UPDATE foliot_jobs
SET state = CASE WHEN run_at > :now THEN 'scheduled' ELSE 'ready' END, hold = NULL,
    rank = coalesce((SELECT p.rank FROM foliot_places p WHERE p.place = foliot_jobs.rowid), rank)
WHERE rowid IN (SELECT p.place FROM foliot_places p) AND state || '' = 'held';
SELECT lane FROM foliot_places;

-- name: expire_jobs
-- What has not started by the time it is good for. The first part is the look before a write. Rides
-- foliot_jobs_expires.
SELECT 1 FROM foliot_jobs
WHERE partition = :partition AND expires_at IS NOT NULL AND expires_at <= :now
  AND state || '' IN ('scheduled', 'waiting', 'held', 'ready')
LIMIT 1;
INSERT INTO foliot_history (partition, id, fence, priority, attempt, losses, generation, state,
                            namespace, kind, queue, created_at, run_at, started_at, finished_at,
                            session, key, workflow, reason,
                            tags, ordering_key, fair_key, schedule, extras, payload)
SELECT :partition, j.id, j.fence, j.priority, j.attempt, j.losses, j.generation, 'cancelled', j.namespace,
       j.kind, j.queue, j.created_at, j.run_at, j.claimed_at, :now, j.session, j.key, j.workflow,
       'expired', j.tags, j.ordering_key, j.fair_key, j.schedule, j.extras, j.payload
FROM foliot_jobs j
WHERE j.partition = :partition AND j.expires_at IS NOT NULL AND j.expires_at <= :now
  AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready')
ORDER BY j.expires_at, j.rowid LIMIT :limit;
INSERT INTO foliot_outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
SELECT :partition, :now, j.generation, j.id, 'job.cancelled', j.id,
       j.namespace, j.kind, j.queue,
       json_object('attempt', j.attempt, 'reason', 'expired', 'workflow', j.workflow,
                   'schedule', json_extract(j.extras, '$.schedule'))
FROM (SELECT 1 FROM foliot_listeners WHERE event = 'job.cancelled' LIMIT 1)
CROSS JOIN foliot_jobs j
WHERE j.rowid IN (
    SELECT j.rowid FROM foliot_jobs j
    WHERE j.partition = :partition AND j.expires_at IS NOT NULL AND j.expires_at <= :now
      AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready')
    ORDER BY j.expires_at, j.rowid LIMIT :limit)
  AND substr(j.kind, 1, 3) <> 'on.'
  AND EXISTS (SELECT 1 FROM foliot_listeners l
              WHERE l.event = 'job.cancelled' AND l.kind IN ('*', j.kind) AND l.queue IN ('*', j.queue));
DELETE FROM foliot_jobs
WHERE rowid IN (
    SELECT j.rowid FROM foliot_jobs j
    WHERE j.partition = :partition AND j.expires_at IS NOT NULL AND j.expires_at <= :now
      AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready')
    ORDER BY j.expires_at, j.rowid LIMIT :limit)
RETURNING namespace, ordering_key;

-- name: find_expired_steps
-- Those of them that are steps.
SELECT l.id, l.workflow
FROM (SELECT j.id, j.workflow FROM foliot_jobs j
      WHERE j.partition = :partition AND j.expires_at IS NOT NULL AND j.expires_at <= :now
        AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready')
      ORDER BY j.expires_at, j.rowid LIMIT :limit) l
WHERE l.workflow IS NOT NULL;

-- name: hold_kinds
-- What stands at the front of a lane and nobody who lives knows is held, so that it is seen and not looked at again and
-- again. First what is there, then the hold. Rides foliot_jobs_ready.
WITH RECURSIVE lanes (lane) AS (
    SELECT * FROM (SELECT j.lane FROM foliot_jobs j WHERE j.partition = :partition AND j.state = 'ready'
                   ORDER BY j.lane LIMIT 1)
    UNION ALL
    SELECT (SELECT j.lane FROM foliot_jobs j WHERE j.partition = :partition AND j.state = 'ready' AND j.lane > l.lane
            ORDER BY j.lane LIMIT 1)
    FROM lanes l WHERE l.lane IS NOT NULL
)
SELECT l.lane FROM lanes l WHERE l.lane IS NOT NULL;
SELECT r.id FROM (SELECT j.id, j.kind FROM foliot_jobs j
                  WHERE j.partition = :partition AND j.lane = :lane AND j.state = 'ready'
                  ORDER BY j.band, j.rank, j.id LIMIT :limit) r
WHERE r.kind NOT IN (SELECT value FROM json_each(:kinds));
UPDATE foliot_jobs SET state = 'held', hold = 'unknown_kind', hold_note = NULL
WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids)) AND state || '' = 'ready'
RETURNING id;

-- name: admit_payloads
-- What did not fit its kind's arguments goes back when these have changed since: the note begins with the fingerprint
-- that it was held against. The first part is the look before a write. Rides foliot_jobs_held.
SELECT 1 FROM foliot_jobs h
WHERE h.partition = :partition AND h.state = 'held' AND h.hold = 'unfitting_payload'
  AND (SELECT instr(coalesce(h.hold_note, ''), d.fingerprint || ':') <> 1 FROM foliot_definitions d WHERE d.kind = h.kind)
LIMIT 1;
UPDATE foliot_jobs
SET state = CASE WHEN run_at > :now THEN 'scheduled' WHEN lane & 3 = 3 AND rank = 0 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN run_at <= :now AND lane & 3 = 3 AND rank = 0 THEN 'turn' END,
    hold_note = NULL
WHERE rowid IN (
    SELECT h.rowid FROM foliot_jobs h
    WHERE h.partition = :partition AND h.state = 'held' AND h.hold = 'unfitting_payload'
      AND (SELECT instr(coalesce(h.hold_note, ''), d.fingerprint || ':') <> 1 FROM foliot_definitions d
           WHERE d.kind = h.kind)
    ORDER BY h.kind, h.id LIMIT :limit)
RETURNING lane;

-- What is compared with others before it may run: jobs that share an ordering key run one after the other, in the order
-- of their ids; those of a queue that is served round robin take turns by their fair keys.
--
-- Of an ordering key one job at a time is active: scheduled, ready, running, or held for a reason of its own; the index
-- jobs_active sees to that. The others are held: as `admission` until somebody has looked at them, as `order` from then
-- on. Whoever puts a job with an ordering key, or one of such a queue, back among the live (a retry of a dead one)
-- inserts it as `held` with the hold `admission`, like submit_jobs.

-- name: lock_orders
-- Whoever admits jobs of a key holds its lock, taken in a statement before the one that reads. Keys share 256 locks in
-- each partition: few wait for each other, and the server's table of locks never fills up.
SELECT count(pg_advisory_xact_lock(:space::integer, l.class)) FROM unnest(:classes::integer[]) AS l (class);

-- name: find_held_jobs
-- What waits to be compared with earlier ones of its ordering key. Rides jobs_admission.
SELECT j.id::text, j.namespace, j.ordering_key
FROM foliot.jobs j
WHERE j.partition = :partition AND j.hold = 'admission' AND j.ordering_key IS NOT NULL AND j.state || '' = 'held'
ORDER BY j.id LIMIT :limit;

-- name: find_turns
-- What waits for its turn: as many of each fair key, of the next keys after this one, by skip scan over jobs_turns.
WITH RECURSIVE named AS (
    (SELECT j.lane, coalesce(j.fair_key, '') AS fair_key, 1 AS number FROM foliot.jobs j
     WHERE j.partition = :partition
       AND j.hold IN ('admission', 'turn') AND (j.hold = 'turn' OR j.ordering_key IS NULL)
       AND (j.lane, coalesce(j.fair_key, '')) > (:lane::bigint, :key::text)
     ORDER BY j.lane, coalesce(j.fair_key, '') LIMIT 1)
    UNION ALL
    SELECT n.lane, n.fair_key, k.number + 1
    FROM named k CROSS JOIN LATERAL (
        SELECT j.lane, coalesce(j.fair_key, '') AS fair_key FROM foliot.jobs j
        WHERE j.partition = :partition
          AND j.hold IN ('admission', 'turn') AND (j.hold = 'turn' OR j.ordering_key IS NULL)
          AND (j.lane, coalesce(j.fair_key, '')) > (k.lane, k.fair_key)
        ORDER BY j.lane, coalesce(j.fair_key, '') LIMIT 1
    ) n
    WHERE k.number < :limit
)
SELECT f.id::text, k.lane, k.fair_key
FROM named k CROSS JOIN LATERAL (
    SELECT j.id FROM foliot.jobs j
    WHERE j.partition = :partition
      AND j.hold IN ('admission', 'turn') AND (j.hold = 'turn' OR j.ordering_key IS NULL)
      AND j.lane = k.lane AND coalesce(j.fair_key, '') = k.fair_key AND j.state || '' = 'held'
    ORDER BY j.id LIMIT (SELECT greatest(:limit / count(*), 1) FROM named)
) f
ORDER BY k.number, f.id;

-- name: find_idle_orders
-- The next keys after this one that have jobs waiting, by skip scan over jobs_order, and whether none of each is active.
WITH RECURSIVE named AS (
    (SELECT j.namespace, j.ordering_key, 1 AS number FROM foliot.jobs j
     WHERE j.partition = :partition AND j.ordering_key IS NOT NULL AND j.hold IN ('admission', 'order')
       AND (j.namespace, j.ordering_key) > (:namespace::text, :key::text)
     ORDER BY j.namespace, j.ordering_key LIMIT 1)
    UNION ALL
    SELECT n.namespace, n.ordering_key, k.number + 1
    FROM named k CROSS JOIN LATERAL (
        SELECT j.namespace, j.ordering_key FROM foliot.jobs j
        WHERE j.partition = :partition AND j.ordering_key IS NOT NULL AND j.hold IN ('admission', 'order')
          AND (j.namespace, j.ordering_key) > (k.namespace, k.ordering_key)
        ORDER BY j.namespace, j.ordering_key LIMIT 1
    ) n
    WHERE k.number < :limit
)
SELECT k.namespace, k.ordering_key,
       (SELECT 1 FROM foliot.jobs a
        WHERE a.partition = :partition AND a.namespace = k.namespace AND a.ordering_key = k.ordering_key
          AND coalesce(a.hold, '') NOT IN ('admission', 'order') LIMIT 1) IS NULL
FROM named k ORDER BY k.number;

-- name: admit_orders
-- Of each of these keys the first, if none is active. One that is locked is about to change: then none is admitted, and
-- whoever walks the keys comes by again. Rides jobs_active, jobs_order, then the primary key.
WITH first AS MATERIALIZED (
    SELECT (SELECT h.id FROM foliot.jobs h
            WHERE h.partition = :partition AND h.namespace = o.namespace AND h.ordering_key = o.key
              AND h.hold IN ('admission', 'order') AND h.state || '' = 'held'
            ORDER BY h.id LIMIT 1) AS id
    FROM unnest(:namespaces::text[], :keys::text[]) AS o (namespace, key)
    WHERE (SELECT 1 FROM foliot.jobs a
           WHERE a.partition = :partition AND a.namespace = o.namespace AND a.ordering_key = o.key
             AND coalesce(a.hold, '') NOT IN ('admission', 'order') LIMIT 1) IS NULL
), locked AS MATERIALIZED (
    SELECT j.id FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT f.id FROM first f)) AND j.state || '' = 'held'
      AND j.hold IN ('admission', 'order')
    ORDER BY j.id FOR UPDATE SKIP LOCKED
)
UPDATE foliot.jobs j
SET state = CASE WHEN j.run_at > coalesce(:now, statement_timestamp()) THEN 'scheduled'
                 WHEN j.lane & 3 = 3 AND j.rank = 0 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN j.run_at <= coalesce(:now, statement_timestamp()) AND j.lane & 3 = 3 AND j.rank = 0
                THEN 'turn' END
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT l.id FROM locked l)) AND j.state || '' = 'held'
RETURNING j.lane, j.state;

-- name: order_jobs
-- What was looked at and not admitted waits for an earlier one of its key.
WITH locked AS MATERIALIZED (
    SELECT j.id FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.state || '' = 'held'
      AND j.hold || '' = 'admission'
    ORDER BY j.id FOR UPDATE SKIP LOCKED
)
UPDATE foliot.jobs j SET hold = 'order'
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT l.id FROM locked l)) AND j.state || '' = 'held'
RETURNING j.id::text;

-- name: lock_turns
-- One at a time gives out the turns of a partition; taken in a statement before the one that reads.
SELECT count(pg_advisory_xact_lock(:space::integer, 0));

-- name: admit_turns
-- Gives each its place: where the last one of its fair key ended, or where its lane is now if that is further. Each ends
-- one turn after it begins; with weight 3, a third of a turn. A lane is where its first ready job is, at its last place if it has none, and never
-- behind where it was: a job that comes back with an old place does not pull newcomers before everybody else.
WITH picked AS MATERIALIZED (
    SELECT j.id, j.lane, j.queue, coalesce(j.fair_key, '') AS fair_key,
           j.lane & 3 = 3 AND j.rank = 0 AND j.run_at <= coalesce(:now, statement_timestamp()) AS turn
    FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.state || '' = 'held'
      AND (j.hold || '' = 'turn' OR j.hold || '' = 'admission' AND j.ordering_key IS NULL)
    ORDER BY j.id FOR UPDATE SKIP LOCKED
), heads AS MATERIALIZED (
    SELECT l.lane,
           greatest(
               (SELECT t.head FROM foliot.turns t WHERE t.partition = :partition AND t.lane = l.lane),
               coalesce((SELECT r.rank FROM foliot.jobs r
                         WHERE r.partition = :partition AND r.lane = l.lane AND r.state = 'ready'
                         ORDER BY r.band, r.rank, r.id LIMIT 1),
                        (SELECT t.tail FROM foliot.turns t WHERE t.partition = :partition AND t.lane = l.lane), 1)) AS head
    FROM (SELECT DISTINCT p.lane FROM picked p WHERE p.turn) l
), ranked AS MATERIALIZED (
    SELECT p.id, p.lane, p.fair_key, p.step,
           greatest((SELECT h.head FROM heads h WHERE h.lane = p.lane),
                    (SELECT f.tag FROM foliot.fair f
                     WHERE f.partition = :partition AND f.lane = p.lane AND f.fair_key = p.fair_key))
           + p.step * (row_number() OVER (PARTITION BY p.lane, p.fair_key ORDER BY p.id) - 1) AS rank
    FROM (SELECT p.*, (:turn::float8 / coalesce((SELECT (q.weights::jsonb ->> p.fair_key)::float8
                                                 FROM foliot.queues q WHERE q.name = p.queue), 1))::bigint AS step
          FROM picked p WHERE p.turn) p
), told AS (
    SELECT jsonb_object_agg(r.id, r.rank) AS ranks FROM ranked r
), served AS (
    INSERT INTO foliot.fair (partition, lane, fair_key, tag)
    SELECT :partition::smallint, r.lane, r.fair_key, max(r.rank + r.step) FROM ranked r GROUP BY r.lane, r.fair_key
    ON CONFLICT (partition, lane, fair_key) DO UPDATE SET tag = excluded.tag
), moved AS (
    INSERT INTO foliot.turns (partition, lane, head, tail)
    SELECT :partition::smallint, h.lane, h.head, 
           (SELECT max(r.rank + r.step) FROM ranked r WHERE r.lane = h.lane)
    FROM heads h
    ON CONFLICT (partition, lane) DO UPDATE SET head = excluded.head, tail = greatest(turns.tail, excluded.tail)
)
UPDATE foliot.jobs j
SET state = CASE WHEN j.run_at > coalesce(:now, statement_timestamp()) THEN 'scheduled' ELSE 'ready' END, hold = NULL,
    rank = coalesce(((SELECT t.ranks FROM told t) ->> j.id::text)::bigint, j.rank)
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT p.id FROM picked p)) AND j.state || '' = 'held'
RETURNING j.lane;

-- name: expire_jobs
-- What has not started by the time it is good for. Rides jobs_expires.
WITH late AS MATERIALIZED (
    SELECT j.id FROM foliot.jobs j
    WHERE j.partition = :partition AND j.expires_at IS NOT NULL AND j.expires_at <= coalesce(:now, now())
      AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready')
      AND (j.workflow IS NULL OR j.id = ANY (:steps::uuid[]))
    ORDER BY j.expires_at LIMIT :limit FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT l.id FROM late l))
      AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready')
    RETURNING j.*
), kept AS (
    INSERT INTO foliot.history (partition, id, fence, priority, attempt, losses, generation, state,
                                namespace, kind, queue, created_at, run_at, started_at, finished_at,
                                session, key, workflow, reason,
                                tags, ordering_key, fair_key, schedule, extras, payload)
    SELECT :partition::smallint, id, fence, priority, attempt, losses, generation, 'cancelled', namespace,
           kind, queue, created_at, run_at, claimed_at, coalesce(:now, now()), session, key, workflow,
           'expired', tags, ordering_key, fair_key, schedule, extras, payload
    FROM gone
), emitted AS (
    INSERT INTO foliot.outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
    SELECT :partition::smallint, coalesce(:now, now()), e.generation, e.id, 'job.cancelled', e.id::text,
           e.namespace, e.kind, e.queue,
           jsonb_build_object('attempt', e.attempt, 'reason', 'expired', 'workflow', e.workflow,
                              'schedule', e.extras::jsonb ->> 'schedule')::text
    FROM gone e
    WHERE (SELECT 1 FROM foliot.listeners l WHERE l.event = 'job.cancelled' LIMIT 1) IS NOT NULL
      AND left(e.kind, 3) <> 'on.'
      AND ARRAY(SELECT l.kind || ' ' || l.queue FROM foliot.listeners l WHERE l.event = 'job.cancelled')
          && ARRAY['* *', e.kind || ' *', '* ' || e.queue, e.kind || ' ' || e.queue]
)
SELECT namespace, ordering_key FROM gone;

-- name: find_expired_steps
-- Steps that have run out of time: the rows of their workflows are locked before these are cancelled.
SELECT j.id::text, j.workflow::text FROM foliot.jobs j
WHERE j.partition = :partition AND j.expires_at IS NOT NULL AND j.expires_at <= coalesce(:now, now())
  AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready') AND j.workflow IS NOT NULL
ORDER BY j.expires_at LIMIT :limit;

-- name: hold_kinds
-- What stands at the front of a lane and nobody who lives knows is held, so that it is seen and not looked at again and
-- again. Rides jobs_ready, then the primary key.
WITH RECURSIVE lanes AS (
    (SELECT j.lane FROM foliot.jobs j WHERE j.partition = :partition AND j.state = 'ready' ORDER BY j.lane LIMIT 1)
    UNION ALL
    SELECT n.lane
    FROM lanes l CROSS JOIN LATERAL (
        SELECT j.lane FROM foliot.jobs j
        WHERE j.partition = :partition AND j.state = 'ready' AND j.lane > l.lane ORDER BY j.lane LIMIT 1
    ) n
), strange AS MATERIALIZED (
    SELECT f.id
    FROM lanes l CROSS JOIN LATERAL (
        SELECT r.id, r.kind FROM foliot.jobs r
        WHERE r.partition = :partition AND r.lane = l.lane AND r.state = 'ready'
        ORDER BY r.band, r.rank, r.id LIMIT :limit
    ) f
    WHERE f.kind <> ALL (:kinds::text[])
), locked AS MATERIALIZED (
    SELECT j.id FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT s.id FROM strange s)) AND j.state || '' = 'ready'
    ORDER BY j.id FOR UPDATE SKIP LOCKED
)
UPDATE foliot.jobs j SET state = 'held', hold = 'unknown_kind', hold_note = NULL
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT l.id FROM locked l)) AND j.state || '' = 'ready'
RETURNING j.id::text;

-- name: admit_payloads
-- What did not fit its kind's arguments goes back when these have changed since: the note begins with the fingerprint
-- that it was held against. Rides jobs_held.
WITH changed AS MATERIALIZED (
    SELECT h.id FROM foliot.jobs h
    WHERE h.partition = :partition AND h.state = 'held' AND h.hold = 'unfitting_payload'
      AND (SELECT d.fingerprint FROM foliot.definitions d WHERE d.kind = h.kind)
          <> split_part(coalesce(h.hold_note, ''), ':', 1)
    ORDER BY h.kind, h.id LIMIT :limit FOR UPDATE SKIP LOCKED
)
UPDATE foliot.jobs j
SET state = CASE WHEN j.run_at > coalesce(:now, now()) THEN 'scheduled'
                 WHEN j.lane & 3 = 3 AND j.rank = 0 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN j.run_at <= coalesce(:now, now()) AND j.lane & 3 = 3 AND j.rank = 0 THEN 'turn' END, hold_note = NULL
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT c.id FROM changed c)) AND j.state || '' = 'held'
RETURNING j.lane;

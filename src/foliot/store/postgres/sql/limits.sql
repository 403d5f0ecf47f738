-- Limits: what is set, and how it stands. Who may start under them: gates.sql.

-- name: change_rules
-- Before a change: every claim that did not know of it has committed.
SELECT count(pg_advisory_xact_lock(:space::integer, 0));

-- name: read_version
SELECT version FROM foliot.rules;

-- name: raise_version
UPDATE foliot.rules SET version = version + 1 RETURNING version;

-- name: renew_rules
-- A session comes or goes: what each may claim uncounted is another share from now on.
UPDATE foliot.rules SET version = version + 1
WHERE (SELECT l.name FROM foliot.limits l WHERE NOT l.counted LIMIT 1) IS NOT NULL;

-- name: count_running
-- What really runs, by what limits go by. Rides jobs_running. Under a breaker only what was claimed since it came into its
-- state: what began before is no try, and must not take the place of one.
SELECT j.queue, j.kind, j.namespace, j.extras::jsonb ->> 'limit_key', b.name, count(*)
FROM foliot.jobs j
LEFT JOIN foliot.breakers b ON b.name = j.extras::jsonb ->> 'breaker' AND j.claimed_at >= to_timestamp(b.since)
WHERE j.state = 'running' GROUP BY 1, 2, 3, 4, 5;

-- name: find_gates
-- The next limits after this one that jobs wait for, by skip scan over jobs_gated.
WITH RECURSIVE named AS (
    (SELECT j.hold_note, 1 AS number FROM foliot.jobs j
     WHERE j.partition = :partition AND j.hold = 'limit' AND j.hold_note > :after::text
     ORDER BY j.hold_note LIMIT 1)
    UNION ALL
    SELECT n.hold_note, k.number + 1
    FROM named k CROSS JOIN LATERAL (
        SELECT j.hold_note FROM foliot.jobs j
        WHERE j.partition = :partition AND j.hold = 'limit' AND j.hold_note > k.hold_note
        ORDER BY j.hold_note LIMIT 1
    ) n
    WHERE k.number < :limit
)
SELECT k.hold_note FROM named k ORDER BY k.number;

-- name: find_gates_among
-- Those of these limits that jobs wait for. The first of them, although any would do: so it rides jobs_gated whatever
-- the planner believes of how many wait.
SELECT n.name
FROM unnest((SELECT :names::text[])) AS n (name)
CROSS JOIN LATERAL (
    SELECT 1 FROM foliot.jobs j
    WHERE j.partition = :partition AND j.hold = 'limit' AND j.hold_note = n.name
    ORDER BY j.lane, j.band, j.rank, j.id LIMIT 1
) h;

-- name: admit_held
-- Of those that wait for each of these limits so many, as in pick_jobs; of a paused queue none, which others could not pass.
-- What they waited for stays written on them until they are claimed, for count_behind.
WITH first AS MATERIALIZED (
    SELECT h.id
    FROM unnest((SELECT :names::text[]), (SELECT :numbers::integer[]), (SELECT :from_lanes::bigint[]),
                (SELECT :from_bands::smallint[]), (SELECT :from_ranks::bigint[]), (SELECT :from_ids::uuid[]),
                (SELECT :whole::boolean[])) AS l (name, number, lane, band, rank, id, whole)
    CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT j.id, j.lane
            FROM foliot.jobs j
            WHERE j.partition = :partition AND j.hold = 'limit' AND j.hold_note = l.name
              AND (j.lane, j.band, j.rank, j.id) >= (l.lane, l.band, l.rank, l.id)
              AND j.queue || '' <> ALL (ARRAY(SELECT q.name FROM foliot.queues q WHERE q.paused_at IS NOT NULL))
            ORDER BY j.lane, j.band, j.rank, j.id
            LIMIT l.number
            FOR UPDATE SKIP LOCKED
        ) a
        UNION ALL
        SELECT * FROM (
            SELECT j.id, j.lane
            FROM foliot.jobs j
            WHERE j.partition = :partition AND j.hold = 'limit' AND j.hold_note = l.name
              AND l.whole
              AND (j.lane, j.band, j.rank, j.id) < (l.lane, l.band, l.rank, l.id)
              AND j.queue || '' <> ALL (ARRAY(SELECT q.name FROM foliot.queues q WHERE q.paused_at IS NOT NULL))
            ORDER BY j.lane, j.band, j.rank, j.id
            LIMIT l.number
            FOR UPDATE SKIP LOCKED
        ) b
        LIMIT l.number
    ) h
)
UPDATE foliot.jobs j SET state = 'ready', hold = NULL
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM first)) AND j.state || '' = 'held'
RETURNING j.lane, j.state, j.hold_note, j.band, j.rank, j.id::text;

-- name: put_limit
-- Whether it is new or another than it was; said by code, also whether it says so for the first time. What it says again
-- does not count where somebody has changed it since: see model/said.py.
INSERT INTO foliot.limits AS l (name, concurrency, rate, period, burst, note, updated_by, updated_at, said)
VALUES (:name, :concurrency::integer, :rate::float8, :period::float8, :burst::integer, :note, :by, coalesce(:now, now()),
        :said)
ON CONFLICT (name) DO UPDATE
SET concurrency = excluded.concurrency, rate = excluded.rate, period = excluded.period, burst = excluded.burst,
    note = excluded.note, updated_by = excluded.updated_by, updated_at = excluded.updated_at, counted = true,
    said = coalesce(excluded.said, l.said)
WHERE l.said IS DISTINCT FROM coalesce(excluded.said, l.said)
   OR (excluded.said IS NULL OR l.updated_by = excluded.updated_by)
      AND (l.concurrency, l.rate, l.period, l.burst, l.note)
          IS DISTINCT FROM (excluded.concurrency, excluded.rate, excluded.period, excluded.burst, excluded.note)
RETURNING l.name;

-- name: count_limits
-- Which of these limits are counted from now on, and which are not.
UPDATE foliot.limits SET counted = :counted
WHERE name = ANY (:names::text[]) AND counted IS DISTINCT FROM :counted RETURNING name;

-- name: count_sessions
-- And whether this one is there.
SELECT count(*), count(*) FILTER (WHERE id = :session::uuid) > 0 FROM foliot.sessions;

-- name: delete_limit
DELETE FROM foliot.limits WHERE name = :name RETURNING name;

-- name: list_limits
-- A breaker that is not closed is one of them.
SELECT name, concurrency, rate, period, burst, note, updated_by, updated_at, said, counted FROM foliot.limits
UNION ALL
SELECT 'breaker:' || name, concurrency, rate, 1, burst, coalesce(note, reason), changed_by, to_timestamp(since), NULL, true
FROM foliot.breakers WHERE state <> 'closed'
ORDER BY name;

-- name: list_taken
SELECT name, used, tokens, at, taken_in, next_in, next_until FROM foliot.uses WHERE used > 0;

-- name: find_waited
-- All limits that jobs wait for, in all partitions, by skip scan over jobs_gated.
WITH RECURSIVE named AS (
    (SELECT j.partition, j.hold_note, 1 AS number FROM foliot.jobs j
     WHERE j.hold = 'limit' ORDER BY j.partition, j.hold_note LIMIT 1)
    UNION ALL
    SELECT n.partition, n.hold_note, k.number + 1
    FROM named k CROSS JOIN LATERAL (
        SELECT j.partition, j.hold_note FROM foliot.jobs j
        WHERE j.hold = 'limit' AND (j.partition, j.hold_note) > (k.partition, k.hold_note)
        ORDER BY j.partition, j.hold_note LIMIT 1
    ) n
    WHERE k.number < :limit
)
SELECT k.partition, k.hold_note FROM named k;

-- name: count_waiting
-- How many jobs wait at these gates, in these partitions: of all that have the same number together, up to a number.
SELECT g.number, (SELECT count(*) FROM (
    SELECT 1
    FROM unnest(g.partitions, g.names) AS w (partition, name)
    CROSS JOIN LATERAL (SELECT 1 FROM foliot.jobs j
                        WHERE j.partition = w.partition AND j.hold = 'limit' AND j.hold_note = w.name LIMIT :limit) h
    LIMIT :limit) c)
FROM (SELECT a.number, array_agg(a.partition) AS partitions, array_agg(a.name) AS names
      FROM unnest(:numbers::integer[], :partitions::smallint[], :names::text[]) AS a (number, partition, name)
      GROUP BY a.number) g;

-- name: list_holders
-- Of each of these gates that jobs run under: how many do, as count_running has it, with each of those that began first.
-- Rides jobs_running, once for all of them.
WITH running AS MATERIALIZED (
    SELECT j.id, j.claimed_at, j.queue, j.kind, j.namespace, j.extras::jsonb ->> 'limit_key' AS limit_key, b.name AS breaker
    FROM foliot.jobs j
    LEFT JOIN foliot.breakers b ON b.name = j.extras::jsonb ->> 'breaker' AND j.claimed_at >= to_timestamp(b.since)
    WHERE j.state = 'running'
)
SELECT g.name, h.used, h.id::text
FROM unnest(:names::text[], :scopes::text[], :words::text[], :namespaces::text[]) AS g (name, scope, word, namespace)
CROSS JOIN LATERAL (
    SELECT r.id, r.claimed_at, count(*) OVER () AS used
    FROM running r
    WHERE CASE g.scope WHEN 'queue' THEN r.queue = g.word WHEN 'kind' THEN r.kind = g.word
               WHEN 'namespace' THEN r.namespace = g.word WHEN 'breaker' THEN r.breaker = g.word
               ELSE r.limit_key = g.word AND r.namespace = g.namespace END
    ORDER BY r.claimed_at, r.id LIMIT :limit) h
ORDER BY g.name, h.claimed_at, h.id;

-- name: prune_uses
-- Of keys that nobody has asked for so long. A rate has all its tokens again by then. One that is being asked for now is
-- passed over: who asks stands in the door.
DELETE FROM foliot.uses
WHERE name = ANY (ARRAY(
    SELECT u.name FROM foliot.uses u
    WHERE u.used = 0 AND left(u.name, 3) = 'key'
      AND u.at < extract(epoch FROM coalesce(:now, now()))::float8
                 - CASE WHEN u.tokens IS NULL THEN 3600 ELSE 40 * 86400 END
    LIMIT :limit FOR UPDATE SKIP LOCKED))
RETURNING name;

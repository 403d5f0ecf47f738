-- Limits: what is set, and how it stands. Who may start under them: gates.sql.

-- name: read_version
SELECT version FROM foliot_rules;

-- name: raise_version
-- By the clock as well: a number that was taken back with its transaction is not given again.
UPDATE foliot_rules SET version = max(version + 1, :now);

-- name: count_all_running
-- Whatever limits they are under, up to a number. Rides foliot_jobs_running.
SELECT count(*) FROM (SELECT 1 FROM foliot_jobs WHERE state = 'running' LIMIT :most);

-- name: count_running
-- What really runs, by what limits go by. Rides foliot_jobs_running. Under a breaker only what was claimed since it came
-- into its state: what began before is no try, and must not take the place of one.
SELECT j.queue, j.kind, j.namespace, json_extract(j.extras, '$.limit_key'), b.name, count(*)
FROM foliot_jobs j
LEFT JOIN foliot_breakers b ON b.name = json_extract(j.extras, '$.breaker')
                           AND j.claimed_at >= CAST(round(b.since * 1000000) AS INTEGER)
WHERE j.state = 'running' GROUP BY 1, 2, 3, 4, 5;

-- name: find_gates
-- The next limits after this one that jobs wait for, by skip scan over foliot_jobs_gated.
WITH RECURSIVE named (name, number) AS (
    SELECT (SELECT j.hold_note FROM foliot_jobs j
            WHERE j.partition = :partition AND j.hold = 'limit' AND j.hold_note > :after
            ORDER BY j.hold_note LIMIT 1), 1
    UNION ALL
    SELECT (SELECT j.hold_note FROM foliot_jobs j
            WHERE j.partition = :partition AND j.hold = 'limit' AND j.hold_note > k.name
            ORDER BY j.hold_note LIMIT 1), k.number + 1
    FROM named k WHERE k.name IS NOT NULL AND k.number < :limit
)
SELECT name FROM named WHERE name IS NOT NULL ORDER BY number;

-- name: find_gates_among
-- Those of these limits that jobs wait for. Rides foliot_jobs_gated.
SELECT n.value FROM json_each(:names) n
WHERE EXISTS (SELECT 1 FROM foliot_jobs j WHERE j.partition = :partition AND j.hold = 'limit' AND j.hold_note = n.value);

-- name: admit_held
-- The first of those that wait for one limit, so many, from a place on and then before it; of a paused queue none, which
-- others could not pass. What they waited for stays written on them until they are claimed, for count_behind.
UPDATE foliot_jobs SET state = 'ready', hold = NULL
WHERE rowid IN (
    SELECT h.rowid FROM foliot_jobs h
    WHERE h.partition = :partition AND h.hold = 'limit' AND h.hold_note = :name AND h.state || '' = 'held'
      AND (h.lane, h.band, h.rank, h.id) >= (:lane, :band, :rank, :id)
      AND NOT EXISTS (SELECT 1 FROM foliot_queues q WHERE q.name = h.queue AND q.paused_at IS NOT NULL)
    ORDER BY h.lane, h.band, h.rank, h.id LIMIT :number)
RETURNING lane, state, hold_note, band, rank, id;
UPDATE foliot_jobs SET state = 'ready', hold = NULL
WHERE rowid IN (
    SELECT h.rowid FROM foliot_jobs h
    WHERE h.partition = :partition AND h.hold = 'limit' AND h.hold_note = :name AND h.state || '' = 'held'
      AND (h.lane, h.band, h.rank, h.id) < (:lane, :band, :rank, :id)
      AND NOT EXISTS (SELECT 1 FROM foliot_queues q WHERE q.name = h.queue AND q.paused_at IS NOT NULL)
    ORDER BY h.lane, h.band, h.rank, h.id LIMIT :number)
RETURNING lane, state, hold_note, band, rank, id;

-- name: put_limit
-- Whether it is new or another than it was; said by code, also whether it says so for the first time. What it says again
-- does not count where somebody has changed it since: see model/said.py.
INSERT INTO foliot_limits AS l (name, concurrency, rate, period, burst, note, updated_by, updated_at, said)
VALUES (:name, :concurrency, :rate, :period, :burst, :note, :by, :now, :said)
ON CONFLICT (name) DO UPDATE
SET concurrency = excluded.concurrency, rate = excluded.rate, period = excluded.period, burst = excluded.burst,
    note = excluded.note, updated_by = excluded.updated_by, updated_at = excluded.updated_at, counted = 1,
    said = coalesce(excluded.said, l.said)
WHERE l.said IS NOT coalesce(excluded.said, l.said)
   OR (excluded.said IS NULL OR l.updated_by = excluded.updated_by)
      AND (l.concurrency IS NOT excluded.concurrency OR l.rate IS NOT excluded.rate OR l.period IS NOT excluded.period
           OR l.burst IS NOT excluded.burst OR l.note IS NOT excluded.note)
RETURNING name;

-- name: count_limits
-- Which of these limits are counted from now on, and which are not.
UPDATE foliot_limits SET counted = :counted
WHERE name IN (SELECT value FROM json_each(:names)) AND counted <> :counted
RETURNING name;

-- name: delete_limit
DELETE FROM foliot_limits WHERE name = :name RETURNING name;

-- name: list_limits
-- A breaker that is not closed is one of them.
SELECT name, concurrency, rate, period, burst, note, updated_by, updated_at, said, counted FROM foliot_limits
UNION ALL
SELECT 'breaker:' || name, concurrency, rate, 1.0, burst, coalesce(note, reason), changed_by,
       CAST(since * 1000000 AS INTEGER), NULL, 1
FROM foliot_breakers WHERE state <> 'closed'
ORDER BY name;

-- name: list_taken
SELECT name, used, tokens, at, taken_in, next_in, next_until FROM foliot_uses WHERE used > 0;

-- name: find_waited
-- All limits that jobs wait for, in all partitions, by skip scan over foliot_jobs_gated in two steps, as in peek_jobs.
WITH RECURSIVE named (partition, name, number) AS (
    SELECT * FROM (SELECT j.partition, j.hold_note, 1 FROM foliot_jobs j
                   WHERE j.hold = 'limit' ORDER BY j.partition, j.hold_note LIMIT 1)
    UNION ALL
    SELECT n.partition, n.hold_note, k.number + 1
    FROM named k CROSS JOIN foliot_jobs n ON n.rowid = coalesce(
        (SELECT j.rowid FROM foliot_jobs j
         WHERE j.hold = 'limit' AND j.partition = k.partition AND j.hold_note > k.name ORDER BY j.hold_note LIMIT 1),
        (SELECT j.rowid FROM foliot_jobs j
         WHERE j.hold = 'limit' AND j.partition > k.partition ORDER BY j.partition, j.hold_note LIMIT 1))
    WHERE k.number < :limit
)
SELECT partition, name FROM named;

-- name: count_waiting
-- How many jobs wait at these gates: [number, partition, gate]. Of all that have the same number together, up to a number.
SELECT g.number, (SELECT count(*) FROM (
    SELECT 1
    FROM json_each(:waited) w
    CROSS JOIN foliot_jobs j ON j.partition = json_extract(w.value, '$[1]') AND j.hold = 'limit'
                            AND j.hold_note = json_extract(w.value, '$[2]')
    WHERE json_extract(w.value, '$[0]') = g.number LIMIT :limit))
FROM (SELECT DISTINCT json_extract(value, '$[0]') AS number FROM json_each(:waited)) g;

-- name: list_holders
-- Of each of these gates that jobs run under: how many do, as count_running has it, with each of those that began first.
-- Rides foliot_jobs_running, once for all of them.
WITH gates (name, scope, word, namespace) AS MATERIALIZED (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
           json_extract(value, '$[3]') FROM json_each(:gates)
), running AS MATERIALIZED (
    SELECT j.id, j.claimed_at, j.queue, j.kind, j.namespace, json_extract(j.extras, '$.limit_key') AS limit_key,
           b.name AS breaker
    FROM foliot_jobs j
    LEFT JOIN foliot_breakers b ON b.name = json_extract(j.extras, '$.breaker')
                               AND j.claimed_at >= CAST(round(b.since * 1000000) AS INTEGER)
    WHERE j.state = 'running'
), under AS NOT MATERIALIZED (
    SELECT g.name, r.id, r.claimed_at
    FROM gates g CROSS JOIN running r
        ON CASE g.scope WHEN 'queue' THEN r.queue = g.word WHEN 'kind' THEN r.kind = g.word
                WHEN 'namespace' THEN r.namespace = g.word WHEN 'breaker' THEN r.breaker = g.word
                ELSE r.limit_key = g.word AND r.namespace = g.namespace END
), counted (name, used) AS MATERIALIZED (
    SELECT name, count(*) FROM under GROUP BY name
)
SELECT c.name, c.used, f.value
FROM counted c
CROSS JOIN json_each((SELECT json_group_array(u.id) FROM (
    SELECT id FROM under WHERE name = c.name ORDER BY claimed_at, id LIMIT :limit) u)) f
ORDER BY c.name, f.key;

-- name: prune_uses
-- Of keys that nobody has asked for so long. A rate has all its tokens again by then.
DELETE FROM foliot_uses
WHERE name IN (
    SELECT u.name FROM foliot_uses u
    WHERE u.used = 0 AND substr(u.name, 1, 3) = 'key'
      AND u.at < :now / 1000000.0 - CASE WHEN u.tokens IS NULL THEN 3600 ELSE 40 * 86400 END
    LIMIT :limit)
RETURNING name;

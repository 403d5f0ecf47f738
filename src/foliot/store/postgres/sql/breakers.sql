-- Breakers: one row each, locked while model/breaker.py decides what follows. Whoever changes the limit that one is
-- (list_limits) then takes the rules' lock, and the door's last: always in this order.

-- name: make_breaker
-- One that nobody knew yet, closed.
INSERT INTO foliot.breakers (name, state, since, burst, memory, options)
VALUES (:name, 'closed', 0, 1, '[]', '{}') ON CONFLICT (name) DO NOTHING;

-- name: read_breaker
-- And what time it is.
SELECT extract(epoch FROM coalesce(:now, statement_timestamp()))::float8, name, state, since, until, reason, note, changed_by,
       rate, memory, options
FROM foliot.breakers WHERE name = :name FOR UPDATE;

-- name: write_breaker
UPDATE foliot.breakers
SET state = :state, since = :since::float8, until = :until::float8, reason = :reason, note = :note, changed_by = :by,
    concurrency = :concurrency::integer, rate = :rate::float8, burst = :burst::integer, memory = :memory,
    options = :options
WHERE name = :name;

-- name: list_breakers
SELECT extract(epoch FROM coalesce(:now, statement_timestamp()))::float8, name, state, since, until, reason, note, changed_by,
       rate, memory, options
FROM foliot.breakers ORDER BY name;

-- name: count_behind
-- How many jobs wait for each of these, in all partitions, up to a number: also those that may be asked again, and were
-- not yet. In their order, so that it rides jobs_gated and jobs_admitted.
SELECT b.name, (SELECT count(*) FROM (
    SELECT 1
    FROM generate_series(0, :partitions::integer - 1) AS p (partition)
    CROSS JOIN LATERAL (
        (SELECT 1 FROM foliot.jobs j
         WHERE j.partition = p.partition AND j.hold = 'limit' AND j.hold_note = 'breaker:' || b.name
         ORDER BY j.lane, j.band, j.rank, j.id LIMIT :limit)
        UNION ALL
        (SELECT 1 FROM foliot.jobs j
         WHERE j.partition = p.partition AND j.state = 'ready' AND j.hold_note = 'breaker:' || b.name
         ORDER BY j.band, j.rank, j.id LIMIT :limit)
        LIMIT :limit
    ) w
    LIMIT :limit) c)
FROM unnest(:names::text[]) AS b (name);

-- name: find_behind
-- Whether anybody waits for this one who could go on: of a paused queue nobody can, and a breaker does not stay in the way
-- of others for them. And, with `since`, whether one tries: it was claimed since then. The first of each, although any
-- would do: so it rides jobs_gated, jobs_admitted and jobs_running whatever the planner believes of how many wait for others.
SELECT coalesce(bool_or(NOT w.tries), false), coalesce(bool_or(w.tries), false)
FROM generate_series(0, :partitions::integer - 1) AS p (partition)
CROSS JOIN LATERAL (
    (SELECT false AS tries FROM foliot.jobs j
     WHERE j.partition = p.partition AND j.hold = 'limit' AND j.hold_note = 'breaker:' || :name::text
       AND j.queue || '' <> ALL (ARRAY(SELECT q.name FROM foliot.queues q WHERE q.paused_at IS NOT NULL))
     ORDER BY j.lane, j.band, j.rank, j.id LIMIT 1)
    UNION ALL
    (SELECT false FROM foliot.jobs j
     WHERE j.partition = p.partition AND j.state = 'ready' AND j.hold_note = 'breaker:' || :name::text
       AND j.queue || '' <> ALL (ARRAY(SELECT q.name FROM foliot.queues q WHERE q.paused_at IS NOT NULL))
     ORDER BY j.band, j.rank, j.id LIMIT 1)
    UNION ALL
    (SELECT true FROM foliot.jobs j
     WHERE :since::float8 IS NOT NULL AND j.partition = p.partition AND j.state = 'running'
       AND j.claimed_at >= to_timestamp(:since::float8) AND j.extras::jsonb ->> 'breaker' = :name::text
     ORDER BY j.session LIMIT 1)
) w;

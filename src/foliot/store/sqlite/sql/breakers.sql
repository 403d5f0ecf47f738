-- Breakers: one row each; model/breaker.py decides what follows. There is one writer, so nobody changes one meanwhile.

-- name: make_breaker
-- One that nobody knew yet, closed.
INSERT INTO foliot_breakers (name, state, since, burst, memory, options)
VALUES (:name, 'closed', 0, 1, '[]', '{}') ON CONFLICT (name) DO NOTHING;

-- name: read_breaker
-- And what time it is.
SELECT :now / 1000000.0, name, state, since, until, reason, note, changed_by, rate, memory, options
FROM foliot_breakers WHERE name = :name;

-- name: write_breaker
UPDATE foliot_breakers
SET state = :state, since = :since, until = :until, reason = :reason, note = :note, changed_by = :by,
    concurrency = :concurrency, rate = :rate, burst = :burst, memory = :memory, options = :options
WHERE name = :name;

-- name: list_breakers
SELECT :now / 1000000.0, name, state, since, until, reason, note, changed_by, rate, memory, options
FROM foliot_breakers ORDER BY name;

-- name: count_behind
-- How many jobs wait for each of these, in all partitions, up to a number: also those that may be asked again, and were
-- not yet. Rides foliot_jobs_gated and foliot_jobs_admitted.
SELECT b.value, (SELECT count(*) FROM (
    SELECT 1 FROM json_each(:partitions) p
    CROSS JOIN foliot_jobs j ON j.partition = p.value AND j.hold = 'limit' AND j.hold_note = 'breaker:' || b.value
    UNION ALL
    SELECT 1 FROM json_each(:partitions) p
    CROSS JOIN foliot_jobs j ON j.partition = p.value AND j.state = 'ready' AND j.hold_note = 'breaker:' || b.value
    LIMIT :limit))
FROM json_each(:names) b;

-- name: find_behind
-- Whether anybody waits for this one who could go on: of a paused queue nobody can, and a breaker does not stay in the way
-- of others for them. And, with `since`, whether one tries: it was claimed since then. Rides foliot_jobs_gated,
-- foliot_jobs_admitted and foliot_jobs_running.
SELECT EXISTS (
    SELECT 1 FROM json_each(:partitions) p
    CROSS JOIN foliot_jobs j ON j.partition = p.value AND j.hold = 'limit' AND j.hold_note = 'breaker:' || :name
    WHERE NOT EXISTS (SELECT 1 FROM foliot_queues q WHERE q.name = j.queue AND q.paused_at IS NOT NULL)
    UNION ALL
    SELECT 1 FROM json_each(:partitions) p
    CROSS JOIN foliot_jobs j ON j.partition = p.value AND j.state = 'ready' AND j.hold_note = 'breaker:' || :name
    WHERE NOT EXISTS (SELECT 1 FROM foliot_queues q WHERE q.name = j.queue AND q.paused_at IS NOT NULL)
), EXISTS (
    SELECT 1 FROM json_each(:partitions) p
    CROSS JOIN foliot_jobs j ON j.partition = p.value AND j.state = 'running'
    WHERE :since IS NOT NULL AND j.claimed_at >= CAST(round(:since * 1000000) AS INTEGER)
      AND json_extract(j.extras, '$.breaker') = :name
);

-- Another number of partitions. What moves the rows follows from store/tables.py.

-- name: limit_locking
-- Nobody should be there any more: do not keep others waiting behind an old transaction.
SELECT set_config('lock_timeout', :milliseconds::text, true);

-- name: list_ordered_keys
SELECT id::text, namespace, kind, key FROM foliot.jobs
WHERE key IS NOT NULL AND (ordering_key IS NOT NULL OR schedule IS NOT NULL) ORDER BY id;

-- name: list_scattered_steps
-- Of workflows that run, those that chance has given another slot.
SELECT s.job::text, s.workflow::text FROM foliot.workflows w
JOIN foliot.steps s ON s.partition = w.partition AND s.workflow = w.id
WHERE w.state = 'running' AND substr(s.job::text, 16, 3) <> substr(s.workflow::text, 16, 3) ORDER BY s.job;

-- name: list_keyed_schedules
SELECT name FROM foliot.schedules
WHERE key IS NOT NULL OR more::jsonb ->> 'ordering_key' IS NOT NULL ORDER BY name;

-- name: count_open_gaps
SELECT count(*) FROM foliot.gaps WHERE NOT done;

-- name: settle_schedules
-- Triggers of several partitions become one, which begins with what the slowest has not done: the schedules of the
-- others remember what is done for them, and so do those that a trigger has done in the middle of its schedules.
UPDATE foliot.schedules s
SET active_from = greatest(s.active_from, CASE WHEN t.cursor >= s.id THEN t.next_fire_at ELSE t.fired_at END
                                          + interval '1 microsecond')
FROM foliot.triggers t
JOIN (SELECT o.id, min(o.next_fire_at) AS next_fire_at FROM foliot.triggers o GROUP BY o.id) slowest ON slowest.id = t.id
WHERE t.partition = s.partition AND t.id = s.trigger
  AND CASE WHEN t.cursor >= s.id THEN t.next_fire_at ELSE t.fired_at END >= slowest.next_fire_at;

-- name: settle_triggers
-- With the schedules that are there now; where there are none, there is no trigger.
WITH sizes AS (
    SELECT s.partition, s.trigger, count(*) AS size FROM foliot.schedules s WHERE s.trigger IS NOT NULL GROUP BY 1, 2
), sized AS (
    UPDATE foliot.triggers t SET size = n.size FROM sizes n WHERE t.partition = n.partition AND t.id = n.trigger
)
DELETE FROM foliot.triggers t
WHERE NOT EXISTS (SELECT 1 FROM sizes n WHERE n.partition = t.partition AND n.trigger = t.id);

-- name: count_partitions
SELECT count(*) FROM foliot.leases;

-- name: set_partitions
WITH gone AS (DELETE FROM foliot.leases WHERE partition >= :partitions)
INSERT INTO foliot.leases (partition) SELECT generate_series(0, :partitions - 1)
ON CONFLICT (partition) DO NOTHING;

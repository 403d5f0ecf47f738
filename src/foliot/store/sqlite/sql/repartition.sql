-- Another number of partitions. What moves the rows follows from store/tables.py.

-- name: list_ordered_keys
SELECT id, namespace, kind, key FROM foliot_jobs
WHERE key IS NOT NULL AND (ordering_key IS NOT NULL OR schedule IS NOT NULL) ORDER BY id;

-- name: list_scattered_steps
-- Of workflows that run, those that chance has given another slot.
SELECT s.job, s.workflow FROM foliot_workflows w
JOIN foliot_steps s ON s.partition = w.partition AND s.workflow = w.id
WHERE w.state = 'running' AND substr(s.job, 16, 3) <> substr(s.workflow, 16, 3) ORDER BY s.job;

-- name: list_keyed_schedules
SELECT name FROM foliot_schedules
WHERE key IS NOT NULL OR json_extract(more, '$.ordering_key') IS NOT NULL ORDER BY name;

-- name: count_open_gaps
SELECT count(*) FROM foliot_gaps WHERE NOT done;

-- name: settle_schedules
-- Triggers of several partitions become one, which begins with what the slowest has not done: the schedules of the
-- others remember what is done for them, and so do those that a trigger has done in the middle of its schedules.
UPDATE foliot_schedules
SET active_from = max(active_from, CASE WHEN t.cursor >= foliot_schedules.id THEN t.next_fire_at ELSE t.fired_at END + 1)
FROM foliot_triggers t
JOIN (SELECT o.id, min(o.next_fire_at) AS next_fire_at FROM foliot_triggers o GROUP BY o.id) slowest ON slowest.id = t.id
WHERE t.partition = foliot_schedules.partition AND t.id = foliot_schedules.trigger
  AND CASE WHEN t.cursor >= foliot_schedules.id THEN t.next_fire_at ELSE t.fired_at END >= slowest.next_fire_at;

-- name: settle_triggers
-- With the schedules that are there now; where there are none, there is no trigger.
UPDATE foliot_triggers
SET size = (SELECT count(*) FROM foliot_schedules s
            WHERE s.partition = foliot_triggers.partition AND s.trigger = foliot_triggers.id);
DELETE FROM foliot_triggers WHERE size = 0;

-- name: count_partitions
SELECT count(*) FROM foliot_leases;

-- name: set_partitions
DELETE FROM foliot_leases WHERE partition >= :partitions;
WITH RECURSIVE every (partition) AS (SELECT 0 UNION ALL SELECT partition + 1 FROM every WHERE partition + 1 < :partitions)
INSERT OR IGNORE INTO foliot_leases (partition) SELECT partition FROM every;

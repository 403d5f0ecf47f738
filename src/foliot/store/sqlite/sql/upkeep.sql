-- Queues, retention, and what a doctor looks at.

-- name: pause_queue
INSERT INTO foliot_queues (name, paused_at, paused_by, note) VALUES (:name, :now, :by, :note)
ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(foliot_queues.paused_at, excluded.paused_at),
    paused_by = excluded.paused_by, note = excluded.note;

-- name: resume_queue
UPDATE foliot_queues SET paused_at = NULL, paused_by = NULL, note = NULL WHERE name = :name;

-- name: list_queues
SELECT name, paused_at, paused_by, note FROM foliot_queues ORDER BY name;

-- name: find_old_rows
-- Only here, for the look before a write.
SELECT 1 WHERE EXISTS (SELECT 1 FROM foliot_history WHERE finished_at < :before)
   OR EXISTS (SELECT 1 FROM json_each(:partitions) p CROSS JOIN foliot_attempts a
              WHERE a.partition = p.value AND a.finished_at < :before);

-- name: prune_history
-- There are no days to drop whole. Rides foliot_history_finished.
DELETE FROM foliot_history
WHERE rowid IN (SELECT h.rowid FROM foliot_history h WHERE h.finished_at < :before
                ORDER BY h.finished_at LIMIT :limit);

-- name: prune_attempts
-- The attempts of a live or dead job stay as long as the job. Rides foliot_attempts_finished.
DELETE FROM foliot_attempts
WHERE rowid IN (
    SELECT o.rowid FROM foliot_attempts o
    WHERE o.partition = :partition AND o.finished_at < :before
      AND NOT EXISTS (SELECT 1 FROM foliot_dead d WHERE d.partition = :partition AND d.id = o.job)
      AND NOT EXISTS (SELECT 1 FROM foliot_jobs j WHERE j.partition = :partition AND j.id = o.job)
    LIMIT :limit);

-- name: grade_jobs
SELECT (SELECT count(*) FROM foliot_jobs),
       (SELECT count(*) FROM foliot_jobs WHERE state = 'ready'),
       (SELECT count(*) FROM foliot_dead),
       (SELECT (:now - min(run_at)) / 1000000.0 FROM foliot_jobs WHERE state = 'ready');

-- Queues, retention, and what a doctor looks at.

-- name: pause_queue
INSERT INTO foliot_queues (name, paused_at, paused_by, note) VALUES (:name, :now, :by, :note)
ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(foliot_queues.paused_at, excluded.paused_at),
    paused_by = excluded.paused_by, note = excluded.note;

-- name: resume_queue
UPDATE foliot_queues SET paused_at = NULL, paused_by = NULL, note = NULL WHERE name = :name;

-- name: list_queues
SELECT name, paused_at, paused_by, note FROM foliot_queues ORDER BY name;

-- name: prune_history
-- There are no days to drop whole: a batch of the oldest goes, with the attempts of those jobs, unless the job lives
-- or is dead. The first part is the look before a write. Rides foliot_history_finished.
SELECT 1 FROM foliot_history WHERE finished_at < :before LIMIT 1;
DELETE FROM foliot_attempts
WHERE rowid IN (
    SELECT a.rowid
    FROM (SELECT h.partition, h.id FROM foliot_history h WHERE h.finished_at < :before
          ORDER BY h.finished_at, h.rowid LIMIT :limit) o
    CROSS JOIN foliot_attempts a ON a.partition = o.partition AND a.job = o.id
    WHERE NOT EXISTS (SELECT 1 FROM foliot_dead d WHERE d.partition = o.partition AND d.id = o.id)
      AND NOT EXISTS (SELECT 1 FROM foliot_jobs j WHERE j.partition = o.partition AND j.id = o.id));
DELETE FROM foliot_history
WHERE rowid IN (SELECT h.rowid FROM foliot_history h WHERE h.finished_at < :before
                ORDER BY h.finished_at, h.rowid LIMIT :limit);

-- name: grade_jobs
SELECT (SELECT count(*) FROM foliot_jobs),
       (SELECT count(*) FROM foliot_jobs WHERE state = 'ready'),
       (SELECT count(*) FROM foliot_dead),
       (SELECT (:now - min(run_at)) / 1000000.0 FROM foliot_jobs WHERE state = 'ready');

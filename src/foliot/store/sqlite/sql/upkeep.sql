-- Queues, retention, and what a doctor looks at.

-- name: pause_queue
INSERT INTO foliot_queues (name, paused_at, paused_by, note) VALUES (:name, :now, :by, :note)
ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(foliot_queues.paused_at, excluded.paused_at),
    paused_by = excluded.paused_by, note = excluded.note
RETURNING name;

-- name: resume_queue
UPDATE foliot_queues SET paused_at = NULL, paused_by = NULL, note = NULL
WHERE name = :name AND paused_at IS NOT NULL
RETURNING name;

-- name: configure_queue
-- As put_limit, but for what is not said.
INSERT INTO foliot_queues (name, strategy, aging, weights, updated_by, said)
VALUES (:name, coalesce(:strategy, 0), coalesce(:aging, 60.0), coalesce(:weights, '{}'), :by, :said)
ON CONFLICT (name) DO UPDATE
SET strategy = coalesce(:strategy, strategy), aging = coalesce(:aging, aging), weights = coalesce(:weights, weights),
    updated_by = :by, said = coalesce(:said, said)
WHERE said IS NOT coalesce(:said, said)
   OR (:said IS NULL OR updated_by = :by) AND (strategy <> :strategy OR aging <> :aging OR weights <> :weights)
RETURNING name;

-- name: list_queues
SELECT name, paused_at, paused_by, note, strategy, aging, weights, updated_by, said FROM foliot_queues ORDER BY name;

-- name: prune_turns
-- A key that is not ahead of its lane begins where the lane is: nothing need be known of it.
-- The first part is the look before a write.
SELECT 1 FROM foliot_fair LIMIT 1;
DELETE FROM foliot_fair
WHERE tag <= (SELECT t.head FROM foliot_turns t
              WHERE t.partition = foliot_fair.partition AND t.lane = foliot_fair.lane);

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

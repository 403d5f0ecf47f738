-- What jobs say while they run. Lines are kept under the fence of the attempt that wrote them, so that a late one adds
-- to its own attempt and to no other; progress is a matter of the running attempt alone.

-- name: write_logs
-- The same lines sent again change nothing. The WHERE keeps SQLite from reading ON CONFLICT as part of the FROM.
INSERT INTO foliot_logs (partition, job, fence, seq, attempt, at, level, logger, message)
SELECT :partition, json_extract(l.value, '$[0]'), json_extract(l.value, '$[1]'), json_extract(l.value, '$[2]'),
       json_extract(l.value, '$[3]'), json_extract(l.value, '$[4]'), json_extract(l.value, '$[5]'),
       json_extract(l.value, '$[6]'), json_extract(l.value, '$[7]')
FROM json_each(:lines) l
WHERE true
ON CONFLICT DO NOTHING;

-- name: set_progress
UPDATE foliot_jobs
SET progress = p.progress
FROM (SELECT j.rowid AS place, json_extract(o.value, '$[2]') AS progress
      FROM json_each(:progress) o CROSS JOIN foliot_jobs j
      WHERE j.partition = :partition AND j.id = json_extract(o.value, '$[0]')
        AND j.fence = json_extract(o.value, '$[1]') AND j.session = :session AND j.state || '' = 'running') p
WHERE foliot_jobs.rowid = p.place;

-- name: list_logs
SELECT attempt, seq, at, level, logger, message
FROM foliot_logs WHERE partition = :partition AND job = :id ORDER BY fence, seq;

-- name: prune_logs
-- By their own age: they are the first that anybody can do without. The first part is the look before a write.
SELECT 1 FROM foliot_logs WHERE partition = :partition AND at < :before LIMIT 1;
DELETE FROM foliot_logs
WHERE rowid IN (SELECT l.rowid FROM foliot_logs l WHERE l.partition = :partition AND l.at < :before
                ORDER BY l.at LIMIT :limit);

-- How many attempts ended in each minute, and how. No two processes write to one row: see store/rollups.py.

-- name: note_rollups
-- Whether this batch of the writer is a new one.
INSERT INTO foliot_rollup_writers (writer, batch, written_at) VALUES (:writer, :batch, :now)
ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, written_at = excluded.written_at
WHERE foliot_rollup_writers.batch < excluded.batch
RETURNING batch;

-- name: add_rollups
-- To what the same writer has written of the same minute.
INSERT INTO foliot_rollups (minute, writer, namespace, queue, kind, outcome, count, seconds, waits, runs)
SELECT json_extract(n.value, '$[0]') * 1000000, :writer, json_extract(n.value, '$[1]'), json_extract(n.value, '$[2]'),
       json_extract(n.value, '$[3]'), json_extract(n.value, '$[4]'), json_extract(n.value, '$[5]'),
       json_extract(n.value, '$[6]'), json_extract(n.value, '$[7]'), json_extract(n.value, '$[8]')
FROM json_each(:rollups) n
WHERE true
ON CONFLICT (minute, writer, namespace, queue, kind, outcome) DO UPDATE
SET count = count + excluded.count, seconds = seconds | excluded.seconds,
    waits = (SELECT json_group_object(key, total)
             FROM (SELECT key, sum(value) AS total
                   FROM (SELECT key, value FROM json_each(foliot_rollups.waits)
                         UNION ALL SELECT key, value FROM json_each(excluded.waits))
                   GROUP BY key)),
    runs = (SELECT json_group_object(key, total)
            FROM (SELECT key, sum(value) AS total
                  FROM (SELECT key, value FROM json_each(foliot_rollups.runs)
                        UNION ALL SELECT key, value FROM json_each(excluded.runs))
                  GROUP BY key));

-- name: list_rollups
-- Rides the primary key.
SELECT minute / 1000000, namespace, queue, kind, outcome, count, seconds, waits, runs
FROM foliot_rollups
WHERE minute >= :since * 1000000 AND minute < :until * 1000000
  AND (:namespace IS NULL OR namespace = :namespace) AND (:queue IS NULL OR queue = :queue)
  AND (:kind IS NULL OR kind = :kind)
ORDER BY minute, namespace, queue, kind, outcome;

-- name: sum_rollups
-- All of a queue, one row for each step; its histograms side by side, to be added up by who reads. Rides the primary key.
SELECT minute / 1000000, sum(count), json_group_array(DISTINCT seconds),
       '[' || group_concat(waits) || ']', '[' || group_concat(runs) || ']'
FROM foliot_rollups
WHERE minute >= :since * 1000000 AND minute < :until * 1000000 AND queue = :queue
GROUP BY minute
ORDER BY minute;

-- name: take_rollups
-- What has not been put together yet, to be put together. The first part is the look before a write.
-- Rides foliot_rollups_apart.
SELECT 1 FROM foliot_rollups
WHERE minute <= :before AND writer <> '00000000-0000-0000-0000-000000000000' LIMIT 1;
DELETE FROM foliot_rollups
WHERE rowid IN (SELECT r.rowid FROM foliot_rollups r
                WHERE r.minute <= :before AND r.writer <> '00000000-0000-0000-0000-000000000000'
                ORDER BY r.minute LIMIT :limit)
RETURNING minute / 1000000, namespace, queue, kind, outcome, count, seconds, waits, runs;

-- name: prune_rollups
-- The first part is the look before a write.
SELECT 1 FROM foliot_rollups WHERE minute < :before LIMIT 1;
DELETE FROM foliot_rollups
WHERE rowid IN (SELECT r.rowid FROM foliot_rollups r WHERE r.minute < :before ORDER BY r.minute LIMIT :limit);

-- name: prune_rollup_writers
-- The first part is the look before a write.
SELECT 1 FROM foliot_rollup_writers WHERE written_at < :before LIMIT 1;
DELETE FROM foliot_rollup_writers WHERE written_at < :before;

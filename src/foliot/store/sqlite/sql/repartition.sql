-- Another number of partitions. What moves the rows follows from store/tables.py.

-- name: list_ordered_keys
SELECT id, namespace, kind, key FROM foliot_jobs
WHERE key IS NOT NULL AND ordering_key IS NOT NULL ORDER BY id;

-- name: count_partitions
SELECT count(*) FROM foliot_leases;

-- name: set_partitions
DELETE FROM foliot_leases WHERE partition >= :partitions;
WITH RECURSIVE every (partition) AS (SELECT 0 UNION ALL SELECT partition + 1 FROM every WHERE partition + 1 < :partitions)
INSERT OR IGNORE INTO foliot_leases (partition) SELECT partition FROM every;

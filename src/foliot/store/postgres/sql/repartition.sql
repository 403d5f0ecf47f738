-- Another number of partitions. What moves the rows follows from store/tables.py.

-- name: limit_locking
-- Nobody should be there any more: do not keep others waiting behind an old transaction.
SELECT set_config('lock_timeout', :milliseconds::text, true);

-- name: list_ordered_keys
SELECT id::text, namespace, kind, key FROM foliot.jobs
WHERE key IS NOT NULL AND ordering_key IS NOT NULL ORDER BY id;

-- name: count_partitions
SELECT count(*) FROM foliot.leases;

-- name: set_partitions
WITH gone AS (DELETE FROM foliot.leases WHERE partition >= :partitions)
INSERT INTO foliot.leases (partition) SELECT generate_series(0, :partitions - 1)
ON CONFLICT (partition) DO NOTHING;

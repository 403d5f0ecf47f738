-- Idempotency keys: reserved before their jobs are inserted, perhaps in another partition.

-- name: reserve_keys
-- One that has run out is free.
INSERT INTO foliot_keys (partition, namespace, kind, key, job, fingerprint, created_at, expires_at)
SELECT :partition, json_extract(n.value, '$[0]'), json_extract(n.value, '$[1]'), json_extract(n.value, '$[2]'),
       json_extract(n.value, '$[3]'), json_extract(n.value, '$[4]'), :now, :now + CAST(:keep * 1000000 AS INTEGER)
FROM json_each(:reservations) n
WHERE true
ON CONFLICT (partition, namespace, kind, key) DO UPDATE
SET job = excluded.job, fingerprint = excluded.fingerprint, created_at = excluded.created_at,
    expires_at = excluded.expires_at
WHERE foliot_keys.expires_at <= :now;

-- name: find_keys
SELECT n.key, k.job, k.fingerprint
FROM json_each(:reservations) n
CROSS JOIN foliot_keys k ON k.partition = :partition AND k.namespace = json_extract(n.value, '$[0]')
    AND k.kind = json_extract(n.value, '$[1]') AND k.key = json_extract(n.value, '$[2]')
ORDER BY n.key;

-- name: redirect_key
-- Another job stands for the one that the key was reserved for: the live one with its unique key.
UPDATE foliot_keys SET job = :id
WHERE partition = :partition AND namespace = :namespace AND kind = :kind AND key = :key AND job = :reserved;

-- name: unreserve_keys
-- Those that are still reserved for these jobs: the jobs were refused.
DELETE FROM foliot_keys
WHERE rowid IN (SELECT k.rowid FROM json_each(:reservations) n
                CROSS JOIN foliot_keys k ON k.partition = :partition AND k.namespace = json_extract(n.value, '$[0]')
                    AND k.kind = json_extract(n.value, '$[1]') AND k.key = json_extract(n.value, '$[2]')
                    AND k.job = json_extract(n.value, '$[3]'));

-- name: prune_keys
-- Those that have run out. The first part is the look before a write. Rides foliot_keys_expires.
SELECT 1 FROM foliot_keys WHERE partition = :partition AND expires_at <= :now LIMIT 1;
DELETE FROM foliot_keys
WHERE rowid IN (SELECT k.rowid FROM foliot_keys k WHERE k.partition = :partition AND k.expires_at <= :now
                ORDER BY k.expires_at LIMIT :limit);

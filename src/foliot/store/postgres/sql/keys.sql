-- Idempotency keys: reserved before their jobs are inserted, perhaps in another partition.

-- name: limit_key_wait
-- How long this transaction waits for the keys of others that have not ended.
SELECT set_config('lock_timeout', :wait, true);

-- name: reserve_keys
-- In the order of the key. One that is taken is locked until the end of the transaction; one that has run out is free.
INSERT INTO foliot.keys (partition, namespace, kind, key, job, fingerprint, created_at, expires_at)
SELECT :partition::smallint, n.namespace, n.kind, n.key, n.job, n.fingerprint, coalesce(:now, now()),
       coalesce(:now, now()) + make_interval(secs => :keep::float8)
FROM unnest(:namespaces::text[], :kinds::text[], :keys::text[], :ids::uuid[], :fingerprints::text[])
     AS n (namespace, kind, key, job, fingerprint)
ORDER BY n.namespace, n.kind, n.key
ON CONFLICT (partition, namespace, kind, key) DO UPDATE
SET job = excluded.job, fingerprint = excluded.fingerprint, created_at = excluded.created_at,
    expires_at = excluded.expires_at
WHERE keys.expires_at <= coalesce(:now, now());

-- name: find_keys
-- In a statement of its own after the reservation: asked within it, the older snapshot would miss whoever was faster.
SELECT n.ordinal::integer - 1,
       (SELECT k.job::text FROM foliot.keys k WHERE k.partition = :partition AND k.namespace = n.namespace
          AND k.kind = n.kind AND k.key = n.key),
       (SELECT k.fingerprint FROM foliot.keys k WHERE k.partition = :partition AND k.namespace = n.namespace
          AND k.kind = n.kind AND k.key = n.key)
FROM unnest(:namespaces::text[], :kinds::text[], :keys::text[]) WITH ORDINALITY AS n (namespace, kind, key, ordinal);

-- name: redirect_key
-- Another job stands for the one that the key was reserved for: the live one with its unique key.
UPDATE foliot.keys SET job = :id::uuid
WHERE partition = :partition AND namespace = :namespace::text AND kind = :kind::text AND key = :key::text
  AND job = :reserved::uuid;

-- name: unreserve_keys
-- Those that are still reserved for these jobs, which were refused. One that is locked is being used: it stays.
DELETE FROM foliot.keys k
WHERE k.partition = :partition AND k.ctid = ANY (ARRAY(
    SELECT o.ctid FROM foliot.keys o
    JOIN unnest(:namespaces::text[], :kinds::text[], :keys::text[], :ids::uuid[]) AS n (namespace, kind, key, job)
        ON o.namespace = n.namespace AND o.kind = n.kind AND o.key = n.key AND o.job = n.job
    WHERE o.partition = :partition
    FOR UPDATE OF o SKIP LOCKED));

-- name: prune_keys
-- Those that have run out. Rides keys_expires.
WITH gone AS (
    DELETE FROM foliot.keys k
    WHERE k.partition = :partition AND k.expires_at <= coalesce(:now, now()) AND k.ctid = ANY (ARRAY(
        SELECT o.ctid FROM foliot.keys o
        WHERE o.partition = :partition AND o.expires_at <= coalesce(:now, now())
        ORDER BY o.expires_at
        LIMIT :limit
        FOR UPDATE SKIP LOCKED))
    RETURNING k.key
)
SELECT count(*) FROM gone;

-- What apps have announced of their kinds.

-- name: put_definitions
-- What has not changed is not written again: every worker that starts announces all it knows.
INSERT INTO foliot.definitions (kind, queue, signature, schema, fingerprint, version, options, updated_at)
SELECT n.kind, n.queue, n.signature, n.schema, n.fingerprint, n.version, n.options, coalesce(:now, now())
FROM unnest(:kinds::text[], :queues::text[], :signatures::text[], :schemas::text[], :fingerprints::text[],
            :versions::integer[], :options::text[])
     AS n (kind, queue, signature, schema, fingerprint, version, options)
ORDER BY n.kind
ON CONFLICT (kind) DO UPDATE
SET queue = excluded.queue, signature = excluded.signature, schema = excluded.schema,
    fingerprint = excluded.fingerprint, version = excluded.version, options = excluded.options,
    updated_at = excluded.updated_at
WHERE (definitions.queue, definitions.signature, definitions.fingerprint, definitions.options)
      IS DISTINCT FROM (excluded.queue, excluded.signature, excluded.fingerprint, excluded.options);

-- name: list_definitions
SELECT kind, queue, signature, schema, fingerprint, version, options, updated_at
FROM foliot.definitions ORDER BY kind;

-- name: get_definition
SELECT kind, queue, signature, schema, fingerprint, version, options, updated_at
FROM foliot.definitions WHERE kind = :kind;

-- What apps have announced of their kinds.

-- name: put_definitions
-- What has not changed is not written again: every worker that starts announces all it knows. The first part is the
-- look before a write.
SELECT 1 FROM json_each(:definitions) n
WHERE NOT EXISTS (SELECT 1 FROM foliot_definitions d
                  WHERE d.kind = json_extract(n.value, '$[0]') AND d.queue = json_extract(n.value, '$[1]')
                    AND d.signature = json_extract(n.value, '$[2]') AND d.fingerprint = json_extract(n.value, '$[4]')
                    AND d.options = json_extract(n.value, '$[6]'))
LIMIT 1;
INSERT INTO foliot_definitions (kind, queue, signature, schema, fingerprint, version, options, updated_at)
SELECT json_extract(n.value, '$[0]'), json_extract(n.value, '$[1]'), json_extract(n.value, '$[2]'),
       json_extract(n.value, '$[3]'), json_extract(n.value, '$[4]'), json_extract(n.value, '$[5]'),
       json_extract(n.value, '$[6]'), :now
FROM json_each(:definitions) n
WHERE true
ON CONFLICT (kind) DO UPDATE
SET queue = excluded.queue, signature = excluded.signature, schema = excluded.schema,
    fingerprint = excluded.fingerprint, version = excluded.version, options = excluded.options,
    updated_at = excluded.updated_at
WHERE (queue, signature, fingerprint, options)
      IS NOT (excluded.queue, excluded.signature, excluded.fingerprint, excluded.options);

-- name: list_definitions
SELECT kind, queue, signature, schema, fingerprint, version, options, updated_at
FROM foliot_definitions ORDER BY kind;

-- name: get_definition
SELECT kind, queue, signature, schema, fingerprint, version, options, updated_at
FROM foliot_definitions WHERE kind = :kind;

-- How many attempts ended in each minute, and how. No two processes write to one row: see store/rollups.py.

-- name: note_rollups
-- Whether this batch of the writer is a new one.
INSERT INTO foliot.rollup_writers AS w (writer, batch, written_at)
VALUES (:writer::uuid, :batch::bigint, coalesce(:now, now()))
ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, written_at = excluded.written_at
WHERE w.batch < excluded.batch
RETURNING w.batch;

-- name: add_rollups
-- To what the same writer has written of the same minute. In the order of the key, like every multi-row write.
INSERT INTO foliot.rollups AS r (minute, writer, namespace, queue, kind, outcome, count, seconds, waits, runs)
SELECT to_timestamp(n.minute), :writer::uuid, n.namespace, n.queue, n.kind, n.outcome, n.count, n.seconds, n.waits, n.runs
FROM unnest(:minutes::bigint[], :namespaces::text[], :queues::text[], :kinds::text[], :outcomes::text[],
            :counts::bigint[], :seconds::bigint[], :waits::text[], :runs::text[])
    AS n (minute, namespace, queue, kind, outcome, count, seconds, waits, runs)
ORDER BY n.minute, n.namespace, n.queue, n.kind, n.outcome
ON CONFLICT (minute, writer, namespace, queue, kind, outcome) DO UPDATE
SET count = r.count + excluded.count, seconds = r.seconds | excluded.seconds,
    waits = (SELECT coalesce(jsonb_object_agg(b.key, b.total), '{}')::text
             FROM (SELECT e.key, sum(e.value::bigint) AS total
                   FROM (SELECT * FROM jsonb_each_text(r.waits::jsonb)
                         UNION ALL SELECT * FROM jsonb_each_text(excluded.waits::jsonb)) e
                   GROUP BY e.key) b),
    runs = (SELECT coalesce(jsonb_object_agg(b.key, b.total), '{}')::text
            FROM (SELECT e.key, sum(e.value::bigint) AS total
                  FROM (SELECT * FROM jsonb_each_text(r.runs::jsonb)
                        UNION ALL SELECT * FROM jsonb_each_text(excluded.runs::jsonb)) e
                  GROUP BY e.key) b);

-- name: list_rollups
-- Rides the primary key.
SELECT extract(epoch FROM minute)::bigint, namespace, queue, kind, outcome, count, seconds, waits, runs
FROM foliot.rollups
WHERE minute >= to_timestamp(:since::bigint) AND minute < to_timestamp(:until::bigint)
  AND (:namespace::text IS NULL OR namespace = :namespace::text) AND (:queue::text IS NULL OR queue = :queue::text)
  AND (:kind::text IS NULL OR kind = :kind::text)
ORDER BY minute, namespace, queue, kind, outcome;

-- name: sum_rollups
-- All of a queue, one row for each step; its histograms side by side, to be added up by who reads. Rides the primary key.
SELECT extract(epoch FROM minute)::bigint, sum(count)::bigint, '[' || string_agg(DISTINCT seconds::text, ',') || ']',
       '[' || string_agg(waits, ',') || ']', '[' || string_agg(runs, ',') || ']'
FROM foliot.rollups
WHERE minute >= to_timestamp(:since::bigint) AND minute < to_timestamp(:until::bigint) AND queue = :queue
GROUP BY minute
ORDER BY minute;

-- name: take_rollups
-- What has not been put together yet, to be put together. What its writer, or another who puts things together, has
-- locked is left for the next time: so this waits for nobody. Rides rollups_apart.
WITH found AS MATERIALIZED (
    SELECT r.minute, r.writer, r.namespace, r.queue, r.kind, r.outcome
    FROM foliot.rollups r
    WHERE r.minute <= coalesce(:now, now()) - make_interval(secs => :age)
      AND r.writer <> '00000000-0000-0000-0000-000000000000'
    ORDER BY r.minute
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
DELETE FROM foliot.rollups r USING found f
WHERE (r.minute, r.writer, r.namespace, r.queue, r.kind, r.outcome)
      = (f.minute, f.writer, f.namespace, f.queue, f.kind, f.outcome)
RETURNING extract(epoch FROM r.minute)::bigint, r.namespace, r.queue, r.kind, r.outcome, r.count, r.seconds,
          r.waits, r.runs;

-- name: prune_rollups
-- Returns how many went.
WITH gone AS (
    DELETE FROM foliot.rollups r
    WHERE (r.minute, r.writer, r.namespace, r.queue, r.kind, r.outcome) IN (
        SELECT o.minute, o.writer, o.namespace, o.queue, o.kind, o.outcome FROM foliot.rollups o
        WHERE o.minute < coalesce(:now, now()) - make_interval(secs => :keep)
        ORDER BY o.minute
        LIMIT :limit)
    RETURNING 1
)
SELECT count(*) FROM gone;

-- name: prune_rollup_writers
DELETE FROM foliot.rollup_writers WHERE written_at < coalesce(:now, now()) - make_interval(secs => :keep);

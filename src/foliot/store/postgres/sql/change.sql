-- What becomes of a job that has not started: changed by hand, or by a submission that has its unique key.

-- name: lock_holders
-- In the order of their ids, before anything is read of them. By key: the live job that has it; one that runs only if it
-- is to give up its key here: it could not finish before the transaction has ended.
SELECT j.id::text FROM foliot.jobs j
WHERE j.partition = :partition AND j.id = ANY (ARRAY(
    SELECT coalesce(n.id, (SELECT k.id FROM foliot.jobs k
                           WHERE k.partition = :partition AND k.namespace = n.namespace AND k.kind = n.kind
                             AND k.key = n.key))
    FROM unnest(:ids::uuid[], :namespaces::text[], :kinds::text[], :keys::text[]) AS n (id, namespace, kind, key)))
  AND (:running::boolean OR j.state || '' <> 'running')
ORDER BY j.id FOR UPDATE;

-- name: release_key
-- A job that runs has begun with its arguments: it gives up its key to the submission that cannot change them any more,
-- unless it took them over from that submission itself, which was then sent again. Rides jobs_key.
UPDATE foliot.jobs j
SET key = NULL
WHERE j.partition = :partition AND j.namespace = :namespace::text AND j.kind = :kind::text AND j.key = :key::text
  AND j.state || '' = 'running' AND (j.extras::jsonb ->> 'submission') IS DISTINCT FROM :submission::text;

-- name: change_job
-- Lane, band, rank and state as submit_jobs finds them. What is held because nobody knows its kind stays so, or with its
-- workflow, and what is held because its payload does not fit, until that changes. A step takes along what it was changed
-- to: a retry of its workflow makes it anew (steering.py). The row was locked by the statement before, so what is
-- read of it here is what is changed.
UPDATE foliot.jobs j
SET queue = n.queue, priority = n.priority, max_attempts = n.max_attempts, run_at = n.due_at,
    attempt = CASE WHEN :whole::boolean THEN 0 ELSE j.attempt END,
    losses = CASE WHEN :whole::boolean THEN 0 ELSE j.losses END,
    lane = CASE WHEN n.moves THEN n.lane | n.strategy ELSE j.lane END,
    rank = CASE WHEN NOT n.moves THEN j.rank
                WHEN n.strategy = 3 THEN 0
                WHEN n.strategy = 2 THEN ((extract(epoch FROM n.due_at) + n.priority * (
                    SELECT q.aging::numeric FROM foliot.queues q WHERE q.name = n.queue)) * 1000000)::bigint
                ELSE (extract(epoch FROM n.due_at) * 1000000)::bigint END,
    band = CASE WHEN NOT n.moves THEN j.band WHEN n.strategy = 0 THEN n.priority ELSE 0 END,
    state = CASE WHEN j.state = 'waiting' OR n.stuck OR NOT n.moves THEN j.state
                 WHEN n.ordering_key IS NOT NULL THEN 'held'
                 WHEN n.due_at > coalesce(:now, now()) THEN 'scheduled'
                 WHEN n.strategy = 3 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN j.state = 'waiting' OR n.stuck OR NOT n.moves THEN j.hold
                WHEN n.ordering_key IS NOT NULL THEN 'admission'
                WHEN n.strategy = 3 AND n.due_at <= coalesce(:now, now()) THEN 'admission' END,
    hold_note = CASE WHEN n.stuck OR NOT n.moves THEN j.hold_note END,
    timeout = n.timeout,
    payload = coalesce(:payload::bytea, j.payload),
    tags = CASE WHEN n.more -> 'tags' IS NOT NULL
                THEN nullif(ARRAY(SELECT jsonb_array_elements_text(n.more -> 'tags')), '{}')
                WHEN NOT :whole::boolean THEN j.tags END,
    expires_at = coalesce(to_timestamp((n.more ->> 'expires_at')::float8 / 1000000),
                          coalesce(:now, now()) + make_interval(secs => (n.more ->> 'expires_in')::float8),
                          CASE WHEN NOT :whole::boolean THEN j.expires_at END),
    ordering_key = n.ordering_key,
    fair_key = CASE WHEN :whole::boolean THEN n.more ->> 'fair_key' ELSE j.fair_key END,
    requires = n.requires,
    extras = CASE WHEN j.workflow IS NULL THEN n.extras
                  ELSE (coalesce(n.extras, '{}')::jsonb || jsonb_build_object('changed', jsonb_strip_nulls(jsonb_build_object(
                      'lane', n.lane, 'max_attempts', n.max_attempts, 'timeout', n.timeout,
                      'requires', n.requires))))::text END
FROM (SELECT x.id, x.queue, x.priority, x.max_attempts, x.lane, x.due_at, x.more, x.ordering_key, x.stuck, x.timeout,
             x.requires, x.extras,
             x.moves OR (x.hold = 'unfitting_payload' AND NOT x.stuck) AS moves,
             coalesce((SELECT q.strategy FROM foliot.queues q WHERE q.name = x.queue), 0)::bigint AS strategy
      FROM (SELECT o.id, o.hold, coalesce(:queue::text, o.queue) AS queue,
                   coalesce(:priority::smallint, o.priority) AS priority,
                   coalesce(:max_attempts::smallint, o.max_attempts) AS max_attempts,
                   coalesce(:lane::bigint, o.lane & ~3::bigint) AS lane,
                   CASE WHEN :retime::boolean
                        THEN coalesce(:run_at::timestamptz,
                                      coalesce(:now, now()) + make_interval(secs => :delay::float8),
                                      :now, now())
                        ELSE o.run_at END AS due_at,
                   :more::jsonb AS more, :moves::boolean AS moves,
                   CASE WHEN :whole::boolean THEN :more::jsonb ->> 'ordering_key' ELSE o.ordering_key END AS ordering_key,
                   CASE WHEN :whole::boolean THEN :timeout::real ELSE coalesce(:timeout::real, o.timeout) END AS timeout,
                   CASE WHEN NOT :whole::boolean THEN o.requires
                        WHEN :more::jsonb -> 'requires' IS NOT NULL
                        THEN ARRAY(SELECT jsonb_array_elements_text(:more::jsonb -> 'requires')) END AS requires,
                   CASE WHEN :whole::boolean THEN :more::jsonb ->> 'extras' ELSE o.extras END AS extras,
                   coalesce(o.hold, '') = 'paused' AND (NOT :whole::boolean OR :more::jsonb ->> 'ordering_key' IS NULL)
                       OR NOT :whole::boolean AND (
                       coalesce(o.hold, '') IN ('unknown_kind', 'signal', 'workflow') OR (
                       coalesce(o.hold, '') = 'unfitting_payload' AND :payload::bytea IS NULL)) AS stuck
            FROM foliot.jobs o
            WHERE o.partition = :partition AND o.id = coalesce(:id::uuid, (
                SELECT k.id FROM foliot.jobs k
                WHERE k.partition = :partition AND k.namespace = :namespace::text AND k.kind = :kind::text
                  AND k.key = :key::text
                  AND (k.extras::jsonb ->> 'submission') IS DISTINCT FROM :submission::text))) x) n
WHERE j.partition = :partition AND j.id = n.id AND j.state || '' IN ('scheduled', 'waiting', 'held', 'ready')
RETURNING j.id::text, j.lane, j.state;

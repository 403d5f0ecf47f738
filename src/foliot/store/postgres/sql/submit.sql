-- A job's life is written in these files, in this order: submit, claim, finish, cancel, admit, reap; read only looks.
-- Every statement names the state it comes from, every write of a worker names the fence, and `partition` is in all
-- of them.
--
-- Plans must not depend on how many rows the planner thinks there are: they are made while a queue is empty and used
-- when it is full, or made without statistics. So:
-- * Rows to change are found by `id = ANY (...)`, never by a join; what else there is to say of each is looked up by id
--   in a jsonb object, or joined afterwards by a FULL JOIN, which cannot become a nested loop.
--   (As joins, drains of a new store ran at 350 jobs/s until the first ANALYZE; as they are, at full speed.)
-- * `state || ''` instead of `state` keeps the planner from the partial indexes where the primary key is meant:
--   behind an old open transaction their dead entries are walked again and again, those of the key are not.

-- name: submit_jobs
-- Only inserts: it touches no shared row, so it is safe in a caller's long transaction.
-- A delay is counted here, on the store's clock: the sender's may be wrong.
-- A conflict is the same id sent again, or a live job with the same unique key.
-- The queue's strategy decides lane, band and rank (model/lane.py); what has to be compared with others before it may
-- run, its turn or its predecessors, is held for admission; a step of a workflow waits for its parents. `more` is what a
-- plain job does not have, as JSON.
-- The strategies are read once for the batch, and OFFSET 0 keeps the planner from writing that read in every place that
-- uses one. What would be estimated dearer for ten rows than for one (a look-up for each, a set made of an array) would
-- have the statement planned anew at every call: that cost five times what it does.
INSERT INTO foliot.jobs (partition, id, lane, rank, band, priority, max_attempts, state, hold, namespace,
                         kind, queue, created_at, run_at, timeout, key, payload,
                         tags, ordering_key, fair_key, schedule, workflow, expires_at, requires, extras)
SELECT :partition::smallint, n.id, n.lane | n.strategy,
       CASE n.strategy
            WHEN 3 THEN 0
            WHEN 2 THEN ((extract(epoch FROM n.due_at) + n.priority * (n.ordered ->> 1)::numeric) * 1000000)::bigint
            ELSE (extract(epoch FROM n.due_at) * 1000000)::bigint END,
       CASE n.strategy WHEN 0 THEN n.priority ELSE 0 END, n.priority, n.max_attempts,
       CASE WHEN n.more ->> 'waits' IS NOT NULL THEN 'waiting'
            WHEN n.more ->> 'hold' IS NOT NULL OR n.more ->> 'ordering_key' IS NOT NULL THEN 'held'
            WHEN n.due_at > coalesce(:now, now()) THEN 'scheduled'
            WHEN n.strategy = 3 THEN 'held' ELSE 'ready' END,
       CASE WHEN n.more ->> 'hold' IS NOT NULL THEN n.more ->> 'hold'
            WHEN n.more ->> 'ordering_key' IS NOT NULL THEN 'admission'
            WHEN n.more ->> 'waits' IS NOT NULL THEN NULL
            WHEN n.strategy = 3 AND n.due_at <= coalesce(:now, now()) THEN 'admission' END,
       n.namespace, n.kind, n.queue, coalesce(:now, now()), n.due_at, n.timeout, n.key, n.payload,
       CASE WHEN n.more IS NOT NULL THEN (SELECT m.tags FROM jsonb_to_record(n.more) AS m (tags text[])) END,
       n.more ->> 'ordering_key', n.more ->> 'fair_key', (n.more ->> 'schedule')::uuid,
       (n.more ->> 'workflow')::uuid,
       coalesce(to_timestamp((n.more ->> 'expires_at')::float8 / 1000000),
                coalesce(:now, now()) + make_interval(secs => (n.more ->> 'expires_in')::float8)),
       CASE WHEN n.more IS NOT NULL THEN (SELECT m.requires FROM jsonb_to_record(n.more) AS m (requires text[])) END,
       n.more ->> 'extras'
FROM (SELECT s.*, coalesce(s.ordered ->> 0, '0')::bigint AS strategy
      FROM (SELECT u.id, u.lane, u.priority, u.max_attempts, u.namespace, u.kind, u.queue, u.timeout, u.key, u.payload,
                   u.more::jsonb AS more,
                   (SELECT jsonb_object_agg(q.name, jsonb_build_array(q.strategy, q.aging)) FROM foliot.queues q
                    WHERE q.name = ANY (:queues::text[]) AND q.strategy <> 0) -> u.queue AS ordered,
                   coalesce(u.run_at, coalesce(:now, now()) + make_interval(secs => u.delay), :now, now()) AS due_at
            FROM unnest(:ids::uuid[], :lanes::bigint[], :priorities::smallint[], :max_attempts::smallint[],
                        :namespaces::text[], :kinds::text[], :queues::text[], :run_ats::timestamptz[],
                        :delays::float8[], :timeouts::real[], :keys::text[], :payloads::bytea[], :mores::text[])
                AS u (id, lane, priority, max_attempts, namespace, kind, queue, run_at, delay, timeout, key, payload,
                      more)
            OFFSET 0) s) n
ON CONFLICT DO NOTHING;

-- name: withdraw_resent_jobs
-- A submission sent again may meet its job finished and moved: what was just inserted goes again.
-- In a statement of its own after the insert: asked within it, the older snapshot would miss the move.
DELETE FROM foliot.jobs j
WHERE j.partition = :partition AND j.fence = 0 AND j.id = ANY (ARRAY(
    SELECT h.id FROM foliot.history h WHERE h.partition = :partition AND h.id = ANY (:ids::uuid[])
    UNION ALL
    SELECT d.id FROM foliot.dead d WHERE d.partition = :partition AND d.id = ANY (:ids::uuid[])));

-- name: find_submitted_jobs
-- Which job stands for each submission: the one with its id, live or, if it may have been sent before, ended; else the
-- live one with its key, with the submission whose content that took over, if any.
SELECT n.ordinal::integer - 1,
       coalesce((SELECT j.id FROM foliot.jobs j WHERE j.partition = :partition AND j.id = n.id),
                CASE WHEN :resend THEN coalesce(
                    (SELECT h.id FROM foliot.history h WHERE h.partition = :partition AND h.id = n.id LIMIT 1),
                    (SELECT d.id FROM foliot.dead d WHERE d.partition = :partition AND d.id = n.id)) END,
                (SELECT j.id FROM foliot.jobs j WHERE j.partition = :partition AND j.key = n.key
                    AND j.namespace = n.namespace AND j.kind = n.kind))::text,
       (SELECT j.extras::jsonb ->> 'submission' FROM foliot.jobs j WHERE j.partition = :partition AND j.key = n.key
           AND j.namespace = n.namespace AND j.kind = n.kind)
FROM unnest(:ids::uuid[], :namespaces::text[], :kinds::text[], :keys::text[])
     WITH ORDINALITY AS n (id, namespace, kind, key, ordinal);

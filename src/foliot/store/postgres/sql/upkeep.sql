-- Queues, retention, and what a doctor looks at.

-- name: pause_queue
INSERT INTO foliot.queues (name, paused_at, paused_by, note) VALUES (:name, coalesce(:now, now()), :by, :note)
ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(foliot.queues.paused_at, excluded.paused_at),
    paused_by = excluded.paused_by, note = excluded.note
RETURNING name;

-- name: resume_queue
UPDATE foliot.queues SET paused_at = NULL, paused_by = NULL, note = NULL
WHERE name = :name AND paused_at IS NOT NULL
RETURNING name;

-- name: configure_queue
-- As put_limit, but for what is not said.
INSERT INTO foliot.queues AS q (name, strategy, aging, weights, updated_by, said)
VALUES (:name, coalesce(:strategy::smallint, 0), coalesce(:aging::real, 60), coalesce(:weights::text, '{}'), :by::text,
        :said::text)
ON CONFLICT (name) DO UPDATE
SET strategy = coalesce(:strategy::smallint, q.strategy), aging = coalesce(:aging::real, q.aging),
    weights = coalesce(:weights::text, q.weights), updated_by = :by::text, said = coalesce(:said::text, q.said)
WHERE q.said IS DISTINCT FROM coalesce(:said::text, q.said)
   OR (:said::text IS NULL OR q.updated_by = :by::text)
      AND (q.strategy <> :strategy::smallint OR q.aging <> :aging::real OR q.weights <> :weights::text)
RETURNING q.name;

-- name: list_queues
SELECT name, paused_at, paused_by, note, strategy, aging, weights, updated_by, said FROM foliot.queues ORDER BY name;

-- name: prune_turns
-- A key that is not ahead of its lane begins where the lane is: nothing need be known of it.
DELETE FROM foliot.fair f
WHERE f.partition = :partition
  AND f.tag <= (SELECT t.head FROM foliot.turns t WHERE t.partition = :partition AND t.lane = f.lane);

-- name: list_history_days
SELECT c.relname, coalesce(:now, now())
FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'foliot.history'::regclass ORDER BY c.relname;

-- name: prune_default_history
-- The default partition is emptied row by row; days are dropped whole. In the order of the id, as below.
WITH gone AS (
    DELETE FROM foliot.history_default h
    WHERE h.partition = :partition AND h.finished_at < coalesce(:now, now()) - make_interval(secs => :keep)
      AND h.id = ANY (ARRAY(
          SELECT o.id FROM foliot.history_default o
          WHERE o.partition = :partition AND o.id >= :after::uuid
            AND o.finished_at < coalesce(:now, now()) - make_interval(secs => :keep)
          ORDER BY o.id
          LIMIT :limit))
    RETURNING h.id
)
SELECT count(*), max(id::text) FROM gone;

-- name: prune_attempts
-- The attempts of a live or dead job stay as long as the job. Batch after batch in the order of the key, each from
-- where the last one ended: those that stay are looked at once in a round. Returns how many went, and the last.
WITH gone AS (
    DELETE FROM foliot.attempts a
    WHERE a.partition = :partition AND (a.job, a.fence) IN (
        SELECT o.job, o.fence FROM foliot.attempts o
        WHERE o.partition = :partition AND o.job >= :after::uuid
          AND o.finished_at < coalesce(:now, now()) - make_interval(secs => :keep)
          AND NOT EXISTS (SELECT FROM foliot.dead d WHERE d.partition = :partition AND d.id = o.job)
          AND NOT EXISTS (SELECT FROM foliot.jobs j WHERE j.partition = :partition AND j.id = o.job)
        ORDER BY o.job
        LIMIT :limit)
    RETURNING a.job
)
SELECT count(*), max(job::text) FROM gone;

-- name: count_dead_tuples
SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_catalog.pg_stat_user_tables
WHERE schemaname = 'foliot' AND relname = 'jobs';

-- name: grade_server
SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
       current_setting('full_page_writes'), current_setting('synchronous_standby_names'),
       (SELECT count(*) FROM pg_catalog.pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
       (SELECT count(*) FROM pg_catalog.pg_stat_replication),
       current_setting('max_connections')::integer,
       extract(epoch FROM clock_timestamp())::float8;

-- name: grade_oldest_transaction
SELECT extract(epoch FROM now() - a.xact_start)::float8,
       format('pid %s, %s, %s', a.pid, coalesce(nullif(a.application_name, ''), 'no name'), a.state)
FROM pg_catalog.pg_stat_activity a
WHERE a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid() AND a.datname = current_database()
ORDER BY a.xact_start LIMIT 1;

-- name: grade_jobs
SELECT (SELECT n_dead_tup FROM pg_catalog.pg_stat_user_tables WHERE schemaname = 'foliot' AND relname = 'jobs'),
       (SELECT count(*) FROM foliot.jobs),
       (SELECT count(*) FROM foliot.jobs WHERE state = 'ready'),
       (SELECT count(*) FROM foliot.dead),
       (SELECT extract(epoch FROM coalesce(:now, now()) - min(run_at))::float8 FROM foliot.jobs WHERE state = 'ready');

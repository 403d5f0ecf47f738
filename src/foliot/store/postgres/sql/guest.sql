-- Run on connections of the caller's, to see whether they lead to the app's own store.

-- name: find_store
SELECT current_database()::text, to_regclass('foliot.leases') IS NOT NULL AND to_regclass('foliot.migrations') IS NOT NULL;

-- name: identify_store
-- When its first tables were made, to the microsecond: no other store has that.
SELECT extract(epoch FROM (SELECT m.applied_at FROM foliot.migrations m WHERE m.number = 1))::text,
       (SELECT count(*) FROM foliot.leases)::integer;

-- name: limit_transaction
-- For this transaction alone.
SELECT set_config('statement_timeout', :limit, true),
       set_config('idle_in_transaction_session_timeout', :limit, true);

-- name: limit_transaction_wholly
-- The same for all of it together; PostgreSQL 17 and newer.
SELECT set_config('transaction_timeout', :limit, true);

-- name: find_own_workflow
-- Of the job whose transaction this is, if it is a step; unless nobody has the key that it is about to submit with.
SELECT j.workflow::text FROM foliot.jobs j
WHERE j.partition = :partition AND j.id = :id::uuid AND j.workflow IS NOT NULL
  AND EXISTS (SELECT FROM foliot.jobs k
              WHERE k.partition = :partition AND k.namespace = :namespace AND k.kind = :kind AND k.key = :key);

-- name: mark_locks
-- Before locks that are let go if it turns out that others come first.
SAVEPOINT foliot_locks;

-- name: let_go_of_locks
-- Of those that were taken since then none is kept.
ROLLBACK TO SAVEPOINT foliot_locks;

-- Run on connections of the caller's, to see whether they lead to the app's own store.

-- name: find_store
-- Only the main file counts: what is attached does not commit together with it when the machine fails.
SELECT (SELECT d.file FROM pragma_database_list d WHERE d.name = 'main'),
       EXISTS (SELECT 1 FROM main.sqlite_master m WHERE m.name = 'foliot_leases');

-- name: identify_store
SELECT (SELECT max(number) FROM main.foliot_migrations), (SELECT count(*) FROM main.foliot_leases);

-- Who did what by hand. Written in the transaction of the act.

-- name: write_audit
-- An act on many jobs is many transactions and one entry, which tells how far it has come.
INSERT INTO foliot_audit (id, at, actor, action, target, detail)
SELECT json_extract(value, '$[0]'), :now, json_extract(value, '$[1]'), json_extract(value, '$[2]'),
       json_extract(value, '$[3]'), json_extract(value, '$[4]')
FROM json_each(:deeds)
WHERE true
ON CONFLICT (id) DO UPDATE SET detail = excluded.detail;

-- name: list_audit
SELECT a.id, a.at, a.actor, a.action, a.target, a.detail
FROM foliot_audit a WHERE a.id < :after ORDER BY a.id DESC LIMIT :limit;

-- name: list_audit_of
-- Rides foliot_audit_target.
SELECT a.id, a.at, a.actor, a.action, a.target, a.detail
FROM foliot_audit a WHERE a.target = :target AND a.id < :after ORDER BY a.id DESC LIMIT :limit;

-- Who did what by hand. Written in the transaction of the act.

-- name: write_audit
-- An act on many jobs is many transactions and one entry, which tells how far it has come.
INSERT INTO foliot.audit (id, at, actor, action, target, detail)
SELECT u.id, coalesce(:now, now()), u.actor, u.action, u.target, u.detail
FROM unnest(:ids::uuid[], :actors::text[], :actions::text[], :targets::text[], :details::text[])
    AS u (id, actor, action, target, detail)
ON CONFLICT (id) DO UPDATE SET detail = excluded.detail;

-- name: list_audit
SELECT a.id::text, a.at, a.actor, a.action, a.target, a.detail
FROM foliot.audit a WHERE a.id < :after ORDER BY a.id DESC LIMIT :limit;

-- name: list_audit_of
-- Rides audit_target.
SELECT a.id::text, a.at, a.actor, a.action, a.target, a.detail
FROM foliot.audit a WHERE a.target = :target AND a.id < :after ORDER BY a.id DESC LIMIT :limit;

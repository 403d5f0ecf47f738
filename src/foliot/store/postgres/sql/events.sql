-- What happened, for those who listen: rows of the outbox are written in the transaction in which it happens (finish.sql
-- and others), and become jobs of the hooks in the transaction that takes them out.
--
-- A hook has a row among the listeners for every kind and queue that it chooses; * is any. Of the jobs of hooks, whose
-- kinds begin with `on.`, nobody is told anything: else one hook would call the next for ever.

-- name: emit_events
-- Rows of [event, home, subject, number, namespace, kind, queue, data]. Only what somebody listens to.
INSERT INTO foliot.outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
SELECT :partition::smallint, coalesce(:now, now()), (n ->> 3)::bigint, (n ->> 1)::uuid, n ->> 0, n ->> 2, n ->> 4,
       n ->> 5, n ->> 6, n ->> 7
FROM jsonb_array_elements(:rows::jsonb) n
WHERE (SELECT 1 FROM foliot.listeners l
       WHERE l.event = n ->> 0 AND l.kind IN ('*', n ->> 5) AND l.queue IN ('*', n ->> 6) LIMIT 1) IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: take_events
-- The first ones. Who comes second waits for the other and goes on behind it, so that nothing overtakes.
WITH first AS MATERIALIZED (
    SELECT o.ctid AS place FROM foliot.outbox o
    WHERE o.partition = :partition ORDER BY o.at, o.number, o.subject, o.event LIMIT :limit FOR UPDATE
)
DELETE FROM foliot.outbox o
WHERE o.partition = :partition AND o.ctid = ANY (ARRAY(SELECT f.place FROM first f))
RETURNING (extract(epoch FROM o.at) * 1000000)::bigint, o.number, o.home::text, o.event, o.subject, o.namespace, o.kind,
          o.queue, o.data;

-- name: list_listeners
SELECT l.hook, l.event, l.kind, l.queue, l.origin, l.template FROM foliot.listeners l
ORDER BY l.event, l.hook, l.kind, l.queue;

-- name: remove_listeners
DELETE FROM foliot.listeners l
WHERE l.hook = ANY (ARRAY(SELECT i FROM jsonb_array_elements_text(:hooks::jsonb) i));

-- name: put_listeners
-- Rows of [hook, event, kind, queue, origin, template].
INSERT INTO foliot.listeners (hook, event, kind, queue, origin, template)
SELECT n ->> 0, n ->> 1, n ->> 2, n ->> 3, n ->> 4, n ->> 5 FROM jsonb_array_elements(:rows::jsonb) n
ON CONFLICT (event, hook, kind, queue) DO UPDATE SET origin = excluded.origin, template = excluded.template;

-- What happened, for those who listen: rows of the outbox are written in the transaction in which it happens (finish.sql
-- and others), and become jobs of the hooks in the transaction that takes them out.
--
-- A hook has a row among the listeners for every kind and queue that it chooses; * is any. Of the jobs of hooks, whose
-- kinds begin with `on.`, nobody is told anything: else one hook would call the next for ever.

-- name: emit_events
-- Rows of [event, home, subject, number, namespace, kind, queue, data]. Only what somebody listens to.
INSERT INTO foliot_outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
SELECT :partition, :now, json_extract(n.value, '$[3]'), json_extract(n.value, '$[1]'), json_extract(n.value, '$[0]'),
       json_extract(n.value, '$[2]'), json_extract(n.value, '$[4]'), json_extract(n.value, '$[5]'),
       json_extract(n.value, '$[6]'), json_extract(n.value, '$[7]')
FROM json_each(:rows) n
WHERE EXISTS (SELECT 1 FROM foliot_listeners l
              WHERE l.event = json_extract(n.value, '$[0]') AND l.kind IN ('*', json_extract(n.value, '$[5]'))
                AND l.queue IN ('*', json_extract(n.value, '$[6]')))
ON CONFLICT DO NOTHING;

-- name: take_events
-- The first ones.
DELETE FROM foliot_outbox
WHERE rowid IN (SELECT o.rowid FROM foliot_outbox o
                WHERE o.partition = :partition ORDER BY o.at, o.number, o.subject, o.event LIMIT :limit)
RETURNING at, number, home, event, subject, namespace, kind, queue, data;

-- name: list_listeners
-- A time that is still to come says that the clock was set back: then it keeps nobody from hearing.
SELECT l.hook, l.event, l.kind, l.queue, l.origin, l.template, CASE WHEN l.since <= :now THEN l.since END
FROM foliot_listeners l ORDER BY l.event, l.hook, l.kind, l.queue;

-- name: put_listeners
-- Rows of [hook, event, kind, queue, origin, template]. A hook that listens already keeps its time, whatever it chooses
-- now. One that is new listens from now on.
INSERT INTO foliot_listeners (hook, event, kind, queue, origin, template, since)
SELECT json_extract(n.value, '$[0]'), json_extract(n.value, '$[1]'), json_extract(n.value, '$[2]'),
       json_extract(n.value, '$[3]'), json_extract(n.value, '$[4]'), json_extract(n.value, '$[5]'),
       coalesce((SELECT min(l.since) FROM foliot_listeners l WHERE l.hook = json_extract(n.value, '$[0]')), :now)
FROM json_each(:rows) n
WHERE true
ON CONFLICT (event, hook, kind, queue) DO UPDATE SET origin = excluded.origin, template = excluded.template;

-- name: remove_listeners
-- Of these hooks what is not in the rows.
DELETE FROM foliot_listeners
WHERE hook IN (SELECT value FROM json_each(:hooks))
  AND NOT EXISTS (SELECT 1 FROM json_each(:rows) n
                  WHERE json_extract(n.value, '$[0]') = hook AND json_extract(n.value, '$[1]') = event
                    AND json_extract(n.value, '$[2]') = kind AND json_extract(n.value, '$[3]') = queue);

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
SELECT l.hook, l.event, l.kind, l.queue, l.origin, l.template, CASE WHEN l.since <= :now THEN l.since END,
       l.absent_since
FROM foliot_listeners l ORDER BY l.event, l.hook, l.kind, l.queue;

-- name: lock_listeners
-- Nobody else writes meanwhile.
SELECT 1 WHERE false;

-- name: find_taken
-- Which of these hooks are those of other modules, for a live worker runs them there.
SELECT DISTINCT l.hook, l.origin FROM foliot_listeners l
WHERE l.hook IN (SELECT value FROM json_each(:hooks)) AND l.origin NOT IN (SELECT value FROM json_each(:modules))
  AND EXISTS (SELECT 1 FROM foliot_sessions s
              WHERE s.expires_at > :now AND l.hook IN (SELECT value FROM json_each(s.kinds))
                AND l.origin IN (SELECT value FROM json_each(s.modules)));

-- name: put_listeners
-- Rows of [hook, event, kind, queue, origin, template]. A hook that listens already keeps its time, whatever it chooses
-- now. One that is new listens from now on.
INSERT INTO foliot_listeners (hook, event, kind, queue, origin, template, since)
SELECT json_extract(n.value, '$[0]'), json_extract(n.value, '$[1]'), json_extract(n.value, '$[2]'),
       json_extract(n.value, '$[3]'), json_extract(n.value, '$[4]'), json_extract(n.value, '$[5]'),
       coalesce((SELECT min(l.since) FROM foliot_listeners l WHERE l.hook = json_extract(n.value, '$[0]')), :now)
FROM json_each(:rows) n
WHERE true
ON CONFLICT (event, hook, kind, queue) DO UPDATE
SET origin = excluded.origin, template = excluded.template, absent_since = NULL;

-- name: remove_listeners
-- Of these hooks what is not in the rows.
DELETE FROM foliot_listeners
WHERE hook IN (SELECT value FROM json_each(:hooks))
  AND NOT EXISTS (SELECT 1 FROM json_each(:rows) n
                  WHERE json_extract(n.value, '$[0]') = hook AND json_extract(n.value, '$[1]') = event
                    AND json_extract(n.value, '$[2]') = kind AND json_extract(n.value, '$[3]') = queue);

-- name: find_unsettled
-- Hooks of which something else is true than what is written down: see the next two.
SELECT DISTINCT l.hook FROM foliot_listeners l
WHERE (l.absent_since IS NULL) <> EXISTS (SELECT 1 FROM foliot_sessions s
                                          WHERE s.expires_at > :now AND l.hook IN (SELECT value FROM json_each(s.kinds)))
   OR (l.absent_since <= :now - CAST(:grace * 1000000 AS INTEGER)
       AND EXISTS (SELECT 1 FROM foliot_sessions s
                   WHERE s.expires_at > :now AND l.origin IN (SELECT value FROM json_each(s.modules))
                     AND s.started_at <= :now - CAST(:grace * 1000000 AS INTEGER)));

-- name: mark_absent
-- Since now, what no live session says that it runs; and not any more, what one does.
UPDATE foliot_listeners SET absent_since = CASE WHEN absent_since IS NULL THEN :now END
WHERE hook IN (SELECT value FROM json_each(:hooks))
  AND (absent_since IS NULL) <> EXISTS (SELECT 1 FROM foliot_sessions s
                                        WHERE s.expires_at > :now AND hook IN (SELECT value FROM json_each(s.kinds)));

-- name: remove_absent
-- What has been absent for so long, if a worker of its module was there all the time: after an outage, all have just
-- come back, and some may be on their way.
DELETE FROM foliot_listeners
WHERE hook IN (SELECT value FROM json_each(:hooks))
  AND absent_since <= :now - CAST(:grace * 1000000 AS INTEGER)
  AND NOT EXISTS (SELECT 1 FROM foliot_sessions s
                  WHERE s.expires_at > :now AND hook IN (SELECT value FROM json_each(s.kinds)))
  AND EXISTS (SELECT 1 FROM foliot_sessions s
              WHERE s.expires_at > :now AND origin IN (SELECT value FROM json_each(s.modules))
                AND s.started_at <= :now - CAST(:grace * 1000000 AS INTEGER))
RETURNING hook;

-- name: list_unheard
-- What hooks were still to be told that listen no longer, as far as a worker has found that it does not know them. Rides
-- jobs_held.
SELECT j.id
FROM foliot_definitions d CROSS JOIN foliot_jobs j
WHERE d.kind LIKE 'on.%' AND NOT EXISTS (SELECT 1 FROM foliot_listeners l WHERE l.hook = d.kind)
  AND j.partition = :partition AND j.state = 'held' AND j.hold = 'unknown_kind' AND j.kind = d.kind
LIMIT :limit;

-- What happened, for those who listen: rows of the outbox are written in the transaction in which it happens (finish.sql
-- and others), and become jobs of the hooks in the transaction that takes them out.
--
-- A hook has a row among the listeners for every kind and queue that it chooses; * is any. Of the jobs of hooks, whose
-- kinds begin with `on.`, nobody is told anything: else one hook would call the next for ever.

-- name: emit_events
-- Rows of [event, home, subject, number, namespace, kind, queue, data]. Only what somebody listens to.
-- The time is that of the statement, which comes after the lock on what changes: whoever had that first is told of first.
INSERT INTO foliot.outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
SELECT :partition::smallint, coalesce(:now, statement_timestamp()), (n ->> 3)::bigint, (n ->> 1)::uuid, n ->> 0,
       n ->> 2, n ->> 4, n ->> 5, n ->> 6, n ->> 7
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
-- A time that is still to come says that the clock was set back: then it keeps nobody from hearing.
SELECT l.hook, l.event, l.kind, l.queue, l.origin, l.template,
       CASE WHEN l.since <= coalesce(:now, statement_timestamp()) THEN (extract(epoch FROM l.since) * 1000000)::bigint END,
       (extract(epoch FROM l.absent_since) * 1000000)::bigint
FROM foliot.listeners l ORDER BY l.event, l.hook, l.kind, l.queue;

-- name: lock_listeners
-- Of these hooks. Who comes second sees what the first has put, and whose session was open when it did.
SELECT l.hook FROM foliot.listeners l
WHERE l.hook = ANY (ARRAY(SELECT i FROM jsonb_array_elements_text(:hooks::jsonb) i))
ORDER BY l.event, l.hook, l.kind, l.queue FOR UPDATE;

-- name: find_taken
-- Which of these hooks are those of other modules, for a live worker runs them there.
SELECT DISTINCT l.hook, l.origin FROM foliot.listeners l
WHERE l.hook = ANY (ARRAY(SELECT i FROM jsonb_array_elements_text(:hooks::jsonb) i))
  AND l.origin <> ALL (ARRAY(SELECT i FROM jsonb_array_elements_text(:modules::jsonb) i))
  AND EXISTS (SELECT FROM foliot.sessions s
              WHERE s.expires_at > coalesce(:now, now()) AND l.hook = ANY (s.kinds) AND l.origin = ANY (s.modules));

-- name: put_listeners
-- Rows of [hook, event, kind, queue, origin, template]. A hook that listens already keeps its time, whatever it chooses
-- now. One that is new listens from now on: but an event bears the time at which its transaction began, so from the
-- oldest that is still open, as far as this role may see.
INSERT INTO foliot.listeners (hook, event, kind, queue, origin, template, since)
SELECT n ->> 0, n ->> 1, n ->> 2, n ->> 3, n ->> 4, n ->> 5,
       coalesce((SELECT min(l.since) FROM foliot.listeners l WHERE l.hook = n ->> 0),
                least(coalesce(:now, now()),
                      (SELECT min(a.xact_start) FROM pg_catalog.pg_stat_activity a
                       WHERE a.datname = current_database() AND a.backend_type = 'client backend'
                         AND :now::timestamptz IS NULL)))
FROM jsonb_array_elements(:rows::jsonb) n ORDER BY 2, 1, 3, 4
ON CONFLICT (event, hook, kind, queue) DO UPDATE
SET origin = excluded.origin, template = excluded.template, absent_since = NULL;

-- name: remove_listeners
-- Of these hooks what is not in the rows.
DELETE FROM foliot.listeners l
WHERE l.hook = ANY (ARRAY(SELECT i FROM jsonb_array_elements_text(:hooks::jsonb) i))
  AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(:rows::jsonb) n
                  WHERE n ->> 0 = l.hook AND n ->> 1 = l.event AND n ->> 2 = l.kind AND n ->> 3 = l.queue);

-- name: find_unsettled
-- Hooks of which something else is true than what is written down: see the next two.
SELECT DISTINCT l.hook FROM foliot.listeners l
WHERE (l.absent_since IS NULL) <> EXISTS (SELECT FROM foliot.sessions s
                                          WHERE s.expires_at > coalesce(:now, now()) AND l.hook = ANY (s.kinds))
   OR (l.absent_since <= coalesce(:now, now()) - make_interval(secs => :grace)
       AND EXISTS (SELECT FROM foliot.sessions s
                   WHERE s.expires_at > coalesce(:now, now()) AND l.origin = ANY (s.modules)
                     AND s.started_at <= coalesce(:now, now()) - make_interval(secs => :grace)));

-- name: mark_absent
-- Since now, what no live session says that it runs; and not any more, what one does.
UPDATE foliot.listeners l SET absent_since = CASE WHEN l.absent_since IS NULL THEN coalesce(:now, now()) END
WHERE l.hook = ANY (ARRAY(SELECT i FROM jsonb_array_elements_text(:hooks::jsonb) i))
  AND (l.absent_since IS NULL) <> EXISTS (SELECT FROM foliot.sessions s
                                          WHERE s.expires_at > coalesce(:now, now()) AND l.hook = ANY (s.kinds));

-- name: remove_absent
-- What has been absent for so long, if a worker of its module was there all the time: after an outage, all have just
-- come back, and some may be on their way.
DELETE FROM foliot.listeners l
WHERE l.hook = ANY (ARRAY(SELECT i FROM jsonb_array_elements_text(:hooks::jsonb) i))
  AND l.absent_since <= coalesce(:now, now()) - make_interval(secs => :grace)
  AND NOT EXISTS (SELECT FROM foliot.sessions s
                  WHERE s.expires_at > coalesce(:now, now()) AND l.hook = ANY (s.kinds))
  AND EXISTS (SELECT FROM foliot.sessions s
              WHERE s.expires_at > coalesce(:now, now()) AND l.origin = ANY (s.modules)
                AND s.started_at <= coalesce(:now, now()) - make_interval(secs => :grace))
RETURNING l.hook;

-- name: list_unheard
-- What hooks were still to be told that listen no longer, as far as a worker has found that it does not know them. Rides
-- jobs_held.
SELECT h.id::text
FROM foliot.definitions d CROSS JOIN LATERAL (
    SELECT j.id FROM foliot.jobs j
    WHERE j.partition = :partition AND j.state = 'held' AND j.hold = 'unknown_kind' AND j.kind = d.kind
    ORDER BY j.id LIMIT :limit
) h
WHERE d.kind LIKE 'on.%' AND NOT EXISTS (SELECT FROM foliot.listeners l WHERE l.hook = d.kind)
LIMIT :limit;

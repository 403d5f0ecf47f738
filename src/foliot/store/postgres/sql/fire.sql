-- How schedules become jobs. Firing is one transaction: lock_triggers, fire_schedules or fire_stateful, move_triggers.
-- Lock, then read: who pauses, changes or deletes a schedule locks its trigger too, so none fires after that.

-- name: find_due_triggers
-- What one round can do: the one that is due the longest, and the smallest, two chunks of them. Each with how many
-- schedules are left to do, counted to one more than a chunk, and where the chunk ends if there are more. Rides
-- triggers_due, then schedules_trigger.
SELECT t.id, t.stateful, t.expression, t.timezone, t.dst_gap, t.dst_overlap, t.calendars, t.delay,
       extract(epoch FROM t.next_fire_at)::bigint, t.cursor::text, c.count::integer,
       CASE WHEN c.count > :chunk THEN (
           SELECT s.id FROM foliot.schedules s
           WHERE s.partition = :partition AND s.trigger = t.id
             AND s.id > coalesce(t.cursor, '00000000-0000-0000-0000-000000000000'::uuid)
           ORDER BY s.id OFFSET :chunk - 1 LIMIT 1) END::text,
       extract(epoch FROM coalesce(:now, now()))::float8
FROM (SELECT d.*, row_number() OVER (ORDER BY d.next_fire_at, d.id) AS place,
             sum(d.size + 1) OVER (ORDER BY d.size, d.next_fire_at, d.id) AS upto
      FROM (SELECT * FROM foliot.triggers o
            WHERE o.partition = :partition AND o.next_fire_at <= coalesce(:now, now())
            ORDER BY o.next_fire_at LIMIT :limit) d) t
CROSS JOIN LATERAL (
    SELECT count(*) AS count
    FROM (SELECT 1 FROM foliot.schedules s
          WHERE s.partition = :partition AND s.trigger = t.id
            AND s.id > coalesce(t.cursor, '00000000-0000-0000-0000-000000000000'::uuid)
          ORDER BY s.id LIMIT :chunk + 1) l
) c
WHERE t.place = 1 OR t.upto <= 2 * :chunk
ORDER BY t.next_fire_at, t.id;

-- name: lock_triggers
-- Those that are where they are expected, and due.
WITH locked AS MATERIALIZED (
    SELECT t.id, t.next_fire_at, t.cursor FROM foliot.triggers t
    WHERE t.partition = :partition AND t.id = ANY (:triggers::bigint[])
    ORDER BY t.id FOR NO KEY UPDATE
)
SELECT l.id, extract(epoch FROM l.next_fire_at)::bigint, l.cursor::text
FROM locked l WHERE l.next_fire_at <= coalesce(:now, statement_timestamp());

-- name: lock_gaps
WITH locked AS MATERIALIZED (
    SELECT g.trigger, g.from_at, g.nominal, g.cursor FROM foliot.gaps g
    WHERE g.partition = :partition AND g.trigger = ANY (:triggers::bigint[]) AND NOT g.done
    ORDER BY g.trigger, g.from_at FOR UPDATE
)
SELECT l.trigger, extract(epoch FROM l.from_at)::bigint, extract(epoch FROM l.nominal)::bigint, l.cursor::text
FROM locked l;

-- name: fire_schedules
-- Jobs of the schedules of each trigger, after its cursor and up to `upper`, placed as submit_jobs places them. Their ids
-- follow from schedule and time (ids.fire_id): a conflict is the same run. (One with a unique key is stateful.)
-- Catching up, only the schedules of one policy, and no faster than they want.
WITH fired AS (
    INSERT INTO foliot.jobs (partition, id, lane, rank, band, priority, max_attempts, state, hold, namespace,
                             kind, queue, created_at, run_at, timeout, key, payload,
                             tags, ordering_key, fair_key, expires_at, requires, extras)
    SELECT :partition::smallint,
           (lpad(to_hex(n.nominal * 1000), 12, '0') || '7' || substr(n.id::text, 16, 3) || '8'
            || substr(md5(n.id::text || ':' || n.nominal), 1, 15))::uuid,
           n.lane | n.strategy,
           CASE n.strategy WHEN 3 THEN 0
                WHEN 2 THEN ((extract(epoch FROM n.due_at) + n.priority * n.aging) * 1000000)::bigint
                ELSE (extract(epoch FROM n.due_at) * 1000000)::bigint END,
           CASE n.strategy WHEN 0 THEN n.priority ELSE 0 END, n.priority, n.max_attempts,
           CASE WHEN n.told ->> 'ordering_key' IS NOT NULL THEN 'held'
                WHEN n.due_at > coalesce(:now, now()) THEN 'scheduled'
                WHEN n.strategy = 3 THEN 'held' ELSE 'ready' END,
           CASE WHEN n.told ->> 'ordering_key' IS NOT NULL THEN 'admission'
                WHEN n.strategy = 3 AND n.due_at <= coalesce(:now, now()) THEN 'admission' END,
           n.namespace, n.kind, n.queue, coalesce(:now, now()), n.due_at, n.timeout, n.key, n.payload,
           CASE WHEN n.told -> 'tags' IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(n.told -> 'tags')) END,
           n.told ->> 'ordering_key', n.told ->> 'fair_key',
           least(coalesce(to_timestamp((n.told ->> 'expires_at')::float8 / 1000000),
                          coalesce(:now, now()) + make_interval(secs => (n.told ->> 'expires_in')::float8)),
                 to_timestamp(n.nominal + n.start_deadline)),
           CASE WHEN n.told -> 'requires' IS NOT NULL
                THEN ARRAY(SELECT jsonb_array_elements_text(n.told -> 'requires')) END,
           left(n.extras, -1) || ',"nominal":' || n.nominal || '}'
    FROM (SELECT s.*, f.nominal, s.more::jsonb AS told, coalesce(q.strategy, 0)::bigint AS strategy, q.aging,
                 greatest(to_timestamp(f.nominal + coalesce(s.phase, 0) + CASE WHEN s.jitter IS NULL THEN 0 ELSE
                              ('x' || substr(md5(s.id::text || ':' || f.nominal), 16, 8))::bit(32)::bigint
                              % (s.jitter + 1) END),
                          coalesce(:now, now()) + make_interval(secs => :place::float8 / s.catchup_rate)) AS due_at
          FROM unnest(:triggers::bigint[], :nominals::bigint[], :cursors::uuid[], :uppers::uuid[])
              AS f (trigger, nominal, cursor, upper)
          CROSS JOIN LATERAL (
              SELECT * FROM foliot.schedules s
              WHERE s.partition = :partition AND s.trigger = f.trigger
                AND s.id > coalesce(f.cursor, '00000000-0000-0000-0000-000000000000'::uuid)
                AND s.id <= coalesce(f.upper, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
                AND s.active_from <= to_timestamp(f.nominal)
                AND (s.active_until IS NULL OR s.active_until >= to_timestamp(f.nominal))
                AND (:policy::text IS NULL OR s.misfire = :policy::text AND (
                    s.misfire_window IS NULL
                    OR to_timestamp(f.nominal) >= coalesce(:now, now()) - make_interval(secs => s.misfire_window)))
          ) s
          LEFT JOIN foliot.queues q ON q.name = s.queue) n
    ON CONFLICT DO NOTHING
    RETURNING lane, state
)
SELECT lane, state, count(*)::integer FROM fired GROUP BY lane, state;

-- name: withdraw_runs
-- Catching up may meet runs that were made by hand meanwhile, and have ended: what was just inserted goes again.
DELETE FROM foliot.jobs j
WHERE j.partition = :partition AND j.fence = 0 AND j.id = ANY (ARRAY(
    WITH made AS MATERIALIZED (
        SELECT (lpad(to_hex(f.nominal * 1000), 12, '0') || '7' || substr(s.id::text, 16, 3) || '8'
                || substr(md5(s.id::text || ':' || f.nominal), 1, 15))::uuid AS id, to_timestamp(f.nominal) AS since
        FROM unnest(:triggers::bigint[], :nominals::bigint[], :cursors::uuid[], :uppers::uuid[])
            AS f (trigger, nominal, cursor, upper)
        JOIN foliot.schedules s ON s.partition = :partition AND s.trigger = f.trigger
         AND s.id > coalesce(f.cursor, '00000000-0000-0000-0000-000000000000'::uuid)
         AND s.id <= coalesce(f.upper, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
    )
    SELECT h.id FROM foliot.history h
    WHERE h.partition = :partition AND h.id = ANY (ARRAY(SELECT m.id FROM made m))
      AND h.finished_at >= (SELECT min(m.since) FROM made m)
    UNION ALL
    SELECT d.id FROM foliot.dead d WHERE d.partition = :partition AND d.id = ANY (ARRAY(SELECT m.id FROM made m))));

-- name: move_triggers
-- On to the next chunk or the next time. In the same transaction as the lock, and only those that had it.
UPDATE foliot.triggers t
SET cursor = f.upper,
    size = CASE WHEN t.cursor IS NULL THEN f.count ELSE t.size + f.count END,
    fired_at = CASE WHEN f.upper IS NULL THEN t.next_fire_at ELSE t.fired_at END,
    next_fire_at = CASE WHEN f.upper IS NULL THEN to_timestamp(f.next) ELSE t.next_fire_at END,
    tzdata = :tzdata
FROM unnest(:triggers::bigint[], :uppers::uuid[], :nexts::bigint[], :counts::integer[])
    AS f (trigger, upper, next, count)
WHERE t.partition = :partition AND t.id = ANY (:triggers::bigint[]) AND t.id = f.trigger;

-- name: end_triggers
-- No time follows: their schedules have ended.
WITH ended AS (
    UPDATE foliot.schedules s SET trigger = NULL, state = 'ended', updated_at = coalesce(:now, now())
    WHERE s.partition = :partition AND s.trigger = ANY (:triggers::bigint[])
)
DELETE FROM foliot.triggers t WHERE t.partition = :partition AND t.id = ANY (:triggers::bigint[]);

-- name: forget_triggers
-- Those that nobody is attached to.
DELETE FROM foliot.triggers t
WHERE t.partition = :partition AND t.id = ANY (:triggers::bigint[])
  AND NOT EXISTS (SELECT 1 FROM foliot.schedules s WHERE s.partition = :partition AND s.trigger = t.id);

-- name: add_gaps
-- What triggers pass over. A range that ends where this one begins is made longer.
WITH told AS MATERIALIZED (
    SELECT f.trigger, to_timestamp(f.start) AS start, to_timestamp(f.upto) AS upto, f.count, f.reason, t.fired_at
    FROM unnest(:triggers::bigint[], :nominals::bigint[], :tos::bigint[], :counts::integer[], :reasons::text[])
        AS f (trigger, start, upto, count, reason)
    JOIN foliot.triggers t ON t.partition = :partition AND t.id = f.trigger
), longer AS (
    UPDATE foliot.gaps g SET to_at = d.upto, count = g.count + d.count
    FROM told d
    WHERE g.partition = :partition AND g.trigger = d.trigger AND g.to_at = d.fired_at AND g.reason = d.reason
      AND g.reason = 'excluded'
    RETURNING g.trigger
)
INSERT INTO foliot.gaps (partition, trigger, from_at, to_at, count, reason, at, done)
SELECT :partition::smallint, d.trigger, d.start, d.upto, d.count, d.reason, coalesce(:now, now()), d.reason = 'excluded'
FROM told d WHERE d.trigger NOT IN (SELECT l.trigger FROM longer l)
ON CONFLICT DO NOTHING;

-- name: jump_triggers
UPDATE foliot.triggers t
SET fired_at = to_timestamp(f.upto), next_fire_at = to_timestamp(f.next), tzdata = :tzdata
FROM unnest(:triggers::bigint[], :tos::bigint[], :nexts::bigint[]) AS f (trigger, upto, next)
WHERE t.partition = :partition AND t.id = ANY (:triggers::bigint[]) AND t.id = f.trigger;

-- name: find_gaps
-- What is to be caught up with, and where the next chunk of it ends.
SELECT g.trigger, extract(epoch FROM g.from_at)::bigint, extract(epoch FROM g.to_at)::bigint, g.count, g.reason,
       g.done, extract(epoch FROM g.nominal)::bigint, g.cursor::text,
       t.stateful, t.expression, t.timezone, t.dst_gap, t.dst_overlap, t.calendars, t.delay, c.count::integer,
       CASE WHEN c.count > :chunk THEN (
           SELECT s.id FROM foliot.schedules s
           WHERE s.partition = :partition AND s.trigger = g.trigger
             AND s.id > coalesce(g.cursor, '00000000-0000-0000-0000-000000000000'::uuid)
           ORDER BY s.id OFFSET :chunk - 1 LIMIT 1) END::text,
       extract(epoch FROM coalesce(:now, now()))::float8,
       -- A scalar, not EXISTS: of that a plan might make a walk through all schedules.
       g.nominal IS NULL AND (SELECT 1 FROM foliot.schedules s WHERE s.partition = :partition AND s.trigger = g.trigger
                                AND s.misfire = 'all' LIMIT 1) IS NOT NULL
FROM (SELECT * FROM foliot.gaps o WHERE o.partition = :partition AND NOT o.done ORDER BY o.at, o.trigger LIMIT :limit) g
LEFT JOIN foliot.triggers t ON t.partition = :partition AND t.id = g.trigger
CROSS JOIN LATERAL (
    SELECT count(*) AS count
    FROM (SELECT 1 FROM foliot.schedules s
          WHERE s.partition = :partition AND s.trigger = g.trigger
            AND s.id > coalesce(g.cursor, '00000000-0000-0000-0000-000000000000'::uuid)
          ORDER BY s.id LIMIT :chunk + 1) l
) c;

-- name: move_gaps
UPDATE foliot.gaps g
SET nominal = to_timestamp(f.then_at), cursor = f.after, done = f.then_at IS NULL
FROM unnest(:triggers::bigint[], :starts::bigint[], :thens::bigint[], :afters::uuid[])
    AS f (trigger, start, then_at, after)
WHERE g.partition = :partition AND g.trigger = ANY (:triggers::bigint[])
  AND g.trigger = f.trigger AND g.from_at = to_timestamp(f.start);

-- name: tell_missed
-- Of the schedules of each trigger, after the gap's cursor and up to `upper`, those that answer for a time in the gap: each
-- before it is caught up with for the first time, so once.
INSERT INTO foliot.outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
SELECT :partition::smallint, coalesce(:now, now()), f.start, s.id, 'schedule.missed', s.id::text,
       s.namespace, s.kind, s.queue,
       jsonb_build_object('schedule', s.name, 'from', f.first, 'to', f.last, 'misfire', s.misfire)::text
FROM unnest(:triggers::bigint[], :starts::bigint[], :tos::bigint[], :firsts::text[], :lasts::text[], :cursors::uuid[],
            :uppers::uuid[])
    AS f (trigger, start, upto, first, last, cursor, upper)
CROSS JOIN LATERAL (
    SELECT * FROM foliot.schedules s
    WHERE s.partition = :partition AND s.trigger = f.trigger
      AND s.id > coalesce(f.cursor, '00000000-0000-0000-0000-000000000000'::uuid)
      AND s.id <= coalesce(f.upper, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
      AND (s.misfire = 'all') = (:policy::text = 'all') AND s.active_from <= to_timestamp(f.upto)
      AND (s.active_until IS NULL OR s.active_until >= to_timestamp(f.start))
) s
WHERE (SELECT 1 FROM foliot.listeners l WHERE l.event = 'schedule.missed' LIMIT 1) IS NOT NULL
  AND ARRAY(SELECT l.kind || ' ' || l.queue FROM foliot.listeners l WHERE l.event = 'schedule.missed')
      && ARRAY['* *', s.kind || ' *', '* ' || s.queue, s.kind || ' ' || s.queue]
ON CONFLICT DO NOTHING;

-- name: find_overdue_triggers
-- Each with the name of its first schedule, and how many it has. Those without any will be forgotten, not fired.
SELECT t.partition, t.expression, t.timezone, extract(epoch FROM coalesce(:now, now()) - t.next_fire_at)::float8,
       (SELECT count(*) FROM (SELECT FROM foliot.schedules s
                              WHERE s.partition = t.partition AND s.trigger = t.id LIMIT :cap) c),
       f.name
FROM foliot.triggers t
CROSS JOIN LATERAL (SELECT s.name FROM foliot.schedules s
                    WHERE s.partition = t.partition AND s.trigger = t.id ORDER BY s.id LIMIT 1) f
WHERE t.partition = ANY (:partitions::smallint[])
  AND t.next_fire_at < coalesce(:now, now()) - make_interval(secs => :seconds::float8)
ORDER BY t.next_fire_at LIMIT :limit;

-- name: get_first_schedule
SELECT s.name FROM foliot.schedules s
WHERE s.partition = :partition AND s.trigger = :trigger ORDER BY s.id LIMIT 1;

-- name: forecast_triggers
SELECT t.expression, t.timezone, t.dst_gap, t.dst_overlap, sum(t.size)::bigint, min(extract(epoch FROM t.next_fire_at))::bigint
FROM foliot.triggers t WHERE t.delay IS NULL
GROUP BY t.expression, t.timezone, t.dst_gap, t.dst_overlap ORDER BY 5 DESC, 1 LIMIT :limit;

-- name: count_triggers
SELECT count(*)::bigint, coalesce(sum(t.size), 0)::bigint FROM foliot.triggers t WHERE t.delay IS NULL;

-- name: get_delayed
-- The one schedule of a trigger that counts from the end of its last run.
SELECT s.id::text, t.delay, extract(epoch FROM s.active_from)::float8
FROM foliot.triggers t JOIN foliot.schedules s ON s.partition = :partition AND s.trigger = t.id
WHERE t.partition = :partition AND t.id = :trigger ORDER BY s.id LIMIT 1;

-- name: delay_trigger
UPDATE foliot.triggers t SET fired_at = t.next_fire_at, next_fire_at = to_timestamp(:next::bigint)
WHERE t.partition = :partition AND t.id = :trigger;

-- name: prune_ledger
DELETE FROM foliot.ledger l
WHERE l.partition = :partition AND (l.schedule, l.from_at, l.reason) IN (
    SELECT o.schedule, o.from_at, o.reason FROM foliot.ledger o
    WHERE o.partition = :partition AND o.to_at < coalesce(:now, now()) - make_interval(secs => :keep::float8)
    LIMIT :limit)
RETURNING 1;

-- name: prune_gaps
DELETE FROM foliot.gaps g
WHERE g.partition = :partition AND (g.trigger, g.from_at) IN (
    SELECT o.trigger, o.from_at FROM foliot.gaps o
    WHERE o.partition = :partition AND o.done AND o.to_at < coalesce(:now, now()) - make_interval(secs => :keep::float8)
    LIMIT :limit)
RETURNING 1;

-- name: prune_versions
DELETE FROM foliot.versions v
WHERE v.partition = :partition AND (v.schedule, v.version) IN (
    SELECT o.schedule, o.version FROM foliot.versions o
    WHERE o.partition = :partition AND o.until < coalesce(:now, now()) - make_interval(secs => :keep::float8)
    LIMIT :limit)
RETURNING 1;

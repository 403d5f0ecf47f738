-- A schedule's life: made, paused, resumed, changed, deleted; looks at the end. Each locks its trigger first.

-- name: put_triggers
-- Made where there are none, locked where there are: until this commits none of them fires.
INSERT INTO foliot.triggers (partition, id, stateful, expression, timezone, dst_gap, dst_overlap, calendars, delay,
                             next_fire_at, size, tzdata)
SELECT :partition::smallint, n.id, n.stateful, n.expression, n.timezone, n.dst_gap, n.dst_overlap,
       ARRAY(SELECT jsonb_array_elements_text(n.calendars::jsonb)), n.delay, to_timestamp(n.next), n.size, n.tzdata
FROM unnest(:ids::bigint[], :stateful::boolean[], :expressions::text[], :timezones::text[], :gaps::text[],
            :overlaps::text[], :calendars::text[], :delays::real[], :nexts::bigint[], :sizes::integer[],
            :tzdatas::text[])
    AS n (id, stateful, expression, timezone, dst_gap, dst_overlap, calendars, delay, next, size, tzdata)
ORDER BY n.id
ON CONFLICT (partition, id) DO UPDATE SET size = triggers.size + excluded.size;

-- name: create_schedules
-- It answers for nominal times that its trigger has not begun with, from now on or from its start.
INSERT INTO foliot.schedules (partition, id, trigger, lane, since, active_from, active_until, priority, max_attempts, phase,
                              jitter, max_runs, pause_after, buffer, timeout, start_deadline, misfire_window,
                              catchup_rate, state, overlap, misfire, namespace, name, kind, queue, key, more, extras,
                              rules, tags, origin, note, created_at, updated_at, payload)
SELECT :partition::smallint, n.id, n.trigger, n.lane, coalesce(:now, now()),
       greatest(coalesce(:now, now()), to_timestamp((n.told ->> 'start')::bigint),
                CASE WHEN t.cursor IS NOT NULL THEN t.next_fire_at ELSE t.fired_at END + interval '1 microsecond'),
       to_timestamp((n.told ->> 'end')::bigint), n.priority, n.max_attempts, n.phase,
       (n.told ->> 'jitter')::integer, (n.told ->> 'max_runs')::integer,
       (n.told ->> 'pause_after')::integer, n.buffer, n.timeout,
       (n.told ->> 'start_deadline')::real, (n.told ->> 'misfire_window')::real,
       (n.told ->> 'catchup_rate')::real, n.state, coalesce(n.told ->> 'overlap', 'skip'),
       coalesce(n.told ->> 'misfire', 'latest'), n.namespace, n.name, n.kind, n.queue, n.key, n.more, n.extras,
       n.rules, CASE WHEN n.tags IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(n.tags::jsonb)) END,
       n.origin, n.note, coalesce(:now, now()), coalesce(:now, now()), n.payload
-- OFFSET 0: the rules are read once for each, not once for each field.
FROM (SELECT u.*, u.rules::jsonb AS told
      FROM unnest(:ids::uuid[], :triggers::bigint[], :lanes::bigint[], :priorities::smallint[], :max_attempts::smallint[],
            :phases::integer[], :buffers::integer[], :timeouts::real[], :states::text[], :namespaces::text[],
            :names::text[], :kinds::text[], :queues::text[], :keys::text[], :mores::text[], :extras::text[],
            :rules::text[], :tags::text[], :origins::text[], :notes::text[], :payloads::bytea[])
    AS u (id, trigger, lane, priority, max_attempts, phase, buffer, timeout, state, namespace, name, kind, queue, key,
          more, extras, rules, tags, origin, note, payload) OFFSET 0) n
LEFT JOIN foliot.triggers t ON t.partition = :partition AND t.id = n.trigger
ON CONFLICT DO NOTHING
RETURNING id::text;

-- name: lock_triggers_of
-- Of these schedules, and those that are named, in one order: nobody waits crosswise. What schedules are attached to may
-- have changed meanwhile: who asked looks again.
WITH locked AS MATERIALIZED (
    SELECT t.id FROM foliot.triggers t
    WHERE t.partition = :partition AND t.id = ANY (ARRAY(
        SELECT s.trigger FROM foliot.schedules s WHERE s.partition = :partition AND s.id = ANY (:ids::uuid[])
        UNION ALL SELECT u.id FROM unnest(:also::bigint[]) AS u (id)))
    ORDER BY t.id FOR NO KEY UPDATE
)
SELECT l.id FROM locked l;

-- name: find_strays
-- Those that were attached to another trigger meanwhile.
SELECT s.id::text FROM foliot.schedules s
WHERE s.partition = :partition AND s.id = ANY (:ids::uuid[]) AND s.trigger <> ALL (:triggers::bigint[]);

-- name: lock_schedule
SELECT s.id::text FROM foliot.schedules s WHERE s.partition = :partition AND s.id = :id FOR UPDATE;

-- name: get_unfired
-- From which time on its trigger has yet to fire for it.
SELECT ceil(extract(epoch FROM greatest(
           s.active_from, t.next_fire_at + CASE WHEN t.cursor >= s.id THEN interval '1 second' ELSE interval '0' END)))::bigint
FROM foliot.schedules s JOIN foliot.triggers t ON t.partition = :partition AND t.id = s.trigger
WHERE s.partition = :partition AND s.id = :id;

-- name: pause_schedules
-- Those of the locked triggers. What their trigger has not done for them belongs to the pause, unless it was missed long
-- before.
WITH told AS MATERIALIZED (
    SELECT s.id,
           CASE WHEN t.cursor >= s.id OR t.next_fire_at IS NULL THEN coalesce(:now, now())
                ELSE least(t.next_fire_at, coalesce(:now, now())) END AS open_from
    FROM foliot.schedules s LEFT JOIN foliot.triggers t ON t.partition = :partition AND t.id = s.trigger
    WHERE s.partition = :partition AND s.id = ANY (:ids::uuid[]) AND s.state = 'active'
      AND (s.trigger IS NULL OR s.trigger = ANY (:triggers::bigint[]))
), missed AS (
    INSERT INTO foliot.ledger (partition, schedule, from_at, to_at, count, reason)
    SELECT :partition::smallint, d.id, d.open_from, coalesce(:now, now()) - interval '1 microsecond', NULL, 'missed'
    FROM told d WHERE d.open_from < coalesce(:now, now()) - make_interval(secs => :grace::float8)
    ON CONFLICT DO NOTHING
), written AS (
    INSERT INTO foliot.ledger (partition, schedule, from_at, to_at, count, reason)
    SELECT :partition::smallint, d.id,
           CASE WHEN d.open_from < coalesce(:now, now()) - make_interval(secs => :grace::float8)
                THEN coalesce(:now, now()) ELSE d.open_from END, NULL, NULL, 'paused'
    FROM told d
    ON CONFLICT DO NOTHING
)
UPDATE foliot.schedules s
SET state = :state, trigger = NULL, paused_at = coalesce(:now, now()), paused_by = :by, note = :note,
    updated_at = coalesce(:now, now())
WHERE s.partition = :partition AND s.id = ANY (ARRAY(SELECT d.id FROM told d))
RETURNING s.id::text;

-- name: resume_schedules
-- After put_triggers.
WITH back AS (
    UPDATE foliot.schedules s
    SET state = CASE WHEN n.trigger IS NULL THEN 'ended' ELSE 'active' END, trigger = n.trigger,
        paused_at = NULL, paused_by = NULL, note = NULL, updated_at = coalesce(:now, now()),
        active_from = greatest(coalesce(:now, now()), to_timestamp((s.rules::jsonb ->> 'start')::bigint),
            (SELECT CASE WHEN t.cursor IS NOT NULL THEN t.next_fire_at ELSE t.fired_at END + interval '1 microsecond'
             FROM foliot.triggers t WHERE t.partition = :partition AND t.id = n.trigger))
    FROM unnest(:ids::uuid[], :triggers::bigint[], :versions::integer[]) AS n (id, trigger, version)
    WHERE s.partition = :partition AND s.id = ANY (:ids::uuid[]) AND s.id = n.id AND s.version = n.version
      AND s.state IN ('paused', 'parked')
    RETURNING s.id, s.active_from
), closed AS (
    UPDATE foliot.ledger l SET to_at = b.active_from - interval '1 microsecond'
    FROM back b WHERE l.partition = :partition AND l.schedule = b.id AND l.to_at IS NULL
)
SELECT b.id::text FROM back b;

-- name: get_schedule_for_change
-- After lock_triggers_of and put_triggers: what it is, and from when on it can be something else.
SELECT s.version, s.trigger, s.state,
       CASE WHEN t.id IS NULL OR t.cursor >= s.id THEN NULL ELSE extract(epoch FROM t.next_fire_at)::bigint END
FROM foliot.schedules s LEFT JOIN foliot.triggers t ON t.partition = :partition AND t.id = s.trigger
WHERE s.partition = :partition AND s.id = :id
FOR UPDATE OF s;

-- name: change_schedule
-- What it was is kept with its span; what another trigger has not done for it by now is not made up for.
WITH old AS MATERIALIZED (
    SELECT s.version, s.since, s.trigger, s.rules,
           -- What the same trigger has yet to do for it, it does for the new version.
           CASE WHEN s.trigger = :trigger::bigint
                     AND to_timestamp(:left_at::bigint) BETWEEN s.active_from AND coalesce(:now, now())
                THEN to_timestamp(:left_at::bigint)
                ELSE greatest(coalesce(:now, now()),
                    (SELECT CASE WHEN t.cursor IS NOT NULL THEN t.next_fire_at ELSE t.fired_at END
                            + interval '1 microsecond'
                     FROM foliot.triggers t WHERE t.partition = :partition AND t.id = :trigger::bigint)) END AS switch
    FROM foliot.schedules s WHERE s.partition = :partition AND s.id = :id
), kept AS (
    INSERT INTO foliot.versions (partition, schedule, version, active_from, until, trigger, rules)
    SELECT :partition::smallint, :id::uuid, o.version, o.since, o.switch, o.trigger, o.rules FROM old o
), passed AS (
    INSERT INTO foliot.ledger (partition, schedule, from_at, to_at, count, reason)
    SELECT :partition::smallint, :id::uuid, to_timestamp(:left_at::bigint), o.switch - interval '1 microsecond', NULL,
           CASE WHEN to_timestamp(:left_at::bigint) < o.switch - make_interval(secs => :grace::float8)
                THEN 'missed' ELSE 'edited' END
    FROM old o WHERE to_timestamp(:left_at::bigint) < o.switch
    ON CONFLICT DO NOTHING
)
UPDATE foliot.schedules s
SET version = s.version + 1, since = o.switch,
    active_from = greatest(o.switch, to_timestamp((:rules::jsonb ->> 'start')::bigint)),
    active_until = to_timestamp((:rules::jsonb ->> 'end')::bigint),
    trigger = CASE WHEN s.state IN ('paused', 'parked') THEN NULL ELSE :trigger::bigint END,
    state = CASE WHEN s.state IN ('paused', 'parked') THEN s.state
                 WHEN :trigger::bigint IS NULL THEN 'ended' ELSE 'active' END,
    lane = :lane, priority = :priority, max_attempts = :max_attempts, phase = :phase,
    jitter = (:rules::jsonb ->> 'jitter')::integer, max_runs = (:rules::jsonb ->> 'max_runs')::integer,
    pause_after = (:rules::jsonb ->> 'pause_after')::integer, buffer = :buffer, timeout = :timeout,
    start_deadline = (:rules::jsonb ->> 'start_deadline')::real,
    misfire_window = (:rules::jsonb ->> 'misfire_window')::real,
    catchup_rate = (:rules::jsonb ->> 'catchup_rate')::real,
    overlap = coalesce(:rules::jsonb ->> 'overlap', 'skip'), misfire = coalesce(:rules::jsonb ->> 'misfire', 'latest'),
    kind = :kind, queue = :queue, key = :key, more = :more, extras = :extras, rules = :rules,
    tags = CASE WHEN :tags::text IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(:tags::jsonb)) END,
    origin = :origin, payload = :payload, updated_at = coalesce(:now, now())
FROM old o
WHERE s.partition = :partition AND s.id = :id
RETURNING s.id::text;

-- name: delete_schedules
WITH gone AS (
    DELETE FROM foliot.schedules s
    WHERE s.partition = :partition AND s.id = ANY (:ids::uuid[])
      AND (s.trigger IS NULL OR s.trigger = ANY (:triggers::bigint[]))
    RETURNING s.id
), forgotten AS (
    DELETE FROM foliot.ledger l WHERE l.partition = :partition AND l.schedule = ANY (ARRAY(SELECT g.id FROM gone g))
), past AS (
    DELETE FROM foliot.versions v WHERE v.partition = :partition AND v.schedule = ANY (ARRAY(SELECT g.id FROM gone g))
)
SELECT g.id::text FROM gone g;

-- name: get_schedules
SELECT s.id::text, s.name, s.namespace, s.state, s.kind, s.queue, s.priority, s.max_attempts, s.timeout, s.payload,
       s.key, s.more, s.extras, s.rules, s.version, s.runs, s.tags, s.origin, s.note, s.paused_by, s.paused_at,
       s.created_at, s.updated_at, s.active_from, s.trigger, extract(epoch FROM t.next_fire_at)::bigint,
       extract(epoch FROM t.fired_at)::bigint, s.since
FROM foliot.schedules s LEFT JOIN foliot.triggers t ON t.partition = s.partition AND t.id = s.trigger
WHERE s.partition = :partition AND s.id = ANY (:ids::uuid[]) ORDER BY s.id;

-- name: search_schedules
SELECT s.id::text, s.name, s.namespace, s.state, s.kind, s.queue, s.priority, s.max_attempts, s.timeout, s.payload,
       s.key, s.more, s.extras, s.rules, s.version, s.runs, s.tags, s.origin, s.note, s.paused_by, s.paused_at,
       s.created_at, s.updated_at, s.active_from, s.trigger, extract(epoch FROM t.next_fire_at)::bigint,
       extract(epoch FROM t.fired_at)::bigint, s.since
FROM foliot.schedules s LEFT JOIN foliot.triggers t ON t.partition = s.partition AND t.id = s.trigger
WHERE s.partition = :partition AND s.id > :after::uuid
  AND (:namespace::text IS NULL OR s.namespace = :namespace::text)
  AND (:tag::text IS NULL OR s.tags @> ARRAY[:tag::text])
  AND (:kind::text IS NULL OR s.kind = :kind::text)
  AND (:state::text IS NULL OR s.state = :state::text)
  AND (:origin::text IS NULL OR s.origin = :origin::text)
  AND (:name::text IS NULL OR s.name LIKE :name::text)
ORDER BY s.id LIMIT :limit;

-- name: count_schedules
SELECT s.state, count(*) FROM foliot.schedules s GROUP BY s.state;

-- name: list_versions
SELECT v.version, v.active_from, v.until, v.trigger, v.rules FROM foliot.versions v
WHERE v.partition = :partition AND v.schedule = :id ORDER BY v.version;

-- name: list_ledger
SELECT extract(epoch FROM l.from_at)::float8, extract(epoch FROM l.to_at)::float8, l.count, l.reason
FROM foliot.ledger l
WHERE l.partition = :partition AND l.schedule = :id AND l.from_at <= to_timestamp(:to::bigint)
  AND (l.to_at IS NULL OR l.to_at >= to_timestamp(:start::bigint))
ORDER BY l.from_at;

-- name: list_gaps
SELECT g.trigger, extract(epoch FROM g.from_at)::bigint, extract(epoch FROM g.to_at)::bigint, g.count, g.reason, g.done,
       extract(epoch FROM g.nominal)::bigint, g.cursor::text
FROM foliot.gaps g
WHERE g.partition = :partition AND g.trigger = :trigger AND g.from_at <= to_timestamp(:to::bigint)
  AND g.to_at >= to_timestamp(:start::bigint)
ORDER BY g.from_at;

-- name: get_now
SELECT coalesce(:now, now());

-- name: put_calendar
INSERT INTO foliot.calendars (name, dates, updated_at, updated_by)
VALUES (:name, :dates, coalesce(:now, now()), :by)
ON CONFLICT (name) DO UPDATE SET dates = excluded.dates, updated_at = excluded.updated_at, updated_by = excluded.updated_by
RETURNING name;

-- name: delete_calendar
DELETE FROM foliot.calendars WHERE name = :name RETURNING name;

-- name: list_calendars
SELECT name, dates, updated_at, updated_by FROM foliot.calendars ORDER BY name;

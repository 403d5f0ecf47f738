-- A schedule's life: made, paused, resumed, changed, deleted; looks at the end.

-- name: put_triggers
INSERT INTO foliot_triggers (partition, id, stateful, expression, timezone, dst_gap, dst_overlap, calendars, delay,
                             next_fire_at, size, tzdata)
SELECT :partition, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
       json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]'),
       json_extract(value, '$[6]'), json_extract(value, '$[7]'), json_extract(value, '$[8]') * 1000000,
       json_extract(value, '$[9]'), json_extract(value, '$[10]')
FROM json_each(:triggers) WHERE true
ON CONFLICT (partition, id) DO UPDATE SET size = size + excluded.size;

-- name: create_schedules
-- One at a time. It answers for nominal times that its trigger has not begun with, from now on or from its start.
INSERT INTO foliot_schedules (partition, id, trigger, lane, since, active_from, active_until, priority, max_attempts,
                              phase, jitter, max_runs, pause_after, buffer, timeout, start_deadline, misfire_window,
                              catchup_rate, state, overlap, misfire, namespace, name, kind, queue, key, more, extras,
                              rules, tags, origin, note, created_at, updated_at, payload)
VALUES (:partition, :id, :trigger, :lane, :now,
        max(:now, coalesce(:start * 1000000, 0),
            coalesce((SELECT CASE WHEN t.cursor IS NOT NULL THEN t.next_fire_at ELSE t.fired_at END + 1
                      FROM foliot_triggers t WHERE t.partition = :partition AND t.id = :trigger), 0)),
        :end * 1000000, :priority, :max_attempts, :phase, :jitter, :max_runs, :pause_after, :buffer, :timeout,
        :start_deadline, :misfire_window, :catchup_rate, :state, :overlap, :misfire, :namespace, :name, :kind, :queue,
        :key, :more, :extras, :rules, :tags, :origin, :note, :now, :now, :payload)
ON CONFLICT DO NOTHING;

-- name: get_unfired
-- From which time on its trigger has yet to fire for it.
SELECT (max(s.active_from, t.next_fire_at + CASE WHEN t.cursor >= s.id THEN 1000000 ELSE 0 END) + 999999) / 1000000
FROM foliot_schedules s JOIN foliot_triggers t ON t.partition = :partition AND t.id = s.trigger
WHERE s.partition = :partition AND s.id = :id;

-- name: pause_schedules
-- What their trigger has not done for them belongs to the pause, unless it was missed long before.
INSERT INTO foliot_ledger (partition, schedule, from_at, to_at, count, reason)
SELECT :partition, d.id, d.open_from, :now - 1, NULL, 'missed'
FROM (SELECT s.id, CASE WHEN t.cursor >= s.id OR t.next_fire_at IS NULL THEN :now
                        ELSE min(t.next_fire_at, :now) END AS open_from
      FROM json_each(:ids) n
      CROSS JOIN foliot_schedules s ON s.partition = :partition AND s.id = n.value
      LEFT JOIN foliot_triggers t ON t.partition = :partition AND t.id = s.trigger
      WHERE s.state = 'active') d
WHERE d.open_from < :now - :grace
ON CONFLICT DO NOTHING;
INSERT INTO foliot_ledger (partition, schedule, from_at, to_at, count, reason)
SELECT :partition, d.id, CASE WHEN d.open_from < :now - :grace THEN :now ELSE d.open_from END, NULL, NULL, 'paused'
FROM (SELECT s.id, CASE WHEN t.cursor >= s.id OR t.next_fire_at IS NULL THEN :now
                        ELSE min(t.next_fire_at, :now) END AS open_from
      FROM json_each(:ids) n
      CROSS JOIN foliot_schedules s ON s.partition = :partition AND s.id = n.value
      LEFT JOIN foliot_triggers t ON t.partition = :partition AND t.id = s.trigger
      WHERE s.state = 'active') d
WHERE true
ON CONFLICT DO NOTHING;
UPDATE foliot_schedules
SET state = :state, trigger = NULL, paused_at = :now, paused_by = :by, note = :note, updated_at = :now
WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids)) AND state = 'active'
RETURNING id;

-- name: resume_schedules
-- One at a time, after put_triggers. What is open in the ledger was so because of the pause.
UPDATE foliot_schedules
SET state = CASE WHEN :trigger IS NULL THEN 'ended' ELSE 'active' END, trigger = :trigger,
    paused_at = NULL, paused_by = NULL, note = NULL, updated_at = :now,
    active_from = max(:now, coalesce(json_extract(rules, '$.start') * 1000000, 0),
        coalesce((SELECT CASE WHEN t.cursor IS NOT NULL THEN t.next_fire_at ELSE t.fired_at END + 1
                  FROM foliot_triggers t WHERE t.partition = :partition AND t.id = :trigger), 0))
WHERE partition = :partition AND id = :id AND version = :version AND state IN ('paused', 'parked')
RETURNING id;
UPDATE foliot_ledger
SET to_at = (SELECT s.active_from - 1 FROM foliot_schedules s WHERE s.partition = :partition AND s.id = :id)
WHERE partition = :partition AND schedule = :id AND to_at IS NULL
  AND (SELECT s.state FROM foliot_schedules s WHERE s.partition = :partition AND s.id = :id) IN ('active', 'ended');

-- name: get_schedule_for_change
-- After put_triggers: what it is, what of its trigger it would leave, and from when on the new trigger fires for it.
SELECT s.version, s.trigger, s.state,
       CASE WHEN t.id IS NULL OR t.cursor >= s.id THEN NULL ELSE t.next_fire_at END,
       -- What the same trigger has yet to do for it, it does for the new version.
       CASE WHEN s.trigger = :trigger AND coalesce(t.cursor, '') < s.id AND t.next_fire_at BETWEEN s.active_from AND :now
            THEN t.next_fire_at
            ELSE max(:now, coalesce((SELECT CASE WHEN n.cursor IS NOT NULL THEN n.next_fire_at ELSE n.fired_at END + 1
                                     FROM foliot_triggers n WHERE n.partition = :partition AND n.id = :trigger), 0)) END
FROM foliot_schedules s LEFT JOIN foliot_triggers t ON t.partition = :partition AND t.id = s.trigger
WHERE s.partition = :partition AND s.id = :id;

-- name: change_schedule
-- What it was is kept with its span; what another trigger has not done for it by now is not made up for.
INSERT INTO foliot_versions (partition, schedule, version, active_from, until, trigger, rules)
SELECT :partition, :id, s.version, s.since, :switch, s.trigger, s.rules
FROM foliot_schedules s WHERE s.partition = :partition AND s.id = :id;
INSERT INTO foliot_ledger (partition, schedule, from_at, to_at, count, reason)
SELECT :partition, :id, :left_at, :switch - 1, NULL,
       CASE WHEN :left_at < :switch - :grace THEN 'missed' ELSE 'edited' END
WHERE :left_at < :switch
ON CONFLICT DO NOTHING;
UPDATE foliot_schedules
SET version = version + 1, since = :switch, active_from = max(:switch, coalesce(:start * 1000000, 0)),
    active_until = :end * 1000000,
    trigger = CASE WHEN state IN ('paused', 'parked') THEN NULL ELSE :trigger END,
    state = CASE WHEN state IN ('paused', 'parked') THEN state WHEN :trigger IS NULL THEN 'ended' ELSE 'active' END,
    lane = :lane, priority = :priority, max_attempts = :max_attempts, phase = :phase, jitter = :jitter,
    max_runs = :max_runs, pause_after = :pause_after, buffer = :buffer, timeout = :timeout,
    start_deadline = :start_deadline, misfire_window = :misfire_window, catchup_rate = :catchup_rate,
    overlap = :overlap, misfire = :misfire, kind = :kind, queue = :queue, key = :key, more = :more, extras = :extras,
    rules = :rules, tags = :tags, origin = :origin, payload = :payload, updated_at = :now
WHERE partition = :partition AND id = :id;

-- name: delete_schedules
DELETE FROM foliot_ledger WHERE partition = :partition AND schedule IN (SELECT value FROM json_each(:ids));
DELETE FROM foliot_versions WHERE partition = :partition AND schedule IN (SELECT value FROM json_each(:ids));
DELETE FROM foliot_schedules WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids))
RETURNING id;

-- name: get_schedules
SELECT s.id, s.name, s.namespace, s.state, s.kind, s.queue, s.priority, s.max_attempts, s.timeout, s.payload,
       s.key, s.more, s.extras, s.rules, s.version, s.runs, s.tags, s.origin, s.note, s.paused_by, s.paused_at,
       s.created_at, s.updated_at, s.active_from, s.trigger, t.next_fire_at / 1000000, t.fired_at / 1000000, s.since
FROM foliot_schedules s LEFT JOIN foliot_triggers t ON t.partition = s.partition AND t.id = s.trigger
WHERE s.partition = :partition AND s.id IN (SELECT value FROM json_each(:ids)) ORDER BY s.id;

-- name: search_schedules
SELECT s.id, s.name, s.namespace, s.state, s.kind, s.queue, s.priority, s.max_attempts, s.timeout, s.payload,
       s.key, s.more, s.extras, s.rules, s.version, s.runs, s.tags, s.origin, s.note, s.paused_by, s.paused_at,
       s.created_at, s.updated_at, s.active_from, s.trigger, t.next_fire_at / 1000000, t.fired_at / 1000000, s.since
FROM foliot_schedules s LEFT JOIN foliot_triggers t ON t.partition = s.partition AND t.id = s.trigger
WHERE s.partition = :partition AND s.id > :after
  AND (:namespace IS NULL OR s.namespace = :namespace)
  AND (:tag IS NULL OR EXISTS (SELECT 1 FROM json_each(s.tags) WHERE value = :tag))
  AND (:kind IS NULL OR s.kind = :kind)
  AND (:state IS NULL OR s.state = :state)
  AND (:origin IS NULL OR s.origin = :origin)
  AND (:name IS NULL OR s.name GLOB :name)
ORDER BY s.id LIMIT :limit;

-- name: count_schedules
SELECT s.state, count(*) FROM foliot_schedules s GROUP BY s.state;

-- name: list_versions
SELECT v.version, v.active_from, v.until, v.trigger, v.rules FROM foliot_versions v
WHERE v.partition = :partition AND v.schedule = :id ORDER BY v.version;

-- name: list_ledger
SELECT l.from_at / 1000000.0, l.to_at / 1000000.0, l.count, l.reason
FROM foliot_ledger l
WHERE l.partition = :partition AND l.schedule = :id AND l.from_at <= :to * 1000000
  AND (l.to_at IS NULL OR l.to_at >= :start * 1000000)
ORDER BY l.from_at;

-- name: list_gaps
SELECT g.trigger, g.from_at / 1000000, g.to_at / 1000000, g.count, g.reason, g.done, g.nominal / 1000000, g.cursor
FROM foliot_gaps g
WHERE g.partition = :partition AND g.trigger = :trigger AND g.from_at <= :to * 1000000 AND g.to_at >= :start * 1000000
ORDER BY g.from_at;

-- name: put_calendar
INSERT INTO foliot_calendars (name, dates, updated_at, updated_by)
VALUES (:name, :dates, :now, :by)
ON CONFLICT (name) DO UPDATE SET dates = excluded.dates, updated_at = excluded.updated_at,
                                 updated_by = excluded.updated_by
RETURNING name;

-- name: delete_calendar
DELETE FROM foliot_calendars WHERE name = :name RETURNING name;

-- name: list_calendars
SELECT name, dates, updated_at, updated_by FROM foliot_calendars ORDER BY name;

-- How schedules become jobs. Firing is one transaction: lock_triggers, fire_schedules or fire_stateful, move_triggers.
-- fire_id and fire_jitter are functions of ours (file.py).

-- name: find_due_triggers
-- What one round can do: the one that is due the longest, and the smallest, two chunks of them. Each with how many
-- schedules are left to do, counted to one more than a chunk, and where the chunk ends if there are more. Rides
-- foliot_triggers_due, then foliot_schedules_trigger.
SELECT t.id, t.stateful, t.expression, t.timezone, t.dst_gap, t.dst_overlap, t.calendars, t.delay,
       t.next_fire_at / 1000000, t.cursor, t.count,
       CASE WHEN t.count > :chunk THEN (
           SELECT s.id FROM foliot_schedules s
           WHERE s.partition = :partition AND s.trigger = t.id AND s.id > coalesce(t.cursor, '')
           ORDER BY s.id LIMIT 1 OFFSET :chunk - 1) END,
       :now / 1000000.0
FROM (SELECT d.*, (SELECT count(*) FROM (SELECT 1 FROM foliot_schedules s
                                         WHERE s.partition = :partition AND s.trigger = d.id
                                           AND s.id > coalesce(d.cursor, '') LIMIT :chunk + 1)) AS count
      FROM (SELECT o.*, row_number() OVER (ORDER BY o.next_fire_at, o.id) AS place,
                   sum(o.size + 1) OVER (ORDER BY o.size, o.next_fire_at, o.id) AS upto
            FROM (SELECT * FROM foliot_triggers a WHERE a.partition = :partition AND a.next_fire_at <= :now
                  ORDER BY a.next_fire_at LIMIT :limit) o) d
      WHERE d.place = 1 OR d.upto <= 2 * :chunk) t
ORDER BY t.next_fire_at, t.id;

-- name: lock_triggers
-- Where those are that are due; nobody else writes meanwhile.
SELECT t.id, t.next_fire_at / 1000000, t.cursor FROM foliot_triggers t
WHERE t.partition = :partition AND t.id IN (SELECT value FROM json_each(:triggers)) AND t.next_fire_at <= :now
ORDER BY t.id;

-- name: lock_gaps
-- Where they are; nobody else writes meanwhile.
SELECT g.trigger, g.from_at / 1000000, g.nominal / 1000000, g.cursor FROM foliot_gaps g
WHERE g.partition = :partition AND g.trigger IN (SELECT value FROM json_each(:triggers)) AND NOT g.done;

-- name: fire_schedules
-- Jobs of the schedules of each trigger, after its cursor and up to `upper`, placed as submit_jobs places them. Their ids
-- follow from schedule and time (ids.fire_id): a conflict is the same run. (One with a unique key is stateful.)
-- Catching up, only the schedules of one policy, and no faster than they want.
INSERT INTO foliot_jobs (partition, id, lane, rank, band, priority, max_attempts, state, hold, namespace,
                         kind, queue, created_at, run_at, timeout, key, payload,
                         tags, ordering_key, fair_key, expires_at, requires, extras)
SELECT :partition, fire_id(n.id, n.nominal), n.lane | n.strategy,
       CASE n.strategy WHEN 3 THEN 0 WHEN 2 THEN n.due_at + CAST(n.priority * n.aging * 1000000 AS INTEGER)
            ELSE n.due_at END,
       CASE n.strategy WHEN 0 THEN n.priority ELSE 0 END, n.priority, n.max_attempts,
       CASE WHEN json_extract(n.more, '$.ordering_key') IS NOT NULL THEN 'held'
            WHEN n.due_at > :now THEN 'scheduled'
            WHEN n.strategy = 3 THEN 'held' ELSE 'ready' END,
       CASE WHEN json_extract(n.more, '$.ordering_key') IS NOT NULL THEN 'admission'
            WHEN n.strategy = 3 AND n.due_at <= :now THEN 'admission' END,
       n.namespace, n.kind, n.queue, :now, n.due_at, n.timeout, n.key, n.payload,
       json_extract(n.more, '$.tags'), json_extract(n.more, '$.ordering_key'), json_extract(n.more, '$.fair_key'),
       coalesce(min(n.expires_at, n.start_by), n.expires_at, n.start_by), json_extract(n.more, '$.requires'),
       substr(n.extras, 1, length(n.extras) - 1) || ',"nominal":' || n.nominal || '}'
FROM (SELECT s.*, json_extract(f.value, '$[1]') AS nominal, coalesce(q.strategy, 0) AS strategy, q.aging,
             coalesce(json_extract(s.more, '$.expires_at'),
                      :now + CAST(json_extract(s.more, '$.expires_in') * 1000000 AS INTEGER)) AS expires_at,
             CAST((json_extract(f.value, '$[1]') + s.start_deadline) * 1000000 AS INTEGER) AS start_by,
             max((json_extract(f.value, '$[1]') + coalesce(s.phase, 0) + CASE WHEN s.jitter IS NULL THEN 0
                     ELSE fire_jitter(s.id, json_extract(f.value, '$[1]'), s.jitter) END) * 1000000,
                 coalesce(:now + CAST(:place / s.catchup_rate * 1000000 AS INTEGER), 0)) AS due_at
      FROM json_each(:moves) f
      CROSS JOIN foliot_schedules s
          ON s.partition = :partition AND s.trigger = json_extract(f.value, '$[0]')
         AND s.id > coalesce(json_extract(f.value, '$[2]'), '') AND s.id <= coalesce(json_extract(f.value, '$[3]'), 'g')
      LEFT JOIN foliot_queues q ON q.name = s.queue
      WHERE s.active_from <= json_extract(f.value, '$[1]') * 1000000
        AND (s.active_until IS NULL OR s.active_until >= json_extract(f.value, '$[1]') * 1000000)
        AND (:policy IS NULL OR s.misfire = :policy AND (
            s.misfire_window IS NULL OR json_extract(f.value, '$[1]') >= :now / 1000000.0 - s.misfire_window))) n
WHERE true
ON CONFLICT DO NOTHING
RETURNING lane, state;

-- name: withdraw_runs
-- Catching up may meet runs that were made by hand meanwhile, and have ended: what was just inserted goes again.
DELETE FROM foliot_jobs
WHERE partition = :partition AND fence = 0 AND id IN (
    SELECT fire_id(s.id, json_extract(f.value, '$[1]'))
    FROM json_each(:moves) f CROSS JOIN foliot_schedules s
        ON s.partition = :partition AND s.trigger = json_extract(f.value, '$[0]')
       AND s.id > coalesce(json_extract(f.value, '$[2]'), '') AND s.id <= coalesce(json_extract(f.value, '$[3]'), 'g'))
  AND (EXISTS (SELECT 1 FROM foliot_history h WHERE h.partition = :partition AND h.id = foliot_jobs.id)
       OR EXISTS (SELECT 1 FROM foliot_dead d WHERE d.partition = :partition AND d.id = foliot_jobs.id));

-- name: move_triggers
-- One at a time, on to the next chunk or the next time.
UPDATE foliot_triggers
SET cursor = :upper,
    size = CASE WHEN cursor IS NULL THEN :count ELSE size + :count END,
    fired_at = CASE WHEN :upper IS NULL THEN next_fire_at ELSE fired_at END,
    next_fire_at = CASE WHEN :upper IS NULL THEN :next * 1000000 ELSE next_fire_at END,
    tzdata = :tzdata
WHERE partition = :partition AND id = :trigger;

-- name: end_triggers
-- No time follows: their schedules have ended.
UPDATE foliot_schedules SET trigger = NULL, state = 'ended', updated_at = :now
WHERE partition = :partition AND trigger IN (SELECT value FROM json_each(:triggers));
DELETE FROM foliot_triggers WHERE partition = :partition AND id IN (SELECT value FROM json_each(:triggers));

-- name: forget_triggers
-- Those that nobody is attached to.
DELETE FROM foliot_triggers
WHERE partition = :partition AND id IN (SELECT value FROM json_each(:triggers))
  AND NOT EXISTS (SELECT 1 FROM foliot_schedules s
                  WHERE s.partition = :partition AND s.trigger = foliot_triggers.id);

-- name: add_gaps
-- One at a time: what a trigger passes over. A range that ends where this one begins is made longer.
UPDATE foliot_gaps SET to_at = :to * 1000000, count = count + :count
WHERE partition = :partition AND trigger = :trigger AND reason = 'excluded' AND :reason = 'excluded'
  AND to_at = (SELECT t.fired_at FROM foliot_triggers t WHERE t.partition = :partition AND t.id = :trigger);
INSERT INTO foliot_gaps (partition, trigger, from_at, to_at, count, reason, at, done)
SELECT :partition, :trigger, :start * 1000000, :to * 1000000, :count, :reason, :now, :reason = 'excluded'
WHERE :reason <> 'excluded'
   OR NOT EXISTS (SELECT 1 FROM foliot_gaps g WHERE g.partition = :partition AND g.trigger = :trigger
                    AND g.reason = 'excluded' AND g.to_at = :to * 1000000)
ON CONFLICT DO NOTHING;

-- name: jump_triggers
-- One at a time.
UPDATE foliot_triggers SET fired_at = :to * 1000000, next_fire_at = :next * 1000000, tzdata = :tzdata
WHERE partition = :partition AND id = :trigger;

-- name: find_gaps
-- What is to be caught up with, and where the next chunk of it ends.
SELECT g.trigger, g.from_at / 1000000, g.to_at / 1000000, g.count, g.reason, g.done, g.nominal / 1000000, g.cursor,
       t.stateful, t.expression, t.timezone, t.dst_gap, t.dst_overlap, t.calendars, t.delay, g.schedules,
       CASE WHEN g.schedules > :chunk THEN (
           SELECT s.id FROM foliot_schedules s
           WHERE s.partition = :partition AND s.trigger = g.trigger AND s.id > coalesce(g.cursor, '')
           ORDER BY s.id LIMIT 1 OFFSET :chunk - 1) END,
       :now / 1000000.0,
       g.nominal IS NULL AND EXISTS (SELECT 1 FROM foliot_schedules s
                                     WHERE s.partition = :partition AND s.trigger = g.trigger AND s.misfire = 'all')
FROM (SELECT o.*, (SELECT count(*) FROM (SELECT 1 FROM foliot_schedules s
                                         WHERE s.partition = :partition AND s.trigger = o.trigger
                                           AND s.id > coalesce(o.cursor, '') LIMIT :chunk + 1)) AS schedules
      FROM foliot_gaps o WHERE o.partition = :partition AND NOT o.done ORDER BY o.at, o.trigger LIMIT :limit) g
LEFT JOIN foliot_triggers t ON t.partition = :partition AND t.id = g.trigger
ORDER BY g.at, g.trigger;

-- name: move_gaps
-- One at a time.
UPDATE foliot_gaps SET nominal = :then * 1000000, cursor = :after, done = :then IS NULL
WHERE partition = :partition AND trigger = :trigger AND from_at = :start * 1000000;

-- name: tell_missed
-- Of the schedules of each trigger, after the gap's cursor and up to `upper`, those that answer for a time in the gap: each
-- before it is caught up with for the first time, so once. Rows of [trigger, start, to, first, last, cursor, upper].
INSERT INTO foliot_outbox (partition, at, number, home, event, subject, namespace, kind, queue, data)
SELECT :partition, :now, json_extract(f.value, '$[1]'), s.id, 'schedule.missed', s.id, s.namespace, s.kind, s.queue,
       json_object('schedule', s.name, 'from', json_extract(f.value, '$[3]'), 'to', json_extract(f.value, '$[4]'),
                   'misfire', s.misfire)
FROM (SELECT 1 FROM foliot_listeners WHERE event = 'schedule.missed' LIMIT 1)
CROSS JOIN json_each(:gaps) f
CROSS JOIN foliot_schedules s
    ON s.partition = :partition AND s.trigger = json_extract(f.value, '$[0]')
   AND s.id > coalesce(json_extract(f.value, '$[5]'), '') AND s.id <= coalesce(json_extract(f.value, '$[6]'), 'g')
WHERE (s.misfire = 'all') = (:policy = 'all') AND s.active_from <= json_extract(f.value, '$[2]') * 1000000
  AND (s.active_until IS NULL OR s.active_until >= json_extract(f.value, '$[1]') * 1000000)
  AND EXISTS (SELECT 1 FROM foliot_listeners l
              WHERE l.event = 'schedule.missed' AND l.kind IN ('*', s.kind) AND l.queue IN ('*', s.queue))
ON CONFLICT DO NOTHING;

-- name: find_overdue_triggers
-- Each with the name of its first schedule, and how many it has. Those without any will be forgotten, not fired.
SELECT t.partition, t.expression, t.timezone, (:now - t.next_fire_at) / 1000000.0,
       (SELECT count(*) FROM (SELECT 1 FROM foliot_schedules s
                              WHERE s.partition = t.partition AND s.trigger = t.id LIMIT :cap)),
       f.name
FROM foliot_triggers t CROSS JOIN foliot_schedules f
  ON f.partition = t.partition AND f.id = (SELECT s.id FROM foliot_schedules s
                                           WHERE s.partition = t.partition AND s.trigger = t.id ORDER BY s.id LIMIT 1)
WHERE t.partition IN (SELECT value FROM json_each(:partitions))
  AND t.next_fire_at < :now - CAST(:seconds * 1000000 AS INTEGER)
ORDER BY t.next_fire_at LIMIT :limit;

-- name: get_first_schedule
SELECT s.name FROM foliot_schedules s
WHERE s.partition = :partition AND s.trigger = :trigger ORDER BY s.id LIMIT 1;

-- name: forecast_triggers
SELECT t.expression, t.timezone, t.dst_gap, t.dst_overlap, sum(t.size), min(t.next_fire_at) / 1000000
FROM foliot_triggers t WHERE t.delay IS NULL
GROUP BY t.expression, t.timezone, t.dst_gap, t.dst_overlap ORDER BY 5 DESC, 1 LIMIT :limit;

-- name: count_triggers
SELECT count(*), coalesce(sum(t.size), 0) FROM foliot_triggers t WHERE t.delay IS NULL;

-- name: get_delayed
-- The one schedule of a trigger that counts from the end of its last run.
SELECT s.id, t.delay, s.active_from / 1000000.0
FROM foliot_triggers t JOIN foliot_schedules s ON s.partition = :partition AND s.trigger = t.id
WHERE t.partition = :partition AND t.id = :trigger ORDER BY s.id LIMIT 1;

-- name: delay_trigger
UPDATE foliot_triggers SET fired_at = next_fire_at, next_fire_at = :next * 1000000
WHERE partition = :partition AND id = :trigger;

-- name: prune_ledger
SELECT 1 FROM foliot_ledger
WHERE partition = :partition AND to_at < :now - CAST(:keep * 1000000 AS INTEGER) LIMIT 1;
DELETE FROM foliot_ledger WHERE rowid IN (
    SELECT rowid FROM foliot_ledger
    WHERE partition = :partition AND to_at < :now - CAST(:keep * 1000000 AS INTEGER) LIMIT :limit);

-- name: prune_gaps
SELECT 1 FROM foliot_gaps
WHERE partition = :partition AND done AND to_at < :now - CAST(:keep * 1000000 AS INTEGER) LIMIT 1;
DELETE FROM foliot_gaps WHERE rowid IN (
    SELECT rowid FROM foliot_gaps
    WHERE partition = :partition AND done AND to_at < :now - CAST(:keep * 1000000 AS INTEGER) LIMIT :limit);

-- name: prune_versions
SELECT 1 FROM foliot_versions
WHERE partition = :partition AND until < :now - CAST(:keep * 1000000 AS INTEGER) LIMIT 1;
DELETE FROM foliot_versions WHERE rowid IN (
    SELECT rowid FROM foliot_versions
    WHERE partition = :partition AND until < :now - CAST(:keep * 1000000 AS INTEGER) LIMIT :limit);

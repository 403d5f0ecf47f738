-- What makes a job ready.

-- name: admit_jobs
-- Due scheduled jobs become ready, earliest first; one that has yet to be given its turn is held for it. Rides
-- foliot_jobs_scheduled. Here, as in admit_kinds and reap_jobs, the first part is the look before a write.
SELECT 1 FROM foliot_jobs WHERE partition = :partition AND state = 'scheduled' AND run_at <= :now LIMIT 1;
SELECT json_group_array(due.lane)
FROM (SELECT s.lane FROM foliot_jobs s
      WHERE s.partition = :partition AND s.state = 'scheduled' AND s.run_at <= :now
      ORDER BY s.run_at, s.id
      LIMIT :limit) due;
UPDATE foliot_jobs
SET state = CASE WHEN lane & 3 = 3 AND rank = 0 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN lane & 3 = 3 AND rank = 0 THEN 'turn' END
WHERE rowid IN (
    SELECT s.rowid FROM foliot_jobs s
    WHERE s.partition = :partition AND s.state = 'scheduled' AND s.run_at <= :now
    ORDER BY s.run_at, s.id
    LIMIT :limit);

-- name: admit_kinds
-- What was held because nobody knew its kind, now that somebody does. It may have been changed meanwhile: its time may
-- be ahead, or it has yet to be given its turn. Rides foliot_jobs_held.
SELECT k.value FROM json_each(:kinds) k
WHERE EXISTS (SELECT 1 FROM foliot_jobs h WHERE h.partition = :partition AND h.state = 'held'
                AND h.hold = 'unknown_kind' AND h.kind = k.value)
LIMIT 1;
SELECT json_group_array(known.lane)
FROM (SELECT h.lane FROM json_each(:kinds) k CROSS JOIN foliot_jobs h
      WHERE h.partition = :partition AND h.state = 'held' AND h.hold = 'unknown_kind' AND h.kind = k.value
      ORDER BY h.kind, h.id
      LIMIT :limit) known;
UPDATE foliot_jobs
SET state = CASE WHEN run_at > :now THEN 'scheduled' WHEN lane & 3 = 3 AND rank = 0 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN run_at <= :now AND lane & 3 = 3 AND rank = 0 THEN 'turn' END
WHERE rowid IN (
    SELECT h.rowid FROM json_each(:kinds) k CROSS JOIN foliot_jobs h
    WHERE h.partition = :partition AND h.state = 'held' AND h.hold = 'unknown_kind' AND h.kind = k.value
    ORDER BY h.kind, h.id
    LIMIT :limit);

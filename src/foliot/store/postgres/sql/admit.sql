-- What makes a job ready.

-- name: admit_jobs
-- Due scheduled jobs become ready, earliest first; one that has yet to be given its turn is held for it. Rides
-- jobs_scheduled.
WITH due AS MATERIALIZED (
    SELECT s.id
    FROM foliot.jobs s
    WHERE s.partition = :partition AND s.state = 'scheduled' AND s.run_at <= coalesce(:now, now())
    ORDER BY s.run_at, s.id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
UPDATE foliot.jobs j
SET state = CASE WHEN j.lane & 3 = 3 AND j.rank = 0 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN j.lane & 3 = 3 AND j.rank = 0 THEN 'turn' END
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM due)) AND j.state || '' = 'scheduled'
RETURNING j.lane;

-- name: admit_kinds
-- What was held because nobody knew its kind, now that somebody does. It may have been changed meanwhile: its time may
-- be ahead, or it has yet to be given its turn. Rides jobs_held.
WITH known AS MATERIALIZED (
    SELECT h.id
    FROM foliot.jobs h
    WHERE h.partition = :partition AND h.state = 'held' AND h.hold = 'unknown_kind'
      AND h.kind = ANY (:kinds::text[])
    ORDER BY h.kind, h.id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
UPDATE foliot.jobs j
SET state = CASE WHEN j.run_at > coalesce(:now, now()) THEN 'scheduled'
                 WHEN j.lane & 3 = 3 AND j.rank = 0 THEN 'held' ELSE 'ready' END,
    hold = CASE WHEN j.run_at <= coalesce(:now, now()) AND j.lane & 3 = 3 AND j.rank = 0 THEN 'turn' END
WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM known)) AND j.state || '' = 'held'
RETURNING j.lane;

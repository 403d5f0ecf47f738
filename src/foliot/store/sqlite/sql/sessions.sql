-- Sessions and partition leases: who is alive, and who does which duties.

-- name: open_session
-- Only with the number of partitions that the store has: since this process read it, it may have been changed.
INSERT INTO foliot_sessions (id, host, pid, version, queues, kinds, modules, duties, capabilities, concurrency, room,
                             started_at, beat_at, expires_at)
SELECT :id, :host, :pid, :version, :queues, :kinds, :modules, :duties, :capabilities, :concurrency, :concurrency,
       :now, :now, :now + CAST(:lease * 1000000 AS INTEGER)
WHERE (SELECT count(*) FROM foliot_leases) = :count
RETURNING id;

-- name: know_kinds
UPDATE foliot_sessions SET kinds = :kinds, modules = :modules WHERE id = :id;

-- name: extend_session
-- An expired session never revives. The beat counts from when its list was made, which may be a while before the
-- lock was to be had: a job claimed in between must not be taken for one that had not started. Returns whether the
-- session is to be drained.
UPDATE foliot_sessions
SET beat_at = :beat, expires_at = :now + CAST(:lease * 1000000 AS INTEGER), executing = :executing,
    room = :room, waiting = :waiting, note = :note,
    moved_at = CASE WHEN :moved THEN :now ELSE moved_at END
WHERE id = :id AND expires_at > :now
RETURNING drain;

-- name: drain_sessions
-- They notice it with their next beat.
UPDATE foliot_sessions SET drain = 1
WHERE id IN (SELECT value FROM json_each(:ids)) AND expires_at > :now
RETURNING id;

-- name: close_session
DELETE FROM foliot_sessions
WHERE id = :id AND NOT EXISTS (SELECT 1 FROM json_each(:partitions) p CROSS JOIN foliot_jobs j
                               WHERE j.partition = p.value AND j.session = :id AND j.state = 'running');

-- name: list_sessions
SELECT id, host, pid, version, queues, kinds, duties, started_at, beat_at, expires_at,
       expires_at > :now, json_array_length(executing), capabilities, concurrency, room, waiting, drain,
       note, moved_at, (:now - beat_at) / 1000000.0, modules
FROM foliot_sessions ORDER BY started_at;

-- name: get_claim
-- How the session that holds a running job has it: whether its last beat named it; whether that was later than the claim,
-- and told of some that waited; how many suspects it named; and how many were claimed before this job, and not named.
WITH job AS (
    SELECT j.id, j.claimed_at, s.id AS session, s.beat_at, s.executing, s.waiting
    FROM foliot_jobs j JOIN foliot_sessions s ON s.id = j.session
    WHERE j.partition = :partition AND j.id = :id AND j.state || '' = 'running'
), suspects AS (
    SELECT r.id IN (SELECT value FROM json_each(j.executing)) AS named,
           (r.claimed_at, r.id) < (j.claimed_at, j.id) AS before
    FROM job j CROSS JOIN json_each(:partitions) p CROSS JOIN foliot_jobs r
    WHERE r.partition = p.value AND r.session = j.session AND r.state = 'running' AND r.losses > 0
)
SELECT j.id IN (SELECT value FROM json_each(j.executing)), j.claimed_at < j.beat_at AND j.waiting > 0,
       (SELECT count(*) FROM suspects WHERE named),
       (SELECT count(*) FROM suspects WHERE NOT named AND before)
FROM job j;

-- name: prune_sessions
-- Only when no running row names it: what reaping needs to know stays until it has been used. One that ended in good
-- order is gone already, so that these were lost. Of sessions it is told in the first partition.
-- The first part is the look before a write.
SELECT 1 FROM foliot_sessions WHERE expires_at <= :now LIMIT 1;
INSERT INTO foliot_outbox (partition, at, number, home, event, subject, namespace, data)
SELECT 0, :now, 0, '00000000-0000-7000-8000-000000000000', 'worker.lost', s.id, 'default',
       json_object('host', s.host, 'pid', s.pid, 'version', s.version, 'jobs', json(s.executing))
FROM (SELECT 1 FROM foliot_listeners WHERE event = 'worker.lost' LIMIT 1) CROSS JOIN foliot_sessions s
WHERE s.expires_at <= :now
  AND NOT EXISTS (SELECT 1 FROM json_each(:partitions) p CROSS JOIN foliot_jobs j
                  WHERE j.partition = p.value AND j.session = s.id AND j.state = 'running');
DELETE FROM foliot_sessions
WHERE expires_at <= :now
  AND NOT EXISTS (SELECT 1 FROM json_each(:partitions) p CROSS JOIN foliot_jobs j
                  WHERE j.partition = p.value AND j.session = foliot_sessions.id AND j.state = 'running')
RETURNING id;

-- name: list_leases
-- Who holds what, and how many share. A session lives on for a while in its row after its process has died, but takes
-- no share as soon as one of its leases has run out: the living renew theirs thrice in a term. Nor once it has neither
-- beaten within a term nor holds a lease.
SELECT l.partition, l.holder, l.expires_at > :now,
       (SELECT count(*) FROM foliot_sessions s
        WHERE s.duties AND s.expires_at > :now AND (s.id = :session OR (
            NOT EXISTS (SELECT 1 FROM foliot_leases o
                        WHERE o.holder = s.id AND o.expires_at <= :now AND o.expires_at > 0)
            AND (s.beat_at > :now - CAST(:term * 1000000 AS INTEGER)
                 OR EXISTS (SELECT 1 FROM foliot_leases o WHERE o.holder = s.id AND o.expires_at > :now)))))
FROM foliot_leases l ORDER BY l.partition;

-- name: take_leases
-- Mine, or nobody's. The epoch rises whenever the holder changes.
UPDATE foliot_leases
SET epoch = CASE WHEN holder = :session THEN epoch ELSE epoch + 1 END,
    holder = :session, expires_at = :now + CAST(:term * 1000000 AS INTEGER)
WHERE partition IN (SELECT value FROM json_each(:partitions)) AND (holder = :session OR expires_at <= :now)
RETURNING partition;

-- name: give_up_leases
UPDATE foliot_leases SET expires_at = 0
WHERE holder = :session AND partition IN (SELECT value FROM json_each(:partitions));

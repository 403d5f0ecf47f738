-- Sessions and partition leases: who is alive, and who does which duties.

-- name: open_session
-- Only with the number of partitions that the store has: since this process read it, it may have been changed.
INSERT INTO foliot.sessions (id, host, pid, version, queues, kinds, modules, duties, capabilities, concurrency, room,
                             started_at, beat_at, expires_at)
SELECT :id::uuid, :host::text, :pid::integer, :version::text, :queues::text[], :kinds::text[], :modules::text[],
       :duties::boolean, :capabilities::text[], :concurrency::integer, :concurrency::integer,
       coalesce(:now, now()), coalesce(:now, now()), coalesce(:now, now()) + make_interval(secs => :lease)
WHERE (SELECT count(*) FROM foliot.leases) = :count
RETURNING id;

-- name: know_kinds
UPDATE foliot.sessions SET kinds = :kinds::text[], modules = :modules::text[] WHERE id = :id;

-- name: extend_session
-- An expired session never revives. The beat counts from when its list was made, which may be a while before it gets
-- here: a job claimed in between must not be taken for one that had not started. Returns what time it is, and whether
-- the session is to be drained.
UPDATE foliot.sessions
SET beat_at = least(coalesce(:beat, beat_at), coalesce(:now, now())), executing = :executing::uuid[],
    expires_at = coalesce(:now, now()) + make_interval(secs => :lease),
    room = :room, waiting = :waiting, note = :note,
    moved_at = CASE WHEN :moved THEN coalesce(:now, now()) ELSE moved_at END
WHERE id = :id AND expires_at > coalesce(:now, now())
RETURNING coalesce(:now, now()), drain;

-- name: drain_sessions
-- They notice it with their next beat.
UPDATE foliot.sessions SET drain = true
WHERE id = ANY (:ids::uuid[]) AND expires_at > coalesce(:now, now())
RETURNING id::text;

-- name: close_session
DELETE FROM foliot.sessions s
WHERE s.id = :id AND NOT EXISTS (SELECT FROM foliot.jobs j WHERE j.partition = ANY (:partitions::smallint[])
                                   AND j.session = :id AND j.state = 'running');

-- name: list_sessions
SELECT id::text, host, pid, version, queues, kinds, duties, started_at, beat_at, expires_at,
       expires_at > coalesce(:now, now()), cardinality(executing), capabilities, concurrency, room, waiting, drain,
       note, moved_at, extract(epoch FROM coalesce(:now, now()) - beat_at)::float8, modules
FROM foliot.sessions ORDER BY started_at;

-- name: get_claim
-- How the session that holds a running job has it: whether its last beat named it; whether that was later than the claim,
-- and told of some that waited; how many suspects it named; and how many were claimed before this job, and not named.
SELECT j.id = ANY (s.executing), j.claimed_at < s.beat_at AND s.waiting > 0, o.named, o.before
FROM foliot.jobs j JOIN foliot.sessions s ON s.id = j.session CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE r.id = ANY (s.executing)) AS named,
           count(*) FILTER (WHERE r.id <> ALL (s.executing)
                              AND (r.claimed_at, r.id) < (j.claimed_at, j.id)) AS before
    FROM foliot.jobs r
    WHERE r.partition = ANY (:partitions::smallint[]) AND r.session = s.id AND r.state = 'running' AND r.losses > 0
) o
WHERE j.partition = :partition AND j.id = :id AND j.state || '' = 'running';

-- name: prune_sessions
-- Only when no running row names it: what reaping needs to know stays until it has been used. One that ended in good
-- order is gone already, so that these were lost. Of sessions it is told in the first partition.
WITH gone AS (
    DELETE FROM foliot.sessions s
    WHERE s.expires_at <= coalesce(:now, now())
      AND NOT EXISTS (SELECT FROM foliot.jobs j WHERE j.partition = ANY (:partitions::smallint[])
                        AND j.session = s.id AND j.state = 'running')
    RETURNING s.id, s.host, s.pid, s.version, s.executing
), emitted AS (
    INSERT INTO foliot.outbox (partition, at, number, home, event, subject, namespace, data)
    SELECT 0, coalesce(:now, now()), 0, '00000000-0000-7000-8000-000000000000', 'worker.lost', e.id::text, 'default',
           jsonb_build_object('host', e.host, 'pid', e.pid, 'version', e.version, 'jobs', e.executing)::text
    FROM gone e
    WHERE (SELECT 1 FROM foliot.listeners l WHERE l.event = 'worker.lost' LIMIT 1) IS NOT NULL
)
SELECT g.id FROM gone g;

-- name: list_leases
-- Who holds what, and how many share. A session lives on for a while in its row after its process has died, but takes
-- no share as soon as one of its leases has run out: the living renew theirs thrice in a term. Nor once it has neither
-- beaten within a term nor holds a lease.
SELECT l.partition, l.holder::text, l.expires_at > coalesce(:now, now()),
       (SELECT count(*) FROM foliot.sessions s
        WHERE s.duties AND s.expires_at > coalesce(:now, now()) AND (s.id = :session OR (
            NOT EXISTS (SELECT FROM foliot.leases o WHERE o.holder = s.id
                          AND o.expires_at <= coalesce(:now, now()) AND o.expires_at > '-infinity')
            AND (s.beat_at > coalesce(:now, now()) - make_interval(secs => :term)
                 OR EXISTS (SELECT FROM foliot.leases o
                            WHERE o.holder = s.id AND o.expires_at > coalesce(:now, now()))))))
FROM foliot.leases l ORDER BY l.partition;

-- name: take_leases
-- Mine, or nobody's. The epoch rises whenever the holder changes.
UPDATE foliot.leases l
SET epoch = CASE WHEN l.holder = :session THEN l.epoch ELSE l.epoch + 1 END,
    holder = :session, expires_at = coalesce(:now, now()) + make_interval(secs => :term)
FROM (SELECT partition FROM foliot.leases
      WHERE partition = ANY (:partitions::smallint[])
        AND (holder = :session OR expires_at <= coalesce(:now, now()))
      ORDER BY partition FOR UPDATE SKIP LOCKED) free
WHERE l.partition = free.partition
RETURNING l.partition;

-- name: give_up_leases
UPDATE foliot.leases SET expires_at = '-infinity'
WHERE holder = :session AND partition = ANY (:partitions::smallint[]);

-- What is going on: looks for people, a few of them a second at most. Nothing is counted past a cap, and history never.

-- name: count_queues
-- Ready jobs lane by lane, by skip scan as in peek_jobs; the rest in the order of their index, so that it is used.
WITH RECURSIVE heads AS (
    (SELECT j.partition, j.lane, j.queue FROM foliot.jobs j WHERE j.state = 'ready'
     ORDER BY j.partition, j.lane LIMIT 1)
    UNION ALL
    SELECT n.partition, n.lane, n.queue
    FROM heads h CROSS JOIN LATERAL (
        SELECT j.partition, j.lane, j.queue FROM foliot.jobs j
        WHERE j.state = 'ready' AND (j.partition, j.lane) > (h.partition, h.lane)
        ORDER BY j.partition, j.lane LIMIT 1
    ) n
)
SELECT h.queue, 'ready', sum(r.count)::bigint,
       extract(epoch FROM coalesce(:now, now()) - min(r.due_at))::float8, bool_or(r.count >= :cap)
FROM heads h CROSS JOIN LATERAL (
    SELECT count(*) AS count, min(c.run_at) AS due_at
    FROM (SELECT j.run_at FROM foliot.jobs j
          WHERE j.state = 'ready' AND j.partition = h.partition AND j.lane = h.lane
          ORDER BY j.band, j.rank, j.id LIMIT :cap) c
) r
GROUP BY h.queue
UNION ALL
SELECT r.queue, 'running', count(*), NULL, bool_or(r.total >= :cap)
FROM (SELECT c.queue, count(*) OVER () AS total
      FROM (SELECT j.queue FROM foliot.jobs j WHERE j.state = 'running'
            ORDER BY j.partition, j.session LIMIT :cap) c) r
GROUP BY r.queue
UNION ALL
SELECT r.queue, 'scheduled', count(*), NULL, bool_or(r.total >= :cap)
FROM (SELECT c.queue, count(*) OVER () AS total
      FROM (SELECT j.queue FROM foliot.jobs j WHERE j.state = 'scheduled'
            ORDER BY j.partition, j.run_at, j.id LIMIT :cap) c) r
GROUP BY r.queue
UNION ALL
SELECT r.queue, 'held', count(*), NULL, bool_or(r.total >= :cap)
FROM (SELECT c.queue, count(*) OVER () AS total
      FROM (SELECT j.queue FROM foliot.jobs j WHERE j.state = 'held'
            ORDER BY j.partition, j.hold, j.kind, j.id LIMIT :cap) c) r
GROUP BY r.queue;

-- name: count_held
SELECT r.hold, r.kind, count(*), min(r.hold_note)
FROM (SELECT j.hold, j.kind, j.hold_note FROM foliot.jobs j WHERE j.state = 'held'
      ORDER BY j.partition, j.hold, j.kind, j.id LIMIT :cap) r
GROUP BY r.hold, r.kind ORDER BY r.hold, r.kind;

-- name: count_overdue
SELECT count(*), extract(epoch FROM coalesce(:now, now()) - min(r.run_at))::float8,
       (SELECT count(*) FROM (
            SELECT FROM generate_series(0, :partitions::integer - 1) AS p (partition)
            CROSS JOIN foliot.jobs j
            WHERE j.partition = p.partition AND j.state = 'running' AND j.deadline_at IS NOT NULL
              AND j.deadline_at < coalesce(:now, now()) - make_interval(secs => :late) LIMIT :cap) d),
       (SELECT count(*) FROM (
            SELECT FROM generate_series(0, :partitions::integer - 1) AS p (partition)
            CROSS JOIN foliot.workflows w
            WHERE w.partition = p.partition AND w.state = 'running' AND NOT w.cancel_requested
              AND w.deadline_at < coalesce(:now, now()) - make_interval(secs => :late) LIMIT :cap) d),
       (SELECT count(*) FROM (
            SELECT FROM generate_series(0, :partitions::integer - 1) AS p (partition)
            CROSS JOIN foliot.outbox o
            WHERE o.partition = p.partition
              AND o.at < coalesce(:now, now()) - make_interval(secs => :late) LIMIT :cap) d)
FROM (SELECT j.run_at FROM generate_series(0, :partitions::integer - 1) AS p (partition)
      CROSS JOIN LATERAL (SELECT j.run_at FROM foliot.jobs j
                          WHERE j.partition = p.partition AND j.state = 'scheduled'
                            AND j.run_at < coalesce(:now, now()) - make_interval(secs => :late)
                          ORDER BY j.run_at LIMIT :cap) j
      LIMIT :cap) r;

-- name: count_dead
SELECT count(*) FROM (SELECT FROM foliot.dead LIMIT :cap) d;

-- name: tally
-- The server counts inserted rows by itself, and tells within seconds.
SELECT coalesce(sum(n_tup_ins) FILTER (WHERE relname = 'jobs'), 0)::bigint,
       coalesce(sum(n_tup_ins) FILTER (WHERE relname LIKE 'history%'), 0)::bigint,
       coalesce(sum(n_tup_ins) FILTER (WHERE relname = 'dead'), 0)::bigint,
       coalesce(sum(n_tup_ins) FILTER (WHERE relname = 'attempts'), 0)::bigint
FROM pg_catalog.pg_stat_user_tables WHERE schemaname = 'foliot';

-- name: list_active_jobs
-- Those that have run longest.
SELECT r.id::text, r.kind, r.queue, r.attempt, r.session::text,
       extract(epoch FROM coalesce(:now, now()) - r.claimed_at)::float8, r.progress
FROM (SELECT j.id, j.kind, j.queue, j.attempt, j.session, j.claimed_at, j.progress
      FROM foliot.jobs j WHERE j.state = 'running' ORDER BY j.partition, j.session LIMIT :cap) r
ORDER BY r.claimed_at, r.id LIMIT :limit;

-- name: list_failures
-- The latest. A job's kind is where the job is now.
SELECT a.job::text,
       coalesce((SELECT j.kind FROM foliot.jobs j WHERE j.partition = a.partition AND j.id = a.job),
                (SELECT d.kind FROM foliot.dead d WHERE d.partition = a.partition AND d.id = a.job),
                (SELECT h.kind FROM foliot.history h
                 WHERE h.partition = a.partition AND h.id = a.job AND h.finished_at >= a.finished_at LIMIT 1)),
       a.attempt, a.outcome, a.error, extract(epoch FROM coalesce(:now, now()) - a.finished_at)::float8
FROM generate_series(0, :partitions::integer - 1) AS p (partition)
CROSS JOIN LATERAL (
    SELECT o.partition, o.job, o.fence, o.attempt, o.outcome, o.error, o.finished_at
    FROM foliot.attempts o WHERE o.partition = p.partition
    ORDER BY o.finished_at DESC LIMIT :limit
) a
ORDER BY a.finished_at DESC, a.job, a.fence DESC LIMIT :limit;

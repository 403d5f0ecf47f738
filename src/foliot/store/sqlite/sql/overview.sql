-- What is going on: looks for people, a few of them a second at most. Nothing is counted past a cap, and history never.

-- name: count_queues
-- Ready jobs lane by lane, by skip scan as in peek_jobs; the rest in the order of their index, so that it is used.
WITH RECURSIVE heads (partition, lane, place) AS (
    SELECT * FROM (SELECT j.partition, j.lane, j.rowid FROM foliot_jobs j
                   WHERE j.state = 'ready' ORDER BY j.partition, j.lane LIMIT 1)
    UNION ALL
    SELECT n.partition, n.lane, n.rowid
    FROM heads h CROSS JOIN foliot_jobs n ON n.rowid = coalesce(
        (SELECT j.rowid FROM foliot_jobs j
         WHERE j.state = 'ready' AND j.partition = h.partition AND j.lane > h.lane ORDER BY j.lane LIMIT 1),
        (SELECT j.rowid FROM foliot_jobs j
         WHERE j.state = 'ready' AND j.partition > h.partition ORDER BY j.partition, j.lane LIMIT 1))
), lanes (queue, count, due_at) AS (
    SELECT j.queue,
           (SELECT count(*) FROM (SELECT 1 FROM foliot_jobs r
                                  WHERE r.state = 'ready' AND r.partition = h.partition AND r.lane = h.lane
                                  ORDER BY r.band, r.rank, r.id LIMIT :cap)),
           (SELECT min(c.run_at) FROM (SELECT r.run_at FROM foliot_jobs r
                                       WHERE r.state = 'ready' AND r.partition = h.partition AND r.lane = h.lane
                                       ORDER BY r.band, r.rank, r.id LIMIT :cap) c)
    FROM heads h CROSS JOIN foliot_jobs j ON j.rowid = h.place
)
SELECT queue, 'ready', sum(count), (:now - min(due_at)) / 1000000.0, max(count >= :cap) FROM lanes GROUP BY queue
UNION ALL
SELECT r.queue, 'running', count(*), NULL, max(r.total >= :cap)
FROM (SELECT c.queue, count(*) OVER () AS total
      FROM (SELECT j.queue FROM foliot_jobs j WHERE j.state = 'running'
            ORDER BY j.partition, j.session LIMIT :cap) c) r
GROUP BY r.queue
UNION ALL
SELECT r.queue, 'scheduled', count(*), NULL, max(r.total >= :cap)
FROM (SELECT c.queue, count(*) OVER () AS total
      FROM (SELECT j.queue FROM foliot_jobs j WHERE j.state = 'scheduled'
            ORDER BY j.partition, j.run_at, j.id LIMIT :cap) c) r
GROUP BY r.queue
UNION ALL
SELECT r.queue, 'held', count(*), NULL, max(r.total >= :cap)
FROM (SELECT c.queue, count(*) OVER () AS total
      FROM (SELECT j.queue FROM foliot_jobs j WHERE j.state = 'held'
            ORDER BY j.partition, j.hold, j.kind, j.id LIMIT :cap) c) r
GROUP BY r.queue;

-- name: count_held
SELECT r.hold, r.kind, count(*), min(r.hold_note)
FROM (SELECT j.hold, j.kind, j.hold_note FROM foliot_jobs j WHERE j.state = 'held'
      ORDER BY j.partition, j.hold, j.kind, j.id LIMIT :cap) r
GROUP BY r.hold, r.kind ORDER BY r.hold, r.kind;

-- name: count_overdue
SELECT count(*), (:now - min(r.run_at)) / 1000000.0,
       (SELECT count(*) FROM (
            SELECT 1 FROM json_each(:partitions) p CROSS JOIN foliot_jobs j
            WHERE j.partition = p.value AND j.state = 'running' AND j.deadline_at IS NOT NULL
              AND j.deadline_at < :now - CAST(:late * 1000000 AS INTEGER) LIMIT :cap)),
       (SELECT count(*) FROM (
            SELECT 1 FROM json_each(:partitions) p CROSS JOIN foliot_workflows w
            WHERE w.partition = p.value AND w.state = 'running' AND NOT w.cancel_requested
              AND w.deadline_at IS NOT NULL AND w.deadline_at < :now - CAST(:late * 1000000 AS INTEGER) LIMIT :cap)),
       (SELECT count(*) FROM (
            SELECT 1 FROM json_each(:partitions) p CROSS JOIN foliot_outbox o
            WHERE o.partition = p.value AND o.at < :now - CAST(:late * 1000000 AS INTEGER) LIMIT :cap))
FROM (SELECT j.run_at FROM json_each(:partitions) p CROSS JOIN foliot_jobs j
      WHERE j.partition = p.value AND j.state = 'scheduled' AND j.run_at < :now - CAST(:late * 1000000 AS INTEGER)
      LIMIT :cap) r;

-- name: count_dead
SELECT count(*) FROM (SELECT 1 FROM foliot_dead LIMIT :cap);

-- name: tally
-- What has ended is only ever added, at the end: the last number says how many there have been. What was submitted
-- is there or has ended; counting the live ones reads no row, only how many each page has.
SELECT (SELECT count(*) FROM foliot_jobs) + t.ended + t.buried, t.ended, t.buried, t.failed
FROM (SELECT coalesce((SELECT max(rowid) FROM foliot_history), 0) AS ended,
             (SELECT count(*) FROM foliot_dead) AS buried,
             coalesce((SELECT max(rowid) FROM foliot_attempts), 0) AS failed) t;

-- name: list_active_jobs
-- Those that have run longest.
SELECT r.id, r.kind, r.queue, r.attempt, r.session, (:now - r.claimed_at) / 1000000.0, r.progress
FROM (SELECT j.id, j.kind, j.queue, j.attempt, j.session, j.claimed_at, j.progress
      FROM foliot_jobs j WHERE j.state = 'running' ORDER BY j.partition, j.session LIMIT :cap) r
ORDER BY r.claimed_at, r.id LIMIT :limit;

-- name: list_failures
-- The latest. A job's kind is where the job is now.
SELECT a.job,
       coalesce((SELECT j.kind FROM foliot_jobs j WHERE j.partition = a.partition AND j.id = a.job),
                (SELECT d.kind FROM foliot_dead d WHERE d.partition = a.partition AND d.id = a.job),
                (SELECT h.kind FROM foliot_history h
                 WHERE h.partition = a.partition AND h.id = a.job LIMIT 1)),
       a.attempt, a.outcome, a.error, (:now - a.finished_at) / 1000000.0
FROM (SELECT * FROM foliot_attempts ORDER BY rowid DESC LIMIT :limit) a
ORDER BY a.finished_at DESC, a.job, a.fence DESC;

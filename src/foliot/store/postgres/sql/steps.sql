-- Steps as they are read: by users, by what explains them, and by their children. How they change: workflows.sql.

-- name: list_steps
-- With the state of each job, live or ended.
SELECT s.job::text, s.number, s.name, s.rule, coalesce(s.state, j.state, 'waiting'),
       '[' || s.parents || CASE WHEN s.linked THEN (
           SELECT coalesce(string_agg(',' || l.jobs, '' ORDER BY l.side, l.number), '') FROM foliot.links l
           WHERE l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
             AND l.side = 'parents') ELSE '' END || ']',
       '[' || s.children || CASE WHEN s.linked THEN (
           SELECT coalesce(string_agg(',' || l.jobs, '' ORDER BY l.side, l.number), '') FROM foliot.links l
           WHERE l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
             AND l.side IN ('children', 'grown')) ELSE '' END || ']',
       s.signal, s.mapped::text, s.added_by::text, s.finished_at, s.result, s.template, s.payload, s.begun, s.state,
       coalesce(j.claimed_at, h.started_at, d.started_at), coalesce(j.hold, h.reason, d.reason), s.fence, s.generation,
       j.cancel_requested AND s.state IS NULL
FROM foliot.steps s
LEFT JOIN foliot.jobs j ON j.partition = :partition AND j.id = s.job
LEFT JOIN LATERAL (SELECT h.started_at, h.reason FROM foliot.history h
                   WHERE s.state IS NOT NULL AND s.state <> 'dead' AND h.partition = :partition AND h.id = s.job
                     AND h.finished_at = s.finished_at LIMIT 1) h ON true
LEFT JOIN foliot.dead d ON s.state = 'dead' AND d.partition = :partition AND d.id = s.job
WHERE s.partition = :partition AND s.workflow = :id::uuid
ORDER BY s.number;

-- name: list_steps_around
-- As above, a step; the first of its parents that ended alike, and of those that have not ended, each with how many those
-- are; and the first of the others that failed. Without what they took and returned, which may be much. Of parents that
-- have not ended the first that a pause holds are named as well. Rides the primary key, and steps_name where one has failed.
WITH own AS MATERIALIZED (
    SELECT s.workflow, w.failed, w.paused_at IS NOT NULL AS paused,
           '[' || s.parents || CASE WHEN s.linked THEN (
               SELECT coalesce(string_agg(',' || l.jobs, '' ORDER BY l.side, l.number), '') FROM foliot.links l
               WHERE l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
                 AND l.side = 'parents') ELSE '' END || ']' AS parents
    FROM foliot.steps s JOIN foliot.workflows w ON w.partition = :partition AND w.id = s.workflow
    WHERE s.partition = :partition AND s.job = :job::uuid
), near AS MATERIALIZED (
    SELECT 'own' AS part, :job::uuid AS job, 0 AS place, 1 AS number
    UNION ALL
    (SELECT 'failed', s.job, 0, 1
     FROM own o
     JOIN foliot.steps s ON o.failed > 0 AND s.partition = :partition AND s.workflow = o.workflow
     WHERE s.state IN ('dead', 'cancelled') AND s.job <> :job::uuid
     ORDER BY s.finished_at, s.number LIMIT 1)
    UNION ALL
    SELECT 'parent', a.job, a.place, a.number
    FROM (SELECT s.job, p.place, count(*) OVER (PARTITION BY s.state) AS number,
                 row_number() OVER (PARTITION BY s.state, s.pause ORDER BY p.place) AS turn
          FROM own o
          CROSS JOIN LATERAL jsonb_path_query(o.parents::jsonb, '$[*][*]') WITH ORDINALITY p (job, place)
          CROSS JOIN LATERAL (
              SELECT e.job, e.state, CASE WHEN o.paused AND e.state IS NULL THEN (
                         SELECT j.hold FROM foliot.jobs j
                         WHERE j.partition = :partition AND j.id = e.job AND j.hold || '' = 'paused') END AS pause
              FROM foliot.steps e WHERE e.partition = :partition AND e.job = (p.job #>> '{}')::uuid LIMIT 1) s) a
    WHERE a.turn <= :most
)
SELECT s.job::text, s.number, s.name, s.rule, coalesce(s.state, j.state, 'waiting'), '[]', '[]', s.signal,
       s.mapped::text, s.added_by::text, s.finished_at, NULL::bytea, '{}', NULL::bytea, s.begun, s.state,
       coalesce(j.claimed_at, h.started_at, d.started_at), coalesce(j.hold, h.reason, d.reason), n.part, n.number
FROM near n
CROSS JOIN LATERAL (SELECT * FROM foliot.steps e WHERE e.partition = :partition AND e.job = n.job LIMIT 1) s
LEFT JOIN LATERAL (SELECT * FROM foliot.jobs j
                   WHERE s.state IS NULL AND j.partition = :partition AND j.id = n.job LIMIT 1) j ON true
LEFT JOIN LATERAL (SELECT h.started_at, h.reason FROM foliot.history h
                   WHERE n.part = 'own' AND s.state IS NOT NULL AND s.state <> 'dead'
                     AND h.partition = :partition AND h.id = s.job AND h.finished_at = s.finished_at LIMIT 1) h ON true
LEFT JOIN foliot.dead d ON n.part = 'own' AND s.state = 'dead' AND d.partition = :partition AND d.id = s.job
ORDER BY n.part, n.place;

-- name: list_children
-- Of a step, the first of those that come after it, with what they take, and without their parents and children. Rides
-- the primary key.
SELECT s.job::text, s.number, s.name, s.rule, coalesce(s.state, 'waiting'), '[]', '[]', s.signal,
       s.mapped::text, s.added_by::text, s.finished_at, NULL::bytea, s.template, s.payload, s.begun, s.state, NULL, NULL
FROM (SELECT c.job, c.place
      FROM (SELECT '[' || s.children || CASE WHEN s.linked THEN (
                       SELECT coalesce(string_agg(',' || l.jobs, '' ORDER BY l.side, l.number), '') FROM foliot.links l
                       WHERE l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
                         AND l.side IN ('children', 'grown')) ELSE '' END || ']' AS children
            FROM foliot.steps s WHERE s.partition = :partition AND s.job = :job::uuid) o
      CROSS JOIN LATERAL jsonb_path_query(o.children::jsonb, '$[*][*]') WITH ORDINALITY c (job, place)
      ORDER BY c.place LIMIT :most) c
CROSS JOIN LATERAL (SELECT * FROM foliot.steps e WHERE e.partition = :partition AND e.job = (c.job #>> '{}')::uuid LIMIT 1) s
ORDER BY c.place;

-- name: list_parents
-- Of these steps: first whose parents are which, then those parents, each once.
WITH mine AS MATERIALIZED (
    SELECT s.job,
           '[' || s.parents || CASE WHEN s.linked THEN (
               SELECT coalesce(string_agg(',' || l.jobs, '' ORDER BY l.side, l.number), '') FROM foliot.links l
               WHERE l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
                 AND l.side = 'parents') ELSE '' END || ']' AS parents
    FROM foliot.steps s
    WHERE s.partition = :partition
      AND s.job = ANY (ARRAY(SELECT i::uuid FROM jsonb_array_elements_text(:ids::jsonb) i))
)
SELECT m.job::text, m.parents, NULL::text, NULL::text, NULL::bytea, NULL::text FROM mine m
UNION ALL
SELECT s.job::text, NULL, s.name, s.state, s.result, s.mapped::text FROM foliot.steps s
WHERE s.partition = :partition
  AND s.job = ANY (ARRAY(SELECT DISTINCT p::uuid
                         FROM mine m, jsonb_array_elements(m.parents::jsonb) a, jsonb_array_elements_text(a) p));

-- Steps as they are read: by users, by what explains them, and by their children. How they change: workflows.sql.

-- name: list_steps
-- With the state of each job, live or ended.
SELECT s.job, s.number, s.name, s.rule, coalesce(s.state, j.state, 'waiting'),
       '[' || s.parents || CASE WHEN s.linked THEN (
           SELECT coalesce(',' || group_concat(o.jobs), '')
           FROM (SELECT l.jobs FROM foliot_links l
                 WHERE l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
                   AND l.side = 'parents' ORDER BY l.side, l.number) o) ELSE '' END || ']',
       '[' || s.children || CASE WHEN s.linked THEN (
           SELECT coalesce(',' || group_concat(o.jobs), '')
           FROM (SELECT l.jobs FROM foliot_links l
                 WHERE l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
                   AND l.side IN ('children', 'grown') ORDER BY l.side, l.number) o) ELSE '' END || ']',
       s.signal, s.mapped, s.added_by, s.finished_at, s.result, s.template, s.payload, s.begun, s.state,
       coalesce(j.claimed_at, h.started_at, d.started_at), coalesce(j.hold, h.reason, d.reason), s.fence, s.generation,
       j.cancel_requested AND s.state IS NULL
FROM foliot_steps s
LEFT JOIN foliot_jobs j ON j.partition = :partition AND j.id = s.job
LEFT JOIN foliot_history h ON h.rowid = (
    SELECT p.rowid FROM foliot_history p
    WHERE s.state IS NOT NULL AND s.state <> 'dead' AND p.partition = :partition AND p.id = s.job
      AND p.finished_at + 0 = s.finished_at LIMIT 1)
LEFT JOIN foliot_dead d ON s.state = 'dead' AND d.partition = :partition AND d.id = s.job
WHERE s.partition = :partition AND s.workflow = :id
ORDER BY s.number;

-- name: list_steps_around
-- As above, a step; the first of its parents that ended alike, and of those that have not ended, each with how many those
-- are; and the first of the others that failed. Without what they took and returned, which may be much. Of parents that
-- have not ended the first that a pause holds are named as well. Rides the primary key, and foliot_steps_name where one has
-- failed.
WITH own AS MATERIALIZED (
    SELECT s.workflow, w.failed, w.paused_at IS NOT NULL AS paused,
           '[' || s.parents || CASE WHEN s.linked THEN (
               SELECT coalesce(',' || group_concat(o.jobs), '')
               FROM (SELECT l.jobs FROM foliot_links l
                     WHERE l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
                       AND l.side = 'parents' ORDER BY l.side, l.number) o) ELSE '' END || ']' AS parents
    FROM foliot_steps s CROSS JOIN foliot_workflows w ON w.partition = :partition AND w.id = s.workflow
    WHERE s.partition = :partition AND s.job = :job
), near (part, job, place, number) AS MATERIALIZED (
    SELECT 'own', :job, 0, 1
    UNION ALL
    SELECT 'failed', f.job, 0, 1 FROM (
        SELECT s.job
        FROM own o CROSS JOIN foliot_steps s ON o.failed > 0 AND s.partition = :partition AND s.workflow = o.workflow
        WHERE s.state IN ('dead', 'cancelled') AND s.job <> :job
        ORDER BY s.finished_at, s.number LIMIT 1) f
    UNION ALL
    SELECT 'parent', a.job, a.place, a.number
    FROM (SELECT s.job, s.place, count(*) OVER (PARTITION BY s.state) AS number,
                 row_number() OVER (PARTITION BY s.state, s.pause ORDER BY s.place) AS turn
          FROM (SELECT e.job, e.state, p.id AS place, CASE WHEN o.paused AND e.state IS NULL THEN (
                           SELECT j.hold FROM foliot_jobs j
                           WHERE j.partition = :partition AND j.id = e.job AND j.hold || '' = 'paused') END AS pause
                FROM own o CROSS JOIN json_tree(o.parents) p ON p.type = 'text'
                CROSS JOIN foliot_steps e ON e.partition = :partition AND e.job = p.value) s) a
    WHERE a.turn <= :most
)
SELECT s.job, s.number, s.name, s.rule, coalesce(s.state, j.state, 'waiting'), '[]', '[]', s.signal,
       s.mapped, s.added_by, s.finished_at, NULL, '{}', NULL, s.begun, s.state,
       coalesce(j.claimed_at, h.started_at, d.started_at), coalesce(j.hold, h.reason, d.reason), n.part, n.number
FROM near n
CROSS JOIN foliot_steps s ON s.partition = :partition AND s.job = n.job
LEFT JOIN foliot_jobs j ON s.state IS NULL AND j.partition = :partition AND j.id = s.job
LEFT JOIN foliot_history h ON h.rowid = (
    SELECT p.rowid FROM foliot_history p
    WHERE n.part = 'own' AND s.state IS NOT NULL AND s.state <> 'dead' AND p.partition = :partition AND p.id = s.job
      AND p.finished_at + 0 = s.finished_at LIMIT 1)
LEFT JOIN foliot_dead d ON n.part = 'own' AND s.state = 'dead' AND d.partition = :partition AND d.id = s.job
ORDER BY n.part, n.place;

-- name: list_children
-- Of a step, the first of those that come after it, with what they take, and without their parents and children. Rides
-- the primary key.
SELECT s.job, s.number, s.name, s.rule, coalesce(s.state, 'waiting'), '[]', '[]', s.signal,
       s.mapped, s.added_by, s.finished_at, NULL, s.template, s.payload, s.begun, s.state, NULL, NULL
FROM (SELECT c.value AS job, g.key AS turn, c.key AS place
      FROM foliot_steps s
      CROSS JOIN json_each('[' || s.children || CASE WHEN s.linked THEN (
          SELECT coalesce(',' || group_concat(o.jobs), '')
          FROM (SELECT l.jobs FROM foliot_links l
                WHERE l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
                  AND l.side IN ('children', 'grown') ORDER BY l.side, l.number) o) ELSE '' END || ']') g
      CROSS JOIN json_each(g.value) c
      WHERE s.partition = :partition AND s.job = :job
      ORDER BY g.key, c.key LIMIT :most) c
CROSS JOIN foliot_steps s ON s.partition = :partition AND s.job = c.job
ORDER BY c.turn, c.place;

-- name: list_parents
-- Of these steps: first whose parents are which, then those parents, each once.
WITH mine AS MATERIALIZED (
    SELECT s.job,
           '[' || s.parents || CASE WHEN s.linked THEN (
               SELECT coalesce(',' || group_concat(o.jobs), '')
               FROM (SELECT l.jobs FROM foliot_links l
                     WHERE l.partition = :partition AND l.workflow = s.workflow AND l.step = s.job
                       AND l.side = 'parents' ORDER BY l.side, l.number) o) ELSE '' END || ']' AS parents
    FROM json_each(:ids) i CROSS JOIN foliot_steps s
    WHERE s.partition = :partition AND s.job = i.value
)
SELECT m.job, m.parents, NULL, NULL, NULL, NULL FROM mine m
UNION ALL
SELECT s.job, NULL, s.name, s.state, s.result, s.mapped
FROM (SELECT DISTINCT p.value AS job
      FROM mine m CROSS JOIN json_each(m.parents) a CROSS JOIN json_each(a.value) p) p CROSS JOIN foliot_steps s
WHERE s.partition = :partition AND s.job = p.job;

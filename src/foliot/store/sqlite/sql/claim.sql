-- From ready to running.

-- name: find_ready_lanes
-- Which of these lanes have something to claim. Only here: a claim first looks, because to write is to keep all
-- others from writing. Rides foliot_jobs_ready.
SELECT json_extract(l.value, '$[0]') FROM json_each(:lanes) l
WHERE EXISTS (SELECT 1 FROM foliot_jobs r
              WHERE r.partition = :partition AND r.lane = json_extract(l.value, '$[0]') AND r.state = 'ready')
  AND NOT EXISTS (SELECT 1 FROM foliot_queues q
                  WHERE q.name = json_extract(l.value, '$[1]') AND q.paused_at IS NOT NULL);

-- name: claim_jobs
-- The front of one lane, up to its quota; there is no LATERAL here, so each lane is claimed by itself. First what the
-- worker needs to know, in order, then the claim of the same rows. Large payloads are only counted; list_payloads reads
-- them.
-- When it was due is told where its id does not say so: after a delay or a retry, and of a run that was made up for,
-- whose id has the time that its schedule named.
SELECT json_group_array(json_array(r.id, r.fence, r.kind, r.payload, r.attempt, r.max_attempts, r.losses,
                                   r.timeout, r.linked, r.lane, r.priority, r.more || '')),
       count(*) - count(r.payload)
FROM (SELECT j.id, j.fence + 1 AS fence, j.kind,
             CASE WHEN length(j.payload) <= :small THEN hex(j.payload) END AS payload,
             j.attempt + 1 AS attempt, j.max_attempts, j.losses, j.timeout,
             coalesce(j.ordering_key, j.workflow) IS NOT NULL AS linked,
             j.lane, j.priority,
             CASE WHEN coalesce(j.key, j.tags, j.ordering_key, j.fair_key, j.workflow, j.extras) IS NOT NULL
                       OR j.namespace <> 'default' OR j.run_at <> j.created_at
                  -- The patch leaves out what is NULL.
                  THEN json_patch('{}', json_object(
                      'namespace', j.namespace, 'key', j.key, 'tags', json(j.tags), 'ordering_key',
                      j.ordering_key, 'fair_key', j.fair_key, 'workflow', j.workflow, 'extras', json(j.extras),
                      'run_at', CASE WHEN j.run_at <> j.created_at OR j.generation > 0
                                          OR instr(j.extras, '"nominal":')
                                     THEN j.run_at END)) END AS more
      FROM foliot_jobs j
      WHERE j.partition = :partition AND j.lane = :lane AND j.state = 'ready'
        AND (j.expires_at IS NULL OR j.expires_at > :now)
        AND (:kinds IS NULL OR j.kind IN (SELECT value FROM json_each(:kinds)))
        AND NOT EXISTS (SELECT 1 FROM foliot_queues q WHERE q.name = :queue AND q.paused_at IS NOT NULL)
      ORDER BY j.band, j.rank, j.id
      LIMIT :quota) r;
UPDATE foliot_jobs
SET state = 'running', hold_note = NULL, session = :session, fence = fence + 1, attempt = attempt + 1,
    claimed_at = :now, deadline_at = :now + CAST((timeout + :grace) * 1000000 AS INTEGER)
WHERE rowid IN (
    SELECT j.rowid FROM foliot_jobs j
    WHERE j.partition = :partition AND j.lane = :lane AND j.state = 'ready'
        AND (j.expires_at IS NULL OR j.expires_at > :now)
        AND (:kinds IS NULL OR j.kind IN (SELECT value FROM json_each(:kinds)))
      AND NOT EXISTS (SELECT 1 FROM foliot_queues q WHERE q.name = :queue AND q.paused_at IS NOT NULL)
    ORDER BY j.band, j.rank, j.id
    LIMIT :quota);

-- name: list_payloads
SELECT id, payload FROM foliot_jobs WHERE partition = :partition AND id IN (SELECT value FROM json_each(:ids));

-- name: extend_deadlines
-- Of jobs that have waited for a process to start in: their time counts from now.
UPDATE foliot_jobs
SET deadline_at = :now + CAST((timeout + :grace) * 1000000 AS INTEGER)
WHERE rowid IN (SELECT j.rowid FROM json_each(:jobs) o CROSS JOIN foliot_jobs j
                WHERE j.partition = :partition AND j.id = json_extract(o.value, '$[0]')
                  AND j.fence = json_extract(o.value, '$[1]') AND j.session = :session
                  AND j.state || '' = 'running');

-- Gates of limits: what is asked before a job may start where there are any. What decides is model/door.py, once for both
-- dialects. Two locks, both outside of every row: the rules, which claims share and who changes a limit has alone; and the
-- door, in which those who start or finish jobs under limits stand one after the other. The door is the last lock
-- that anybody takes, rows that others hold are passed over behind it, so nobody in it waits.

-- name: lock_rules
-- Before a claim: nobody changes a limit until it has committed. The version is that of when this statement began: who had
-- to wait here for a change, which the second column tells, does not see it yet, and claims nothing.
SELECT v.version, CASE WHEN pg_try_advisory_xact_lock_shared(:space::integer, 0) THEN false
                       ELSE pg_advisory_xact_lock_shared(:space::integer, 0) IS NOT NULL END
FROM foliot.rules v;

-- name: lock_door
-- Whoever is stopped in it keeps others waiting no longer than this, also one who came with a transaction of its own.
SELECT count(pg_advisory_xact_lock(:space::integer, 0)), set_config('idle_in_transaction_session_timeout', '3s', true);

-- name: leave_limits
-- Slots that jobs held which have ended. What a limit was deleted of meanwhile is not there to be given back to.
WITH told AS (
    SELECT jsonb_object_agg(l.name, l.number) AS numbers FROM unnest(:names::text[], :numbers::integer[]) AS l (name, number)
)
UPDATE foliot.uses u SET used = greatest(0, u.used - ((SELECT numbers FROM told) ->> u.name)::integer)
WHERE u.name = ANY (:names::text[]);

-- name: pick_jobs
-- What could start: of what waits for the limits that were left, as many as have left each, whoever can run them, from a
-- place on (store/fronts.py) and, where that is said, then before it; and as claim_jobs, but past those that had to wait. In one order: who has waited for a limit does not go before another lane
-- whose turn it is. Rides jobs_gated and jobs_ready. With each what is known of the use of its key.
WITH freed AS MATERIALIZED (
    SELECT h.*, l.name AS line
    FROM unnest((SELECT :names::text[]), (SELECT :numbers::integer[]), (SELECT :from_lanes::bigint[]),
                (SELECT :from_bands::smallint[]), (SELECT :from_ranks::bigint[]), (SELECT :from_ids::uuid[]),
                (SELECT :whole::boolean[])) AS l (name, number, lane, band, rank, id, whole)
    CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT j.id, j.lane, j.queue, j.kind, j.namespace, j.extras::jsonb AS extras, j.band, j.rank
            FROM foliot.jobs j
            WHERE j.partition = :partition AND j.hold = 'limit' AND j.hold_note = l.name
              AND (j.lane, j.band, j.rank, j.id) >= (l.lane, l.band, l.rank, l.id)
              AND (j.expires_at IS NULL OR j.expires_at > coalesce(:now, statement_timestamp()))
              AND j.queue || '' <> ALL (ARRAY(SELECT q.name FROM foliot.queues q WHERE q.paused_at IS NOT NULL))
            ORDER BY j.lane, j.band, j.rank, j.id
            LIMIT l.number
            FOR UPDATE SKIP LOCKED
        ) a
        UNION ALL
        SELECT * FROM (
            SELECT j.id, j.lane, j.queue, j.kind, j.namespace, j.extras::jsonb AS extras, j.band, j.rank
            FROM foliot.jobs j
            WHERE j.partition = :partition AND j.hold = 'limit' AND j.hold_note = l.name
              AND l.whole
              AND (j.lane, j.band, j.rank, j.id) < (l.lane, l.band, l.rank, l.id)
              AND (j.expires_at IS NULL OR j.expires_at > coalesce(:now, statement_timestamp()))
              AND j.queue || '' <> ALL (ARRAY(SELECT q.name FROM foliot.queues q WHERE q.paused_at IS NOT NULL))
            ORDER BY j.lane, j.band, j.rank, j.id
            LIMIT l.number
            FOR UPDATE SKIP LOCKED
        ) b
        LIMIT l.number
    ) h
), picked AS MATERIALIZED (
    SELECT j.*
    FROM unnest((SELECT :lanes::bigint[]), (SELECT :queues::text[]), (SELECT :looks::integer[]),
                (SELECT :choosy::boolean[])) AS l (lane, queue, look, choosy)
    CROSS JOIN LATERAL (
        SELECT r.id, r.lane, r.queue, r.kind, r.namespace, r.extras::jsonb AS extras, r.band, r.rank
        FROM foliot.jobs r
        WHERE r.partition = :partition AND r.lane = l.lane AND r.state = 'ready'
          AND (r.expires_at IS NULL OR r.expires_at > coalesce(:now, statement_timestamp()))
          AND (NOT l.choosy OR r.kind = ANY ((SELECT :kinds::text[])::text[]))
          AND (SELECT q.paused_at FROM foliot.queues q WHERE q.name = l.queue) IS NULL
        ORDER BY r.band, r.rank, r.id
        LIMIT l.look
        FOR UPDATE SKIP LOCKED
    ) j
    LIMIT (SELECT :most_looks::integer)
), candidates AS (
    SELECT f.*, true AS held FROM freed f
    UNION ALL
    SELECT p.*, NULL, false FROM picked p
)
SELECT c.id::text, c.lane, c.queue, c.kind, c.namespace, c.extras ->> 'limit_key', c.extras ->> 'breaker', c.held,
       (SELECT jsonb_build_array(u.used, u.tokens, u.at) FROM foliot.uses u
        WHERE u.name = CASE c.namespace WHEN 'default' THEN 'key:' || (c.extras ->> 'limit_key')
                                        ELSE 'key@' || c.namespace || '@' || (c.extras ->> 'limit_key') END)::text,
       c.band, c.rank, c.line
FROM candidates c
ORDER BY array_position(:lanes::bigint[], c.lane), c.band, c.rank, c.id;

-- name: read_uses
-- And what time it is: a row for each that is used, or one without.
SELECT extract(epoch FROM coalesce(:now, statement_timestamp()))::float8, u.name, u.used, u.tokens, u.at, u.taken_in, u.next_in, u.next_until
FROM (SELECT 1) o LEFT JOIN foliot.uses u ON u.name = ANY (:names::text[]);

-- name: take_jobs
-- Those that may start, as claim_jobs takes them; at the time of the decision, which rates go by.
WITH taken AS (
    UPDATE foliot.jobs j
    SET state = 'running', hold = NULL, hold_note = NULL, session = :session, fence = j.fence + 1,
        attempt = j.attempt + 1, claimed_at = to_timestamp(:at::float8),
        deadline_at = to_timestamp(:at::float8) + make_interval(secs => j.timeout + :grace)
    WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.state || '' IN ('ready', 'held')
    RETURNING j.id, j.fence, j.kind, j.payload, j.attempt, j.max_attempts, j.losses, j.timeout,
              j.ordering_key IS NOT NULL OR j.workflow IS NOT NULL AS linked,
              j.lane, j.priority,
              CASE WHEN num_nonnulls(j.key, j.tags, j.ordering_key, j.fair_key, j.workflow) > 0
                        OR j.namespace <> 'default' OR j.run_at <> j.created_at OR strpos(j.extras, '"nominal":') > 0
                   THEN jsonb_strip_nulls(jsonb_build_object(
                       'namespace', j.namespace, 'key', j.key, 'tags', j.tags, 'ordering_key', j.ordering_key,
                       'fair_key', j.fair_key, 'workflow', j.workflow, 'extras', j.extras::jsonb, 'run_at',
                       CASE WHEN j.run_at <> j.created_at OR j.generation > 0 OR strpos(j.extras, '"nominal":') > 0
                            THEN (extract(epoch FROM j.run_at) * 1000000)::bigint END))::text
                   ELSE '{"extras":' || j.extras || '}' END AS more
)
SELECT id::text, fence, kind, payload, attempt, max_attempts, losses, timeout, linked, lane, priority, more FROM taken;

-- name: hold_gated
-- Those for which a limit is full, named with each.
WITH told AS (
    SELECT jsonb_object_agg(w.id, w.name) AS names FROM unnest(:ids::uuid[], :names::text[]) AS w (id, name)
)
UPDATE foliot.jobs j SET state = 'held', hold = 'limit', hold_note = (SELECT names FROM told) ->> j.id::text
WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.state || '' IN ('ready', 'held')
RETURNING j.lane;

-- name: admit_gated
-- Those that could start, and not here: to be asked again by who can run them. As in admit_held, the note stays.
UPDATE foliot.jobs j SET state = 'ready', hold = NULL
WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.state || '' = 'held' AND j.hold || '' = 'limit'
RETURNING j.lane, j.state;

-- name: write_uses
INSERT INTO foliot.uses (name, used, tokens, at, taken_in, next_in, next_until)
SELECT w.name, w.used, w.tokens, w.at, w.taken_in, w.next_in, w.next_until
FROM unnest(:names::text[], :used::integer[], :tokens::float8[], :ats::float8[], :taken_ins::smallint[],
            :next_ins::smallint[], :next_untils::float8[])
    AS w (name, used, tokens, at, taken_in, next_in, next_until)
ON CONFLICT (name) DO UPDATE
SET used = excluded.used, tokens = excluded.tokens, at = excluded.at, taken_in = excluded.taken_in,
    next_in = excluded.next_in, next_until = excluded.next_until;

-- Where keys are all that limits are about, and none has a rate, the database decides by itself what model/door.py would:
-- one round trip, and the door is not held while somebody thinks, nor while jobs end.

-- name: count_leaving
-- Before they end, and outside the door: the slots of running jobs that are still the session's under their fences, so of
-- those that will be accepted. They are locked, so that it stays so; their number is kept for leave_keys until the end of
-- the transaction. One key for each. One that has become a step of a workflow may be refused and told again: if it
-- was not, its slot is counted anew with the next `tend`.
WITH told AS (
    SELECT jsonb_object_agg(l.id, jsonb_build_array(l.fence, l.name)) AS facts
    FROM unnest(:ids::uuid[], :fences::bigint[], :names::text[]) AS l (id, fence, name)
), mine AS MATERIALIZED (
    SELECT (SELECT facts FROM told) -> j.id::text ->> 1 AS name
    FROM foliot.jobs j
    WHERE j.partition = :partition AND j.id = ANY (:ids::uuid[]) AND j.session = :session
      AND j.state || '' = 'running' AND j.fence = ((SELECT facts FROM told) -> j.id::text ->> 0)::bigint
      AND j.workflow IS NULL
    ORDER BY j.id FOR UPDATE
)
SELECT set_config('foliot.left', coalesce((SELECT jsonb_object_agg(g.name, g.number)::text
    FROM (SELECT m.name, count(*) AS number FROM mine m GROUP BY m.name) g), '{}'), true);

-- name: leave_keys
-- In the door: what count_leaving has counted is given back.
WITH told AS MATERIALIZED (
    SELECT current_setting('foliot.left')::jsonb AS numbers
)
UPDATE foliot.uses u SET used = greatest(0, u.used - ((SELECT numbers FROM told) ->> u.name)::integer)
WHERE u.name = ANY (ARRAY(SELECT jsonb_object_keys(numbers) FROM told));

-- name: claim_keyed
-- As pick_jobs and what follows it: what waits for the keys that were left, and the front of the lanes. Of each key as
-- many as it has slots; the others wait for it. A key by its own name before all beginnings of keys, and the first of
-- these that fits. Returns what was claimed, each with its key, in the order in which it is to run; and those that wait,
-- each with what for, and those that others may run. Where they waited, and its place, is told of those that had to.
WITH RECURSIVE told AS MATERIALIZED (
    SELECT :exact::jsonb AS exact
), beginnings AS MATERIALIZED (
    SELECT r.beginning, r.slots
    FROM unnest((SELECT :beginnings::text[]), (SELECT :slots::integer[])) AS r (beginning, slots)
), freed AS MATERIALIZED (
    SELECT h.*, l.name AS line
    FROM unnest((SELECT :names::text[]), (SELECT :numbers::integer[]), (SELECT :from_lanes::bigint[]),
                (SELECT :from_bands::smallint[]), (SELECT :from_ranks::bigint[]), (SELECT :from_ids::uuid[]),
                (SELECT :whole::boolean[])) AS l (name, number, lane, band, rank, id, whole)
    CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT j.id, j.lane, j.kind, j.namespace, j.extras::jsonb ->> 'limit_key' AS key, j.band, j.rank
            FROM foliot.jobs j
            WHERE j.partition = :partition AND j.hold = 'limit' AND j.hold_note = l.name
              AND (j.lane, j.band, j.rank, j.id) >= (l.lane, l.band, l.rank, l.id)
              AND (j.expires_at IS NULL OR j.expires_at > coalesce(:now, statement_timestamp()))
              AND j.queue || '' <> ALL (ARRAY(SELECT q.name FROM foliot.queues q WHERE q.paused_at IS NOT NULL))
              AND (SELECT v.version FROM foliot.rules v) = :version::bigint
            ORDER BY j.lane, j.band, j.rank, j.id
            LIMIT l.number
            FOR UPDATE SKIP LOCKED
        ) a
        UNION ALL
        SELECT * FROM (
            SELECT j.id, j.lane, j.kind, j.namespace, j.extras::jsonb ->> 'limit_key' AS key, j.band, j.rank
            FROM foliot.jobs j
            WHERE j.partition = :partition AND j.hold = 'limit' AND j.hold_note = l.name
              AND l.whole
              AND (j.lane, j.band, j.rank, j.id) < (l.lane, l.band, l.rank, l.id)
              AND (j.expires_at IS NULL OR j.expires_at > coalesce(:now, statement_timestamp()))
              AND j.queue || '' <> ALL (ARRAY(SELECT q.name FROM foliot.queues q WHERE q.paused_at IS NOT NULL))
              AND (SELECT v.version FROM foliot.rules v) = :version::bigint
            ORDER BY j.lane, j.band, j.rank, j.id
            LIMIT l.number
            FOR UPDATE SKIP LOCKED
        ) b
        LIMIT l.number
    ) h
), picked AS MATERIALIZED (
    SELECT j.*
    FROM unnest((SELECT :lanes::bigint[]), (SELECT :queues::text[]), (SELECT :looks::integer[]),
                (SELECT :choosy::boolean[])) AS l (lane, queue, look, choosy)
    CROSS JOIN LATERAL (
        SELECT r.id, r.lane, r.kind, r.namespace, r.extras::jsonb ->> 'limit_key' AS key, r.band, r.rank
        FROM foliot.jobs r
        WHERE r.partition = :partition AND r.lane = l.lane AND r.state = 'ready'
          AND (r.expires_at IS NULL OR r.expires_at > coalesce(:now, statement_timestamp()))
          AND (NOT l.choosy OR r.kind = ANY ((SELECT :kinds::text[])::text[]))
          AND (SELECT q.paused_at FROM foliot.queues q WHERE q.name = l.queue) IS NULL
          AND (SELECT v.version FROM foliot.rules v) = :version::bigint
        ORDER BY r.band, r.rank, r.id
        LIMIT l.look
        FOR UPDATE SKIP LOCKED
    ) j
    LIMIT (SELECT :most_looks::integer)
), candidates AS MATERIALIZED (
    SELECT c.*, CASE WHEN c.most IS NULL THEN NULL
                     WHEN c.namespace = 'default' THEN 'key:' || c.key
                     ELSE 'key@' || c.namespace || '@' || c.key END AS gate
    FROM (SELECT f.*, array_position(:lanes::bigint[], f.lane) AS share, f.held
                     AND (array_position(:lanes::bigint[], f.lane) IS NULL
                          OR (SELECT :choosy_any::boolean) AND f.kind <> ALL ((SELECT :kinds::text[])::text[])) AS strange,
                 coalesce(((SELECT exact FROM told) ->> f.key)::integer,
                          (SELECT b.slots FROM beginnings b WHERE starts_with(f.key, b.beginning) LIMIT 1)) AS most
          FROM (SELECT a.*, true AS held FROM freed a UNION ALL SELECT b.*, NULL, false FROM picked b) f
          OFFSET 0) c  -- looked up once for each, although it is used twice
), known AS MATERIALIZED (
    SELECT coalesce(jsonb_object_agg(u.name, u.used), '{}') AS uses FROM foliot.uses u
    WHERE u.name = ANY (ARRAY(SELECT DISTINCT c.gate FROM candidates c))
), asked AS MATERIALIZED (
    -- What is free for it: what others leave it of whose turn it is to go on, and who are asked after it.
    SELECT c.*, c.most - coalesce(((SELECT uses FROM known) ->> c.gate)::integer, 0)
                - CASE WHEN c.strange THEN 0
                       ELSE count(*) FILTER (WHERE c.held) OVER (PARTITION BY c.gate)
                            - count(*) FILTER (WHERE c.held) OVER (PARTITION BY c.gate ORDER BY c.share) END AS free,
           row_number() OVER (PARTITION BY c.gate, c.share ORDER BY c.band, c.rank, c.id) AS place
    FROM candidates c
), served (share, room, taken, ids) AS (
    -- One lane after the other: what is free at each gate for it is what those before it have not taken.
    SELECT 0, :room::integer, '{}'::jsonb, '{}'::uuid[]
    UNION ALL
    SELECT t.share + 1, t.room - cardinality(x.ids), t.taken || x.taken, x.ids
    FROM served t
    CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_object_agg(f.gate, coalesce((t.taken ->> f.gate)::integer, 0) + f.number)
                        FILTER (WHERE f.gate IS NOT NULL), '{}') AS taken,
               coalesce(array_agg(f.id), '{}') AS ids
        FROM (SELECT e.id, e.gate, count(*) OVER (PARTITION BY e.gate) AS number
              FROM (SELECT a.id, a.gate FROM asked a
                    WHERE a.share = t.share + 1 AND NOT a.strange
                      AND (a.gate IS NULL OR a.place <= a.free - coalesce((t.taken ->> a.gate)::integer, 0))
                    ORDER BY a.band, a.rank, a.id
                    LIMIT least((:quotas::integer[])[t.share + 1], t.room)) e) f
    ) x
    WHERE t.share < cardinality(:lanes::bigint[])
), decided AS MATERIALIZED (
    -- Who does not enter waits if those before it have taken all there is; else it may be asked again.
    SELECT d.*, NOT d.enters AND d.gate IS NOT NULL
                AND count(*) FILTER (WHERE d.enters) OVER (PARTITION BY d.gate ORDER BY d.share, d.band, d.rank, d.id
                                                           ROWS UNBOUNDED PRECEDING) >= d.free AS waits
    FROM (SELECT a.*, a.id IN (SELECT unnest(t.ids) FROM served t) AS enters FROM asked a) d
), entering AS MATERIALIZED (
    SELECT d.id, d.gate, d.line, d.band, d.rank, row_number() OVER (ORDER BY d.share, d.band, d.rank, d.id) AS turn
    FROM decided d WHERE d.enters
), taken AS (
    UPDATE foliot.jobs j
    SET state = 'running', hold = NULL, hold_note = NULL, session = :session, fence = j.fence + 1,
        attempt = j.attempt + 1, claimed_at = coalesce(:now, statement_timestamp()),
        deadline_at = coalesce(:now, statement_timestamp()) + make_interval(secs => j.timeout + :grace)
    WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT id FROM entering)) AND j.state || '' IN ('ready', 'held')
    RETURNING j.id, j.fence, j.kind, j.payload, j.attempt, j.max_attempts, j.losses, j.timeout,
              j.ordering_key IS NOT NULL OR j.workflow IS NOT NULL AS linked,
              j.lane, j.priority,
              CASE WHEN num_nonnulls(j.key, j.tags, j.ordering_key, j.fair_key, j.workflow) > 0
                        OR j.namespace <> 'default' OR j.run_at <> j.created_at OR strpos(j.extras, '"nominal":') > 0
                   THEN jsonb_strip_nulls(jsonb_build_object(
                       'namespace', j.namespace, 'key', j.key, 'tags', j.tags, 'ordering_key', j.ordering_key,
                       'fair_key', j.fair_key, 'workflow', j.workflow, 'extras', j.extras::jsonb, 'run_at',
                       CASE WHEN j.run_at <> j.created_at OR j.generation > 0 OR strpos(j.extras, '"nominal":') > 0
                            THEN (extract(epoch FROM j.run_at) * 1000000)::bigint END))::text
                   ELSE '{"extras":' || j.extras || '}' END AS more
), waiting AS (
    UPDATE foliot.jobs j
    SET state = 'held', hold = 'limit',
        hold_note = (SELECT jsonb_object_agg(d.id, d.gate) FROM decided d WHERE d.waits) ->> j.id::text
    WHERE j.partition = :partition AND j.id = ANY (ARRAY(SELECT d.id FROM decided d WHERE d.waits))
      AND j.state || '' IN ('ready', 'held')
    RETURNING j.id, j.lane, j.hold_note, j.band, j.rank
), passed AS (
    UPDATE foliot.jobs j SET state = 'ready', hold = NULL, hold_note = NULL
    WHERE j.partition = :partition AND j.state || '' = 'held' AND j.hold || '' = 'limit'
      AND j.id = ANY (ARRAY(SELECT d.id FROM decided d WHERE d.held AND NOT d.enters AND NOT d.waits))
    RETURNING j.id, j.lane, j.band, j.rank
), entered AS (
    INSERT INTO foliot.uses (name, used, at)
    SELECT e.gate, count(*), extract(epoch FROM coalesce(:now, statement_timestamp()))
    FROM entering e WHERE e.gate IS NOT NULL GROUP BY e.gate
    ON CONFLICT (name) DO UPDATE SET used = uses.used + excluded.used, at = excluded.at
)
SELECT t.id::text, t.fence, t.kind, t.payload, t.attempt, t.max_attempts, t.losses, t.timeout, t.linked, t.lane,
       t.priority, t.more, e.gate, NULL::text AS said, e.line, e.band, e.rank, e.turn
FROM entering e FULL JOIN taken t ON t.id = e.id  -- with a condition it could be done row by row
UNION ALL
SELECT w.id::text, 0, NULL, NULL, 0, 0, 0, NULL, false, w.lane, 0, NULL, NULL, 'held', w.hold_note, w.band, w.rank, NULL
FROM waiting w
UNION ALL
SELECT p.id::text, 0, NULL, NULL, 0, 0, 0, NULL, false, p.lane, 0, NULL, NULL, 'ready',
       (SELECT jsonb_object_agg(f.id, f.line) FROM freed f) ->> p.id::text, p.band, p.rank, NULL
FROM passed p
ORDER BY turn;

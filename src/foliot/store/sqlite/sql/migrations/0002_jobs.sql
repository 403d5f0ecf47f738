-- What users say of a job beyond its time and priority, in which order queues run, and what is known of kinds,
-- workers, log lines and who did what. A plain job has NULL in every new column.

ALTER TABLE foliot_jobs ADD COLUMN tags TEXT;
ALTER TABLE foliot_jobs ADD COLUMN ordering_key TEXT;  -- jobs that share one run one after the other
ALTER TABLE foliot_jobs ADD COLUMN fair_key TEXT;  -- whose turn it takes in a queue that is served round robin
ALTER TABLE foliot_jobs ADD COLUMN expires_at INTEGER;  -- not started by then, it is cancelled
ALTER TABLE foliot_jobs ADD COLUMN extras TEXT;  -- JSON: what only the worker needs to know
ALTER TABLE foliot_jobs ADD COLUMN progress TEXT;  -- JSON: [fraction, message]
ALTER TABLE foliot_jobs ADD COLUMN hold_note TEXT;  -- what to know about the hold
-- Of the jobs that share an ordering key one at a time is active; the others wait, in the order of their ids.
CREATE UNIQUE INDEX foliot_jobs_active ON foliot_jobs (partition, namespace, ordering_key)
    WHERE ordering_key IS NOT NULL AND coalesce(hold, '') NOT IN ('admission', 'order');
CREATE INDEX foliot_jobs_order ON foliot_jobs (partition, namespace, ordering_key, id)
    WHERE ordering_key IS NOT NULL AND hold IN ('admission', 'order');
CREATE INDEX foliot_jobs_admission ON foliot_jobs (partition, id) WHERE hold IN ('admission', 'turn');
CREATE INDEX foliot_jobs_expires ON foliot_jobs (partition, expires_at) WHERE expires_at IS NOT NULL;

ALTER TABLE foliot_history ADD COLUMN tags TEXT;
ALTER TABLE foliot_history ADD COLUMN ordering_key TEXT;
ALTER TABLE foliot_history ADD COLUMN fair_key TEXT;
ALTER TABLE foliot_history ADD COLUMN extras TEXT;

ALTER TABLE foliot_dead ADD COLUMN tags TEXT;
ALTER TABLE foliot_dead ADD COLUMN ordering_key TEXT;
ALTER TABLE foliot_dead ADD COLUMN fair_key TEXT;
ALTER TABLE foliot_dead ADD COLUMN extras TEXT;

-- Idempotency keys: which job a submission became, for as long as it may be sent again.
CREATE TABLE foliot_keys (
    partition   INTEGER NOT NULL,
    namespace   TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    job         TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,                     -- of the arguments it was used with
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (partition, namespace, kind, key)
);
CREATE INDEX foliot_keys_expires ON foliot_keys (partition, expires_at);

-- What apps have announced: so that those without the code know kinds and how to call them.
CREATE TABLE foliot_definitions (
    kind        TEXT    PRIMARY KEY,
    queue       TEXT    NOT NULL,
    signature   TEXT    NOT NULL,                     -- as it is written in Python
    schema      TEXT    NOT NULL,                     -- JSON Schema of the payload
    fingerprint TEXT    NOT NULL,                     -- of what a payload must look like
    version     INTEGER NOT NULL,
    options     TEXT    NOT NULL,                     -- JSON
    updated_at  INTEGER NOT NULL
);

-- Which process it was: sessions are forgotten, attempts are not.
ALTER TABLE foliot_attempts ADD COLUMN worker TEXT;

-- What jobs wrote to their log.
CREATE TABLE foliot_logs (
    partition   INTEGER NOT NULL,
    job         TEXT    NOT NULL,
    fence       INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    level       TEXT    NOT NULL,
    logger      TEXT    NOT NULL,
    message     TEXT    NOT NULL,
    PRIMARY KEY (partition, job, fence, seq)
);
CREATE INDEX foliot_logs_at ON foliot_logs (partition, at);

-- Who changed what by hand.
CREATE TABLE foliot_audit (
    id          TEXT    PRIMARY KEY,
    at          INTEGER NOT NULL,
    actor       TEXT    NOT NULL,
    action      TEXT    NOT NULL,
    target      TEXT    NOT NULL,
    detail      TEXT    NOT NULL DEFAULT '{}'              -- JSON
);
CREATE INDEX foliot_audit_at ON foliot_audit (at);
CREATE INDEX foliot_audit_target ON foliot_audit (target, id);

-- How far each fair key has been served in a lane: the place of its last job.
CREATE TABLE foliot_fair (
    partition   INTEGER NOT NULL,
    lane        INTEGER NOT NULL,
    fair_key    TEXT    NOT NULL,
    tag         INTEGER NOT NULL,
    PRIMARY KEY (partition, lane, fair_key)
);

-- How far a lane that is served round robin has come, and the last place that was given in it.
CREATE TABLE foliot_turns (
    partition   INTEGER NOT NULL,
    lane        INTEGER NOT NULL,
    head        INTEGER NOT NULL,
    tail        INTEGER NOT NULL,
    PRIMARY KEY (partition, lane)
);

ALTER TABLE foliot_queues ADD COLUMN strategy INTEGER NOT NULL DEFAULT 0;  -- 0 priority, 1 fifo, 2 aged, 3 round robin
ALTER TABLE foliot_queues ADD COLUMN aging REAL NOT NULL DEFAULT 60;  -- seconds that one step of priority is worth
ALTER TABLE foliot_queues ADD COLUMN weights TEXT NOT NULL DEFAULT '{}';  -- JSON: fair key -> weight
ALTER TABLE foliot_queues ADD COLUMN updated_by TEXT;

ALTER TABLE foliot_sessions ADD COLUMN capabilities TEXT NOT NULL DEFAULT '[]';
ALTER TABLE foliot_sessions ADD COLUMN concurrency INTEGER NOT NULL DEFAULT 0;
ALTER TABLE foliot_sessions ADD COLUMN room INTEGER NOT NULL DEFAULT 0;  -- jobs that could start now
ALTER TABLE foliot_sessions ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;  -- claimed and not started
ALTER TABLE foliot_sessions ADD COLUMN drain INTEGER NOT NULL DEFAULT 0;
ALTER TABLE foliot_sessions ADD COLUMN note TEXT;  -- what is wrong with it
ALTER TABLE foliot_sessions ADD COLUMN moved_at INTEGER;  -- when it last started or finished a job

-- The engine: live jobs, what became of them, who runs them.
-- The same tables as in PostgreSQL, with these differences: names are prefixed, because a file has no schemas and may
-- be shared with an application; times are microseconds since 1970 in UTC; lists of names are JSON; ids are text.

CREATE TABLE foliot_jobs (
    partition        INTEGER NOT NULL,
    id               TEXT    NOT NULL,
    fence            INTEGER NOT NULL DEFAULT 0,      -- +1 at every claim, never given back
    lane             INTEGER NOT NULL,
    rank             INTEGER NOT NULL,                -- place within the band: due time in microseconds
    band             INTEGER NOT NULL,
    priority         INTEGER NOT NULL,
    attempt          INTEGER NOT NULL DEFAULT 0,
    max_attempts     INTEGER NOT NULL,
    losses           INTEGER NOT NULL DEFAULT 0,      -- sessions lost while executing it; > 0 is a suspect
    generation       INTEGER NOT NULL DEFAULT 0,      -- +1 when it is taken back from the dead
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    outbox           INTEGER NOT NULL DEFAULT 0,      -- somebody listens to how it ends
    pending          INTEGER NOT NULL DEFAULT 0,      -- parents that have not ended yet
    state            TEXT    NOT NULL,
    namespace        TEXT    NOT NULL,
    kind             TEXT    NOT NULL,
    queue            TEXT    NOT NULL,
    created_at       INTEGER NOT NULL,
    run_at           INTEGER NOT NULL,
    timeout          REAL,                            -- seconds
    session          TEXT,
    claimed_at       INTEGER,
    deadline_at      INTEGER,
    key              TEXT,
    limit_key        TEXT,
    workflow         TEXT,
    requires         TEXT,
    hold             TEXT,
    payload          BLOB    NOT NULL,
    PRIMARY KEY (partition, id)
);

-- A plain job is in the primary key and in the first two of these, nothing else.
CREATE INDEX foliot_jobs_ready ON foliot_jobs (partition, lane, band, rank, id) WHERE state = 'ready';
CREATE INDEX foliot_jobs_running ON foliot_jobs (partition, session) WHERE state = 'running';
CREATE INDEX foliot_jobs_scheduled ON foliot_jobs (partition, run_at, id) WHERE state = 'scheduled';
CREATE INDEX foliot_jobs_deadline ON foliot_jobs (partition, deadline_at)
    WHERE state = 'running' AND deadline_at IS NOT NULL;
CREATE INDEX foliot_jobs_held ON foliot_jobs (partition, hold, kind, id) WHERE state = 'held';
CREATE UNIQUE INDEX foliot_jobs_key ON foliot_jobs (partition, namespace, kind, key) WHERE key IS NOT NULL;

CREATE TABLE foliot_history (
    partition   INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    fence       INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    losses      INTEGER NOT NULL,
    generation  INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    namespace   TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    queue       TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    run_at      INTEGER NOT NULL,
    started_at  INTEGER,
    finished_at INTEGER NOT NULL,
    session     TEXT,
    key         TEXT,
    workflow    TEXT,
    reason      TEXT,
    payload     BLOB    NOT NULL,
    result      BLOB
);
CREATE INDEX foliot_history_id ON foliot_history (partition, id);
-- There are no days to drop whole: old rows are found here and deleted in batches.
CREATE INDEX foliot_history_finished ON foliot_history (finished_at);

-- The dead-letter queue. No retention empties it.
CREATE TABLE foliot_dead (
    partition    INTEGER NOT NULL,
    id           TEXT    NOT NULL,
    fence        INTEGER NOT NULL,
    lane         INTEGER NOT NULL,
    priority     INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    losses       INTEGER NOT NULL,
    generation   INTEGER NOT NULL,
    outbox       INTEGER NOT NULL,
    namespace    TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    queue        TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    run_at       INTEGER NOT NULL,
    started_at   INTEGER,
    finished_at  INTEGER NOT NULL,
    timeout      REAL,
    session      TEXT,
    key          TEXT,
    limit_key    TEXT,
    workflow     TEXT,
    requires     TEXT,
    reason       TEXT,
    payload      BLOB    NOT NULL,
    PRIMARY KEY (partition, id)
);

-- One row for each attempt that did not succeed. They go when their job's history goes.
CREATE TABLE foliot_attempts (
    partition   INTEGER NOT NULL,
    job         TEXT    NOT NULL,
    fence       INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    outcome     TEXT    NOT NULL,                     -- failed, timed_out, worker_lost …
    error       TEXT,
    traceback   TEXT,
    session     TEXT,
    started_at  INTEGER,
    finished_at INTEGER NOT NULL,
    PRIMARY KEY (partition, job, fence)
);

CREATE TABLE foliot_queues (
    name      TEXT PRIMARY KEY,
    paused_at INTEGER,
    paused_by TEXT,
    note      TEXT
);

CREATE TABLE foliot_sessions (
    id         TEXT    PRIMARY KEY,
    host       TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    version    TEXT    NOT NULL,
    queues     TEXT    NOT NULL,
    kinds      TEXT    NOT NULL,
    duties     INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    beat_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    executing  TEXT    NOT NULL DEFAULT '[]'
);

-- Who does the duties of a partition. It divides the work; correctness never depends on it.
CREATE TABLE foliot_leases (
    partition  INTEGER PRIMARY KEY,
    holder     TEXT,
    epoch      INTEGER NOT NULL DEFAULT 0,
    expires_at INTEGER NOT NULL DEFAULT 0
);

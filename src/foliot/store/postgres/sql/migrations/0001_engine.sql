-- The engine: live jobs, what became of them, who runs them.
-- Every hot table starts with `partition`, which is also first in every key and index,
-- so that one transaction stays on one shard wherever the tables are distributed.

CREATE TABLE foliot.jobs (
    partition        smallint    NOT NULL,
    id               uuid        NOT NULL,
    fence            bigint      NOT NULL DEFAULT 0,      -- +1 at every claim, never given back
    lane             bigint      NOT NULL,
    rank             bigint      NOT NULL,                -- place within the band: due time in microseconds
    band             smallint    NOT NULL,
    priority         smallint    NOT NULL,
    attempt          smallint    NOT NULL DEFAULT 0,
    max_attempts     smallint    NOT NULL,
    losses           smallint    NOT NULL DEFAULT 0,      -- sessions lost while executing it; > 0 is a suspect
    generation       smallint    NOT NULL DEFAULT 0,      -- +1 when it is taken back from the dead
    cancel_requested boolean     NOT NULL DEFAULT false,
    outbox           boolean     NOT NULL DEFAULT false,  -- somebody listens to how it ends
    pending          integer     NOT NULL DEFAULT 0,      -- parents that have not ended yet
    state            text        NOT NULL,
    namespace        text        NOT NULL,
    kind             text        NOT NULL,
    queue            text        NOT NULL,
    created_at       timestamptz NOT NULL,
    run_at           timestamptz NOT NULL,
    timeout          real,                                -- seconds
    session          uuid,
    claimed_at       timestamptz,
    deadline_at      timestamptz,
    key              text,
    limit_key        text,
    workflow         uuid,
    requires         text[],
    hold             text,
    payload          bytea       NOT NULL,
    PRIMARY KEY (partition, id)
) WITH (
    -- The table is small and turns over many times a minute: vacuum by count, not by share.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0
);

-- A plain job is in the primary key and in the first two of these, nothing else.
CREATE INDEX jobs_ready ON foliot.jobs (partition, lane, band, rank, id) WHERE state = 'ready';
CREATE INDEX jobs_running ON foliot.jobs (partition, session) WHERE state = 'running';
CREATE INDEX jobs_scheduled ON foliot.jobs (partition, run_at, id) WHERE state = 'scheduled';
CREATE INDEX jobs_deadline ON foliot.jobs (partition, deadline_at)
    WHERE state = 'running' AND deadline_at IS NOT NULL;
CREATE INDEX jobs_held ON foliot.jobs (partition, hold, kind, id) WHERE state = 'held';
CREATE UNIQUE INDEX jobs_key ON foliot.jobs (partition, namespace, kind, key) WHERE key IS NOT NULL;

CREATE TABLE foliot.history (
    partition   smallint    NOT NULL,
    id          uuid        NOT NULL,
    fence       bigint      NOT NULL,
    priority    smallint    NOT NULL,
    attempt     smallint    NOT NULL,
    losses      smallint    NOT NULL,
    generation  smallint    NOT NULL,
    state       text        NOT NULL,
    namespace   text        NOT NULL,
    kind        text        NOT NULL,
    queue       text        NOT NULL,
    created_at  timestamptz NOT NULL,
    run_at      timestamptz NOT NULL,
    started_at  timestamptz,
    finished_at timestamptz NOT NULL,
    session     uuid,
    key         text,
    workflow    uuid,
    reason      text,
    payload     bytea       NOT NULL,
    result      bytea
) PARTITION BY RANGE (finished_at);
CREATE INDEX history_id ON foliot.history (partition, id);
-- Days are made ahead by upkeep; this catches what they miss, so that a finish never fails for want of a day.
CREATE TABLE foliot.history_default PARTITION OF foliot.history DEFAULT;

-- The dead-letter queue. No retention empties it.
CREATE TABLE foliot.dead (
    partition    smallint    NOT NULL,
    id           uuid        NOT NULL,
    fence        bigint      NOT NULL,
    lane         bigint      NOT NULL,
    priority     smallint    NOT NULL,
    attempt      smallint    NOT NULL,
    max_attempts smallint    NOT NULL,
    losses       smallint    NOT NULL,
    generation   smallint    NOT NULL,
    outbox       boolean     NOT NULL,
    namespace    text        NOT NULL,
    kind         text        NOT NULL,
    queue        text        NOT NULL,
    created_at   timestamptz NOT NULL,
    run_at       timestamptz NOT NULL,
    started_at   timestamptz,
    finished_at  timestamptz NOT NULL,
    timeout      real,
    session      uuid,
    key          text,
    limit_key    text,
    workflow     uuid,
    requires     text[],
    reason       text,
    payload      bytea       NOT NULL,
    PRIMARY KEY (partition, id)
);

-- One row for each attempt that did not succeed.
CREATE TABLE foliot.attempts (
    partition   smallint    NOT NULL,
    job         uuid        NOT NULL,
    fence       bigint      NOT NULL,
    attempt     smallint    NOT NULL,
    outcome     text        NOT NULL,                     -- failed, timed_out, lost
    error       text,
    traceback   text,
    session     uuid,
    started_at  timestamptz,
    finished_at timestamptz NOT NULL,
    PRIMARY KEY (partition, job, fence)
);
CREATE INDEX attempts_finished ON foliot.attempts (partition, finished_at);

CREATE TABLE foliot.queues (
    name      text PRIMARY KEY,
    paused_at timestamptz,
    paused_by text,
    note      text
);

CREATE TABLE foliot.sessions (
    id         uuid        PRIMARY KEY,
    host       text        NOT NULL,
    pid        integer     NOT NULL,
    version    text        NOT NULL,
    queues     text[]      NOT NULL,
    kinds      text[]      NOT NULL,
    duties     boolean     NOT NULL,
    started_at timestamptz NOT NULL,
    beat_at    timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    executing  uuid[]      NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

-- Who does the duties of a partition. It divides the work; correctness never depends on it.
CREATE TABLE foliot.leases (
    partition  smallint    PRIMARY KEY,
    holder     uuid,
    epoch      bigint      NOT NULL DEFAULT 0,
    expires_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

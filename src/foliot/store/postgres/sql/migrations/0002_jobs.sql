-- What users say of a job beyond its time and priority, in which order queues run, and what is known of kinds,
-- workers, log lines and who did what. A plain job has NULL in every new column.

ALTER TABLE foliot.jobs
    ADD COLUMN tags         text[],
    ADD COLUMN ordering_key text,        -- jobs that share one run one after the other
    ADD COLUMN fair_key     text,        -- whose turn it takes in a queue that is served round robin
    ADD COLUMN expires_at   timestamptz, -- not started by then, it is cancelled
    ADD COLUMN extras       text,        -- JSON: what only the worker needs to know
    ADD COLUMN progress     text,        -- JSON: [fraction, message]
    ADD COLUMN hold_note    text;        -- what to know about the hold
-- Of the jobs that share an ordering key one at a time is active; the others wait, in the order of their ids.
CREATE UNIQUE INDEX jobs_active ON foliot.jobs (partition, namespace, ordering_key)
    WHERE ordering_key IS NOT NULL AND coalesce(hold, '') NOT IN ('admission', 'order');
CREATE INDEX jobs_order ON foliot.jobs (partition, namespace, ordering_key, id)
    WHERE ordering_key IS NOT NULL AND hold IN ('admission', 'order');
CREATE INDEX jobs_admission ON foliot.jobs (partition, id) WHERE hold IN ('admission', 'turn');
CREATE INDEX jobs_expires ON foliot.jobs (partition, expires_at) WHERE expires_at IS NOT NULL;

ALTER TABLE foliot.history
    ADD COLUMN tags         text[],
    ADD COLUMN ordering_key text,
    ADD COLUMN fair_key     text,
    ADD COLUMN extras       text;

ALTER TABLE foliot.dead
    ADD COLUMN tags         text[],
    ADD COLUMN ordering_key text,
    ADD COLUMN fair_key     text,
    ADD COLUMN extras       text;

-- Idempotency keys: which job a submission became, for as long as it may be sent again.
CREATE TABLE foliot.keys (
    partition  smallint    NOT NULL,
    namespace  text        NOT NULL,
    kind       text        NOT NULL,
    key        text        NOT NULL,
    job        uuid        NOT NULL,
    fingerprint text       NOT NULL,                      -- of the arguments it was used with
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (partition, namespace, kind, key)
);
CREATE INDEX keys_expires ON foliot.keys (partition, expires_at);

-- What apps have announced: so that those without the code know kinds and how to call them.
CREATE TABLE foliot.definitions (
    kind        text        PRIMARY KEY,
    queue       text        NOT NULL,
    signature   text        NOT NULL,                     -- as it is written in Python
    schema      text        NOT NULL,                     -- JSON Schema of the payload
    fingerprint text        NOT NULL,                     -- of what a payload must look like
    version     integer     NOT NULL,
    options     text        NOT NULL,                     -- JSON
    updated_at  timestamptz NOT NULL
);

-- Which process it was: sessions are forgotten, attempts are not.
ALTER TABLE foliot.attempts ADD COLUMN worker text;

-- What jobs wrote to their log.
CREATE TABLE foliot.logs (
    partition smallint    NOT NULL,
    job       uuid        NOT NULL,
    fence     bigint      NOT NULL,
    seq       integer     NOT NULL,
    attempt   smallint    NOT NULL,
    at        timestamptz NOT NULL,
    level     text        NOT NULL,
    logger    text        NOT NULL,
    message   text        NOT NULL,
    PRIMARY KEY (partition, job, fence, seq)
);
CREATE INDEX logs_at ON foliot.logs (partition, at);

-- Who changed what by hand.
CREATE TABLE foliot.audit (
    id     uuid        PRIMARY KEY,
    at     timestamptz NOT NULL,
    actor  text        NOT NULL,
    action text        NOT NULL,
    target text        NOT NULL,
    detail text        NOT NULL DEFAULT '{}'              -- JSON
);
CREATE INDEX audit_at ON foliot.audit (at);
CREATE INDEX audit_target ON foliot.audit (target, id);

-- How far each fair key has been served in a lane: the place of its last job.
CREATE TABLE foliot.fair (
    partition smallint NOT NULL,
    lane      bigint   NOT NULL,
    fair_key  text     NOT NULL,
    tag       bigint   NOT NULL,
    PRIMARY KEY (partition, lane, fair_key)
);

-- How far a lane that is served round robin has come, and the last place that was given in it.
CREATE TABLE foliot.turns (
    partition smallint NOT NULL,
    lane      bigint   NOT NULL,
    head      bigint   NOT NULL,
    tail      bigint   NOT NULL,
    PRIMARY KEY (partition, lane)
);

ALTER TABLE foliot.queues
    ADD COLUMN strategy   smallint NOT NULL DEFAULT 0,    -- 0 priority, 1 fifo, 2 aged, 3 round robin
    ADD COLUMN aging      real     NOT NULL DEFAULT 60,   -- seconds that one step of priority is worth
    ADD COLUMN weights    text     NOT NULL DEFAULT '{}', -- JSON: fair key -> weight
    ADD COLUMN updated_by text;

ALTER TABLE foliot.sessions
    ADD COLUMN capabilities text[]      NOT NULL DEFAULT '{}',
    ADD COLUMN concurrency  integer     NOT NULL DEFAULT 0,
    ADD COLUMN room         integer     NOT NULL DEFAULT 0,  -- jobs that could start now
    ADD COLUMN waiting      integer     NOT NULL DEFAULT 0,  -- claimed and not started
    ADD COLUMN drain        boolean     NOT NULL DEFAULT false,
    ADD COLUMN note         text,                            -- what is wrong with it
    ADD COLUMN moved_at     timestamptz;                     -- when it last started or finished a job

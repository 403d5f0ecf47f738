-- Workflows: graphs of jobs. A step is a job; what it has to do with others stands beside it.

CREATE TABLE foliot_workflows (
    partition        INTEGER NOT NULL,
    id               TEXT    NOT NULL,
    total            INTEGER NOT NULL,
    edges            INTEGER NOT NULL DEFAULT 0,
    remaining        INTEGER NOT NULL,                -- steps whose end has not been told to their children
    failed           INTEGER NOT NULL DEFAULT 0,
    forgiven         INTEGER NOT NULL DEFAULT 0,      -- of these, what a retry of others has left: it stops nothing
    chain            INTEGER NOT NULL,                -- drawn by nobody: jobs that were submitted after others
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    stopped          INTEGER NOT NULL DEFAULT 0,      -- a failure has ended what could be ended
    deadline         REAL,                            -- seconds
    state            TEXT    NOT NULL,
    policy           TEXT    NOT NULL,
    namespace        TEXT    NOT NULL,
    name             TEXT    NOT NULL,
    created_at       INTEGER NOT NULL,
    deadline_at      INTEGER,
    finished_at      INTEGER,
    paused_at        INTEGER,
    paused_by        TEXT,
    note             TEXT,
    reason           TEXT,
    waiter           TEXT,                            -- the job that stands for it elsewhere
    fingerprint      TEXT    NOT NULL,
    PRIMARY KEY (partition, id)
);
-- Where none runs, no job that ends is a step: one look at this spares plain jobs all others.
CREATE INDEX foliot_workflows_running ON foliot_workflows (partition) WHERE state = 'running';
CREATE INDEX foliot_workflows_deadline ON foliot_workflows (partition, deadline_at)
    WHERE state = 'running' AND deadline_at IS NOT NULL;
CREATE INDEX foliot_workflows_failing ON foliot_workflows (partition, id)
    WHERE state = 'running' AND policy = 'fail_fast' AND failed > forgiven AND NOT stopped;
CREATE INDEX foliot_workflows_waiter ON foliot_workflows (partition, waiter)
    WHERE state = 'running' AND waiter IS NOT NULL;
CREATE INDEX foliot_workflows_created ON foliot_workflows (partition, created_at, id) WHERE NOT chain;
CREATE INDEX foliot_workflows_name ON foliot_workflows (partition, name, created_at, id) WHERE NOT chain;
CREATE INDEX foliot_workflows_finished ON foliot_workflows (partition, finished_at) WHERE finished_at IS NOT NULL;

-- Of workflows that had ended: the chains whose jobs came after their steps, and see them.
CREATE TABLE foliot_followers (
    partition INTEGER NOT NULL,
    workflow  TEXT    NOT NULL,
    follower  TEXT    NOT NULL,
    PRIMARY KEY (partition, workflow, follower)
);
CREATE INDEX foliot_followers_follower ON foliot_followers (partition, follower);

CREATE TABLE foliot_steps (
    partition   INTEGER NOT NULL,
    job         TEXT    NOT NULL,
    workflow    TEXT    NOT NULL,
    number      INTEGER NOT NULL,
    above       INTEGER NOT NULL DEFAULT 0,           -- parents
    pending     INTEGER NOT NULL,                     -- of these, those that have not ended
    succeeded   INTEGER NOT NULL DEFAULT 0,           -- parents that did
    failed      INTEGER NOT NULL DEFAULT 0,
    fence       INTEGER NOT NULL DEFAULT 0,           -- of its job, and which life that was, when it last ended:
    generation  INTEGER NOT NULL DEFAULT 0,           -- carried on when it is tried again
    begun       INTEGER NOT NULL,                     -- its rule has let it run
    told        INTEGER NOT NULL DEFAULT 0,           -- its end was counted by its children
    linked      INTEGER NOT NULL DEFAULT 0,           -- it has more parents or children: foliot_links
    state       TEXT,                                 -- how it ended
    rule        TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    signal      TEXT,
    mapped      TEXT,
    added_by    TEXT,
    finished_at INTEGER,
    parents     TEXT    NOT NULL,                     -- JSON: their jobs, as far as they were submitted with it
    children    TEXT    NOT NULL,
    template    TEXT    NOT NULL,                     -- JSON: the job as it was submitted, without its payload
    payload     BLOB    NOT NULL,
    result      BLOB,
    PRIMARY KEY (partition, job)
);
CREATE UNIQUE INDEX foliot_steps_name ON foliot_steps (partition, workflow, name);
CREATE INDEX foliot_steps_untold ON foliot_steps (partition, workflow) WHERE state IS NOT NULL AND NOT told;

-- Parents and children that steps have got since: a row for each time, for there may be thousands, one by one.
CREATE TABLE foliot_links (
    partition INTEGER NOT NULL,
    workflow  TEXT    NOT NULL,
    step      TEXT    NOT NULL,
    side      TEXT    NOT NULL,                       -- parents, children, or grown: children that it has added itself
    number    INTEGER NOT NULL,
    jobs      TEXT    NOT NULL,                       -- JSON
    PRIMARY KEY (partition, workflow, step, side, number)
);

-- Signals that came before somebody waited for them.
CREATE TABLE foliot_signals (
    partition INTEGER NOT NULL,
    workflow  TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    payload   BLOB    NOT NULL,
    PRIMARY KEY (partition, workflow, name)
);

-- Counted with the step, not with the job.
ALTER TABLE foliot_jobs DROP COLUMN pending;

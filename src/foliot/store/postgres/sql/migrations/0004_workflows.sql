-- Workflows: graphs of jobs. A step is a job; what it has to do with others stands beside it.

-- Whoever ends a step, adds one or changes the whole holds the lock of this row, before any other.
CREATE TABLE foliot.workflows (
    partition        smallint    NOT NULL,
    id               uuid        NOT NULL,
    total            integer     NOT NULL,
    edges            integer     NOT NULL DEFAULT 0,
    remaining        integer     NOT NULL,                -- steps whose end has not been told to their children
    failed           integer     NOT NULL DEFAULT 0,
    forgiven         integer     NOT NULL DEFAULT 0,      -- of these, what a retry of others has left: it stops nothing
    chain            boolean     NOT NULL,                -- drawn by nobody: jobs that were submitted after others
    cancel_requested boolean     NOT NULL DEFAULT false,
    stopped          boolean     NOT NULL DEFAULT false,  -- a failure has ended what could be ended
    deadline         real,                                -- seconds
    state            text        NOT NULL,
    policy           text        NOT NULL,
    namespace        text        NOT NULL,
    name             text        NOT NULL,
    created_at       timestamptz NOT NULL,
    deadline_at      timestamptz,
    finished_at      timestamptz,
    paused_at        timestamptz,
    paused_by        text,
    note             text,
    reason           text,
    waiter           uuid,                                -- the job that stands for it elsewhere
    fingerprint      text        NOT NULL,
    PRIMARY KEY (partition, id)
) WITH (fillfactor = 50);
CREATE INDEX workflows_running ON foliot.workflows (partition, id) WHERE state = 'running';
CREATE INDEX workflows_deadline ON foliot.workflows (partition, deadline_at)
    WHERE state = 'running' AND deadline_at IS NOT NULL;
CREATE INDEX workflows_failing ON foliot.workflows (partition, id)
    WHERE state = 'running' AND policy = 'fail_fast' AND failed > forgiven AND NOT stopped;
CREATE INDEX workflows_waiter ON foliot.workflows (partition, waiter) WHERE state = 'running' AND waiter IS NOT NULL;
CREATE INDEX workflows_created ON foliot.workflows (partition, created_at, id) WHERE NOT chain;
CREATE INDEX workflows_name ON foliot.workflows (partition, name, created_at, id) WHERE NOT chain;
CREATE INDEX workflows_finished ON foliot.workflows (partition, finished_at) WHERE finished_at IS NOT NULL;

-- Of workflows that had ended: the chains whose jobs came after their steps, and see them.
CREATE TABLE foliot.followers (
    partition smallint NOT NULL,
    workflow  uuid     NOT NULL,
    follower  uuid     NOT NULL,
    PRIMARY KEY (partition, workflow, follower)
);
CREATE INDEX followers_follower ON foliot.followers (partition, follower);

CREATE TABLE foliot.steps (
    partition   smallint    NOT NULL,
    job         uuid        NOT NULL,
    workflow    uuid        NOT NULL,
    number      integer     NOT NULL,
    above       integer     NOT NULL DEFAULT 0,           -- parents
    pending     integer     NOT NULL,                     -- of these, those that have not ended
    succeeded   integer     NOT NULL DEFAULT 0,           -- parents that did
    failed      integer     NOT NULL DEFAULT 0,
    fence       bigint      NOT NULL DEFAULT 0,           -- of its job, and which life that was, when it last ended:
    generation  smallint    NOT NULL DEFAULT 0,           -- carried on when it is tried again
    begun       boolean     NOT NULL,                     -- its rule has let it run
    told        boolean     NOT NULL DEFAULT false,       -- its end was counted by its children
    linked      boolean     NOT NULL DEFAULT false,       -- it has more parents or children: foliot.links
    state       text,                                     -- how it ended
    rule        text        NOT NULL,
    name        text        NOT NULL,
    signal      text,
    mapped      uuid,
    added_by    uuid,
    finished_at timestamptz,
    parents     text        NOT NULL,                     -- JSON: their jobs, as far as they were submitted with it
    children    text        NOT NULL,
    template    text        NOT NULL,                     -- JSON: the job as it was submitted, without its payload
    payload     bytea       NOT NULL,
    result      bytea,
    PRIMARY KEY (partition, job)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX steps_name ON foliot.steps (partition, workflow, name);
CREATE INDEX steps_untold ON foliot.steps (partition, workflow) WHERE state IS NOT NULL AND NOT told;

-- Parents and children that steps have got since: a row for each time, for there may be thousands, one by one.
CREATE TABLE foliot.links (
    partition smallint NOT NULL,
    workflow  uuid     NOT NULL,
    step      uuid     NOT NULL,
    side      text     NOT NULL,                          -- parents, children, or grown: children that it has added itself
    number    integer  NOT NULL,
    jobs      text     NOT NULL,                          -- JSON
    PRIMARY KEY (partition, workflow, step, side, number)
);

-- Signals that came before somebody waited for them.
CREATE TABLE foliot.signals (
    partition smallint    NOT NULL,
    workflow  uuid        NOT NULL,
    name      text        NOT NULL,
    at        timestamptz NOT NULL,
    payload   bytea       NOT NULL,
    PRIMARY KEY (partition, workflow, name)
);

-- Counted with the step, not with the job.
ALTER TABLE foliot.jobs DROP COLUMN pending;

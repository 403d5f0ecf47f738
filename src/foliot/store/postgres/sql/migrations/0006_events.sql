-- Events: what happened, for those who listen. Where nobody does, nothing is written.

CREATE TABLE foliot.listeners (
    event    text NOT NULL,
    hook     text NOT NULL,                           -- the kind of the job that is made for each event
    origin   text NOT NULL,                           -- the module that declares it
    kind     text NOT NULL,                           -- only what happens to jobs of this one; *: of any
    queue    text NOT NULL,                           -- the same
    template text NOT NULL,                           -- JSON: that job, without its id and payload
    since    timestamptz NOT NULL,                    -- what happened before is not for this hook
    absent_since timestamptz,                         -- when it was first seen that no live worker runs it; NULL: one does
    PRIMARY KEY (event, hook, kind, queue)
);

-- A row is written in the transaction in which it happens, and goes in the one that makes the hooks' jobs.
CREATE TABLE foliot.outbox (
    partition smallint    NOT NULL,
    at        timestamptz NOT NULL,
    number    bigint      NOT NULL,                   -- which comes first of those of one moment: a job's generation
    home      uuid        NOT NULL,                   -- it lives where the job of this id does
    event     text        NOT NULL,
    subject   text        NOT NULL,
    namespace text        NOT NULL,
    kind      text,
    queue     text,
    data      text        NOT NULL,                   -- JSON
    PRIMARY KEY (partition, at, number, subject, event)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

-- Where each kind of a session is defined, in their order: two apps may have one of the same name, and what a module has
-- declared once is its own to give up.
ALTER TABLE foliot.sessions ADD COLUMN modules text[] NOT NULL DEFAULT '{}';

-- Who listens is known when a job ends, not when it is submitted.
ALTER TABLE foliot.jobs DROP COLUMN outbox;
ALTER TABLE foliot.dead DROP COLUMN outbox;

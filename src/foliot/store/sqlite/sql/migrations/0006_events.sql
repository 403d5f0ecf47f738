-- Events: what happened, for those who listen. Where nobody does, nothing is written.

CREATE TABLE foliot_listeners (
    event    TEXT NOT NULL,
    hook     TEXT NOT NULL,                           -- the kind of the job that is made for each event
    origin   TEXT NOT NULL,                           -- the module that declares it
    kind     TEXT NOT NULL,                           -- only what happens to jobs of this one; *: of any
    queue    TEXT NOT NULL,                           -- the same
    template TEXT NOT NULL,                           -- JSON: that job, without its id and payload
    since    INTEGER NOT NULL,                        -- what happened before is not for this hook
    absent_since INTEGER,                             -- when it was first seen that no live worker runs it; NULL: one does
    PRIMARY KEY (event, hook, kind, queue)
) WITHOUT ROWID;

-- A row is written in the transaction in which it happens, and goes in the one that makes the hooks' jobs.
CREATE TABLE foliot_outbox (
    partition INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    number    INTEGER NOT NULL,                       -- which comes first of those of one moment: a job's generation
    home      TEXT    NOT NULL,                       -- it lives where the job of this id does
    event     TEXT    NOT NULL,
    subject   TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    kind      TEXT,
    queue     TEXT,
    data      TEXT    NOT NULL,                       -- JSON
    PRIMARY KEY (partition, at, number, subject, event)
);

-- Where each kind of a session is defined, in their order: two apps may have one of the same name, and what a module has
-- declared once is its own to give up.
ALTER TABLE foliot_sessions ADD COLUMN modules TEXT NOT NULL DEFAULT '[]';

-- Who listens is known when a job ends, not when it is submitted.
ALTER TABLE foliot_jobs DROP COLUMN outbox;
ALTER TABLE foliot_dead DROP COLUMN outbox;

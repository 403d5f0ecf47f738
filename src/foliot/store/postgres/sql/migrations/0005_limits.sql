-- Limits: how many jobs may run at once, and how many may start in a time.

CREATE TABLE foliot.limits (
    name        text        PRIMARY KEY,                  -- scope and what it is for: queue:mail, key:customer:*
    concurrency integer,                                  -- jobs that run at once
    rate        double precision,                         -- starts in a period
    period      double precision NOT NULL DEFAULT 1,      -- seconds
    burst       integer     NOT NULL DEFAULT 1,
    counted     boolean     NOT NULL DEFAULT true,        -- false: it is so far from being reached that nobody counts
    note        text,
    updated_by  text,
    updated_at  timestamptz NOT NULL
);

-- How much of each is taken. One row for all partitions: a limit is one for the whole store.
CREATE TABLE foliot.uses (
    name   text             PRIMARY KEY,
    used   integer          NOT NULL,                     -- jobs that run under it
    tokens double precision,                              -- of its rate, when they were counted
    at     double precision NOT NULL,                     -- that is, in seconds since 1970
    taken_in   smallint,                                  -- the partition that took the last slot, if it is not of a key
    next_in    smallint,                                  -- the next slot is left to those who wait in this partition
    next_until double precision                           -- for so long
) WITH (fillfactor = 50);

-- Goes up with every change of what has to be asked before a job may start: whoever knows an old one asks again.
CREATE TABLE foliot.rules (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint  NOT NULL
);
INSERT INTO foliot.rules (version) VALUES (1);

-- What waits for a limit, of each lane in the order in which it is to run.
CREATE INDEX jobs_gated ON foliot.jobs (partition, hold_note, lane, band, rank, id) WHERE hold = 'limit';

-- A job's key is among its extras: plain jobs have none.
ALTER TABLE foliot.jobs DROP COLUMN limit_key;
ALTER TABLE foliot.dead DROP COLUMN limit_key;

-- Limits: how many jobs may run at once, and how many may start in a time.

CREATE TABLE foliot_limits (
    name        TEXT    PRIMARY KEY,                      -- scope and what it is for: queue:mail, key:customer:*
    concurrency INTEGER,                                  -- jobs that run at once
    rate        REAL,                                     -- starts in a period
    period      REAL    NOT NULL DEFAULT 1,               -- seconds
    burst       INTEGER NOT NULL DEFAULT 1,
    counted     INTEGER NOT NULL DEFAULT 1,               -- 0: it is so far from being reached that nobody counts
    note        TEXT,
    updated_by  TEXT,
    updated_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How much of each is taken. One row for all partitions: a limit is one for the whole store.
CREATE TABLE foliot_uses (
    name   TEXT    PRIMARY KEY,
    used   INTEGER NOT NULL,                              -- jobs that run under it
    tokens REAL,                                          -- of its rate, when they were counted
    at     REAL    NOT NULL,                              -- that is, in seconds since 1970
    taken_in   INTEGER,                                   -- the partition that took the last slot, if it is not of a key
    next_in    INTEGER,                                   -- the next slot is left to those who wait in this partition
    next_until REAL                                       -- for so long
) STRICT, WITHOUT ROWID;

-- Goes up with every change of what has to be asked before a job may start: whoever knows an old one asks again.
CREATE TABLE foliot_rules (
    one     INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    version INTEGER NOT NULL
) STRICT;
INSERT INTO foliot_rules (version) VALUES (1);

-- What waits for a limit, of each lane in the order in which it is to run.
CREATE INDEX foliot_jobs_gated ON foliot_jobs (partition, hold_note, lane, band, rank, id) WHERE hold = 'limit';

-- A job's key is among its extras: plain jobs have none.
ALTER TABLE foliot_jobs DROP COLUMN limit_key;
ALTER TABLE foliot_dead DROP COLUMN limit_key;

-- Breakers: what jobs that call the same service stop at while that service fails. model/breaker.py decides.

CREATE TABLE foliot_breakers (
    name        TEXT    PRIMARY KEY,
    state       TEXT    NOT NULL,                         -- closed, open, half_open, recovering
    since       REAL    NOT NULL,                         -- in seconds since 1970, like all times here
    until       REAL,                                     -- when it goes on by itself
    reason      TEXT,
    note        TEXT,
    changed_by  TEXT,
    concurrency INTEGER,                                  -- the limit that it is while it is not closed
    rate        REAL,
    burst       INTEGER NOT NULL,
    memory      TEXT    NOT NULL,                         -- JSON: counts within the window
    options     TEXT    NOT NULL                          -- JSON, as the code says them
) STRICT, WITHOUT ROWID;

-- What waited for a limit, may be asked again, and was not yet: whoever closes a breaker must know of it.
CREATE INDEX foliot_jobs_admitted ON foliot_jobs (partition, hold_note) WHERE state = 'ready' AND hold_note IS NOT NULL;

-- Breakers: what jobs that call the same service stop at while that service fails. model/breaker.py decides.

CREATE TABLE foliot.breakers (
    name        text             PRIMARY KEY,
    state       text             NOT NULL,                -- closed, open, half_open, recovering
    since       double precision NOT NULL,                -- in seconds since 1970, like all times here
    until       double precision,                         -- when it goes on by itself
    reason      text,
    note        text,
    changed_by  text,
    concurrency integer,                                  -- the limit that it is while it is not closed
    rate        double precision,
    burst       integer          NOT NULL,
    memory      text             NOT NULL,                -- JSON: counts within the window
    options     text             NOT NULL                 -- JSON, as the code says them
) WITH (fillfactor = 50);

-- What waited for a limit, may be asked again, and was not yet: whoever closes a breaker must know of it.
CREATE INDEX jobs_admitted ON foliot.jobs (partition, hold_note, band, rank, id)
    WHERE state = 'ready' AND hold_note IS NOT NULL;

-- Roll-ups: how many attempts ended in each minute, how, and how long they had waited and run.

CREATE TABLE foliot_rollups (
    minute    INTEGER NOT NULL,
    writer    TEXT    NOT NULL,  -- the process that counted them; all zeros: put together
    namespace TEXT    NOT NULL,
    queue     TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    outcome   TEXT    NOT NULL,
    count     INTEGER NOT NULL,
    seconds   INTEGER NOT NULL,  -- a bit for each second of the minute in which one ended
    waits     TEXT    NOT NULL,  -- JSON: how many, by bucket (model/rollup.py)
    runs      TEXT    NOT NULL,
    PRIMARY KEY (minute, writer, namespace, queue, kind, outcome)
);
CREATE INDEX foliot_rollups_apart ON foliot_rollups (minute)
    WHERE writer <> '00000000-0000-0000-0000-000000000000';

-- Which batch of each writer was added last: one that is sent again is not added again.
CREATE TABLE foliot_rollup_writers (
    writer     TEXT    NOT NULL PRIMARY KEY,
    batch      INTEGER NOT NULL,
    written_at INTEGER NOT NULL
);

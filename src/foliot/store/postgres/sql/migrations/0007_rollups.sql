-- Roll-ups: how many attempts ended in each minute, how, and how long they had waited and run.

CREATE TABLE foliot.rollups (
    minute    timestamptz NOT NULL,
    writer    uuid        NOT NULL,  -- the process that counted them; all zeros: put together
    namespace text        NOT NULL,
    queue     text        NOT NULL,
    kind      text        NOT NULL,
    outcome   text        NOT NULL,
    count     bigint      NOT NULL,
    seconds   bigint      NOT NULL,  -- a bit for each second of the minute in which one ended
    waits     text        NOT NULL,  -- JSON: how many, by bucket (model/rollup.py)
    runs      text        NOT NULL,
    PRIMARY KEY (minute, writer, namespace, queue, kind, outcome)
) WITH (fillfactor = 70);
CREATE INDEX rollups_apart ON foliot.rollups (minute) WHERE writer <> '00000000-0000-0000-0000-000000000000';

-- Which batch of each writer was added last: one that is sent again is not added again.
CREATE TABLE foliot.rollup_writers (
    writer     uuid        NOT NULL PRIMARY KEY,
    batch      bigint      NOT NULL,
    written_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Schedules: what is to be submitted, and the triggers that say when. And at the end, how fair keys are looked at.

-- Only jobs of schedules that look at their own runs (overlap, limits, failures) name them here.
ALTER TABLE foliot_jobs ADD COLUMN schedule TEXT;
CREATE INDEX foliot_jobs_schedule ON foliot_jobs (partition, schedule, id) WHERE schedule IS NOT NULL;
ALTER TABLE foliot_history ADD COLUMN schedule TEXT;
CREATE INDEX foliot_history_schedule ON foliot_history (partition, schedule, finished_at) WHERE schedule IS NOT NULL;
ALTER TABLE foliot_dead ADD COLUMN schedule TEXT;
CREATE INDEX foliot_dead_schedule ON foliot_dead (partition, schedule, finished_at) WHERE schedule IS NOT NULL;

-- One row for all schedules of a partition that fire at the same times: firing moves this row, not theirs.
CREATE TABLE foliot_triggers (
    partition    INTEGER NOT NULL,
    id           INTEGER NOT NULL,                -- a hash of what follows, down to `delay`
    stateful     INTEGER NOT NULL,                -- its schedules look at their own runs
    expression   TEXT    NOT NULL,
    timezone     TEXT    NOT NULL,
    dst_gap      TEXT,
    dst_overlap  TEXT,
    calendars    TEXT    NOT NULL DEFAULT '[]',
    delay        REAL,                            -- seconds after the end of the last run, instead
    next_fire_at INTEGER NOT NULL,                -- the nominal time that is fired next
    cursor       TEXT,                            -- of that time, the schedules up to this one are done
    fired_at     INTEGER,                         -- the last nominal time that is done
    size         INTEGER NOT NULL DEFAULT 0,      -- schedules, when it last fired
    tzdata       TEXT    NOT NULL,                -- by which rules the next time was computed
    PRIMARY KEY (partition, id)
);
CREATE INDEX foliot_triggers_due ON foliot_triggers (partition, next_fire_at);

CREATE TABLE foliot_schedules (
    partition      INTEGER NOT NULL,
    id             TEXT    NOT NULL,              -- a hash of namespace and name
    trigger        INTEGER,                       -- none: paused, parked or ended
    lane           INTEGER NOT NULL,
    since          INTEGER NOT NULL,              -- when it became what it is
    active_from    INTEGER NOT NULL,              -- it has nothing to do with nominal times before
    active_until   INTEGER,
    priority       INTEGER NOT NULL,
    max_attempts   INTEGER NOT NULL,
    version        INTEGER NOT NULL DEFAULT 1,
    phase          INTEGER,                       -- seconds after the nominal time: its place in the spread
    jitter         INTEGER,                       -- seconds, at most, by chance
    runs           INTEGER NOT NULL DEFAULT 0,    -- counted where there is a limit
    max_runs       INTEGER,
    pause_after    INTEGER,                       -- failures in a row
    buffer         INTEGER,                       -- runs that may wait for the one before
    timeout        REAL,
    start_deadline REAL,                          -- seconds after the nominal time
    misfire_window REAL,
    catchup_rate   REAL,                          -- runs a second
    state          TEXT    NOT NULL,
    overlap        TEXT    NOT NULL,
    misfire        TEXT    NOT NULL,
    namespace      TEXT    NOT NULL,
    name           TEXT    NOT NULL,
    kind           TEXT    NOT NULL,
    queue          TEXT    NOT NULL,
    key            TEXT,
    more           TEXT,                          -- JSON: what a plain job does not have
    extras         TEXT    NOT NULL,              -- JSON: what its jobs' workers need to know
    rules          TEXT    NOT NULL,              -- JSON: what was said of the times
    tags           TEXT,
    origin         TEXT,                          -- the module whose code declares it
    note           TEXT,
    paused_by      TEXT,
    paused_at      INTEGER,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    payload        BLOB    NOT NULL,
    PRIMARY KEY (partition, id)
);
CREATE INDEX foliot_schedules_trigger ON foliot_schedules (partition, trigger, id) WHERE trigger IS NOT NULL;
CREATE INDEX foliot_schedules_origin ON foliot_schedules (origin) WHERE origin IS NOT NULL;

-- What a schedule was before it was changed, and until when.
CREATE TABLE foliot_versions (
    partition   INTEGER NOT NULL,
    schedule    TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    active_from INTEGER NOT NULL,
    until       INTEGER NOT NULL,                 -- the first moment of the next version
    trigger     INTEGER,
    rules       TEXT    NOT NULL,
    PRIMARY KEY (partition, schedule, version)
);

-- The nominal times of one schedule that became no job, and why. The end is open while it lasts.
CREATE TABLE foliot_ledger (
    partition INTEGER NOT NULL,
    schedule  TEXT    NOT NULL,
    from_at   INTEGER NOT NULL,
    to_at     INTEGER,
    count     INTEGER,
    reason    TEXT    NOT NULL,                   -- overlap, paused, ended, key, edited
    PRIMARY KEY (partition, schedule, from_at, reason)
);

-- The nominal times that a trigger did not fire at, for all its schedules; those missed are caught up with.
CREATE TABLE foliot_gaps (
    partition INTEGER NOT NULL,
    trigger   INTEGER NOT NULL,
    from_at   INTEGER NOT NULL,
    to_at     INTEGER NOT NULL,
    count     INTEGER NOT NULL,
    reason    TEXT    NOT NULL,                   -- missed, excluded
    at        INTEGER NOT NULL,                   -- when it was noticed
    done      INTEGER NOT NULL,
    nominal   INTEGER,                            -- how far catching up has come
    cursor    TEXT,
    PRIMARY KEY (partition, trigger, from_at)
);
CREATE INDEX foliot_gaps_open ON foliot_gaps (partition, at) WHERE NOT done;

CREATE TABLE foliot_calendars (
    name       TEXT    PRIMARY KEY,
    dates      TEXT    NOT NULL,                  -- JSON: dates, ranges and rules
    updated_at INTEGER NOT NULL,
    updated_by TEXT
);

-- What waits for its turn is looked at by lane and fair key: a key with many jobs does not keep the others from being
-- seen. What waits for earlier ones of its ordering key is looked at by id, as before.
DROP INDEX foliot_jobs_admission;
CREATE INDEX foliot_jobs_admission ON foliot_jobs (partition, id) WHERE hold = 'admission' AND ordering_key IS NOT NULL;
CREATE INDEX foliot_jobs_turns ON foliot_jobs (partition, lane, coalesce(fair_key, ''), id)
    WHERE hold IN ('admission', 'turn') AND (hold = 'turn' OR ordering_key IS NULL);

-- Schedules: what is to be submitted, and the triggers that say when. And at the end, how fair keys are looked at.

-- Only jobs of schedules that look at their own runs (overlap, limits, failures) name them here.
ALTER TABLE foliot.jobs ADD COLUMN schedule uuid;
CREATE INDEX jobs_schedule ON foliot.jobs (partition, schedule, id) WHERE schedule IS NOT NULL;
ALTER TABLE foliot.history ADD COLUMN schedule uuid;
CREATE INDEX history_schedule ON foliot.history (partition, schedule, finished_at) WHERE schedule IS NOT NULL;
ALTER TABLE foliot.dead ADD COLUMN schedule uuid;
CREATE INDEX dead_schedule ON foliot.dead (partition, schedule, finished_at) WHERE schedule IS NOT NULL;

-- One row for all schedules of a partition that fire at the same times: firing moves this row, not theirs.
CREATE TABLE foliot.triggers (
    partition    smallint    NOT NULL,
    id           bigint      NOT NULL,                    -- a hash of what follows, down to `delay`
    stateful     boolean     NOT NULL,                    -- its schedules look at their own runs
    expression   text        NOT NULL,
    timezone     text        NOT NULL,
    dst_gap      text,
    dst_overlap  text,
    calendars    text[]      NOT NULL DEFAULT '{}',
    delay        real,                                    -- seconds after the end of the last run, instead
    next_fire_at timestamptz NOT NULL,                    -- the nominal time that is fired next
    cursor       uuid,                                    -- of that time, the schedules up to this one are done
    fired_at     timestamptz,                             -- the last nominal time that is done
    size         integer     NOT NULL DEFAULT 0,          -- schedules, when it last fired
    tzdata       text        NOT NULL,                    -- by which rules the next time was computed
    PRIMARY KEY (partition, id)
) WITH (fillfactor = 70);
CREATE INDEX triggers_due ON foliot.triggers (partition, next_fire_at);

CREATE TABLE foliot.schedules (
    partition      smallint    NOT NULL,
    id             uuid        NOT NULL,                  -- a hash of namespace and name
    trigger        bigint,                                -- none: paused, parked or ended
    lane           bigint      NOT NULL,
    since          timestamptz NOT NULL,                  -- when it became what it is
    active_from    timestamptz NOT NULL,                  -- it has nothing to do with nominal times before
    active_until   timestamptz,
    priority       smallint    NOT NULL,
    max_attempts   smallint    NOT NULL,
    version        integer     NOT NULL DEFAULT 1,
    phase          integer,                               -- seconds after the nominal time: its place in the spread
    jitter         integer,                               -- seconds, at most, by chance
    runs           integer     NOT NULL DEFAULT 0,        -- counted where there is a limit
    max_runs       integer,
    pause_after    integer,                               -- failures in a row
    buffer         integer,                               -- runs that may wait for the one before
    timeout        real,
    start_deadline real,                                  -- seconds after the nominal time
    misfire_window real,
    catchup_rate   real,                                  -- runs a second
    state          text        NOT NULL,
    overlap        text        NOT NULL,
    misfire        text        NOT NULL,
    namespace      text        NOT NULL,
    name           text        NOT NULL,
    kind           text        NOT NULL,
    queue          text        NOT NULL,
    key            text,
    more           text,                                  -- JSON: what a plain job does not have
    extras         text        NOT NULL,                  -- JSON: what its jobs' workers need to know
    rules          text        NOT NULL,                  -- JSON: what was said of the times
    tags           text[],
    origin         text,                                  -- the module whose code declares it
    note           text,
    paused_by      text,
    paused_at      timestamptz,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    payload        bytea       NOT NULL,
    PRIMARY KEY (partition, id)
);
CREATE INDEX schedules_trigger ON foliot.schedules (partition, trigger, id) WHERE trigger IS NOT NULL;
CREATE INDEX schedules_origin ON foliot.schedules (origin) WHERE origin IS NOT NULL;
CREATE INDEX schedules_tags ON foliot.schedules USING gin (tags) WHERE tags IS NOT NULL;

-- What a schedule was before it was changed, and until when.
CREATE TABLE foliot.versions (
    partition   smallint    NOT NULL,
    schedule    uuid        NOT NULL,
    version     integer     NOT NULL,
    active_from timestamptz NOT NULL,
    until       timestamptz NOT NULL,                     -- the first moment of the next version
    trigger     bigint,
    rules       text        NOT NULL,
    PRIMARY KEY (partition, schedule, version)
);

-- The nominal times of one schedule that became no job, and why. The end is open while it lasts.
CREATE TABLE foliot.ledger (
    partition smallint    NOT NULL,
    schedule  uuid        NOT NULL,
    from_at   timestamptz NOT NULL,
    to_at     timestamptz,
    count     integer,
    reason    text        NOT NULL,                       -- overlap, paused, ended, key, edited
    PRIMARY KEY (partition, schedule, from_at, reason)
);

-- The nominal times that a trigger did not fire at, for all its schedules; those missed are caught up with.
CREATE TABLE foliot.gaps (
    partition smallint    NOT NULL,
    trigger   bigint      NOT NULL,
    from_at   timestamptz NOT NULL,
    to_at     timestamptz NOT NULL,
    count     integer     NOT NULL,
    reason    text        NOT NULL,                       -- missed, excluded
    at        timestamptz NOT NULL,                       -- when it was noticed
    done      boolean     NOT NULL,
    nominal   timestamptz,                                -- how far catching up has come
    cursor    uuid,
    PRIMARY KEY (partition, trigger, from_at)
);
CREATE INDEX gaps_open ON foliot.gaps (partition, at) WHERE NOT done;

CREATE TABLE foliot.calendars (
    name       text        PRIMARY KEY,
    dates      text        NOT NULL,                      -- JSON: dates, ranges and rules
    updated_at timestamptz NOT NULL,
    updated_by text
);

-- What waits for its turn is looked at by lane and fair key: a key with many jobs does not keep the others from being
-- seen. What waits for earlier ones of its ordering key is looked at by id, as before.
DROP INDEX foliot.jobs_admission;
CREATE INDEX jobs_admission ON foliot.jobs (partition, id) WHERE hold = 'admission' AND ordering_key IS NOT NULL;
CREATE INDEX jobs_turns ON foliot.jobs (partition, lane, coalesce(fair_key, ''), id)
    WHERE hold IN ('admission', 'turn') AND (hold = 'turn' OR ordering_key IS NULL);

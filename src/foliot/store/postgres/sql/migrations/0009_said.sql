-- What code said last of its limits and queues: only what is new counts, so that what people set by hand stays.

CREATE TABLE foliot.said (
    name text PRIMARY KEY,  -- of what: "limit queue:mail", "queue mail"
    said text NOT NULL      -- JSON
);

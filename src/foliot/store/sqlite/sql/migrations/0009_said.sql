-- What code said last of its limits and queues: only what is new counts, so that what people set by hand stays.

CREATE TABLE foliot_said (
    name TEXT PRIMARY KEY,  -- of what: "limit queue:mail", "queue mail"
    said TEXT NOT NULL      -- JSON
);

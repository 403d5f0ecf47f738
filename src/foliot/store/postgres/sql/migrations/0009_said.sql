-- What code said last of a limit or a queue, as JSON: what it says again does not count, so that what people set by hand stays.

ALTER TABLE foliot.limits ADD COLUMN said text;
ALTER TABLE foliot.queues ADD COLUMN said text;

-- And where each kind of a session is defined, in their order: two apps may have one of the same name.
ALTER TABLE foliot.sessions ADD COLUMN modules text[] NOT NULL DEFAULT '{}';

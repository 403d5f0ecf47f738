-- What code said last of a limit or a queue, as JSON: what it says again does not count, so that what people set by hand stays.

ALTER TABLE foliot.limits ADD COLUMN said text;
ALTER TABLE foliot.queues ADD COLUMN said text;

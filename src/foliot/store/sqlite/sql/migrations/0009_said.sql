-- What code said last of a limit or a queue, as JSON: what it says again does not count, so that what people set by hand stays.

ALTER TABLE foliot_limits ADD COLUMN said TEXT;
ALTER TABLE foliot_queues ADD COLUMN said TEXT;

-- What waits for its turn is looked at by lane and fair key: a key with many jobs does not keep the others from being
-- seen. What waits for earlier ones of its ordering key is looked at by id, as before.
DROP INDEX foliot_jobs_admission;
CREATE INDEX foliot_jobs_admission ON foliot_jobs (partition, id) WHERE hold = 'admission' AND ordering_key IS NOT NULL;
CREATE INDEX foliot_jobs_turns ON foliot_jobs (partition, lane, coalesce(fair_key, ''), id)
    WHERE hold IN ('admission', 'turn') AND (hold = 'turn' OR ordering_key IS NULL);

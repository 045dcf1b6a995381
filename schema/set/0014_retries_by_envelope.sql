-- What waits behind a refused event is read by its envelope (events/queries/next_retries.sql).
-- Lock: writes to event_retry wait while the index is built; the table is empty as a rule, and has 100,000 rows at most.
CREATE INDEX event_retry_envelope ON event_retry (sink, envelope_id, retry_id);

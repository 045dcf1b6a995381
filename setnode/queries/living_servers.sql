-- living_servers: servers of the SET that have asked Postgres anything on their listening connection within $1 (they ask
-- twice a second). A killed server has no connection any more, a frozen one has one that is silent.
-- Index: none (a view of backends). Lock: none.
SELECT left(application_name, -length(':listen')) AS server FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE '%:listen' AND state_change > now() - $1::interval

-- activity: statements that run now, the oldest first. $1 how many. Lock: none.
SELECT usename AS role, coalesce(state, '') AS state, coalesce(wait_event_type || ' ' || wait_event, '') AS waits_for,
    (extract(epoch FROM now() - query_start) * 1000)::float8 AS running_ms,
    left(regexp_replace(query, '\s+', ' ', 'g'), 200) AS query
FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle'
    AND datname = current_database()
ORDER BY query_start LIMIT $1

-- connections: who is connected, by role, program and state, with the longest transaction of each. Lock: none.
SELECT usename AS role, split_part(application_name, ':', 1) AS program, coalesce(state, 'background') AS state,
    count(*) AS connections,
    max(extract(epoch FROM now() - xact_start))::float8 AS oldest_transaction_s,
    array_agg(pid ORDER BY pid) AS pids
FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3

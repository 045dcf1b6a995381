-- statements: those that took the most time together, since the counters were last reset. $1 how many. Lock: none.
SELECT calls, total_exec_time AS total_ms, mean_exec_time AS mean_ms, max_exec_time AS max_ms, rows,
    left(regexp_replace(query, '\s+', ' ', 'g'), 200) AS query
FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
WHERE d.datname = current_database()
ORDER BY total_exec_time DESC LIMIT $1

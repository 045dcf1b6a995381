-- ages: how old the oldest row of this database is in transactions, against the age at which Postgres vacuums by force
-- and the one at which it stops. Lock: none.
SELECT age(datfrozenxid) AS xid_age, current_setting('autovacuum_freeze_max_age')::bigint AS forced_at,
    mxid_age(datminmxid) AS multixact_age
FROM pg_database WHERE datname = current_database()

"""A Postgres server of ours: its programs, its folder, its settings, its process.

`binaries` finds the programs, `cluster_folder` makes a cluster with initdb and checks it before each start, `settings`
renders the configuration, `server` starts, watches and stops the process. What is inside the database is not known
here: `schema.cluster_setup` makes roles and database, `schema` the tables; `backup` copies clusters.

Promises, each with the test that keeps it (tests/integration/local/test_postgres.py):
- What was committed survives a stop, a kill and a restart (`test_data_survives_stop_kill_and_restart`): fsync and
  synchronous_commit are on.
- Two servers never work on one folder, and no server starts beside a backend that a killed one left behind
  (`test_a_second_server_on_one_folder_is_refused`, `test_a_start_waits_for_orphaned_backends`).
- It listens on loopback only, and every connection needs a password (`test_a_password_is_needed`).
- An initdb that was killed is done again (`test_a_killed_initdb_heals`).

Fails by `Refused` (other major version, disk full, folder in use, port taken) or `Unavailable` (does not start in
time); the sentence has Postgres' own reason or the path of its log.
"""

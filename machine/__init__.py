"""What there is to run on: accounts, programs, ports, child processes and log files of this machine.

What lives here: `account` (whom servers run as), `ports` (loopback ports for parts), `checkout` (where the repository
is), `file_lock` (one process at a time), `child` and `logfile` (one child process, its log), `child_part` (what parts
that are one process share), `debian_programs` and `memcached` (programs from Debian), `postgres/` (a Postgres server).
Nothing here knows envelopes, SETs or installations.

May import: `errors` only.

Promises, each with the test that keeps it:
- A child dies with this process, also after `kill -9` of it (`test_nothing_outlives_a_killed_parent`), and `Child.stop`
  ends it within its deadlines.
- Postgres and memcached never run as root: if this process is root, Postgres runs as `postgres` or `nobody`
  (`server_account`; it refuses root itself), and memcached under another account than Postgres
  (`test_memcached_may_not_read_the_clusters`).
- A cluster that was known and is missing, or is another, is refused and never made anew
  (`test_a_cluster_that_goes_missing_while_it_serves_…`).
- A port that is chosen for a part is given to no other process of ours until the part listens or this process ends
  (`test_a_port_that_another_process_has_reserved_is_not_given`).
- A lock file is released by the kernel when its holder ends, however it ends (`test_a_second_stack_…_is_refused`).
- A log and its older half can be read by their owner only (`test_the_older_half_of_a_log_is_private`), and a symbolic
  link in its place is not followed (`test_a_log_that_is_a_symbolic_link_…`). `LogFile.bound`
  cuts a log that is too long, off the event loop (`test_no_part_waits_while_a_long_log_is_bounded`); the runner of the
  child calls it (the supervisor: every ten seconds).

Fails by `Refused` (a program, an account or a port is missing) or `Unavailable` (a program did not start in time).
"""

"""What there is to run on: accounts, programs, ports, child processes and log files of this machine.

What lives here: `account` (whom servers run as), `ports` (loopback ports for parts), `checkout` (where the repository
is), `file_lock` (one process at a time), `child` and `logfile` (one child process, its log), `debian_programs` and
`memcached` (programs from Debian), `postgres/` (a Postgres server). Nothing here knows envelopes, SETs or
installations.

May import: `errors` only.

Promises, each with the test that keeps it:
- A child dies with this process, also after `kill -9` of it (`test_nothing_outlives_a_killed_parent`), and `Child.stop`
  ends it within its deadlines.
- Postgres and memcached never run as root: if this process is root, they run as `postgres` or `nobody`
  (`server_account`; Postgres itself refuses root).
- A lock file is released by the kernel when its holder ends, however it ends (`test_a_second_stack_…_is_refused`).
- A log and its older half can be read by their owner only (`test_the_older_half_of_a_log_is_private`). `LogFile.bound`
  cuts a log that is too long; whoever runs the child calls it (the supervisor: every ten seconds).

Fails by `Refused` (a program, an account or a port is missing) or `Unavailable` (a program did not start in time).
"""

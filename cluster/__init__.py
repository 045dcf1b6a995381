"""Starts and supervises the real parts on one machine, and holds the `hongbao` command (floor 7).

What lives here: finding and running Postgres and memcached as a user that may run them, the data folder and its
secrets, the child processes and their supervisor, and `Stack`, which is all of it as one `async with`. Commands
are modules of `cluster.commands`, imported only when called.

May import: everything below. Nobody imports it but tests.

Promise: nothing that is started here outlives its parent by more than three seconds, even when that is killed; a
restart finds all data; every wait has a deadline. What goes wrong is one sentence that says what to do, raised as
`envelope.errors.Refused` or `Unavailable` and printed by the command without a traceback.
"""

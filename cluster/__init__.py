"""Starts and supervises the real parts on one machine, and holds the `hongbao` command (floor 7).

From below: `machine` is what there is to run on, `supervision` keeps processes alive, `pg` is Postgres as we run it,
`assembly` is all of it as one `async with` (`Stack`). `access` and the modules beside it are how commands reach what
runs; the commands themselves are modules of `commands`, imported only when called, and `demo` is what one of them
plays.

May import: everything below. Nobody imports it but tests.

Promise: nothing that is started here outlives its parent by more than three seconds, even when that is killed; a
restart finds all data; every wait has a deadline. What goes wrong is one sentence that says what to do, raised as
`envelope.errors.Refused` or `Unavailable` and printed by the command without a traceback.
"""

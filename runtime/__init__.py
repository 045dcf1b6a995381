"""Plumbing without business rules (floor 1).

What lives here: `settings` from the environment, `clock`, a sandbox's clock that moves (`sandbox_clock`), `logs`,
`metrics`, `traces`, the life cycle of a `process` and of its `periodic` services, connections to `postgres`, their
addresses (`dsn`), SQL files (`sql`), who gives a command (`login`), owner-only `files` replaced in one step, what a
decoder raises (`unreadable`), the probes and listener of every process (`http`), `tls` between our processes,
`listening` sockets that outlive a restart, and the product's `version`. Each bound stands in the module it bounds.

May import: `errors`; every room above may import it.

Promise: no envelope, no money and no table is known here. A connection to Postgres is made, used through `Session.run`
or `run_inline`, and closed within a deadline; a statement on a connection that a caller uses directly has only the
deadline that the caller sets. structlog, prometheus_client and uvloop are set up in one module each.
"""

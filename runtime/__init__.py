"""Plumbing that knows no envelopes (floor 1).

What lives here: settings from the environment, the clock, structured logs, metrics, the life cycle of a
process and of its periodic services, Postgres connections, the HTTP base that every process carries.

May import: nothing of ours but `envelope.errors`. Every room above may import it.

Promise: nothing here decides about money, everything here that waits has a deadline, and each third-party
plumbing library (structlog, prometheus_client, uvloop) is set up in exactly one module.
"""

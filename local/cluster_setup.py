"""Sets up a Postgres cluster: the database `hongbao`, its owner, the roles of the processes, statement statistics.

Repeated at every start, so that a first start that was killed half way is completed by the next one.
"""

import asyncio
from collections.abc import Mapping

from local.cluster_rights import limit_connections, limit_functions
from local.scram import matches, verifier
from machine.postgres.server import Postgres
from runtime import postgres
from runtime.postgres import Connection
from schema.roles import AUDIT, DATABASE, OWNER, SETNODE

SETUP_S = 30.0
"""A dozen statements of milliseconds; CREATE DATABASE copies a template to the disk."""
_OF_LOGGING = ("track_activities", "log_min_error_statement", "log_min_duration_statement")
_ROLES = "SELECT rolname, CASE WHEN rolcanlogin THEN rolpassword END AS verifier FROM pg_authid"
_FORGET = """SELECT pg_stat_statements_reset(userid, dbid, queryid) FROM pg_stat_statements
WHERE query ~* '^\\s*(CREATE|ALTER)\\s+(ROLE|USER|SUBSCRIPTION)'"""
"""Removes statements with passwords that an earlier version counted; the statistics outlive restarts."""


async def set_up_cluster(server: Postgres) -> None:
    """Create missing roles and the database, set changed passwords, take away what Postgres lets everybody do.

    Idempotent.
    """
    await set_up(server.dsn(), server.dsn(database=DATABASE), server.spec.passwords)


async def set_up(dsn: str, ours: str, passwords: Mapping[str, str]) -> None:
    """As `set_up_cluster`, for any server: `dsn` is the superuser's, `ours` the same for our database.

    `passwords` are by role.
    """
    async with asyncio.timeout(SETUP_S), postgres.connected(dsn) as connection:
        await _ensure_roles(connection, passwords)
        if SETNODE in passwords:
            await _grant_moves(connection)
        if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE):
            await connection.execute(f"CREATE DATABASE {DATABASE} OWNER {OWNER} STRATEGY file_copy")
        # The reports for DBAs log in as the audit role, which reads and never writes.
        await connection.execute(f"GRANT pg_monitor TO {AUDIT}")
        await limit_connections(connection, passwords)
    async with asyncio.timeout(SETUP_S), postgres.connected(ours) as connection:
        await _count_statements(connection)
        await limit_functions(connection, passwords)


async def _ensure_roles(connection: Connection, passwords: Mapping[str, str]) -> None:
    verifiers = {row["rolname"]: row["verifier"] for row in await connection.fetch(_ROLES)}
    for role, password in passwords.items():
        if not matches(verifiers.get(role), password):
            # DDL takes no parameters. The role name is checked, and a verifier is base64: neither holds a quote.
            verb = "ALTER" if role in verifiers else "CREATE"
            await connection.execute(f"{verb} ROLE {_identifier(role)} LOGIN PASSWORD '{verifier(password)}'")


async def _grant_moves(connection: Connection) -> None:
    """Let the owner of a SET's tables move a database to another SET: create a slot there, a subscription here."""
    await connection.execute(f"ALTER ROLE {OWNER} REPLICATION")
    # A subscription's text has a password in it, which the owner keeps out of log and pg_stat_activity (`moving`).
    await connection.execute(f"GRANT SET ON PARAMETER {', '.join(_OF_LOGGING)} TO {OWNER}")
    # Before Postgres 16 only a superuser can subscribe: a live move is refused there, a move by time is not.
    if await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = 'pg_create_subscription'"):
        await connection.execute(f"GRANT pg_create_subscription TO {OWNER}")


async def _count_statements(connection: Connection) -> None:
    if "pg_stat_statements" in await connection.fetchval("SHOW shared_preload_libraries"):
        await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        await connection.execute(_FORGET)


def _identifier(role: str) -> str:
    if not role.replace("_", "").isalnum() or not role.isascii():
        raise ValueError("a role of ours holds only letters, digits and underscores")
    return role

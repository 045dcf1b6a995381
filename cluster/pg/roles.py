"""The database `hongbao` of one server, its owner, and the roles that the processes log in with.

Repeated at every start, in milliseconds, so that a first start that was killed half way heals.
"""

from typing import Any

import asyncpg

from cluster.pg.postgres import Postgres
from cluster.pg.scram import proves, verifier

DATABASE = "hongbao"
OWNER = "hongbao_owner"
SETNODE = "hongbao_setnode"
WALLET = "hongbao_wallet"
AUDIT = "hongbao_audit"
CONNECT_S = 10.0
_ROLES = "SELECT rolname, CASE WHEN rolcanlogin THEN rolpassword END AS verifier FROM pg_authid"
_FORGET = """SELECT pg_stat_statements_reset(userid, dbid, queryid) FROM pg_stat_statements
WHERE query ~* '^\\s*(CREATE|ALTER)\\s+(ROLE|USER|SUBSCRIPTION)'"""
"""Counted before utility statements were left out; the counters outlive restarts."""


def roles_of(kind: str) -> tuple[str, ...]:
    """Return who logs in to a server of `kind` ("set" or "wallet"); the superuser is for us alone."""
    return ("postgres", OWNER, AUDIT, WALLET if kind == "wallet" else SETNODE)


async def ensure_roles(postgres: Postgres) -> None:
    """Make roles and database; set every password that is not the one in our secrets. Idempotent."""
    connection = await asyncpg.connect(postgres.dsn(), timeout=CONNECT_S, command_timeout=CONNECT_S)
    try:
        have = {row["rolname"]: row["verifier"] for row in await connection.fetch(_ROLES)}
        for role, password in postgres.spec.passwords.items():
            if not proves(have.get(role), password):
                # Neither can be a parameter here; the name is of our own making, the verifier in base64: no quotes.
                verb = "ALTER" if role in have else "CREATE"
                await connection.execute(f"{verb} ROLE {_plain(role)} LOGIN PASSWORD '{verifier(password)}'")
        if SETNODE in postgres.spec.passwords:
            await _let_move(connection)
        if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE):
            await connection.execute(f"CREATE DATABASE {DATABASE} OWNER {OWNER} STRATEGY file_copy")
        # The DBA's reports log in as the audit, which reads and never writes.
        await connection.execute(f"GRANT pg_monitor TO {AUDIT}")
    finally:
        await connection.close(timeout=CONNECT_S)
    await _count_statements(postgres)


async def _count_statements(postgres: Postgres) -> None:
    connection = await asyncpg.connect(postgres.dsn(database=DATABASE), timeout=CONNECT_S, command_timeout=CONNECT_S)
    try:
        if "pg_stat_statements" in await connection.fetchval("SHOW shared_preload_libraries"):
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            await connection.execute(_FORGET)
    finally:
        await connection.close(timeout=CONNECT_S)


async def _let_move(connection: Any) -> None:
    """Let the owner of a SET's tables move a database to another SET: make a slot there, subscribe to it here."""
    await connection.execute(f"ALTER ROLE {OWNER} REPLICATION")
    # Before Postgres 16 only a superuser could subscribe: there a live move is refused, one by time is not.
    if await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = 'pg_create_subscription'"):
        await connection.execute(f"GRANT pg_create_subscription TO {OWNER}")


def _plain(word: str) -> str:
    if not word.replace("_", "").isalnum() or not word.isascii():
        msg = "a role of ours holds only letters, digits and underscores"
        raise ValueError(msg)
    return word

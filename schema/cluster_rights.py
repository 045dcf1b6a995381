"""What the roles of a cluster may do apart from our tables, whose grants are in the migrations: connect, lock, make.

Postgres gives some rights to everybody. A role whose password was stolen must not use them to stop others, or to fill
the disk: with the grants of the tables alone, a reader could hold the lock for which every commit of the wallet waits.
"""

from collections.abc import Iterable

from runtime.postgres import Connection
from schema.roles import AUDIT, DATABASE, EVENTS, OWNER, SETNODE, WALLET

_LOCKS = """SELECT oid::regprocedure::text FROM pg_proc
WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^pg_(try_)?advisory_(xact_)?lock(_shared)?$'"""
_LARGE_OBJECTS = """SELECT oid::regprocedure::text FROM pg_proc
WHERE pronamespace = 'pg_catalog'::regnamespace
    AND proname IN ('lo_creat', 'lo_create', 'lo_from_bytea', 'lo_put', 'lowrite', 'lo_open', 'lo_unlink')"""
_TAKES_LOCKS = (OWNER, SETNODE, WALLET, EVENTS)
"""The sweeper of a SET, rotation, moves, the wallet's ledger and those who deliver events order themselves by advisory
locks."""


async def limit_connections(connection: Connection, roles: Iterable[str]) -> None:
    """Let our roles connect to our database and to no other; nobody but its owner makes temporary tables there.

    On Postgres 16 or later the audit role may use slots that are kept free for it. Idempotent; as superuser.
    """
    ours = [role for role in roles if role != "postgres"]
    await connection.execute(f"REVOKE ALL ON DATABASE {DATABASE} FROM PUBLIC")
    await connection.execute(f"GRANT CONNECT ON DATABASE {DATABASE} TO {', '.join(ours)}")
    for other in ("postgres", "template1"):
        await connection.execute(f"REVOKE ALL ON DATABASE {other} FROM PUBLIC")
    if AUDIT in ours and await connection.fetchval(
        "SELECT 1 FROM pg_roles WHERE rolname = 'pg_use_reserved_connections'"
    ):
        await connection.execute(f"GRANT pg_use_reserved_connections TO {AUDIT}")


async def limit_functions(connection: Connection, roles: Iterable[str]) -> None:
    """In our database, leave advisory locks to the roles that use them, and large objects to nobody.

    Idempotent; as superuser.
    """
    takers = [role for role in roles if role in _TAKES_LOCKS]
    locks = ", ".join(row[0] for row in await connection.fetch(_LOCKS))
    await connection.execute(f"REVOKE EXECUTE ON FUNCTION {locks} FROM PUBLIC")
    await connection.execute(f"GRANT EXECUTE ON FUNCTION {locks} TO {', '.join(takers)}")
    large = ", ".join(row[0] for row in await connection.fetch(_LARGE_OBJECTS))
    await connection.execute(f"REVOKE EXECUTE ON FUNCTION {large} FROM PUBLIC")

"""The clock of a database of a sandbox: what Postgres itself dates and checks by time is by the sandbox's clock, too.

By that clock are the `created_at` of the wallet's transfers and funds (histories, totals, the sweeper, the audit's
ages) and `business_today()` of a SET (which days may be closed). They call `sandbox_now()`, a function with the offset
in its text, which a move replaces: sessions plan anew with their next statement. A real installation has no such
function, its schema is the migrations' alone, and it pays nothing.

What operators are told of their own doings (`since` of the register, `at` of the operation log, moves) stays by the
server's clock, and so do the marks that servers leave for each other (`foreign_write`).
"""

from typing import Final

from errors import Refused
from runtime import postgres
from runtime.postgres import Connection

_FUNCTION: Final = "SELECT to_regprocedure('public.sandbox_now()') IS NOT NULL"
_NOW: Final = """
CREATE OR REPLACE FUNCTION public.sandbox_now() RETURNS timestamptz LANGUAGE sql STABLE AS
$$ SELECT now() + interval '{ahead_ms} milliseconds' $$
"""
_OF_WALLET: Final = """
ALTER TABLE public.transfer ALTER COLUMN created_at SET DEFAULT public.sandbox_now();
ALTER TABLE public.fund ALTER COLUMN created_at SET DEFAULT public.sandbox_now()
"""
_OF_SET: Final = """
CREATE OR REPLACE FUNCTION public.business_today() RETURNS date LANGUAGE sql STABLE AS
$$ SELECT ((public.sandbox_now() AT TIME ZONE 'UTC') + interval '8 hours')::date $$
"""


async def put_ahead(dsn: str, ahead_ms: int, *, wallet: bool) -> None:
    """Have a database go by a clock that is `ahead_ms` ahead of its own, as its owner. Idempotent; after migrations."""
    async with postgres.connected(dsn, lock_timeout="10s") as connection, connection.transaction():
        await move(connection, ahead_ms)
        await connection.execute(_OF_WALLET if wallet else _OF_SET)


async def move(connection: Connection, ahead_ms: int) -> None:
    """Set by how much a database of a sandbox is ahead; seen by others once the caller's transaction commits."""
    await connection.execute(_NOW.format(ahead_ms=int(ahead_ms)))


async def refuse_sandbox(dsn: str, name: str) -> None:
    """Raise Refused `sandbox_data` if a database is a sandbox's: it was given to an installation that is none."""
    async with postgres.connected(dsn) as connection:
        if await connection.fetchval(_FUNCTION):
            raise Refused(
                "sandbox_data",
                f"the database of {name} is that of a sandbox, whose clock was moved: no installation but that sandbox "
                "may use it; start it with ./run --sandbox, or put the right Postgres folder in its place",
            )

"""The move lock: a database is moved by one tool at a time, at the SET that gives it away and at the one that takes it.

It is a session's advisory lock in each of the two Postgres databases. What destroys something is done by a session that
holds the lock itself, and looks in the same transaction whether it does (`check`). So a tool that was stopped for any
time destroys nothing that has come to be meanwhile: while its session lives no other tool has gone on with the move,
and once its session is gone the statement fails.
"""

from errors import Refused, Unavailable
from runtime import postgres
from runtime.postgres import Connection
from sharding.slots import database_name

_MINE = """locktype = 'advisory' AND granted AND objsubid = 2 AND objid = $1::int::oid
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint = hashtext('hongbao_move')::bigint & 4294967295"""
_TAKE = "SELECT pg_try_advisory_lock(hashtext('hongbao_move'), $1)"
_HOLDER = f"SELECT pid FROM pg_locks WHERE {_MINE}"  # noqa: S608 - no values
_HELD = f"SELECT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND {_MINE})"  # noqa: S608 - no values

_PROVE = f"""SELECT pg_logical_emit_message(true, 'hongbao_move', 'holds the lock')::text
FROM set_config('synchronous_commit', 'on', true)
WHERE EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND {_MINE})"""  # noqa: S608 - no values


async def take(connection: Connection, xx: int, set_name: str) -> None:
    """Take the lock until `connection` closes. Raises Refused `move_running` if another session holds it."""
    if not await connection.fetchval(_TAKE, xx):
        holder = await connection.fetchval(_HOLDER, xx)
        text = (
            f"{database_name(xx)} is being moved by another process, which has session {holder} of {set_name}; let it "
            "finish. If it hangs, end that session; the process then changes nothing any more"
        )
        raise Refused("move_running", text)


async def holder(connection: Connection, xx: int) -> int | None:
    """Return the backend that holds the lock in this database; None if none does."""
    pid = await connection.fetchval(_HOLDER, xx)
    return None if pid is None else int(pid)


async def check(connection: Connection, xx: int) -> None:
    """Call it in the transaction that destroys: raises Unavailable `move_lock_lost` unless this session has the lock.

    A proxy between us and Postgres may have given the connection another session.
    """
    if not await connection.fetchval(_HELD, xx):
        raise lost(xx)


async def prove(connection: Connection, xx: int) -> None:
    """Show by a commit that this session still holds the lock, and that its server is not one that was replaced.

    A server whose standby has taken its place cannot commit this any more. One statement, because requests wait for it
    in a cutover. Raises Unavailable `move_lock_lost`.
    """
    try:
        proven = await connection.fetchval(_PROVE, xx)
    except Exception as error:
        if not postgres.is_lost(error):
            raise
        raise lost(xx) from error
    if proven is None:
        raise lost(xx)


def lost(xx: int) -> Unavailable:
    """Return what a tool is told that may no longer go on with a move."""
    return Unavailable(
        "move_lock_lost",
        f"the session that held the lock of {database_name(xx)} is gone, and another process may have gone on with its "
        "move; this one changes nothing more. Run it again",
    )

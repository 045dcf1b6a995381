"""What forbids to forget a user just now, each with what to do about it."""

from archive import store
from archive.of_user import UserInArchive
from archive.threads import run_blocking
from errors import Refused
from runtime import sql
from sharding.slots import database_name
from users.limits import SHOWN, STATEMENT_S
from users.sessions import Sessions

_ACCOUNT = "SELECT account_id, balance_fen FROM account WHERE name = 'user:' || $1"
_UNFINISHED = sql.read("users", "unfinished")
_PENDING = sql.read("users", "pending")
_UNTOLD = """-- untold: events that name a user and wait to be delivered, and those that were given up. Lock: none.
SELECT (SELECT count(*) FROM event_log WHERE $1 = ANY(user_ids)) AS waiting,
    (SELECT count(*) FROM event_retry WHERE strpos(body, to_json($1::text)::text) > 0) AS retried"""
_MOVES = "SELECT xx, kind, target, step FROM move WHERE step NOT IN ('done', 'aborted') ORDER BY xx"
_RESTORED = r"SELECT nspname FROM pg_namespace WHERE nspname ~ '^restor(ed|ing)_\d\d_\d{8}$' ORDER BY 1"
_REGISTERED = "SELECT day, xx FROM day_register WHERE manifest_sha256 IS NOT NULL"


async def obstacles(sessions: Sessions, user: str, *, leave_balance: bool) -> list[str]:
    """Return a sentence for everything in the way; nothing is changed. An unknown user has no obstacles of money."""
    return [
        *await _of_money(sessions, user, leave_balance=leave_balance),
        *await _of_payouts(sessions, user),
        *await _of_events(sessions, user),
        *await _of_moves(sessions),
        *await _of_copies(sessions, user),
    ]


async def pending(sessions: Sessions, user: str) -> list[str]:
    """Return a sentence for each SET in which payouts of the user wait or are stuck."""
    return await _of_payouts(sessions, user)


async def _of_money(sessions: Sessions, user: str, *, leave_balance: bool) -> list[str]:
    account = await sessions.wallet.fetchrow(_ACCOUNT, user)
    if account is None:
        return []
    found = []
    if (fen := account["balance_fen"]) and not leave_balance:
        found.append(
            f"the balance is {fen} fen: have it sent or paid out first, or give --leave-balance, and it stays for ever "
            "in an account that nobody can use"
        )
    rows = await sessions.wallet.fetch(_UNFINISHED, account["account_id"])
    if rows:
        named = ", ".join(str(row["envelope_id"]) for row in rows[:SHOWN])
        more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
        found.append(
            f"{sum(row['left_fen'] for row in rows)} fen of the user's own envelopes are not paid out yet "
            f"({named}{more}): cancel them as the user, or wait until they have ended and been paid"
        )
    return found


async def _of_payouts(sessions: Sessions, user: str) -> list[str]:
    found = []
    for name, connection in sessions.sets.items():
        rows = await connection.fetch(_PENDING, user, timeout=STATEMENT_S)
        stuck = [row for row in rows if row["stuck_at"] is not None]
        if len(rows) > len(stuck):
            found.append(f"{len(rows) - len(stuck)} payouts of the user wait on {name}: try again in a moment")
        if stuck:
            orders = ", ".join(f"{row['envelope_id']}.{row['seq']}" for row in stuck[:SHOWN])
            found.append(f"payouts of the user are stuck on {name} ({orders}): `hongbao payout stuck` says why")
    return found


async def _of_events(sessions: Sessions, user: str) -> list[str]:
    found = []
    for name, connection in sessions.sets.items():
        row = await connection.fetchrow(_UNTOLD, user, timeout=STATEMENT_S)
        if row["waiting"]:
            found.append(
                f"{row['waiting']} entries of the event log of {name} name the user and wait for a receiver: "
                "`hongbao events` says which; resume it, or remove it"
            )
        if row["retried"]:
            found.append(
                f"{row['retried']} events of {name} that name the user are retried or were given up: "
                "`hongbao events redrive` sends or drops them"
            )
    return found


async def _of_moves(sessions: Sessions) -> list[str]:
    return [
        f"{database_name(row['xx'])} is on its way from {name} to {row['target']} (step {row['step']}): finish the "
        "move, or take it back (`hongbao topology move`)"
        for name, connection in sessions.sets.items()
        for row in await connection.fetch(_MOVES)
    ]


async def _of_copies(sessions: Sessions, user: str) -> list[str]:
    """Name the copies that are nobody's: restored dates, and exports that no register names."""
    found = []
    registered = set()
    for name, connection in sessions.sets.items():
        registered |= {(row["day"], row["xx"]) for row in await connection.fetch(_REGISTERED)}
        for row in await connection.fetch(_RESTORED):
            _, xx, digits = row["nspname"].split("_")
            date = f"{digits[:4]}-{digits[4:6]}-{digits[6:]}"
            found.append(
                f"{row['nspname']} stands on {name}, a copy of an archive: remove it first "
                f"(`hongbao archive restore {date} db_{xx} --remove`)"
            )
    archive = sessions.at.archive
    for day, xx in await run_blocking(store.archived, archive.folder):
        if (day, xx) in registered:
            continue
        with UserInArchive((await run_blocking(store.opened, archive, xx=xx, day=day)).where, user) as archived:
            if any(await archived.count()):
                found.append(
                    f"an export of {database_name(xx)} of {day} stands in {archive.folder} that no register names: "
                    f"finish the rotation first (`hongbao rotate run --date {day}`)"
                )
    return found


def refuse(found: list[str]) -> None:
    """Raise Refused `user_not_ready` with all sentences, if there are any."""
    if found:
        raise Refused("user_not_ready", "nothing was changed: " + "; ".join(found))

"""The journal in the wallet's database: who is being forgotten, what was done, who was forgotten."""

import re
from dataclasses import dataclass
from datetime import date

from errors import Refused
from runtime.postgres import Connection
from users.headers import Names
from users.limits import REASON_CHARS, WHO_CHARS

_BEGUN = "SELECT name, pseudonym, account_id FROM forgetting WHERE name = $1"
_BEGIN = "SELECT begin_forgetting($1, $2, $3, $4, $5, $6)"
_LOG = "INSERT INTO forget_log (pseudonym, step, changed, who, reason) VALUES ($1, $2, $3, $4, $5)"
_REMEMBER = """
INSERT INTO forgotten (name_mac, day) VALUES ($1, $2) ON CONFLICT (name_mac) DO UPDATE SET day = excluded.day
"""


@dataclass(frozen=True)
class Operator:
    """Who forgets a user, and why, as both stand in the logs."""

    who: str
    reason: str

    def check(self, user: str) -> None:
        """Raise Refused `operator_unnamed`, `reason_missing` (no text for the logs) or `reason_names_user`."""
        if not self.who.strip() or len(self.who) > WHO_CHARS:
            raise Refused("operator_unnamed", f"give the operator's name, in 1 to {WHO_CHARS} characters")
        if not self.reason.strip() or len(self.reason) > REASON_CHARS:
            raise Refused("reason_missing", f"give a reason, in 1 to {REASON_CHARS} characters, for the logs")
        if stands_in(user, self.reason) or stands_in(user, self.who):
            sentence = "the reason or the operator's name has the user's ID in it, and would keep it: say it otherwise"
            raise Refused("reason_names_user", sentence)


def stands_in(user: str, text: str) -> bool:
    """Say whether a user's ID stands in a text, as a word of its own."""
    # A sentence may end with a dot after it.
    return re.search(rf"(?<![A-Za-z0-9._@-]){re.escape(user)}(?![A-Za-z0-9_@-])", text) is not None


async def begun(wallet: Connection, user: str) -> Names | None:
    """Return the names of a user who is being forgotten already; None if that was not begun."""
    row = await wallet.fetchrow(_BEGUN, user)
    return row and Names(row["name"], row["pseudonym"], row["account_id"])


async def begin(
    wallet: Connection, user: str, pseudonym: str, by: Operator, *, leave_balance: bool, without_account: bool
) -> str | None:
    """Give the user's account the pseudonym; returns None, or why not (`begin_forgetting` in schema/wallet.sql)."""
    refused: str | None = await wallet.fetchval(
        _BEGIN, user, pseudonym, leave_balance, without_account, by.who, by.reason
    )
    return refused


async def note(wallet: Connection, names: Names, by: Operator, step: str, changed: int) -> None:
    """Add a line to the log, in the caller's transaction or one of its own."""
    await wallet.execute(_LOG, names.after, step, changed, by.who, by.reason)


async def finish(wallet: Connection, names: Names, by: Operator, name_mac: bytes, today: date) -> None:
    """Forget the name here, too; of it the MAC and the day stay. Durable on return."""
    async with wallet.transaction():
        await wallet.execute("DELETE FROM forgetting WHERE name = $1", names.before)
        await wallet.execute(_REMEMBER, name_mac, today)
        await note(wallet, names, by, "done", 0)


async def forgotten_on(wallet: Connection, name_mac: bytes) -> date | None:
    """Return the day on which a user of this name was forgotten last; None if never."""
    found: date | None = await wallet.fetchval("SELECT day FROM forgotten WHERE name_mac = $1", name_mac)
    return found

"""Reads of the ledger: balances, a user's entries and envelopes, and, for the SETs' sweepers, the creates paid in."""

from typing import Any

from errors import Refused
from runtime import sql
from runtime.clock import from_ms as instant
from runtime.clock import to_ms
from wallet.limits import MAX_FUNDS_PAGE, MAX_PAGE
from wallet.postings import EntryKind, TransferKind, user_account
from wallet.readers import Readers

_BALANCES = sql.read("wallet", "balances")
_ENTRIES = sql.read("wallet", "entries")
_ESCROW_TOTAL = sql.read("wallet", "escrow_total")
_FUNDS = sql.read("wallet", "funds")
_PAID_OUT = sql.read("wallet", "paid_out")
_TOTALS = sql.read("wallet", "totals")

_TOP = 2**63 - 1
_ENVELOPES = {role: sql.read("wallet", f"envelopes_{role}") for role in ("sent", "received")}


class History:
    """Reads committed rows. Pages for users come newest first; `before` is the first value of the last row, or 0.

    Every call may raise Unavailable (`busy`, `database_unavailable`).
    """

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    async def balance(self, user: str) -> int:
        """Return the balance of `user` in fen; 0 for a user never seen."""
        return (await self.balances([user_account(user)])).get(user_account(user), 0)

    async def balances(self, names: list[str]) -> dict[str, int]:
        """Return the balances in fen of the accounts among `names` that exist."""
        return dict(await self._readers.fetch(_BALANCES, names))

    async def escrow_total(self) -> int:
        """Return all money in escrow, in fen."""
        rows = await self._readers.fetch(_ESCROW_TOTAL)
        return int(rows[0][0])

    async def entries(self, user: str, before: int, limit: int) -> list[list[Any]]:
        """Return `[entry_id, order_no, kind, amount_fen, envelope_id|None, at_ms]` rows.

        `amount_fen` is signed from the user's view; `kind` is an `EntryKind`.
        """
        rows = await self._readers.fetch(_ENTRIES, user_account(user), _cursor(before), _page(limit, MAX_PAGE))
        return [_entry(row) for row in rows]

    async def envelopes(self, user: str, role: str, before: int, limit: int) -> list[list[Any]]:
        """Return `[cursor, envelope_id, amount_fen, at_ms]` rows of what `user` sent or received."""
        if role not in _ENVELOPES:
            raise Refused("malformed_request", "role is sent or received")
        rows = await self._readers.fetch(_ENVELOPES[role], user_account(user), _cursor(before), _page(limit, MAX_PAGE))
        return [[cursor, envelope_id, amount_fen, to_ms(at)] for cursor, envelope_id, amount_fen, at in rows]

    async def totals(self, user: str, from_ms: int, until_ms: int) -> tuple[int, ...]:
        """Return received_count, received_fen, sent_count, sent_fen, refunded_fen of entries from `from_ms` on."""
        rows = await self._readers.fetch(_TOTALS, user_account(user), instant(from_ms), instant(until_ms))
        return tuple(rows[0])

    async def funds(self, after: int, until_ms: int, limit: int) -> list[list[Any]]:
        """Return `[fund_id, envelope_id, user, total_fen]` rows above `after`, in order of fund_id.

        The page ends before the first row that was created at `until_ms` or later.
        """
        found: list[list[Any]] = []
        for fund_id, envelope_id, name, total_fen, at in await self._readers.fetch(
            _FUNDS, after, _page(limit, MAX_FUNDS_PAGE)
        ):
            # Stop, do not skip: a skipped row would stay below the caller's next cursor and never be read.
            if to_ms(at) >= until_ms:
                break
            found.append([fund_id, envelope_id, name.removeprefix("user:"), total_fen])
        return found

    async def paid_out(self, envelope_ids: list[int]) -> list[int]:
        """Return those of these envelopes of which any share was paid or refunded."""
        return [row[0] for row in await self._readers.fetch(_PAID_OUT, envelope_ids)]


def _entry(row: Any) -> list[Any]:
    kind = EntryKind[TransferKind(row["kind"]).name]
    if not row["paid_in"] and not row["paid_out"]:
        kind = EntryKind.CLAIM_OUTSIDE
    amount_fen = -row["amount_fen"] if row["paid_out"] else row["amount_fen"]
    return [
        row["transfer_id"], row["order_no"], kind.value, amount_fen, row["envelope_id"], to_ms(row["created_at"])
    ]  # fmt: skip


def _cursor(before: int) -> int:
    return before if 0 < before <= _TOP else _TOP


def _page(limit: int, most: int) -> int:
    return max(1, min(limit, most))

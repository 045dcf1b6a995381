"""The wallet in memory: balances, statements, and the calls that a gateway and a creator make of it."""

import asyncio
from collections import defaultdict
from typing import Any, NamedTuple

from errors import Refused
from gateway.identity.users import is_user
from runtime.clock import Clock
from wallet.limits import MAX_AMOUNT_FEN
from wire.messages import FundStatus, Op
from wire.orders import fund_order, payout_order
from wire.server import Caller


class _Entry(NamedTuple):
    """One movement of a user's money, as `wire.messages.Op.ENTRIES` has it."""

    entry_id: int
    order_no: str
    kind: str
    amount_fen: int
    envelope_id: int | None
    at_ms: int


class _Fund(NamedTuple):
    """What is known of a create that was paid in."""

    fingerprint: str
    envelope_id: int
    draft: bytes


class Ledger:
    """All money. A balance is the sum of its entries; nothing is ever below zero."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, list[_Entry]] = defaultdict(list)
        self._funds: dict[str, _Fund] = {}
        self._count = 0

    def deposit(self, user: str, fen: int) -> None:
        """Give a user money from outside; raises ValueError unless a wallet would take it."""
        if not 1 <= fen <= MAX_AMOUNT_FEN:
            raise ValueError(f"a deposit is 1 to {MAX_AMOUNT_FEN} fen, not {fen}")
        if not is_user(user):
            raise ValueError(f"{user!r:.50} is no user ID: letters, digits and . _ @ -")
        self._post(user, f"D{self._count}", "deposit", fen, None)

    def balance(self, user: str) -> int:
        """Return what a user has, in fen."""
        return sum(one.amount_fen for one in self._entries[user])

    def fund(
        self,
        create_key: str,
        fingerprint: str,
        user: str,
        total_fen: int,
        envelope_id: int,
        header_hash: bytes,
        draft: bytes,
    ) -> asyncio.Future[tuple[int, int, bytes]]:
        """Take a create's money, once for each key (`wire.wallet.WalletClient.fund`)."""
        del header_hash
        answer: asyncio.Future[tuple[int, int, bytes]] = asyncio.get_running_loop().create_future()
        made = self._funds.get(create_key)
        if made is not None:
            same = made.fingerprint == fingerprint
            status = FundStatus.REPLAYED if same else FundStatus.KEY_REUSED
            answer.set_result((status, made.envelope_id, made.draft if same else b""))
        elif any(one.envelope_id == envelope_id for one in self._funds.values()):
            answer.set_result((FundStatus.ID_TAKEN, 0, b""))
        elif self.balance(user) < total_fen:
            answer.set_result((FundStatus.INSUFFICIENT, 0, b""))
        else:
            self._funds[create_key] = _Fund(fingerprint, envelope_id, draft)
            self._post(user, fund_order(create_key), "fund", -total_fen, envelope_id)
            answer.set_result((FundStatus.DONE, envelope_id, b""))
        return answer

    def pay(self, envelope_id: int, seq: int, user: str, amount_fen: int, *, refund: bool) -> None:
        """Pay a claim, or what was left to the sender."""
        if amount_fen:
            self._post(user, payout_order(envelope_id, seq), "refund" if refund else "claim", amount_fen, envelope_id)

    def handle(self, caller: Caller, number: int, op: int, args: list[Any]) -> None:
        """Answer a gateway (`wire.server.Handler`)."""
        if op == Op.BALANCE:
            caller.reply(number, self.balance(args[0]))
        elif op == Op.ENTRIES:
            user, before, limit = args
            caller.reply(number, [list(one) for one in self._page(user, before, limit)])
        elif op == Op.ENVELOPES:
            user, role, before, limit = args
            kind = "fund" if role == "sent" else "claim"
            page = self._page(user, before, limit, kind)
            caller.reply(number, [[one.entry_id, one.envelope_id, abs(one.amount_fen), one.at_ms] for one in page])
        elif op == Op.TOTALS:
            caller.reply(number, *self._totals(*args))
        else:
            raise Refused("unknown_operation", f"this wallet does not know operation {op}")

    def _page(self, user: str, before: int, limit: int, kind: str = "") -> list[_Entry]:
        found = [
            one
            for one in reversed(self._entries[user])
            if (not before or one.entry_id < before) and kind in ("", one.kind)
        ]
        return found[:limit]

    def _totals(self, user: str, from_ms: int, until_ms: int) -> tuple[int, ...]:
        of_year = [one for one in self._entries[user] if from_ms <= one.at_ms < until_ms]
        received, sent, refunded = (
            [abs(one.amount_fen) for one in of_year if one.kind == kind] for kind in ("claim", "fund", "refund")
        )
        return len(received), sum(received), len(sent), sum(sent), sum(refunded)

    def _post(self, user: str, order_no: str, kind: str, amount_fen: int, envelope_id: int | None) -> None:
        self._count += 1
        self._entries[user].append(_Entry(self._count, order_no, kind, amount_fen, envelope_id, self._clock.now_ms()))

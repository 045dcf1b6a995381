"""The client of the wallet service.

Every call may be repeated: a write carries an order number or create key that was derived before its first try and is
unique in the wallet's database, so a repeat has no second effect. A repeated deposit returns the balance of now.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from wire.link import Link
from wire.messages import PAID, Op, PayResult, PayStatus
from wire.shapes.of_wallet import TotalsReply

_PAID = [PayStatus.PAID, None]
"""As it comes off the wire."""


class Order(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One credit out of an escrow: `kind`, a `PayKind`, says whether it pays a claim or refunds the sender."""

    order_no: str
    kind: int
    user: str
    amount_fen: int
    envelope_id: int


WALLET_UNAVAILABLE = "wallet_unavailable"
"""The wallet is not connected; the call had no effect."""
AWAY = frozenset({WALLET_UNAVAILABLE, "outcome_unknown"})
"""Codes of a wallet that does not answer."""
OF_THE_WALLET = AWAY | {"busy", "database_unavailable", "stopping"}
"""Errors that say something about the wallet, whatever it was asked. Any other may come from a single order: a call
that ends so is repeated in halves, until that order is alone."""


class WalletClient:
    """Calls the wallet service. Errors: those of `Link.call`, and Refused `order_conflict`, `malformed_request`.

    Where a link says `peer_down`, this client says `wallet_unavailable`: a setnode passes its errors on to a gateway,
    which takes `peer_down` for the setnode's own absence.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        link.down_code = WALLET_UNAVAILABLE

    @property
    def up(self) -> bool:
        """Whether the link to the wallet is connected right now."""
        return self._link.up

    @property
    def losses(self) -> int:
        """How often the wallet has been lost; a call that ends meanwhile may have been lost with it."""
        return self._link.losses

    async def returns(self, within_s: float) -> bool:
        """Wait for a wallet that restarts; see `Link.returns`."""
        return await self._link.returns(within_s)

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
        """Move `total_fen` from the user to the escrow of `envelope_id`, once per `create_key`.

        `header_hash` (32 bytes) binds the envelope's header to the money; `draft` (at most 64 bytes) is kept for a
        repeat. The future gives a `FundStatus`; for DONE, REPLAYED and KEY_REUSED the envelope ID of the first attempt
        under this key; and for REPLAYED its draft, else b"". All are durable. Raises Unavailable at once if the call
        cannot be sent.
        """
        return self._link.call(Op.FUND, create_key, fingerprint, user, total_fen, envelope_id, header_hash, draft)  # type: ignore[return-value]

    async def pay(self, orders: Sequence[Order]) -> list[PayResult]:
        """Pay `orders`, at most 4,000; one result each, in order. PAID is durable when returned."""
        results, *_ = await self._link.call(Op.PAY, orders)
        if results.count(_PAID) == len(results):
            return [PAID] * len(results)
        return [_pay_result(status, reason) for status, reason, *_ in results]

    async def funds(self, after: int, until_ms: int, limit: int) -> list[tuple[int, int, str, int]]:
        """Return (fund ID, envelope ID, sender, total_fen) of creates in order, after `after` and before `until_ms`."""
        rows, *_ = await self._link.call(Op.FUNDS, after, until_ms, limit)
        return [(fund_id, envelope_id, user, total_fen) for fund_id, envelope_id, user, total_fen, *_ in rows]

    async def paid_out(self, envelope_ids: Sequence[int]) -> set[int]:
        """Return those of these envelopes, at most 1,000, of which any share was paid or refunded."""
        found, *_ = await self._link.call(Op.PAID_OUT, envelope_ids)
        return set(found)

    async def places(self, day: int, rows: Sequence[tuple[str, str, int]], most: int, most_of_sender: int) -> list[int]:
        """Take places of a day for (user, sender, envelope ID), at most 1,000; return a PlaceStatus each, durable.

        `day`: days since 1970. A limit of 0 is none.
        """
        statuses, *_ = await self._link.call(Op.PLACES, day, rows, most, most_of_sender)
        return list(statuses)

    async def give_back(self, day: int, rows: Sequence[tuple[str, int]]) -> None:
        """Give back what was taken for (user, envelope ID), at most 1,000; do not repeat an unknown outcome."""
        await self._link.call(Op.GIVE_BACK, day, rows)

    async def balance(self, user: str) -> int:
        """Return the user's balance in fen (0 for a user never seen)."""
        balance_fen, *_ = await self._link.call(Op.BALANCE, user)
        return int(balance_fen)

    async def deposit(self, order_no: str, user: str, amount_fen: int) -> int:
        """Credit `user` from the outside world, once per order number; returns the balance."""
        balance_fen, *_ = await self._link.call(Op.DEPOSIT, order_no, user, amount_fen)
        return int(balance_fen)

    async def entries(self, user: str, before: int, limit: int) -> list[list[Any]]:
        """Return the user's statement, newest first, below entry ID `before` (0: from the top)."""
        rows, *_ = await self._link.call(Op.ENTRIES, user, before, limit)
        return list(rows)

    async def totals(self, user: str, from_ms: int, until_ms: int) -> list[int]:
        """Return received_count, received_fen, sent_count, sent_fen, refunded_fen of a span of time."""
        sums = await self._link.call(Op.TOTALS, user, from_ms, until_ms)
        return list(sums[: len(TotalsReply.__struct_fields__)])

    async def envelopes(self, user: str, role: str, before: int, limit: int) -> list[list[Any]]:
        """Return what the user sent or received, newest first, below cursor `before` (0: from the top)."""
        rows, *_ = await self._link.call(Op.ENVELOPES, user, role, before, limit)
        return list(rows)


def _pay_result(status: int, reason: str | None) -> PayResult:
    try:
        return PayResult(PayStatus(status), reason)
    except ValueError:
        # Of a later release: not final as far as we know, so the order is repeated.
        return PayResult(PayStatus.UNKNOWN, f"status {status}, {reason}")

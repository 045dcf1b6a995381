"""Brings an envelope to life: the money first, then the header; a retry completes, the sweeper undoes, never both.

1. The wallet moves the total from the sender into the escrow, once per (sender, idempotency key), and remembers the
   envelope ID of the first attempt. 2. The header is inserted under that ID; whoever inserts it first decides: a
   create makes it alive, the sweeper makes it closed with everything refunded. A crash between 1 and 2 leaves money
   in escrow and no header, which is exactly what a retry or the sweeper looks for.
"""

import secrets
from collections.abc import Awaitable, Callable

from envelope.claim_log import ClaimLog
from envelope.errors import InvariantBroken, Refused, Unavailable
from envelope.outcomes import Entry
from envelope.split import SPLIT_VERSION
from envelope.terms import Terms
from runtime.clock import Clock
from setnode.actors.passwords import mac
from setnode.actors.views import as_json, created_view
from setnode.commit.creates import CreateLane
from setnode.create_request import Create
from wire.messages import Fund
from wire.wallet import WalletClient


class Creator:
    """`create` returns (replayed, envelope ID, what the sender is told as JSON), durable."""

    def __init__(
        self,
        wallet: WalletClient,
        lane: CreateLane,
        clock: Clock,
        *,
        password_key: bytes,
        fetch: Callable[[int], Awaitable[ClaimLog | InvariantBroken | None]],
        adopt: Callable[[ClaimLog], None],
        holds: Callable[[int], bool],
        is_usual: Callable[[int], bool],
        has_tables: Callable[[int], Awaitable[bool]],
        is_near: Callable[[int], bool],
    ) -> None:
        self._wallet = wallet
        self._lane = lane
        self._clock = clock
        self._password_key = password_key
        self._fetch = fetch
        self._adopt = adopt
        self._holds = holds
        self._is_usual = is_usual
        self._has_tables = has_tables
        self._is_near = is_near

    async def create(self, create: Create) -> tuple[bool, int, bytes | None]:
        """Pay in and write the header.

        Where the first attempt under this key got an ID that is on another SET (it was made before the database moved)
        nothing is written and nothing shown: the same create, asked there with that ID alone, completes it.

        Refused: `insufficient_funds`, `idempotency_key_reused`, `create_undone`. Unavailable: wallet or database away,
        `wrong_set` (the database is leaving), `clocks_differ` (before any money moves), or `day_tables_missing` (before
        any money moves, if it is known by then); repeating the call with the same key is always safe and completes what
        was begun.
        """
        first = create.envelope_ids[0]
        if not self._is_usual(first):
            await self._check_day(first)
        replayed, envelope_id = await self._fund(create)
        if not self._holds(envelope_id):
            # The first attempt's ID is the wallet's word, only the first candidate was checked at the door, and the
            # topology may have changed meanwhile. A header written here would be in a SET where nobody looks for it.
            return True, envelope_id, None
        terms = self._terms(create, envelope_id)
        begun_before = replayed and await self._stands(envelope_id) is not None
        if not begun_before and await self._insert(terms):
            self._adopt(ClaimLog(terms))
            return replayed, envelope_id, as_json(created_view(terms))
        standing = await self._stands(envelope_id)
        if standing is None:
            raise Unavailable("outcome_unknown", "repeat the request; it completes what was begun", outcome_known=False)
        if standing.closing is not None and standing.closing.entry is Entry.UNDONE:
            raise Refused("create_undone", "this create took too long and was undone, the money is back; use a new key")
        return True, envelope_id, as_json(created_view(standing.terms))

    async def _check_day(self, envelope_id: int) -> None:
        """Refuse a create that nothing may be written for, before any money moves."""
        if not await self._has_tables(envelope_id):
            raise Unavailable("day_tables_missing", "the tables of this business day are missing; operators know")
        if not self._is_near(envelope_id) and await self._stands(envelope_id) is None:
            # Its day may be proven and leave while the money is on its way. A repeat of what stands is welcome.
            raise Unavailable("clocks_differ", "gateway and server do not agree which day it is; operators must look")

    async def _fund(self, create: Create) -> tuple[bool, int]:
        for candidate in create.envelope_ids:
            status, envelope_id = await self._wallet.fund(
                create.create_key, create.fingerprint, create.sender, create.terms.total_fen, candidate
            )
            if status is Fund.INSUFFICIENT:
                raise Refused("insufficient_funds", "the wallet does not hold that much; nothing was taken")
            if status is Fund.KEY_REUSED:
                raise Refused("idempotency_key_reused", "this Idempotency-Key was used for another request")
            if status is not Fund.ID_TAKEN:
                return status is Fund.REPLAYED, envelope_id
        # Perhaps it stands already: the wallet knows whose the IDs are before it looks for the key (wallet/recent.py).
        raise Unavailable("no_free_id", "no free ID was found; try again with the same key", outcome_known=False)

    async def _insert(self, terms: Terms) -> bool:
        try:
            return await self._lane.insert(terms)
        except Unavailable as away:
            raise _paid_in(away) from away

    async def _stands(self, envelope_id: int) -> ClaimLog | None:
        try:
            found = await self._fetch(envelope_id)
        except Unavailable as away:
            raise _paid_in(away) from away
        if isinstance(found, InvariantBroken):
            raise found
        return found

    def _terms(self, create: Create, envelope_id: int) -> Terms:
        wish, now_ms = create.terms, self._clock.now_ms()
        opens_at_ms = now_ms if wish.opens_at_ms is None else max(now_ms, wish.opens_at_ms)
        password_mac = None if wish.password is None else mac(self._password_key, envelope_id, wish.password)
        return Terms(
            envelope_id,
            create.sender,
            wish.kind,
            wish.split,
            SPLIT_VERSION,
            wish.total_fen,
            wish.count,
            wish.greeting,
            now_ms,
            opens_at_ms,
            opens_at_ms + wish.expires_in_s * 1000,
            secrets.token_bytes(32),
            create.create_key,
            wish.to,
            password_mac,
        )


def _paid_in(away: Unavailable) -> Unavailable:
    """Say so: the money is in escrow, a repeat completes the create, or the sweeper undoes it. Nothing is known yet."""
    return Unavailable(away.code, away.detail, retry_after_s=away.retry_after_s, outcome_known=False)

"""Brings an envelope to life: the money first, then the header; a retry completes, the sweeper undoes, never both.

1. The wallet moves the total from the sender into the escrow, once per (sender, idempotency key), and remembers the
   envelope ID of the first attempt. 2. The header is inserted under that ID; whoever inserts it first decides: a
   create makes it alive, the sweeper makes it closed with everything refunded. A crash between 1 and 2 leaves money
   in escrow and no header, which is exactly what a retry or the sweeper looks for.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from envelope.claim_log import ClaimLog
from envelope.errors import InvariantBroken, Refused, Unavailable
from envelope.outcomes import Entry
from envelope.split import SPLIT_VERSION
from envelope.terms import Terms
from runtime.clock import Clock
from setnode.actors.passwords import mac
from setnode.actors.views import as_json, created_view
from setnode.commit.creates import CreateLane
from setnode.creating.request import Create
from wire.messages import Fund
from wire.wallet import WalletClient

Made: TypeAlias = tuple[bool, int, bytes | None]
"""Whether it was there before, its envelope ID, and what the sender is told as JSON: None where another SET has it."""


class Creator:
    """The steps of a create, and `create`, which takes all of them for one. What it returns is durable.

    The usual way, which `crowds` goes for many: `pay_in`, `terms`, `write`, `written`, `made`. What comes otherwise
    after the wallet's answer is for `go_on`, and a header that stands already for `standing`.
    """

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

    async def create(self, create: Create) -> Made:
        """Look at the day, pay in and write the header.

        Where the first attempt under this key got an ID that is on another SET (it was made before the database moved)
        nothing is written and nothing shown: the same create, asked there with that ID alone, completes it.

        Refused: `insufficient_funds`, `idempotency_key_reused`, `create_undone`. Unavailable: wallet or database away,
        `wrong_set` (the database is leaving), `clocks_differ` (before any money moves), or `day_tables_missing` (before
        any money moves, if it is known by then); repeating the call with the same key is always safe and completes what
        was begun.
        """
        if not self.is_usual(create):
            await self._check_day(create.envelope_ids[0])
        return await self.go_on(create, *await self.pay_in(create))

    def is_usual(self, create: Create) -> bool:
        """Say whether it is known already that the first candidate's day has tables and is near."""
        return self._is_usual(create.envelope_ids[0])

    def pay_in(self, create: Create, candidate: int = 0) -> asyncio.Future[list[int]]:
        """Ask the wallet for the money, see `WalletClient.fund`."""
        return self._wallet.fund(
            create.create_key,
            create.fingerprint,
            create.sender,
            create.terms.total_fen,
            create.envelope_ids[candidate],
        )

    async def go_on(self, create: Create, status: int, envelope_id: int) -> Made:
        """Bring a create to its end after the wallet's answer on its first candidate; errors as `create`."""
        candidate = 0
        while status == Fund.ID_TAKEN:
            candidate += 1
            if candidate == len(create.envelope_ids):
                # Perhaps it stands already: the wallet knows whose the IDs are before it looks for the key
                # (wallet/recent.py).
                raise Unavailable(
                    "no_free_id", "no free ID was found; try again with the same key", outcome_known=False
                )
            status, envelope_id = await self.pay_in(create, candidate)
        if status == Fund.INSUFFICIENT:
            raise Refused("insufficient_funds", "the wallet does not hold that much; nothing was taken")
        if status == Fund.KEY_REUSED:
            raise Refused("idempotency_key_reused", "this Idempotency-Key was used for another request")
        if not self.holds(envelope_id):
            return True, envelope_id, None
        replayed = status == Fund.REPLAYED
        if replayed and (standing := await self._stands(envelope_id)) is not None:
            return _told(standing)
        terms = self.terms(create, envelope_id)
        if await self.written(self.write(terms)):
            return self.made(terms, replayed=replayed)
        return await self.standing(envelope_id)

    def holds(self, envelope_id: int) -> bool:
        """Say whether a header under this ID, the wallet's word, may be written here.

        Only the first candidate was checked at the door, and the topology may have changed meanwhile: a header here
        could be in a SET where nobody looks for it.
        """
        return self._holds(envelope_id)

    def write(self, terms: Terms) -> asyncio.Future[bool]:
        """Line up for the next batch of headers; `written` has its outcome."""
        return self._lane.insert(terms)

    async def written(self, writing: asyncio.Future[bool]) -> bool:
        """Return whether the header is ours; False where its ID stood already. Durable then."""
        try:
            return await writing
        except Unavailable as away:
            raise _paid_in(away) from away

    def made(self, terms: Terms, *, replayed: bool = False) -> Made:
        """Take the envelope into memory and return what is told of it."""
        self._adopt(ClaimLog(terms))
        return replayed, terms.envelope_id, as_json(created_view(terms))

    async def standing(self, envelope_id: int) -> Made:
        """Return what is told of an envelope that somebody else brought to life, or Refused(`create_undone`)."""
        standing = await self._stands(envelope_id)
        if standing is None:
            raise Unavailable("outcome_unknown", "repeat the request; it completes what was begun", outcome_known=False)
        return _told(standing)

    def terms(self, create: Create, envelope_id: int) -> Terms:
        """Return the terms under which it begins to live, now."""
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

    async def _check_day(self, envelope_id: int) -> None:
        """Refuse a create that nothing may be written for, before any money moves."""
        if not await self._has_tables(envelope_id):
            raise Unavailable("day_tables_missing", "the tables of this business day are missing; operators know")
        if not self._is_near(envelope_id) and await self._stands(envelope_id) is None:
            # Its day may be proven and leave while the money is on its way. A repeat of what stands is welcome.
            raise Unavailable("clocks_differ", "gateway and server do not agree which day it is; operators must look")

    async def _stands(self, envelope_id: int) -> ClaimLog | None:
        try:
            found = await self._fetch(envelope_id)
        except Unavailable as away:
            raise _paid_in(away) from away
        if isinstance(found, InvariantBroken):
            raise found
        return found


def _told(standing: ClaimLog) -> Made:
    if standing.closing is not None and standing.closing.entry is Entry.UNDONE:
        raise Refused("create_undone", "this create took too long and was undone, the money is back; use a new key")
    return True, standing.terms.envelope_id, as_json(created_view(standing.terms))


def _paid_in(away: Unavailable) -> Unavailable:
    """Say so: the money is in escrow, a repeat completes the create, or the sweeper undoes it. Nothing is known yet."""
    return Unavailable(away.code, away.detail, retry_after_s=away.retry_after_s, outcome_known=False)

"""Creates one envelope: the money first, then the header. A retry completes a create, or the sweeper undoes it.

1. The header is made, for the first candidate ID. Nothing is written yet.
2. The wallet moves the total from the sender into escrow, once per (sender, idempotency key). It remembers the envelope
   ID of the first attempt, the header's hash, and the draft from which a repeat makes the same header.
3. The header is inserted under that ID. The first insert decides: the create's header opens the envelope, the sweeper's
   header is closed with everything refunded. The ID is a unique key, so it is never both.

A crash between 2 and 3 leaves money in escrow without a header, which a retry or the sweeper finds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from envelope.claim_log import ClaimLog
from envelope.header_hash import header_hash
from envelope.outcomes import Entry
from envelope.terms import Terms
from errors import InvariantBroken, Refused, Unavailable
from runtime.clock import Clock
from setnode.commit.create_queue import CreateQueue
from setnode.creation.request import Create
from setnode.days import BusinessDays
from setnode.header_seal import Draft, HeaderSeal
from setnode.passwords import mac
from setnode.views.envelope_json import as_json, created_view
from wire.messages import FundStatus
from wire.wallet import WalletClient

CreateResult: TypeAlias = tuple[bool, int, bytes | None]
"""Whether an earlier attempt chose the ID, the ID, and the JSON for the sender: None if the ID is on another SET."""
Payment: TypeAlias = asyncio.Future[tuple[int, int, bytes]]
"""The wallet's answer to FUND: a FundStatus, an envelope ID, and the draft of an earlier attempt."""


class Creator:
    """The steps of a create, and `create`, which takes all of them.

    The usual course, which `CreateCoalescer` runs for many creates: `pay_in`, `enqueue_header`, `await_header`,
    `finish`. Any other answer of the wallet is for `complete`, and an ID whose header exists for `existing`.

    `fetch` reads an envelope's log from Postgres or the archive, `adopt` takes a new log into memory, `holds` says
    whether an ID is on this SET.
    """

    def __init__(
        self,
        wallet: WalletClient,
        queue: CreateQueue,
        clock: Clock,
        days: BusinessDays,
        *,
        password_key: bytes,
        seal: HeaderSeal,
        fetch: Callable[[int], Awaitable[ClaimLog | InvariantBroken | None]],
        adopt: Callable[[ClaimLog], None],
        holds: Callable[[int], bool],
    ) -> None:
        self._wallet = wallet
        self._queue = queue
        self._clock = clock
        self._days = days
        self._password_key = password_key
        self._seal = seal
        self._fetch = fetch
        self._adopt = adopt
        self._holds = holds

    async def create(self, create: Create) -> CreateResult:
        """Check the day, pay in and write the header; durable when it returns.

        If the first attempt under this key got an ID that is on another SET (it was made before the database moved),
        nothing is written and there is no JSON: the same create, sent there with that ID alone, completes it.

        Refused: `insufficient_funds`, `idempotency_key_reused`, `create_undone`, `day_closed`. Unavailable: wallet or
        database away, `no_free_id`, `wrong_set` (the database is leaving), `clocks_differ` (before any money moves),
        `day_tables_missing` (before any money moves, if it is known by then). InvariantBroken: the envelope exists and
        its log is broken. It is safe to repeat the call with the same key; that completes what was begun.
        """
        if not self.is_ready(create):
            await self._check_day(create.envelope_ids[0])
        terms, payment = self.pay_in(create)
        return await self.complete(create, terms, *(await payment)[:3])

    def is_ready(self, create: Create) -> bool:
        """Say whether the first candidate's day is known to have tables, to be open and near."""
        return self._days.is_ready(create.envelope_ids[0])

    def pay_in(self, create: Create, candidate: int = 0) -> tuple[Terms, Payment]:
        """Make the header under a candidate ID, and have its money moved into escrow (`WalletClient.fund`)."""
        draft = Draft.new(self._clock.now_ms())
        terms, hashed = self._terms(create, create.envelope_ids[candidate], draft)
        payment = self._wallet.fund(
            create.create_key,
            create.fingerprint,
            create.sender,
            create.terms.total_fen,
            terms.envelope_id,
            hashed,
            draft.pack(),
        )
        return terms, payment

    async def complete(self, create: Create, terms: Terms, status: int, envelope_id: int, draft: bytes) -> CreateResult:
        """Complete a create after the wallet's answer on its first candidate, whose header is `terms`.

        Errors as `create`.
        """
        candidate = 0
        while status == FundStatus.ID_TAKEN:
            candidate += 1
            if candidate == len(create.envelope_ids):
                # The outcome is unknown: the wallet looks for the ID before it looks for the key (wallet/recent.py), so
                # an earlier attempt with this key may have succeeded.
                raise Unavailable(
                    "no_free_id", "no free ID was found; try again with the same key", outcome_known=False
                )
            terms, payment = self.pay_in(create, candidate)
            status, envelope_id, draft, *_ = await payment
        if status == FundStatus.INSUFFICIENT:
            text = f"the wallet holds less than the {create.terms.total_fen} fen of this envelope; nothing was taken"
            raise Refused("insufficient_funds", text)
        if status == FundStatus.KEY_REUSED:
            raise Refused(
                "idempotency_key_reused",
                "this Idempotency-Key was used for another request: send another key for a new envelope, and the same "
                "body as then to repeat that request; nothing was done",
            )
        if status not in (FundStatus.DONE, FundStatus.REPLAYED):
            # Of a later release. It may be a refusal: no header is written whose money is not known to be in escrow.
            raise Unavailable(
                "outcome_unknown",
                f"the wallet has answered {status}, which this server does not know",
                outcome_known=False,
            )
        if not self.holds(envelope_id):
            return True, envelope_id, None
        replayed = status == FundStatus.REPLAYED
        if replayed and (log := await self._find_existing(envelope_id)) is not None:
            return _existing_result(log)
        if replayed:
            terms = self._repeated_terms(create, envelope_id, draft)
        if await self.await_header(self.enqueue_header(terms)):
            return self.finish(terms, replayed=replayed)
        return await self.existing(envelope_id)

    def holds(self, envelope_id: int) -> bool:
        """Say whether a header under this ID, which the wallet returned, may be written on this SET.

        The dispatcher has checked the first candidate only, and the topology may have changed since: a header written
        here could be on a SET where it is never looked for.
        """
        return self._holds(envelope_id)

    def enqueue_header(self, terms: Terms) -> asyncio.Future[bool]:
        """Enqueue a header for the next batch; `await_header` returns the outcome."""
        return self._queue.insert(terms)

    async def await_header(self, writing: asyncio.Future[bool]) -> bool:
        """Say whether this call wrote the header, not another one of its ID; durable either way. Errors as `create`."""
        try:
            return await writing
        except Unavailable as away:
            raise _paid_in(away) from away

    def finish(self, terms: Terms, *, replayed: bool = False) -> CreateResult:
        """Take an envelope whose header is durable into memory, and return its result."""
        self._adopt(ClaimLog(terms))
        return replayed, terms.envelope_id, as_json(created_view(terms))

    async def existing(self, envelope_id: int) -> CreateResult:
        """Return the result for an ID whose header another call, or the sweeper, has written; errors as `create`."""
        log = await self._find_existing(envelope_id)
        if log is None:
            raise Unavailable("outcome_unknown", "repeat the request; it completes what was begun", outcome_known=False)
        return _existing_result(log)

    def _repeated_terms(self, create: Create, envelope_id: int, packed: bytes) -> Terms:
        """Make the header of an earlier attempt, whose money is in escrow, once more from its draft."""
        draft = Draft.read(packed)
        if draft is None:
            # A fund of before headers were bound to it: the sweeper undoes it.
            raise Unavailable("outcome_unknown", "this create is being undone; use a new key", outcome_known=False)
        return self._terms(create, envelope_id, draft)[0]

    def _terms(self, create: Create, envelope_id: int, draft: Draft) -> tuple[Terms, bytes]:
        """Return the header that a draft gives, sealed, and its hash. The same draft gives the same header."""
        requested, begun_ms = create.terms, draft.created_at_ms
        opens_at_ms = begun_ms if requested.opens_at_ms is None else max(begun_ms, requested.opens_at_ms)
        password = requested.password
        terms = Terms(
            envelope_id,
            create.sender,
            requested.kind,
            requested.split,
            draft.split_version,
            requested.total_fen,
            requested.count,
            requested.greeting,
            begun_ms,
            opens_at_ms,
            opens_at_ms + requested.expires_in_s * 1000,
            self._seal.seed(envelope_id, draft.nonce),
            create.create_key,
            requested.to,
            None if password is None else mac(self._password_key, envelope_id, password),
            requested.min_fen,
            requested.max_fen,
        )
        hashed = header_hash(terms)
        return msgspec.structs.replace(terms, seal=self._seal.of(hashed)), hashed

    async def _check_day(self, envelope_id: int) -> None:
        """Refuse a create whose day cannot be written, before any money moves."""
        if not await self._days.has_tables(envelope_id):
            raise Unavailable("day_tables_missing", "the tables of this business day are missing; operators know")
        if not self._days.is_near(envelope_id) and await self._find_existing(envelope_id) is None:
            # The day could be proven and closed while the money is on its way. A repeat of an existing create is fine.
            raise Unavailable("clocks_differ", "gateway and server do not agree which day it is; operators must look")

    async def _find_existing(self, envelope_id: int) -> ClaimLog | None:
        try:
            found = await self._fetch(envelope_id)
        except Unavailable as away:
            raise _paid_in(away) from away
        if isinstance(found, InvariantBroken):
            raise found
        return found


def _existing_result(log: ClaimLog) -> CreateResult:
    if log.closing is not None and log.closing.entry is Entry.UNDONE:
        raise Refused("create_undone", "this create took too long and was undone, the money is back; use a new key")
    return True, log.terms.envelope_id, as_json(created_view(log.terms))


def _paid_in(away: Unavailable) -> Unavailable:
    """Return the error with an unknown outcome: the money is in escrow; a repeat completes or the sweeper undoes it."""
    return Unavailable(away.code, away.detail, retry_after_s=away.retry_after_s, outcome_known=False)

"""The operations under `/v1/me`: balance, statement, totals, and the envelopes sent, received and waiting, by user.

The wallet knows money: balance, statement, totals, what was sent and received. What rows show of their envelopes, and
which envelopes wait for a user, comes from the SETs (`gateway.sets.lists`).
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from errors import Refused, Unavailable
from gateway.http.answer import Answer, encode_json, json_answer
from gateway.http.request import Request
from gateway.identity.rates import Kind, Rates
from gateway.identity.tokens import Tokens
from gateway.parsing.instants import write_instant
from gateway.parsing.paging import Page, check_known, check_names, one, read_page, write_cursor
from gateway.parsing.parameters import ROLES, WAITING, read_year
from gateway.resources import Resource
from gateway.sets.lists import Lists
from runtime.clock import to_ms
from sharding.ids import format_id
from switches.switch import Closes
from switches.switchboard import Switchboard
from wire.wallet import WALLET_UNAVAILABLE, WalletClient

T = TypeVar("T")
_TOTALS: Final = ("received_count", "received_fen", "sent_count", "sent_fen", "refunded_fen")
_UNAVAILABLE: Final = b'{"status":"unavailable"}'
"""In place of the card of an envelope that cannot be shown now."""


class WalletHandlers:
    """One method per operation. `gateway.dispatch` turns the errors they raise into problems."""

    def __init__(
        self,
        tokens: Tokens,
        rates: Rates,
        wallet: WalletClient,
        lists: Lists,
        switches: Switchboard,
        zone: Callable[[], ZoneInfo],
        away_s: float,
    ) -> None:
        """`zone`: in which years begin; `away_s`: how long a wallet that has gone is waited for."""
        self._zone = zone
        self._away_s = away_s
        self._owner_of = rates.guard(Kind.WALLET, tokens.user_of)
        self._switches = switches
        self._wallet = wallet
        self._lists = lists

    async def balance(self, request: Request, _: Resource) -> Answer:
        """Return the user's balance."""
        user = self._user_of(request)
        balance_fen = await self._ask(lambda: self._wallet.balance(user))
        return json_answer({"user": user, "balance_fen": balance_fen})

    async def entries(self, request: Request, _: Resource) -> Answer:
        """Return a page of the user's statement."""
        user = self._user_of(request)
        self._switches.check(Closes.LISTS)
        query = request.url.query
        check_names(query)
        page = read_page("entries", query)
        rows = await self._ask(lambda: self._wallet.entries(user, page.before, page.limit))
        return json_answer(page.body(rows, _entry))

    async def envelopes(self, request: Request, _: Resource) -> Answer:
        """Return a page of the envelopes that the user sent or received, or that wait for them."""
        user = self._user_of(request)
        self._switches.check(Closes.LISTS)
        query = request.url.query
        check_names(query, "role")
        role = one(query, "role")
        if role not in ROLES:
            raise Refused("unknown_role", f"role must be one of {', '.join(ROLES)}")
        page = read_page(role, query)
        if role == WAITING:
            return await self._waiting(user, page)
        rows = await self._ask(lambda: self._wallet.envelopes(user, role, page.before, page.limit))
        cards = await self._lists.cards(user, [row[1] for row in rows])
        return json_answer(page.body(rows, lambda row: _envelope(row, cards)))

    async def totals(self, request: Request, _: Resource) -> Answer:
        """Return what the user received, sent and got back in a year, as their statement has it."""
        user = self._user_of(request)
        self._switches.check(Closes.LISTS)
        query = request.url.query
        check_known(query, ("year",))
        year = read_year(one(query, "year"))
        begin, end = (to_ms(datetime(one, 1, 1, tzinfo=self._zone())) for one in (year, year + 1))
        sums = await self._ask(lambda: self._wallet.totals(user, begin, end))
        return json_answer({"year": year, **dict(zip(_TOTALS, sums, strict=True))})

    async def _waiting(self, user: str, page: Page) -> Answer:
        """Return a page of the envelopes that name the user and that they have not opened; only the SETs know them."""
        found = await self._lists.waiting(user, page.before, page.limit)
        body: dict[str, Any] = {
            "items": [_waiting(row) for row in found.rows],
            "next_cursor": write_cursor(page.listing, found.next_before) if found.next_before else None,
        }
        if not found.complete:
            body["incomplete"] = True
        return json_answer(body)

    async def _ask(self, read: Callable[[], Awaitable[T]]) -> T:
        """Read; once more if the wallet was lost meanwhile, and returns in time. A read changes nothing."""
        losses = self._wallet.losses
        try:
            return await read()
        except Unavailable as error:
            lost = error.code == WALLET_UNAVAILABLE or self._wallet.losses > losses
            if not lost or not await self._wallet.returns(self._away_s):
                raise
        return await read()

    def _user_of(self, request: Request) -> str:
        return self._owner_of(request.authorization)


def _entry(row: list[Any]) -> dict[str, Any]:
    entry_id, order_no, kind, amount_fen, envelope_id, at_ms, *_ = row
    return {
        "entry_id": str(entry_id),
        "order_no": order_no,
        "kind": kind,
        "amount_fen": amount_fen,
        "envelope_id": None if envelope_id is None else format_id(envelope_id),
        "at": write_instant(at_ms),
    }


def _envelope(row: list[Any], cards: Mapping[int, bytes]) -> msgspec.Raw:
    """Return a row with the SET's card added to it, unread."""
    _, envelope_id, amount_fen, at_ms, *_ = row
    item = {"envelope_id": format_id(envelope_id), "amount_fen": amount_fen, "at": write_instant(at_ms)}
    return _joined(item, cards.get(envelope_id, _UNAVAILABLE))


def _waiting(row: list[Any]) -> msgspec.Raw:
    envelope_id, created_at_ms, card, *_ = row
    return _joined({"envelope_id": format_id(envelope_id), "at": write_instant(created_at_ms)}, card)


def _joined(item: dict[str, Any], card: bytes) -> msgspec.Raw:
    """Return one JSON object with the members of both."""
    return msgspec.Raw(b"%b,%b" % (encode_json(item)[:-1], card[1:]))

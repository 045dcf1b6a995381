"""Finds the envelopes that wait for a user (WAITING): that name them, can still be opened, and were not opened by them.

Only the hot tables are read: nothing of a cold day can be opened. Invitations are read newest first, a block at a time,
and what of a block does not wait is left out; so a user with many old ones costs some statements, not one for each.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from envelope.limits import LIMITS
from errors import HongbaoError
from runtime import metrics, postgres, sql
from runtime.clock import Clock
from setnode.activation.cards import card_or_none, read_cards
from setnode.activation.list_reader import ListReader
from setnode.actors.request import ReplyTo
from setnode.limits import CARDS_S, MAX_CARDS, WAITING_BLOCKS
from setnode.views.card_json import can_be_opened
from sharding.ids import business_date, first_id
from switches.switch import Closes
from switches.switchboard import Switchboard

_NEWEST: Final = 2**63 - 1
_INVITATIONS: Final = sql.read("setnode", "invitations")
_found = metrics.counter(
    "hongbao_waiting_total", "Envelopes found that wait for a user, and invitations looked at", ("what",)
)
_WAIT, _LOOKED_AT = map(_found.labels, ("waiting", "looked_at"))


class Waiting:
    """Answers WAITING, with the help of a `ListReader`. `zone` gives the time zone of the business day."""

    def __init__(self, reader: ListReader, clock: Clock, switches: Switchboard, zone: Callable[[], ZoneInfo]) -> None:
        self._reader = reader
        self._clock = clock
        self._switches = switches
        self._zone = zone

    def begin(
        self,
        caller: ReplyTo,
        number: int,
        user: str,
        before: int,
        limit: int,
        refusal: Callable[[int], str | None],
    ) -> None:
        """Take a request; raises Unavailable `busy`. `refusal` is the code with which this SET refuses an envelope."""
        oldest = first_id(business_date(self._clock.now() - timedelta(seconds=LIMITS.max_lives_s), self._zone()))
        span = range(oldest, before or _NEWEST)
        self._reader.enqueue(
            _Search(caller, number, user, span, limit, refusal, clock=self._clock, switches=self._switches)
        )


class _Search:
    """One WAITING request: what was found so far, and how far down it has looked."""

    def __init__(
        self,
        caller: ReplyTo,
        number: int,
        user: str,
        span: range,
        limit: int,
        refusal: Callable[[int], str | None],
        *,
        clock: Clock,
        switches: Switchboard,
    ) -> None:
        self.replied = False
        self._caller = caller
        self._number = number
        self._user = user
        self._oldest = span.start
        self._limit = limit
        self._refusal = refusal
        self._clock = clock
        self._switches = switches
        self._floor = span.stop
        """Everything from this ID on was looked at; 0 once nothing is left."""
        self._complete = True
        self._found: list[list[Any]] = []

    async def read(self, session: postgres.Session) -> None:
        """Look at one block of invitations after the other until the page is full."""
        for _ in range(WAITING_BLOCKS):
            await session.run(self._read_block, CARDS_S)
            if self.replied:
                return
            if not self._floor or len(self._found) == self._limit:
                break
        self._reply()

    def give_up(self, error: HongbaoError) -> None:
        """Reply with what was found; with `error` if nothing was looked at."""
        if self.replied:
            return
        if self._found:
            self._reply()
        else:
            self.replied = True
            self._caller.fail(self._number, error)

    async def _read_block(self, connection: Any) -> None:
        named = await connection.fetch(_INVITATIONS, self._user, self._oldest, self._floor, MAX_CARDS)
        ids = [row["envelope_id"] for row in named]
        _LOOKED_AT.inc(len(ids))
        shown = [one for one in ids if self._may_show(one)]
        rows = {row["envelope_id"]: row for row in await read_cards(connection, shown, self._user)} if shown else {}
        now_ms = self._clock.now_ms()
        if self.replied:
            return
        for one in ids:
            if (row := rows.get(one)) is not None and (card := card_or_none(row, now_ms, can_be_opened)) is not None:
                self._found.append([one, row["created_at_ms"], card])
                _WAIT.inc()
            self._floor = one
            if len(self._found) == self._limit:
                return
        if len(ids) < MAX_CARDS:
            self._floor = 0

    def _may_show(self, envelope_id: int) -> bool:
        code = self._refusal(envelope_id)
        if code is None and self._switches.closed and self._switches.closing(Closes.VIEWS, envelope_id) is not None:
            code = "degraded"
        # After a move the old SET still has a copy for a while; the new one shows the envelope.
        self._complete &= code in (None, "wrong_set")
        return code is None

    def _reply(self) -> None:
        self.replied = True
        # A copy: a block that is still being read must not add to what is on its way.
        self._caller.reply(self._number, list(self._found), self._floor, self._complete)

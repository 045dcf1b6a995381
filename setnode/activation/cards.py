"""Shows envelopes as rows of a user's list (CARDS), without actors: a list must not push envelopes out of memory.

What is in memory and up to date is shown from there, at once. The rest of a page is one statement on the hot tables,
whatever its days, and one read for each envelope of a cold day, by `cold`. An envelope that cannot be shown in time, or
that the user may not see, is None in the reply: a list is never refused because of one of its rows.

What is shown from the hot tables was not replayed against its seed, and its seal is not checked: both need the whole
log. A detail does that, and so does every decision.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from envelope.decide import may_see
from errors import HongbaoError, Unavailable
from runtime import logs, metrics, postgres, sql
from setnode.activation.cold import ColdEnvelopes
from setnode.activation.list_reader import ListReader
from setnode.activation.loader import SEAL
from setnode.actors.phase import Phase
from setnode.actors.registry import Registry
from setnode.actors.request import Action, LocalCaller, ReplyTo, Request
from setnode.limits import CARD_QUERIES, CARDS_S, LISTS_LOGGED_PER_S
from setnode.partition_ranges import PartitionRange, partition_ranges
from setnode.views.card_json import card_of_log, card_of_row
from sharding.ids import day_of
from switches.switch import Closes
from switches.switchboard import Switchboard

_READ: Final = sql.read("setnode", "read_cards")
_PARAMETERS: Final = 5
_log = logs.get("setnode")
_unreadable = logs.Budget(LISTS_LOGGED_PER_S)

_cards = metrics.counter("hongbao_cards_total", "Envelopes shown as rows of lists, by where from", ("source",))
_FROM_MEMORY, _FROM_TABLES, _FROM_COLD, _NOT_SHOWN = map(_cards.labels, ("memory", "tables", "cold", "none"))


@lru_cache(maxsize=CARD_QUERIES)
def query_of(parts: int) -> str:
    """Return one statement that reads so many partition ranges, with a set of parameters for each."""
    comment, _, body = _READ.partition("\nSELECT")

    def numbered(part: int) -> str:
        return re.sub(r"\$(\d)", lambda found: f"${part * _PARAMETERS + int(found[1])}", f"SELECT{body}")

    return "\n".join([comment, "\nUNION ALL\n".join(map(numbered, range(parts)))])


async def read_cards(connection: Any, envelope_ids: Sequence[int], user: str) -> list[Any]:
    """Return the rows of `read_cards` for those envelopes of hot days that the user may see, sealed by a commit."""
    args: list[Any] = []
    parts = list(partition_ranges(envelope_ids))
    for part in parts:
        args += _arguments(part, envelope_ids, user)
    rows: list[Any] = await connection.fetch(query_of(len(parts)), *args)
    await connection.execute(SEAL)
    return rows


def card_or_none(row: Any, now_ms: int, wanted: Callable[[Any, int], bool] = lambda *_: True) -> bytes | None:
    """Return the card of a row of `read_cards` that is `wanted`; None for others, and for one that cannot be shown."""
    try:
        return card_of_row(row, now_ms) if wanted(row, now_ms) else None
    except Exception as error:  # noqa: BLE001 - rows edited by hand may hold anything; the others are shown
        if (left_out := _unreadable.spend()) is not None:
            _log.error("no card", envelope_id=str(row["envelope_id"]), left_out=left_out, exc_info=error)
        return None


def _arguments(part: PartitionRange, envelope_ids: Sequence[int], user: str) -> list[Any]:
    return [[envelope_ids[position] for position in part.positions], part.slots, part.low, part.end, user]


class Cards:
    """Answers CARDS, with the help of a `ListReader`."""

    def __init__(self, reader: ListReader, registry: Registry, cold: ColdEnvelopes, switches: Switchboard) -> None:
        self._reader = reader
        self._registry = registry
        self._cold = cold
        self._switches = switches

    def begin(
        self, caller: ReplyTo, number: int, user: str, envelope_ids: Sequence[int], serves: Callable[[int], bool]
    ) -> None:
        """Take a request. What this SET does not serve is not shown, nor what must be read if too many lists are."""
        page = _Page(caller, number, user, envelope_ids, self._registry, self._cold)
        page.missing.update(one for one in envelope_ids if serves(one) and not self._shown_from_memory(page, one))
        if page.missing:
            try:
                self._reader.enqueue(page)
            except Unavailable as error:
                page.give_up(error)
        else:
            page.reply()

    def _shown_from_memory(self, page: "_Page", envelope_id: int) -> bool:
        """Show an envelope that is in memory; say whether there is nothing left to be done about it."""
        actor = self._registry.peek(envelope_id)
        if actor is None or actor.phase is Phase.LOADING:
            return self._switches.closed and self._switches.closing(Closes.VIEWS, envelope_id) is not None
        if actor.phase is Phase.FROZEN:
            return True  # nothing is shown of money that does not add up
        log = actor.shown_log
        if log is None:
            return False
        if may_see(log, page.user, token_ok=False):
            page.cards[envelope_id] = card_of_log(log, page.user, self._registry.now_ms())
            _FROM_MEMORY.inc()
        return True


class _Page:
    """One CARDS request: what was found so far. It is replied to once, when all is found or its time is up."""

    def __init__(
        self,
        caller: ReplyTo,
        number: int,
        user: str,
        envelope_ids: Sequence[int],
        registry: Registry,
        cold: ColdEnvelopes,
    ) -> None:
        self.user = user
        self.cards: dict[int, bytes] = {}
        self.missing: set[int] = set()
        """The envelopes that are still looked for."""
        self.replied = False
        self._caller = caller
        self._number = number
        self._envelope_ids = envelope_ids
        self._registry = registry
        self._cold = cold

    def reply(self) -> None:
        """Reply with what there is."""
        self.replied = True
        self.missing.clear()
        shown = [self.cards.get(one) for one in self._envelope_ids]
        _NOT_SHOWN.inc(shown.count(None))
        self._caller.reply(self._number, shown)

    def give_up(self, error: HongbaoError) -> None:
        """Reply without what could not be read."""
        del error
        if not self.replied:
            self.reply()

    async def read(self, session: postgres.Session) -> None:
        """Read what is missing from the hot tables, and hand to `cold` what is of a cold day."""
        hot = list(self.missing - self._hand_over(self.missing))
        if hot:
            rows = await session.run(lambda connection: self._read_hot(connection, hot), CARDS_S)
            if self.replied:
                return
            now_ms = self._registry.now_ms()
            shown = {row["envelope_id"]: card for row in rows if (card := card_or_none(row, now_ms))}
            self.cards.update(shown)
            _FROM_TABLES.inc(len(shown))
            # A day that the register does not call cold by now was hot during the read.
            found = {row["envelope_id"] for row in rows}
            gone = self._hand_over(one for one in hot if one not in found)
            self.missing.difference_update(one for one in hot if one not in gone)
        if not self.missing and not self.replied:
            self.reply()

    async def _read_hot(self, connection: Any, envelope_ids: Sequence[int]) -> list[Any]:
        rows = await read_cards(connection, envelope_ids, self.user)
        found = {row["envelope_id"] for row in rows}
        if lacking := {day_of(one) for one in envelope_ids if one not in found}:
            await self._cold.refresh(connection, lacking)
        return rows

    def _hand_over(self, envelope_ids: Iterable[int]) -> set[int]:
        """Have those of cold days read by `cold`; return them. The page is replied to after the last of them."""
        of_cold_days = {one for one in envelope_ids if self._cold.covers(one)}
        caller, now = LocalCaller(self._on_cold), asyncio.get_running_loop().time()
        for one in of_cold_days:
            request = Request(
                Action.CARD, self.user, token_ok=False, password_mac=None, caller=caller, number=one, arrived_at=now
            )
            self._cold.answer(one, [request])
        return of_cold_days

    def _on_cold(self, envelope_id: int, *values: Any) -> None:
        if envelope_id not in self.missing:
            return
        self.missing.discard(envelope_id)
        if not isinstance(values[0], HongbaoError):
            self.cards[envelope_id] = values[0]
            _FROM_COLD.inc()
        if not self.missing:
            self.reply()

"""Envelopes as rows of a user's list: one call to each server that has some of a page, all at once, with one deadline.

A list is never refused because a SET is away: what cannot be shown in time is left out, and the caller says so.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from errors import HongbaoError, Unavailable
from gateway.limits import CARDS_S
from gateway.sets.calls import Sets
from gateway.sets.target import Target
from runtime import logs, metrics
from wire.link import Link
from wire.messages import Op

_log = logs.get("gateway")
_TRIES: Final = 2
"""A server that has not begun the call is left out, and its envelopes are asked for once more."""
_missing = metrics.counter("hongbao_list_rows_unavailable_total", "Rows of lists whose envelope could not be shown")


class Lists:
    """Reads cards (`wire.messages.Op.CARDS`) of envelopes that a list has named for its user."""

    def __init__(self, sets: Sets) -> None:
        self._sets = sets

    async def cards(self, user: str, envelope_ids: Sequence[int]) -> dict[int, bytes]:
        """Return the cards, as JSON, of those envelopes that can be shown to the user within CARDS_S."""
        cards: dict[int, bytes] = {}
        left = list(dict.fromkeys(envelope_ids))
        end = asyncio.get_running_loop().time() + CARDS_S
        for _ in range(_TRIES):
            if left:
                left = await self._ask(user, left, cards, end)
        _missing.inc(len(set(envelope_ids)) - len(cards))
        return cards

    async def _ask(self, user: str, envelope_ids: Sequence[int], cards: dict[int, bytes], end: float) -> list[int]:
        """Put into `cards` what comes by `end` (loop time); return the envelopes whose server did not begin."""
        by_link = self._by_link(envelope_ids)
        calls = {link: asyncio.ensure_future(_call(link, Op.CARDS, user, ids)) for link, ids in by_link.items()}
        try:
            if calls:
                await asyncio.wait(calls.values(), timeout=end - asyncio.get_running_loop().time())
        finally:
            for call in calls.values():
                call.cancel()  # nothing, if it is done
        not_begun: list[int] = []
        for link, ids in by_link.items():
            if not calls[link].done():
                continue
            try:
                (shown,) = calls[link].result()
                cards.update((one, card) for one, card in zip(ids, shown, strict=True) if card)
            except Unavailable as error:
                if self._sets.exclude_refusing(error, link):
                    not_begun += ids
            except HongbaoError as error:
                _log.warning("a server shows no cards", peer=link.name, code=error.code, error=error.detail)
        return not_begun

    def _by_link(self, envelope_ids: Sequence[int]) -> dict[Link, list[int]]:
        """Group envelopes by the link to their server; those of a SET that cannot be called are left out."""
        routing = self._sets.routing
        found: dict[Link, list[int]] = {}
        for one in envelope_ids:
            try:
                found.setdefault(routing.find(Target(one)), []).append(one)
            except Unavailable:
                continue
        return found


async def _call(link: Link, op: int, *args: Any) -> list[Any]:
    return await link.call(op, *args)

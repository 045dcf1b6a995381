"""Envelopes as rows of a user's list, from all SETs at once, with one deadline.

The cards of a page that the wallet lists are one call to each server that has some of them; what waits for a user is
asked of one server of each SET. A list is never refused because a SET is away: what cannot be shown in time is left
out, and the caller says so.
"""

import asyncio
import heapq
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from zlib import crc32

from errors import HongbaoError, Unavailable
from gateway.limits import CARDS_S, FAILURES_PER_S
from gateway.sets.calls import Sets
from gateway.sets.target import Target
from runtime import logs, metrics
from wire.link import Link
from wire.messages import Op

_log = logs.get("gateway")
_TRIES: Final = 2
"""A server that has not begun the call is left out, and its envelopes are asked for once more."""
_missing = metrics.counter("hongbao_list_rows_unavailable_total", "Rows of lists whose envelope could not be shown")


KeyT = TypeVar("KeyT", bound=Hashable)
Call = tuple[Link, int, Sequence[Any]]
"""A link, an operation, its arguments."""


class WaitingPage(NamedTuple):
    """What waits for a user: `[envelope_id, created_at_ms, card]` rows, newest first."""

    rows: list[list[Any]]
    next_before: int
    """The page after it holds what is below this ID; 0: there is none."""
    complete: bool
    """Whether every SET has told all it has."""


class Lists:
    """Reads rows of lists for one user: `cards` of envelopes that a list has named for them, and what is `waiting`."""

    def __init__(self, sets: Sets) -> None:
        self._sets = sets
        self._failures = logs.Budget(FAILURES_PER_S)

    async def cards(self, user: str, envelope_ids: Sequence[int]) -> dict[int, bytes]:
        """Return the cards, as JSON, of those envelopes that can be shown to the user within CARDS_S."""
        cards: dict[int, bytes] = {}

        def call_for(link: Link, ids: Sequence[int]) -> Call:
            return link, Op.CARDS, (user, ids)

        def take(ids: Sequence[int], reply: list[Any]) -> None:
            cards.update((one, card) for one, card in zip(ids, reply[0], strict=True) if card)

        wanted = list(dict.fromkeys(envelope_ids))
        await self._ask_all(wanted, self._by_link, call_for, take)
        _missing.inc(len(wanted) - len(cards))
        return cards

    async def waiting(self, user: str, before: int, limit: int) -> WaitingPage:
        """Return the newest `limit` envelopes below the ID `before` (0: of all) that wait for the user."""
        replies: dict[str, list[Any]] = {}
        names = [one.name for one in self._sets.topology.sets]

        def call_for(link: Link, _: Sequence[str]) -> Call:
            return link, Op.WAITING, (user, before, limit)

        def take(sets: Sequence[str], reply: list[Any]) -> None:
            replies.update((name, reply) for name in sets)

        await self._ask_all(names, lambda left: self._any_server(user, left), call_for, take)
        return _merged(list(replies.values()), limit, complete=len(replies) == len(names))

    async def _ask_all(
        self,
        wanted: Sequence[KeyT],
        by_link: Callable[[Sequence[KeyT]], Mapping[Link, list[KeyT]]],
        call_for: Callable[[Link, Sequence[KeyT]], Call],
        take: Callable[[Sequence[KeyT], list[Any]], None],
    ) -> None:
        """Ask for all that is wanted, grouped by link; hand over what comes within CARDS_S.

        What a server has not begun is asked of the next one, once.
        """
        end = asyncio.get_running_loop().time() + CARDS_S
        for _ in range(_TRIES):
            groups = by_link(wanted)
            replies = await _replies({link: call_for(link, keys) for link, keys in groups.items()}, end)
            wanted = []
            for link, reply in replies.items():
                if isinstance(reply, list):
                    take(groups[link], reply)
                elif isinstance(reply, Unavailable) and self._sets.exclude_refusing(reply, link):
                    wanted.extend(groups[link])
                elif (left_out := self._failures.spend()) is not None:
                    _log.warning(
                        "a server shows no list",
                        server=link.name,
                        call=reply.call,
                        code=reply.code,
                        error=reply.detail,
                        left_out=left_out,
                    )
            if not wanted:
                return

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

    def _any_server(self, user: str, names: Sequence[str]) -> dict[Link, list[str]]:
        """Return the link of one server of each SET, another one for other users; none of SETs that are away."""
        servers = self._sets.routing.servers
        found: dict[Link, list[str]] = {}
        for one in self._sets.topology.sets:
            alive = sorted(servers.alive.intersection(one.serving)) if one.name in names and not one.paused else []
            if alive:
                found[servers.link(alive[crc32(user.encode()) % len(alive)])] = [one.name]
        return found


async def _replies(calls: Mapping[Link, Call], end: float) -> dict[Link, list[Any] | HongbaoError]:
    """Make all calls at once; return the replies and refusals that come by `end` (loop time)."""
    begun = {link: asyncio.ensure_future(_call(*call)) for link, call in calls.items()}
    try:
        if begun:
            await asyncio.wait(begun.values(), timeout=end - asyncio.get_running_loop().time())
    finally:
        for call in begun.values():
            call.cancel()  # nothing, if it is done
    return {link: call.result() for link, call in begun.items() if call.done()}


async def _call(link: Link, op: int, args: Sequence[Any]) -> list[Any] | HongbaoError:
    try:
        return await link.call(op, *args)
    except HongbaoError as error:
        return error


def _merged(replies: Sequence[list[Any]], limit: int, *, complete: bool) -> WaitingPage:
    """Merge the pages of the SETs. Below the highest floor some SET may have more, so nothing is shown from there."""
    floor = max((floor for _, floor, *_ in replies), default=0)
    newest_first = heapq.merge(*(rows for rows, *_ in replies), key=lambda row: -row[0])
    rows = [row for row in newest_first if row[0] >= floor]
    shown = rows[:limit]
    next_before = shown[-1][0] if len(rows) > limit else floor
    return WaitingPage(shown, next_before, complete and all(whole for _, _, whole, *_ in replies))

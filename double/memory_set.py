"""A SET in memory: the dispatcher, actors and creator of a setnode, and no database under them.

A batch is committed by handing it to the ledger, so a reply means what it means elsewhere: the money has moved.
"""

import asyncio
import heapq
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from double.ledger import Ledger
from envelope.claim_log import ClaimLog
from envelope.decide import may_see
from envelope.outcomes import State
from envelope.terms import Terms
from errors import InvariantBroken
from runtime.clock import Clock
from setnode.actors.actor import Actor
from setnode.actors.batch import ClaimBatch
from setnode.actors.registry import Registry
from setnode.actors.request import Action, LocalCaller, ReplyTo, Request
from setnode.creation.coalescer import CreateCoalescer
from setnode.creation.creator import Creator
from setnode.dispatch import Dispatcher
from setnode.header_seal import HeaderSeal
from setnode.live import Watches
from setnode.views.card_json import card_of_log
from sharding.topology import Topology
from switches.switchboard import Switchboard

if TYPE_CHECKING:
    from setnode.activation.cards import Cards
    from setnode.activation.waiting import Waiting
    from setnode.commit.create_queue import CreateQueue
    from setnode.days import BusinessDays
    from wire.wallet import WalletClient

EVER = 2**62
"""Shares that are kept in memory: all of them, for there is nowhere to read them from again."""


class MemorySet:
    """One SET, with its one server. `handle` takes what gateways ask."""

    def __init__(
        self, clock: Clock, ledger: Ledger, key: bytes, switches: Path, topology: Callable[[], Topology]
    ) -> None:
        loop = asyncio.get_running_loop()
        self._clock = clock
        self._ledger = ledger
        self._loop = loop
        self._ready: list[Actor] = []
        self._closing = asyncio.Lock()
        self._ends: list[tuple[int, int]] = []
        """When each envelope ends, a heap of (ms, ID)."""
        self.registry = Registry(
            clock,
            loop_time=loop.time,
            enqueue_commit=self._enqueue,
            note_hot=lambda _: None,
            enqueue_load=self._not_there,
            live_shares=EVER,
        )
        self.watches = Watches(self.registry)
        lists = _Lists(self.registry)
        # What a setnode has here reads Postgres; each of these has the one method that is called.
        creator = Creator(
            cast("WalletClient", ledger),
            cast("CreateQueue", _Headers(self._ends)),
            clock,
            cast("BusinessDays", _EveryDay()),
            password_key=key,
            seal=HeaderSeal(key),
            fetch=self._log,
            adopt=self.registry.adopt,
            holds=lambda _: True,
        )
        self._dispatcher = Dispatcher(
            self.registry,
            CreateCoalescer(creator),
            password_key=key,
            admit=lambda *_: None,
            switches=Switchboard(switches, clock, topology),
            watches=self.watches,
            cards=cast("Cards", lists.cards),
            waiting=cast("Waiting", lists.waiting),
        )
        self.handle = self._dispatcher.handle

    async def close_ended(self) -> None:
        """Close the envelopes whose time is up, and return once what was left of them is back."""
        # One call at a time: none returns while another one closes what it would have closed.
        async with self._closing:
            closing = []
            while self._ends and self._ends[0][0] <= self._clock.now_ms():
                _, envelope_id = heapq.heappop(self._ends)
                closed = self._loop.create_future()
                caller = LocalCaller(lambda _, *values, closed=closed: closed.set_result(values))
                request = Request(Action.EXPIRE, "", True, None, caller, 0, self._loop.time())
                self.registry.offer(envelope_id, request)
                closing.append(closed)
            await asyncio.gather(*closing)

    def _enqueue(self, actor: Actor) -> None:
        if not self._ready:
            self._loop.call_soon(self._commit)
        self._ready.append(actor)

    def _commit(self) -> None:
        """Let all actors that are ready decide, move the money, and let them reply."""
        ready, self._ready = self._ready, []
        batch = ClaimBatch(self._clock.now_ms())
        for actor in ready:
            actor.collect(batch, batch.rows_left, float("-inf"))
        for (envelope_id, seq, _, kind, _, amount_fen), receiver in zip(batch.claims, batch.receivers, strict=True):
            self._ledger.pay(envelope_id, seq, receiver, amount_fen, refund=kind != "open")
        for batched in batch.actors:
            batched.settle()

    def _not_there(self, actor: Actor) -> None:
        actor.reply_not_found()
        self.registry.forget(actor)

    async def _log(self, envelope_id: int) -> ClaimLog | InvariantBroken | None:
        actor = self.registry.peek(envelope_id)
        return None if actor is None else actor.log


class _Headers:
    """In place of `setnode.commit.create_queue.CreateQueue`."""

    def __init__(self, ends: list[tuple[int, int]]) -> None:
        self._ends = ends

    def insert(self, terms: Terms) -> asyncio.Future[bool]:
        """Note when the envelope ends; its log is adopted once this is answered."""
        heapq.heappush(self._ends, (terms.expires_at_ms, terms.envelope_id))
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        written.set_result(True)
        return written


class _EveryDay:
    """In place of `setnode.days.BusinessDays`: every day has its tables."""

    def is_ready(self, envelope_id: int) -> bool:
        """Say that its day can be written to."""
        del envelope_id
        return True


class _Lists:
    """In place of the readers of lists: all logs are in memory."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.cards = _Begins(self._begin_cards)
        self.waiting = _Begins(self._begin_waiting)

    def _begin_cards(
        self, caller: ReplyTo, number: int, user: str, envelope_ids: Sequence[int], serves: Callable[[int], bool]
    ) -> None:
        del serves
        caller.reply(number, [self._card(one, user) for one in envelope_ids])

    def _begin_waiting(
        self, caller: ReplyTo, number: int, user: str, before: int, limit: int, refusal: Callable[[int], str | None]
    ) -> None:
        del refusal
        now_ms = self._registry.now_ms()
        named = [
            actor.log
            for actor in self._registry.actors()
            if actor.log is not None
            and user in (actor.log.terms.invited or ())
            and user not in actor.log.winners
            and actor.log.state(now_ms) in (State.OPEN, State.SCHEDULED)
            and (not before or actor.envelope_id < before)
        ]
        named.sort(key=lambda log: -log.terms.envelope_id)
        rows = [
            [log.terms.envelope_id, log.terms.created_at_ms, card_of_log(log, user, now_ms)] for log in named[:limit]
        ]
        floor = rows[-1][0] if len(named) > limit else 0
        caller.reply(number, rows, floor, True)

    def _card(self, envelope_id: int, user: str) -> bytes | None:
        actor = self._registry.peek(envelope_id)
        if actor is None or actor.log is None or not may_see(actor.log, user, token_ok=False):
            return None
        return card_of_log(actor.log, user, self._registry.now_ms())


class _Begins:
    """An object with a method `begin`, as the dispatcher calls its readers."""

    def __init__(self, begin: Callable[..., Any]) -> None:
        self.begin = begin

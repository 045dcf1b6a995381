"""Daily limits, where they are set: an open that may win takes a place of the day in the wallet first.

1. The actor is asked what it would answer (a grab). If that is no share, it is the answer.
2. The wallet gives the user a place of the business day, or says that they have as many as they may have: over all
   envelopes (`wins_per_day`), or over those of one sender (`opens_from_sender_per_day`).
3. The open goes to the actor. If it wins no share, the place is given back.

So opens cost a round trip to the wallet and a commit there, which many share, and they need the wallet. Opens of one
envelope are decided in the order in which they have got their places. Without limits nothing of this is in their way.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from envelope.outcomes import Outcome
from errors import HongbaoError, Unavailable
from runtime import logs, metrics
from runtime.clock import Clock
from setnode.actors.registry import Registry
from setnode.actors.request import OUTCOMES, Action, LocalCaller, ReplyTo, Request
from setnode.limits import DAILY_WAITING, PLACES_AT_ONCE, PLACES_RETRY_S
from sharding.ids import business_date
from wire.messages import PlaceStatus
from wire.wallet import WALLET_UNAVAILABLE, WalletClient

_EPOCH: Final = date(1970, 1, 1)
_AGAIN: Final = (WALLET_UNAVAILABLE, "busy", "database_unavailable")
"""Refusals of the wallet that end by themselves; the last one: its Postgres is away, and nothing was sent to it."""
_HOLDS_SHARE: Final = frozenset({Outcome.OPENED.code, Outcome.ALREADY_OPENED.code})
_REFUSALS: Final[Mapping[int, tuple[str, str]]] = {
    PlaceStatus.MOST_REACHED: ("daily_wins_reached", "you have won as many shares today as one may"),
    PlaceStatus.MOST_OF_SENDER_REACHED: (
        "daily_opens_of_sender_reached",
        "you have opened as many envelopes of this sender today as one may",
    ),
}

_log = logs.get("setnode")
_refused = metrics.counter("hongbao_daily_limit_total", "Opens refused because of a daily limit", ("limit",))


class Limits(NamedTuple):
    """Shares that a user may win in a business day, in all and of one sender's envelopes; 0: as many as they like."""

    wins: int
    of_sender: int


class _Open(NamedTuple):
    """An open that waits for a place."""

    envelope_id: int
    request: Request
    sender: str


class DailyLimits:
    """Takes the place of `Registry.offer` for opens. `run` owns the calls to the wallet."""

    def __init__(
        self, limits: Limits, registry: Registry, wallet: WalletClient, clock: Clock, zone: Callable[[], ZoneInfo]
    ) -> None:
        self._limits = limits
        self._registry = registry
        self._wallet = wallet
        self._clock = clock
        self._zone = zone
        self._waiting: deque[_Open] = deque()
        self._returned: deque[tuple[int, str, int]] = deque(maxlen=DAILY_WAITING)
        """Places to be given back: day, user, envelope ID."""
        self._asking = 0
        """Opens whose place is being asked for."""
        self._wake = asyncio.Event()

    @property
    def on(self) -> bool:
        """Whether any limit is set."""
        return any(self._limits)

    @property
    def idle(self) -> bool:
        """Whether no open waits for a place."""
        return not self._waiting and not self._asking

    def offer(self, envelope_id: int, request: Request) -> None:
        """Take an open; raises Unavailable `busy` if too many wait already."""
        if len(self._waiting) + self._asking >= DAILY_WAITING:
            raise Unavailable("busy", "too many opens wait for a place of the day; try again")

        def looked(_: int, *values: Any) -> None:
            self._on_look(envelope_id, request, values)

        look = Request(
            Action.GRAB, request.user, request.token_ok, None, LocalCaller(looked), 0, request.arrived_at
        )  # fmt: skip
        self._registry.offer(envelope_id, look)

    async def run(self) -> None:
        """Ask for places, and give them back, until cancelled."""
        while True:
            if not self._waiting and not self._returned:
                self._wake.clear()
                await self._wake.wait()
            if self._waiting:
                some = [self._waiting.popleft() for _ in range(min(len(self._waiting), PLACES_AT_ONCE))]
                await self._take(some)
            if self._returned:
                await self._give_back()

    def _on_look(self, envelope_id: int, request: Request, values: tuple[Any, ...]) -> None:
        """Answer, or wait for a place, by what the actor would answer."""
        first = values[0]
        if isinstance(first, HongbaoError):
            request.fail(first)
            return
        if OUTCOMES[first] is not Outcome.OPENABLE:
            request.caller.reply(request.number, *values)
            return
        sender = self._registry.sender_of(envelope_id)
        if sender is None:
            request.fail(Unavailable("busy", "this envelope has just left memory; try again"))
            return
        self._waiting.append(_Open(envelope_id, request, sender))
        self._wake.set()

    async def _take(self, opens: list[_Open]) -> None:
        day = (business_date(self._clock.now(), self._zone()) - _EPOCH).days
        self._asking = len(opens)
        try:
            rows = [(one.request.user, one.sender, one.envelope_id) for one in opens]
            statuses = await self._wallet.places(day, rows, *self._limits)
        except HongbaoError as error:
            # Whatever became of the places: no open has begun.
            refusal = Unavailable(WALLET_UNAVAILABLE, f"no place of the day: {error.detail}", retry_after_s=0.5)
            for one in opens:
                one.request.fail(refusal)
            return
        finally:
            self._asking = 0
        if len(statuses) != len(opens):
            _log.error("the wallet answered for other opens than were asked for", opens=len(opens), told=len(statuses))
            for one in opens:
                one.request.fail(Unavailable(WALLET_UNAVAILABLE, "no place of the day", retry_after_s=0.5))
            return
        for one, status in zip(opens, statuses, strict=True):
            if status == PlaceStatus.HAS_ONE:
                one.request.caller = _Keeper(one.request.caller, lambda one=one: self._return(day, one))  # type: ignore[misc]
                self._registry.offer(one.envelope_id, one.request)
            else:
                one.request.fail(self._refusal(status))

    def _refusal(self, status: int) -> Unavailable:
        # A refusal of a later release is one all the same.
        code, sentence = _REFUSALS.get(status, (WALLET_UNAVAILABLE, "no place of the day"))
        _refused.labels(code).inc()
        return Unavailable(code, f"{sentence}; nothing was done", retry_after_s=self._left_s())

    def _left_s(self) -> float:
        """Return the seconds until the next business day."""
        now, zone = self._clock.now(), self._zone()
        tomorrow = business_date(now, zone) + timedelta(days=1)
        return max(1.0, (datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=zone) - now).total_seconds())

    def _return(self, day: int, one: _Open) -> None:
        self._returned.append((day, one.request.user, one.envelope_id))
        self._wake.set()

    async def _give_back(self) -> None:
        day = self._returned[0][0]
        some = [one for one in self._returned if one[0] == day][:PLACES_AT_ONCE]
        try:
            await self._wallet.give_back(day, [(user, envelope_id) for _, user, envelope_id in some])
        except HongbaoError as error:
            _log.warning("places could not be given back", places=len(some), error=error.detail)
            if error.code in _AGAIN and isinstance(error, Unavailable) and error.outcome_known:
                await asyncio.sleep(PLACES_RETRY_S)
                return
            # A repeat could give back what another open of the user holds, or be refused for ever: rather do these
            # users lose a place of this day.
        for one in some:
            # A full queue has dropped its oldest meanwhile.
            with contextlib.suppress(ValueError):
                self._returned.remove(one)


class _Keeper:
    """The caller of an open that has a place: passes the reply on, and gives the place back if no share was won."""

    __slots__ = ("_caller", "_give_back", "name")

    def __init__(self, caller: ReplyTo, give_back: Callable[[], None]) -> None:
        self._caller = caller
        self._give_back = give_back
        self.name = caller.name

    def reply(self, number: int, *values: Any) -> None:
        """Pass the outcome on."""
        if values[0] not in _HOLDS_SHARE:
            self._give_back()
        self._caller.reply(number, *values)

    def fail(self, number: int, error: BaseException) -> None:
        """Pass the error on; while the outcome is unknown the place is kept."""
        if not isinstance(error, Unavailable) or error.outcome_known:
            self._give_back()
        self._caller.fail(number, error)

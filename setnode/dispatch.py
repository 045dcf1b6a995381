"""The dispatcher: takes requests off the link and hands each to the part that answers it."""

import asyncio
from collections.abc import Callable
from typing import Any

from envelope.limits import LIMITS
from errors import InvariantBroken, Refused, Unavailable
from setnode.activation.cards import Cards
from setnode.activation.waiting import Waiting
from setnode.actors.registry import Registry
from setnode.actors.request import Action, ReplyTo, Request
from setnode.creation.coalescer import CreateCoalescer
from setnode.creation.request import read_create
from setnode.daily import DailyLimits
from setnode.limits import DAYS_CHECKED, KNOWN_VERSIONS, MAX_CARDS, MAX_CLAIMS_PAGE
from setnode.live import Watches
from setnode.passwords import mac
from setnode.standby import StandbyWatch
from setnode.traces import Traces
from setnode.views.claims_json import LIVE_PAGE, ClaimsPage
from sharding.ids import day_from, first_id, yymmdd_of
from switches.switch import Closes
from switches.switchboard import Switchboard
from wire.messages import STOPPING, Op
from wire.server import Caller
from wire.traced import TracedReply, sent_with

_ACTIONS: dict[int, tuple[Action, int]] = {
    int(Op.OPEN): (Action.OPEN, 4),
    int(Op.GRAB): (Action.GRAB, 3),
    int(Op.DETAIL): (Action.DETAIL, 3),
    int(Op.CANCEL): (Action.CANCEL, 2),
    int(Op.WATCH): (Action.DETAIL, 3),
}
"""By operation: the actor's action, and how many arguments it needs at least."""
_USER_CHARS = LIMITS.user_id_chars
_DETAIL_ARGUMENTS = 3
"""Of DETAIL without a page; two more name one, and one more the versions of it that the caller has."""


class Dispatcher:
    """Hands OPEN, GRAB, DETAIL, WATCH and CANCEL to actors, CREATE to the coalescer, CARDS and WAITING to readers.

    `admit` raises Unavailable if this SET does not serve the envelope (`Ownership.admit`). While `stopping` is True all
    requests are refused. Without `cards` and `waiting` lists are not served, without `standby` commits are not watched
    (a benchmark without Postgres).
    """

    def __init__(
        self,
        registry: Registry,
        coalescer: CreateCoalescer,
        *,
        password_key: bytes,
        admit: Callable[[Caller, int], None],
        switches: Switchboard,
        watches: Watches,
        standby: StandbyWatch | None = None,
        daily: DailyLimits | None = None,
        cards: Cards | None = None,
        waiting: Waiting | None = None,
        traces: Traces | None = None,
    ) -> None:
        self._cards = cards
        self._waiting = waiting
        self._traces = traces
        self._registry = registry
        self._coalescer = coalescer
        self._password_key = password_key
        self._admit = admit
        self._switches = switches
        self._watches = watches
        self._standby = standby
        self._offer_open = registry.offer if daily is None else daily.offer
        self._loop_time = asyncio.get_running_loop().time
        self._valid_days: set[int] = set()
        """Days that were found in the calendar, as the first six digits of envelope IDs."""
        self.stopping = False

    def handle(self, caller: Caller, number: int, op: int, args: list[Any]) -> None:
        """Take one request, arguments as in `wire.messages.Op`; raises Refused or Unavailable if nothing was begun."""
        known = _ACTIONS.get(op)
        if self.stopping:
            raise Unavailable(STOPPING, "this server is going away; another one takes over", retry_after_s=0.5)
        if known is not None:
            action, arguments = known
            if len(args) < arguments:
                raise Refused("malformed_request", "the arguments do not fit the operation")
            self._offer(action, caller, number, args, op)
        elif op == Op.CREATE:
            create = read_create(args)
            # All candidates are of one slot and day (`read_create`); the creator checks the ID that the wallet returns.
            self._admit(caller, create.envelope_ids[0])
            if self._standby is not None:
                self._standby.check()
            envelope_id = create.envelope_ids[0]
            if caller.trace is not None and (reply := self._traced(caller, number, op, envelope_id)) is not None:
                # The payment of this create belongs to its span. So do what creates of the same turn do afterwards, if
                # this one is their first and they take another course: rare, and only traces are less exact then.
                with reply.ended_by_an_error(), sent_with(reply.span):
                    self._coalescer.begin(reply, number, create)
            else:
                self._coalescer.begin(caller, number, create)
        elif op == Op.CARDS and self._cards is not None:
            user, envelope_ids = args[:2]
            self._check_cards(user, envelope_ids)
            self._cards.begin(caller, number, user, envelope_ids, lambda one: self._refusal(caller, one) is None)
        elif op == Op.WAITING and self._waiting is not None:
            user, before, limit = args[:3]
            _check_user(user)
            if type(before) is not int or type(limit) is not int or not 1 <= limit <= MAX_CARDS:
                raise Refused("malformed_request", f"a page ends before an ID and has 1 to {MAX_CARDS} rows")
            self._waiting.begin(caller, number, user, before, limit, lambda one: self._refusal(caller, one))
        else:
            raise Refused("unknown_operation", f"operation {op} is not known here")

    async def drain(self) -> None:
        """Wait for the creates in flight."""
        await self._coalescer.drain()

    def _traced(self, caller: Caller, number: int, op: int, envelope_id: int) -> TracedReply | None:
        return None if self._traces is None else self._traces.begin(caller, number, op, envelope_id)

    def _offer(self, action: Action, caller: Caller, number: int, args: list[Any], op: int) -> None:
        envelope_id, user = args[0], args[1]
        _check_user(user)
        if type(envelope_id) is not int:
            # A float like 2611210000000001024.0 equals the integer as a key, and is not an ID.
            raise Refused("malformed_request", "an envelope ID is an integer")
        if yymmdd_of(envelope_id) not in self._valid_days:
            self._check_day(yymmdd_of(envelope_id))
        self._admit(caller, envelope_id)
        if self._standby is not None and self._standby.missing:
            self._check_standby(self._standby, action, envelope_id)
        if action is Action.DETAIL and self._switches.closed and envelope_id not in self._registry:
            # Only what must be read from Postgres first is not shown.
            self._switches.check(Closes.VIEWS, envelope_id)
        password = args[3] if action is Action.OPEN else None
        password_mac = None if password is None else mac(self._password_key, envelope_id, password)
        token_ok = action is Action.CANCEL or bool(args[2])
        watch, reply = op == Op.WATCH, None
        answer_to: ReplyTo = self._watches.asks(caller, envelope_id) if watch else caller
        if caller.trace is not None and not watch:
            reply = self._traced(caller, number, op, envelope_id)
            answer_to = reply or caller
        request = Request(action, user, token_ok, password_mac, answer_to, number, self._loop_time())
        if watch:
            request.page = LIVE_PAGE
        elif action is Action.DETAIL and len(args) > _DETAIL_ARGUMENTS:
            request.page = _page(args)
        offer = self._offer_open if action is Action.OPEN else self._registry.offer
        if reply is None:
            offer(envelope_id, request)
        else:
            with reply.ended_by_an_error():
                offer(envelope_id, request)

    def _check_standby(self, standby: StandbyWatch, action: Action, envelope_id: int) -> None:
        """Refuse what needs a commit; what is read from Postgres is shown only once a commit after it is confirmed."""
        if action is Action.OPEN or action is Action.CANCEL or not self._registry.shows(envelope_id):
            standby.check()

    def _check_cards(self, user: object, envelope_ids: object) -> None:
        _check_user(user)
        if not isinstance(envelope_ids, list) or not 1 <= len(envelope_ids) <= MAX_CARDS:
            raise Refused("malformed_request", f"a list has 1 to {MAX_CARDS} envelopes")
        for one in envelope_ids:
            if type(one) is not int:
                raise Refused("malformed_request", "an envelope ID is an integer")
            if yymmdd_of(one) not in self._valid_days:
                self._check_day(yymmdd_of(one))

    def _refusal(self, caller: Caller, envelope_id: int) -> str | None:
        """Return the code with which this SET refuses an envelope; None if it serves it."""
        try:
            self._admit(caller, envelope_id)
        except Unavailable as error:
            return error.code
        return None

    def _check_day(self, digits: int) -> None:
        """Raise Refused(`malformed_envelope_id`) if the calendar does not have this day; remember it if it does."""
        try:
            first_id(day_from(digits))
        except (ValueError, InvariantBroken):
            raise Refused("malformed_envelope_id", "no envelope ID begins with these six digits: no day") from None
        if len(self._valid_days) >= DAYS_CHECKED:
            self._valid_days.clear()
        self._valid_days.add(digits)


def _page(args: list[Any]) -> ClaimsPage:
    first, limit, known, *_ = [*args[_DETAIL_ARGUMENTS:], None, None]
    known = known or ()
    if type(first) is not int or type(limit) is not int or first < 0 or not 1 <= limit <= MAX_CLAIMS_PAGE:
        raise Refused("malformed_request", f"a page begins at a seq and has 1 to {MAX_CLAIMS_PAGE} claims")
    if not isinstance(known, list | tuple) or len(known) > KNOWN_VERSIONS:
        raise Refused("malformed_request", f"a caller names at most {KNOWN_VERSIONS} versions of a detail")
    return ClaimsPage(first, limit, known=tuple(map(str, known)))


def _check_user(user: object) -> None:
    # Checked before anything is queued: Postgres accepts no NUL and no longer name, and in the log an empty name means
    # a closing entry. One such name would fail or freeze more than its own request.
    if not isinstance(user, str) or not 1 <= len(user) <= _USER_CHARS or "\0" in user:
        raise Refused("malformed_request", f"a user has 1 to {LIMITS.user_id_chars} characters, none of them NUL")

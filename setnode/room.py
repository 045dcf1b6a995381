"""The room's door: takes requests off the link and hands each to whoever answers it."""

import asyncio
from collections.abc import Callable
from typing import Any

from envelope.errors import InvariantBroken, Refused, Unavailable
from envelope.limits import LIMITS
from setnode.actors.passwords import mac
from setnode.actors.registry import Registry
from setnode.actors.request import CANCEL, DETAIL, GRAB, OPEN, Ask, Request
from setnode.creating.crowds import Crowds
from setnode.creating.request import read_create
from sharding.ids import IDS_PER_DAY, day_of, first_id
from wire.messages import Op
from wire.server import Peer

_ASKS: dict[int, tuple[Ask, int]] = {
    int(Op.OPEN): (OPEN, 4), int(Op.GRAB): (GRAB, 3), int(Op.DETAIL): (DETAIL, 3), int(Op.CANCEL): (CANCEL, 2),
}  # fmt: skip
"""By operation: what is asked of the actor, and how many arguments come with it."""
_USER_CHARS = LIMITS.user_id_chars

_MAX_DAYS = 1_000
"""Days remembered; a few are in use at any time."""


class Room:
    """Answers OPEN, GRAB, DETAIL, CANCEL through actors and CREATE through its crowds."""

    def __init__(
        self, registry: Registry, crowds: Crowds, *, password_key: bytes, admit: Callable[[Peer, int], None]
    ) -> None:
        self._registry = registry
        self._crowds = crowds
        self._password_key = password_key
        self._admit = admit
        self._loop_time = asyncio.get_running_loop().time
        self._days: set[int] = set()
        """First six digits of envelope IDs that were looked up in the calendar."""
        self.stopping = False

    def handle(self, peer: Peer, number: int, op: int, args: list[Any]) -> None:
        """Take one request; see `wire.messages.Op` for its arguments."""
        asked = _ASKS.get(op)
        if self.stopping:
            raise Unavailable("stopping", "this server is going away; another one takes over", retry_after_s=0.5)
        if asked is not None:
            ask, arguments = asked
            if len(args) < arguments:
                raise Refused("malformed_request", "the arguments do not fit the operation")
            self._ask(ask, peer, number, args)
        elif op == Op.CREATE:
            create = read_create(args)
            # Callers send candidates of one slot and day; the creator looks again at the one that it gets.
            self._admit(peer, create.envelope_ids[0])
            self._crowds.take(peer, number, create)
        else:
            raise Refused("unknown_operation", f"operation {op} is not known here")

    async def drain(self) -> None:
        """Wait for the creates in flight."""
        await self._crowds.drain()

    def _ask(self, ask: Ask, peer: Peer, number: int, args: list[Any]) -> None:
        envelope_id, user = args[0], args[1]
        _check_user(user)
        if type(envelope_id) is not int:
            # 2611210000000001024.0 would be the same key as the number without a point, and belong to nobody.
            raise Refused("malformed_request", "an envelope ID is an integer")
        if envelope_id // IDS_PER_DAY not in self._days:
            self._learn_day(envelope_id // IDS_PER_DAY)
        self._admit(peer, envelope_id)
        password = args[3] if ask is OPEN else None
        password_mac = None if password is None else mac(self._password_key, envelope_id, password)
        token_ok = ask is CANCEL or bool(args[2])
        request = Request(ask, user, token_ok, password_mac, peer, number, self._loop_time())
        self._registry.offer(envelope_id, request)

    def _learn_day(self, digits: int) -> None:
        """Remember a day; raise Refused(`malformed_envelope_id`) where no calendar has it."""
        try:
            first_id(day_of(digits * IDS_PER_DAY))
        except (ValueError, InvariantBroken):
            raise Refused("malformed_envelope_id", "no envelope ID begins with these six digits: no day") from None
        if len(self._days) >= _MAX_DAYS:
            self._days.clear()
        self._days.add(digits)


def _check_user(user: object) -> None:
    # A name that Postgres would not take, or that means "the sender" in the log, would fail or freeze the whole batch.
    if not isinstance(user, str) or not 1 <= len(user) <= _USER_CHARS or "\0" in user:
        raise Refused("malformed_request", f"a user has 1 to {LIMITS.user_id_chars} characters, none of them NUL")

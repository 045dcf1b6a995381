"""One request for an envelope, as it waits in the actor's mailbox."""

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any, Protocol

import msgspec

from envelope.decide import Answer
from envelope.outcomes import Outcome
from errors import HongbaoError
from setnode.views.claims_json import FIRST_PAGE, ClaimsPage


class Action(IntEnum):
    """What the actor is to do. EXPIRE comes from this server's own expiry service, the others from gateways.

    CARD is asked of cold envelopes only: the card of one in memory, or in the hot tables, needs no request.
    """

    OPEN = 1
    GRAB = 2
    DETAIL = 3
    CANCEL = 4
    EXPIRE = 5
    CARD = 6


class StateReply(Enum):
    """The decision of a request whose reply is the envelope's state instead of an outcome."""

    AS_COMMITTED = "as committed"
    """Reply with the state after the commit of the request's batch: DETAIL, CANCEL if it is allowed, EXPIRE."""


Decision = Answer | HongbaoError | StateReply
"""The reply to a request, sent once its batch is durable."""

OUTCOMES: tuple[Outcome, ...] = tuple(Outcome)
"""On the wire an outcome is its index here, which is its `code`."""


class ReplyTo(Protocol):
    """Where replies go: a caller on a link (`wire.server.Caller`) or a `LocalCaller`."""

    name: str

    def reply(self, number: int, *values: Any) -> None:
        """Reply to request `number`."""

    def fail(self, number: int, error: BaseException) -> None:
        """Reply to request `number` with an error."""


class Request(msgspec.Struct, eq=False, gc=False):
    """A request and what is known of it; exactly one of `answer`, `show` and `fail` is called, once.

    `decision` is None until a batch takes the request. `in_doubt` marks a claim that may have been committed by a
    transaction whose outcome was lost. `attempt_no` marks a wrong password in the same way, by the count that the
    transaction would have written; 0 for none.

    One is made for every open, so the garbage collector does not track it, and it must never be part of a cycle:
    nothing holds it once it is answered, and `decision` is never an error that was raised, whose traceback would hold
    the frames that hold the request.
    """

    action: Action
    user: str
    token_ok: bool
    password_mac: str | None
    caller: ReplyTo
    number: int
    arrived_at: float
    """Event loop time."""
    in_doubt: bool = False
    attempt_no: int = 0
    decision: Decision | None = None
    page: ClaimsPage = FIRST_PAGE
    """Of DETAIL: which claims are asked for."""

    def __repr__(self) -> str:
        """Name it as logs do, without user and password."""
        return f"Request({self.action.name}, {self.caller.name}-{self.number})"

    @property
    def maybe_written(self) -> bool:
        """Whether a lost transaction may have committed its claim or its wrong password."""
        return self.in_doubt or self.attempt_no > 0

    def answer(self, answer: Answer) -> None:
        """Reply with an outcome."""
        self.caller.reply(self.number, answer.outcome.code, answer.amount_fen, answer.seq, answer.last, answer.extra)

    def show(self, *state: Any) -> None:
        """Reply with the envelope's state: as `wire.messages.Op` says, to EXPIRE with {"final": bool}."""
        self.caller.reply(self.number, *state)

    def fail(self, error: HongbaoError) -> None:
        """Reply with the reason why there is no outcome."""
        self.caller.fail(self.number, error)


class LocalCaller:
    """Receives the replies to requests that this process makes itself: calls `on_reply(number, *values)`.

    An error is passed as the only value.
    """

    name = "local"

    def __init__(self, on_reply: Callable[..., None] = lambda *_: None) -> None:
        self._on_reply = on_reply

    def reply(self, number: int, *values: Any) -> None:
        """Pass the values on."""
        self._on_reply(number, *values)

    def fail(self, number: int, error: BaseException) -> None:
        """Pass the error on."""
        self._on_reply(number, error)

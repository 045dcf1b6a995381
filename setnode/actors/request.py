"""One request at an envelope, as it waits in the actor's mailbox."""

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any

import msgspec

from envelope.decide import Answer
from envelope.errors import HongbaoError
from envelope.outcomes import Outcome
from wire.server import Peer


class Ask(IntEnum):
    """What is asked of the actor."""

    OPEN = 1
    GRAB = 2
    DETAIL = 3
    CANCEL = 4
    EXPIRE = 5


OPEN, GRAB, DETAIL, CANCEL, EXPIRE = Ask
"""Each by its own name, as with `setnode.actors.stage.Phase`."""


class Deferred(Enum):
    """Decisions that are no answer yet."""

    AS_COMMITTED = "as committed"
    """To be answered by the envelope as the commit leaves it: DETAIL, CANCEL that may, EXPIRE."""


Decision = Answer | HongbaoError | Deferred
"""What a request is to hear once its batch is durable."""

OUTCOMES: tuple[Outcome, ...] = tuple(Outcome)
"""On the wire an outcome is its index here, which is its `code`."""


class Request(msgspec.Struct, eq=False, gc=False):
    """`answer` or `fail` is called exactly once; `decision` is None until a batch takes the request.

    `in_doubt` marks a claim whose commit's outcome was lost. `tried_at` is the same for a wrong password: the count
    at which it was being written when the outcome was lost, 0 for none.

    A struct, because one is made for every open: 0.1 µs instead of 0.5. The garbage collector does not look at it:
    nobody holds it once it is answered, and `decision` is never an error that was raised, whose traceback would hold
    the frames that hold the request.
    """

    ask: Ask
    user: str
    token_ok: bool
    password_mac: str | None
    peer: Peer
    number: int
    arrived: float
    """Loop time."""
    in_doubt: bool = False
    tried_at: int = 0
    decision: Decision | None = None

    def __repr__(self) -> str:
        """Name it as logs do; nothing of the password."""
        return f"Request({self.ask.name}, {self.peer.name}-{self.number})"

    @property
    def unsettled(self) -> bool:
        """Whether something of it may have been written without anybody knowing."""
        return self.in_doubt or self.tried_at > 0

    def answer(self, answer: Answer) -> None:
        """Tell the caller the outcome."""
        self.peer.reply(self.number, answer.outcome.code, answer.amount_fen, answer.seq, answer.last, answer.extra)

    def tell(self, *detail: Any) -> None:
        """Tell the caller how the envelope stands (DETAIL and CANCEL: `wire.messages.Op`)."""
        self.peer.reply(self.number, *detail)

    def fail(self, error: HongbaoError) -> None:
        """Tell the caller why there is no outcome."""
        self.peer.fail(self.number, error)


class LocalPeer(Peer):
    """Takes the answers of requests that this process asks of itself (expiry, tests)."""

    def __init__(self, told: Callable[..., None] = lambda *_: None) -> None:
        super().__init__("local")
        self._told = told

    def reply(self, number: int, *values: Any) -> None:
        """Hand the values to the callback."""
        self._told(number, *values)

    def fail(self, number: int, error: BaseException) -> None:
        """Hand the error to the callback."""
        self._told(number, error)

"""What one transaction of the claim log will write."""

from typing import TYPE_CHECKING, Protocol

from envelope.claim_log import ClaimLog
from envelope.closing import Closing
from envelope.decide import Answer
from errors import HongbaoError, InvariantBroken
from runtime.clock import from_ms
from setnode.limits import BATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.traces.context import TraceContext
    from wire.traced import TracedReply

Row = tuple[int, int, int, str, str, int]
"""envelope_id, seq, shares, kind, user_id, amount_fen; the table's other columns follow from these and the batch."""


class BatchedActor(Protocol):
    """An actor whose decisions are in a batch, as the commit queue sees it.

    For each batch exactly one of `settle`, `reload` and `freeze` is called, once.
    """

    envelope_id: int

    @property
    def foreign(self) -> bool:
        """Whether another server owns the envelope and must be notified of the claims."""

    def settle(self) -> None:
        """Reply: the batch is durable."""

    def reload(self, *, in_doubt: bool) -> None:
        """Read the log again: nothing was written, or (`in_doubt`) the outcome is unknown."""

    def freeze(self, broken: InvariantBroken) -> None:
        """Refuse all requests for a while: nothing was written, and a repeat would be refused again."""

    def reject_waiting(self, error: HongbaoError) -> None:
        """Reply to all waiting requests that need a write with `error`."""


class ClaimBatch:
    """Claims (opens and closings) and wrong passwords of any number of envelopes, and the actors that decided them.

    `at_ms` is the time of all its claims, in memory and in the database. `receivers` are the users to be paid, one for
    each of `claims`: who opened, or the sender for a closing entry. `tries` are (envelope ID, user, count of wrong
    passwords). `traced` are the traced requests that it decided, almost always none. `postgres_life` is the life of
    Postgres in which it was decided.
    """

    __slots__ = ("actors", "at", "at_ms", "claims", "paid_for", "postgres_life", "receivers", "traced", "tries")

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.at = from_ms(at_ms)
        self.actors: list[BatchedActor] = []
        self.postgres_life = 0
        self.claims: list[Row] = []
        self.receivers: list[str] = []
        self.tries: list[tuple[int, str, int]] = []
        self.traced: Sequence[TracedReply] = ()
        self.paid_for: Sequence[TraceContext] = ()
        """Spans of its commit, which the payouts of its claims belong to."""

    def __len__(self) -> int:
        """Rows to be written."""
        return len(self.claims) + len(self.tries)

    @property
    def rows_left(self) -> int:
        """How many more rows fit."""
        return BATCH_ROWS - len(self.claims) - len(self.tries)

    def add_open(self, log: ClaimLog, user: str, answer: Answer) -> None:
        """Add the claim of one share."""
        terms = log.terms
        self.claims.append((terms.envelope_id, answer.seq, terms.count, "open", user, answer.amount_fen))
        self.receivers.append(user)

    def add_closing(self, log: ClaimLog, closing: Closing) -> None:
        """Add the entry that returns what is left to the sender."""
        terms, kind = log.terms, closing.entry.value
        self.claims.append((terms.envelope_id, closing.seq, terms.count, kind, "", closing.amount_fen))
        self.receivers.append(terms.sender)

    def add_wrong_try(self, log: ClaimLog, user: str) -> None:
        """Add the user's present count of wrong passwords."""
        self.tries.append((log.terms.envelope_id, user, log.wrong_tries(user)))

    def cut_back(self, mark: tuple[int, int]) -> None:
        """Drop the rows above `mark` (counts of claims and tries): the log of the actor that added them is broken."""
        claims, tries = mark
        del self.claims[claims:]
        del self.receivers[claims:]
        del self.tries[tries:]

"""What one transaction of the claim log will write: a row for each claim."""

from typing import TYPE_CHECKING

from envelope.claim_log import ClaimLog, Closing
from envelope.decide import Answer
from runtime.clock import from_ms
from setnode.limits import BATCH_ROWS

if TYPE_CHECKING:
    from setnode.actors.actor import Actor

Row = tuple[int, int, int, str, str, int]
"""envelope_id, seq, shares, kind, user_id, amount_fen; what else the table holds follows from these and the batch."""


class ClaimBatch:
    """Claims (opens and closings) and wrong passwords of any number of envelopes, and the actors that decided them.

    `at_ms` is the instant of all its claims, in memory and in the database alike. `receivers` is who gets the money of
    each claim: the user who opened, or the sender for a closing entry. `tries` are (envelope, user, wrong tries).
    """

    __slots__ = ("actors", "at", "at_ms", "claims", "receivers", "tries")

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.at = from_ms(at_ms)
        self.actors: list[Actor] = []
        self.claims: list[Row] = []
        self.receivers: list[str] = []
        self.tries: list[tuple[int, str, int]] = []

    def __len__(self) -> int:
        return len(self.claims) + len(self.tries)

    @property
    def room(self) -> int:
        """How many more rows it takes."""
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
        """Add the user's count of wrong passwords as it is now."""
        self.tries.append((log.terms.envelope_id, user, (log.wrong_tries or {})[user]))

    def cut_back(self, mark: tuple[int, int]) -> None:
        """Drop everything above `mark`, counts of claims and tries (one actor's log turned out broken)."""
        claims, tries = mark
        del self.claims[claims:]
        del self.receivers[claims:]
        del self.tries[tries:]

"""What one transaction of the claim log will write: columns, as Postgres takes them by unnest."""

from typing import TYPE_CHECKING

from envelope.claim_log import ClaimLog, Closing
from envelope.decide import Answer

if TYPE_CHECKING:
    from setnode.actor import Actor


class ClaimBatch:
    """Claims (opens and closings) and wrong passwords of any number of envelopes, and the actors that decided them.

    `receivers` is who gets the money of each claim: the user who opened, or the sender for a closing entry.
    """

    __slots__ = (
        "actors",
        "amounts",
        "envelope_ids",
        "kinds",
        "receivers",
        "seqs",
        "shares",
        "tries_counts",
        "tries_ids",
        "tries_users",
        "users",
    )

    def __init__(self) -> None:
        self.actors: list[Actor] = []
        self.envelope_ids: list[int] = []
        self.seqs: list[int] = []
        self.shares: list[int] = []
        self.kinds: list[str] = []
        self.users: list[str] = []
        self.amounts: list[int] = []
        self.receivers: list[str] = []
        self.tries_ids: list[int] = []
        self.tries_users: list[str] = []
        self.tries_counts: list[int] = []

    def __len__(self) -> int:
        return len(self.envelope_ids) + len(self.tries_ids)

    def mark(self) -> tuple[int, int]:
        """Return how much has been added: claims and wrong tries."""
        return len(self.envelope_ids), len(self.tries_ids)

    def add_open(self, log: ClaimLog, user: str, answer: Answer) -> None:
        """Add the claim of one share."""
        self._add(log, answer.seq, "open", user, answer.amount_fen, user)

    def add_closing(self, log: ClaimLog, closing: Closing) -> None:
        """Add the entry that returns what is left to the sender."""
        self._add(log, closing.seq, closing.entry.value, "", closing.amount_fen, log.terms.sender)

    def add_wrong_try(self, log: ClaimLog, user: str) -> None:
        """Add the user's count of wrong passwords as it is now."""
        self.tries_ids.append(log.terms.envelope_id)
        self.tries_users.append(user)
        self.tries_counts.append((log.wrong_tries or {})[user])

    def cut_back(self, mark: tuple[int, int]) -> None:
        """Drop everything above `mark` (what one actor had added before its log turned out broken)."""
        claims, tries = mark
        for rows in (self.envelope_ids, self.seqs, self.shares, self.kinds, self.users, self.amounts, self.receivers):
            del rows[claims:]
        for rows in (self.tries_ids, self.tries_users, self.tries_counts):
            del rows[tries:]

    def _add(self, log: ClaimLog, seq: int, kind: str, user: str, amount_fen: int, receiver: str) -> None:
        terms = log.terms
        self.envelope_ids.append(terms.envelope_id)
        self.seqs.append(seq)
        self.shares.append(terms.count)
        self.kinds.append(kind)
        self.users.append(user)
        self.amounts.append(amount_fen)
        self.receivers.append(receiver)

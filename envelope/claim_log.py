"""The claim log of one envelope in memory: the stock is what has not been claimed yet.

Entries are appended in order of `seq`, from 0; the amount of an open follows from its `seq` alone because all
shares were fixed at creation. `committed` counts the entries known to be durable; those above it are decided but
not yet written, and only the one transaction in flight may hold them.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from envelope import invariants
from envelope.outcomes import Entry, State
from envelope.split import amounts, commitment
from envelope.terms import Terms


@dataclass(frozen=True, slots=True)
class Closing:
    """The entry after which nobody can append: it returns `amount_fen` to the sender."""

    entry: Entry
    seq: int
    amount_fen: int
    at_ms: int


class ClaimLog:
    """Terms plus the entries so far. Not thread-safe: it belongs to one actor."""

    __slots__ = ("_amounts", "closing", "committed", "left_fen", "terms", "times", "winners", "wrong_tries")

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.winners: dict[str, int] = {}
        self.times = array("q")
        self.closing: Closing | None = None
        self.left_fen = terms.total_fen
        self.committed = 0
        self.wrong_tries: dict[str, int] | None = None
        self._amounts: array[int] | None = None

    @property
    def amounts(self) -> "array[int]":
        """The share of every `seq`, in fen; computed from the seed on first use."""
        if self._amounts is None:
            terms = self.terms
            shares = amounts(terms.split, terms.total_fen, terms.count, terms.seed, terms.split_version)
            self._amounts = array("q", shares)
        return self._amounts

    @property
    def sold_out(self) -> bool:
        """Whether every share has been opened (committed or decided)."""
        return len(self.winners) == self.terms.count

    @property
    def final(self) -> bool:
        """Whether nothing can be appended any more."""
        return self.closing is not None or self.sold_out

    def append(self, user: str, at_ms: int) -> int:
        """Append an open by `user`; returns its seq. The ladder has said that he may."""
        seq = len(self.winners)
        invariants.may_append(self, user, seq)
        self.winners[user] = seq
        self.times.append(at_ms)
        self.left_fen -= self.amounts[seq]
        return seq

    def close(self, entry: Entry, at_ms: int) -> Closing:
        """Append the closing entry that takes all that is left."""
        invariants.may_close(self)
        self.closing = Closing(entry, len(self.winners), self.left_fen, at_ms)
        self.left_fen = 0
        return self.closing

    def restore(self, entries: Iterable[tuple[int, str, str, int, int]]) -> None:
        """Fill an empty log from the database: (seq, kind, user, amount_fen, at_ms) in order of seq.

        Raises InvariantBroken when they are not what the terms say.
        """
        for seq, kind, user, amount_fen, at_ms in entries:
            invariants.follows(self, seq, kind, amount_fen)
            if kind == Entry.OPEN:
                self.append(user, at_ms)
            else:
                self.close(Entry(kind), at_ms)
        self.committed = len(self.winners) + (self.closing is not None)
        invariants.balanced(self)

    def state(self, now_ms: int) -> State:
        """Return the envelope's state at `now_ms` as the committed entries tell it."""
        opens = len(self.winners)
        if self.closing is not None and self.committed > opens:
            return State.EXPIRED if self.closing.entry is Entry.EXPIRED else State.CANCELED
        if min(self.committed, opens) == self.terms.count:
            return State.SOLD_OUT
        if now_ms >= self.terms.expires_at_ms:
            return State.EXPIRED
        return State.SCHEDULED if now_ms < self.terms.opens_at_ms else State.OPEN

    def claims(self, *, after: int = 0) -> list[tuple[str, int, int]]:
        """Return the committed opens as (user, amount_fen, at_ms), in order of seq, all but the first `after`."""
        users = islice(self.winners, after, max(after, min(self.committed, len(self.winners))))
        amounts, times = self.amounts, self.times
        return [(user, amounts[seq], times[seq]) for seq, user in enumerate(users, after)]

    def opened_since(self, at_ms: int) -> int:
        """Count the opens, decided or committed, from an instant on."""
        return len(self.times) - bisect_left(self.times, at_ms)

    def commitment(self) -> str:
        """Return the SHA-256 of the split seed, as told to everybody at creation."""
        return commitment(self.terms.seed)

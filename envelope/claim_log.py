"""The claim log of one envelope in memory: the stock is the shares that have no claim yet.

Entries are appended in order of `seq`, from 0. The amount of an open follows from its `seq` alone, because all shares
are fixed at creation. `committed` counts the entries that are known to be durable; the entries above it are decided and
not yet committed, and all of them belong to the one transaction in flight.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import islice

from envelope import invariants
from envelope.closing import Closing
from envelope.outcomes import Entry, State, state_at
from envelope.split import amounts
from envelope.terms import Terms


class ClaimLog:
    """Terms plus the entries so far. Not thread-safe: it belongs to one actor."""

    __slots__ = ("_amounts", "_wrong_tries", "closing", "committed", "left_fen", "terms", "times", "winners")

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.winners: dict[str, int] = {}
        self.times = array("q")
        self.closing: Closing | None = None
        self.left_fen = terms.total_fen
        self.committed = 0
        self._wrong_tries: dict[str, int] | None = None
        self._amounts: array[int] | None = None

    @property
    def amounts(self) -> "array[int]":
        """The share of every `seq`, in fen; computed from the seed on first use."""
        if self._amounts is None:
            terms = self.terms
            shares = amounts(
                terms.split,
                terms.total_fen,
                terms.count,
                terms.seed,
                terms.split_version,
                min_fen=terms.min_fen,
                max_fen=terms.max_fen,
            )
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
        """Append an open by `user`, which `envelope.decide` has allowed; returns its seq."""
        seq = len(self.winners)
        invariants.may_append(self, user, seq)
        left_fen = self.left_fen - self.amounts[seq]
        # Every share has a fen at least, so nothing is left after the last one and only then.
        if left_fen < 0 or (left_fen == 0) != (seq + 1 == self.terms.count):
            raise invariants.beyond_total(self, seq)
        self.winners[user] = seq
        self.times.append(at_ms)
        self.left_fen = left_fen
        return seq

    def close(self, entry: Entry, at_ms: int) -> Closing:
        """Append the closing entry that takes all that is left."""
        invariants.may_close(self)
        self.closing = Closing(entry, len(self.winners), self.left_fen, at_ms)
        self.left_fen = 0
        return self.closing

    def mark_committed(self) -> None:
        """Note that every entry so far is durable."""
        self.committed = len(self.winners) + (self.closing is not None)

    def restore(self, entries: Iterable[tuple[int, str, str, int, int]]) -> None:
        """Append what is in the database: (seq, kind, user, amount_fen, at_ms) in order of seq.

        Raises InvariantBroken when they are not what the terms say.
        """
        for seq, kind, user, amount_fen, at_ms in entries:
            invariants.follows(self, seq, kind, amount_fen)
            if kind == Entry.OPEN:
                self.append(user, at_ms)
            else:
                self.close(Entry(kind), int(at_ms))
        self.mark_committed()
        invariants.balanced(self)

    def wrong_tries(self, user: str) -> int:
        """Return how many wrong passwords are counted for `user`."""
        return 0 if self._wrong_tries is None else self._wrong_tries.get(user, 0)

    def count_wrong_try(self, user: str) -> int:
        """Count one more wrong password of `user`; returns the new count."""
        if self._wrong_tries is None:
            self._wrong_tries = {}
        tries = self._wrong_tries[user] = self._wrong_tries.get(user, 0) + 1
        return tries

    def restore_wrong_tries(self, tries: Mapping[str, int]) -> None:
        """Take the counts of wrong passwords that the database holds."""
        self._wrong_tries = dict(tries) or None

    def state(self, now_ms: int) -> State:
        """Return the envelope's state at `now_ms` by its committed entries."""
        terms = self.terms
        return state_at(
            now_ms,
            opens=self.committed_opens,
            count=terms.count,
            closed_by=None if (closing := self.committed_closing) is None else closing.entry,
            opens_at_ms=terms.opens_at_ms,
            expires_at_ms=terms.expires_at_ms,
        )

    @property
    def committed_opens(self) -> int:
        """How many opens are durable."""
        return min(self.committed, len(self.winners))

    @property
    def committed_closing(self) -> Closing | None:
        """The closing entry, if it is durable."""
        return self.closing if self.committed > len(self.winners) else None

    @property
    def changed_at_ms(self) -> int:
        """When the last durable entry was decided; 0 if there is none."""
        if (closing := self.committed_closing) is not None:
            return closing.at_ms
        return self.times[self.committed - 1] if self.committed else 0

    @property
    def committed_fen(self) -> int:
        """The sum of the opens that are durable; costs what is in flight, not what was opened."""
        left_fen = self.left_fen if self.closing is None else self.closing.amount_fen
        claimed_fen, durable = self.terms.total_fen - left_fen, self.committed_opens
        opens = len(self.winners)
        # Only if there are any: `amounts` computes all shares of an envelope that nobody has opened.
        return claimed_fen if durable == opens else claimed_fen - sum(self.amounts[durable:opens])

    def claims(self, *, after: int = 0) -> list[tuple[str, int, int]]:
        """Return the committed opens as (user, amount_fen, at_ms), in order of seq, without the first `after`."""
        users = islice(self.winners, after, max(after, min(self.committed, len(self.winners))))
        amounts, times = self.amounts, self.times
        return [(user, amounts[seq], times[seq]) for seq, user in enumerate(users, after)]

    def opened_since(self, at_ms: int) -> int:
        """Count the opens, decided or committed, from an instant on."""
        return len(self.times) - bisect_left(self.times, at_ms)

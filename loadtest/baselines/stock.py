"""What is left of an envelope, in memory, for the contenders that decide there."""

from collections.abc import Sequence

from loadtest.baselines.baseline import Refusal, draw


class Stock:
    """What is left of one envelope, and who has opened it."""

    __slots__ = ("left_count", "left_fen", "users")

    def __init__(self, shares: int, total_fen: int) -> None:
        self.left_count = shares
        self.left_fen = total_fen
        self.users: set[str] = set()

    def take(self, user: str) -> int | Refusal:
        """Take one share out."""
        if user in self.users:
            return Refusal.ALREADY
        if not self.left_count:
            return Refusal.SOLD_OUT
        amount = draw(self.left_fen, self.left_count)
        self.users.add(user)
        self.left_count -= 1
        self.left_fen -= amount
        return amount


def stocks(envelopes: Sequence[int], shares: int, total_fen: int) -> dict[int, Stock]:
    """Return full stocks by envelope."""
    return {envelope: Stock(shares, total_fen) for envelope in envelopes}

"""What was made good, and what was not."""

from dataclasses import dataclass, field
from typing import NamedTuple

from recovery.limits import NAMED
from recovery.lost import LostEnvelope
from wire.wallet import Order

_NO_CREATE = "its create is not made good"


class NotMade(NamedTuple):
    """What could not be made good, and why: `create` or an order number, in fen."""

    what: str
    envelope_id: int
    user: str
    fen: int
    why: str


@dataclass
class Repaired:
    """What was done again, and what was not; `not_made` names NAMED of `not_made_count`."""

    funded: int = 0
    funded_fen: int = 0
    paid: int = 0
    paid_fen: int = 0
    not_made: list[NotMade] = field(default_factory=list)
    not_made_count: int = 0

    @property
    def moved(self) -> int:
        """How many creates and credits were done again."""
        return self.funded + self.paid

    def miss_all(self, one: LostEnvelope, why: str) -> None:
        """Note all that is lost of an envelope; without its create no credit of it can be paid."""
        if (fund := one.fund) is not None:
            self.miss(NotMade("create", fund.envelope_id, fund.sender, fund.total_fen, why))
        for order in one.credits:
            self.miss_credit(order, _NO_CREATE if fund is not None else why)

    def miss_credit(self, order: Order, why: str) -> None:
        """Note a credit that could not be made good."""
        self.miss(NotMade(order.order_no, order.envelope_id, order.user, order.amount_fen, why))

    def miss(self, one: NotMade) -> None:
        """Note what could not be made good."""
        self.not_made_count += 1
        if len(self.not_made) < NAMED:
            self.not_made.append(one)

"""A request decided and encoded where it arrives, while Postgres writes others: a transaction then only joins texts.

A draft trusts that its orders are new and that everybody has the money. Nothing hangs on that: what is not so is
refuted by UNIQUE and CHECK, or seen when the drafts of a batch are laid together, and then decided as a whole.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec.structs import astuple

from runtime import literals
from wallet.decide import Known, Plan, decide
from wallet.postings import Posting
from wallet.requests import PayRequest, Request


class Columns(NamedTuple):
    """Postings by column: array literals, and accounts by name, which get their numbers in the transaction."""

    order_nos: str
    kinds: str
    amounts: str
    envelopes: str
    debits: Sequence[str]
    credits: Sequence[str]
    users: Sequence[str]

    @property
    def touched(self) -> set[str]:
        """The accounts whose balances move."""
        return {*self.debits, *self.credits}

    @property
    def accounts(self) -> set[str]:
        """All accounts named. A claim paid by a provider moves no money of its user, but his statement shows it."""
        return {*self.debits, *self.credits, *self.users}

    @classmethod
    def of(cls, postings: Iterable[Posting]) -> "Columns | None":
        """Encode `postings`; None when there are none."""
        columns = tuple(zip(*map(astuple, postings), strict=True))
        if not columns:
            return None
        order_nos, kinds, debits, credits_, users, amounts, envelopes = columns
        numbers = literals.numbers
        return cls(
            literals.texts(order_nos), numbers(kinds), numbers(amounts), numbers(envelopes), debits, credits_, users
        )

    @classmethod
    def joined(cls, parts: Sequence["Columns"]) -> "Columns":
        """Return the rows of all `parts` (at least one), in their order."""
        if len(parts) == 1:
            return parts[0]
        order_nos, kinds, amounts, envelopes, debits, credits_, users = zip(*parts, strict=True)
        join, names = literals.joined, chain.from_iterable
        return cls(
            join(order_nos),
            join(kinds),
            join(amounts),
            join(envelopes),
            list(names(debits)),
            list(names(credits_)),
            list(names(users)),
        )


class Draft:
    """One request; of a PAY also what it gets if all is as expected, with its postings encoded."""

    __slots__ = ("columns", "plan", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        # A create or a deposit is one posting: all of a batch are decided and encoded together, which costs less.
        self.plan = decide((request,), Known.nothing()) if isinstance(request, PayRequest) else None
        self.columns = Columns.of(self.plan.postings) if self.plan else None


def lay_together(drafts: Sequence[Draft], taken: Collection[int] = ()) -> tuple[Plan, Columns | None]:
    """Return the optimist's plan of a batch and what it posts: PAYs as drafted, unless one repeats another.

    `taken` are envelope IDs that no create of this batch can have any more.

    They are posted before the requests of one posting, so that a statement shows what came in before it was spent. No
    other order matters: an escrow is paid from after its create was answered.
    """
    single = decide([draft.request for draft in drafts if draft.plan is None], Known(taken=set(taken)))
    plan = Plan(funds=single.funds, replays=single.replays)
    answers = iter(single.answers)
    for draft in drafts:
        if draft.plan is None:
            plan.answers.append(next(answers))
        else:
            plan.answers += draft.plan.answers
            plan.postings += draft.plan.postings
            plan.replays += draft.plan.replays
    plan.postings += single.postings
    if len({posting.order_no for posting in plan.postings}) < len(plan.postings):
        plan = decide([draft.request for draft in drafts], Known(taken=set(taken)))
        return plan, Columns.of(plan.postings)
    written = [columns for columns in (*(draft.columns for draft in drafts), Columns.of(single.postings)) if columns]
    return plan, Columns.joined(written) if written else None

"""Drafts: a PAY is decided and encoded when it arrives, while Postgres writes an earlier batch.

So to write a batch, only the encoded texts are joined. A draft assumes that its orders are new and that the money is
there. If that is wrong, UNIQUE or CHECK refuses the batch, or `merge` sees it, and all of it is decided again.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec.structs import astuple

from runtime.postgres import arrays
from wallet.decide import Known, Plan, decide
from wallet.postings import Posting
from wallet.requests import PayRequest, WalletRequest


class Columns(NamedTuple):
    """Postings by column: array literals, and accounts by name (the ledger looks their numbers up)."""

    order_nos: str
    kinds: str
    amounts: str
    envelopes: str
    debits: Sequence[str]
    credits: Sequence[str]
    users: Sequence[str]

    @property
    def touched(self) -> set[str]:
        """The accounts whose balances move; `post` counts them."""
        return {*self.debits, *self.credits}

    @property
    def accounts(self) -> set[str]:
        """All accounts named: those touched, and users whose claim a provider paid (it is in their history only)."""
        return {*self.debits, *self.credits, *self.users}

    @classmethod
    def of(cls, postings: Iterable[Posting]) -> "Columns | None":
        """Encode `postings`; None when there are none."""
        columns = tuple(zip(*map(astuple, postings), strict=True))
        if not columns:
            return None
        order_nos, kinds, debits, credits_, users, amounts, envelopes = columns
        numbers = arrays.numbers
        return cls(
            arrays.texts(order_nos), numbers(kinds), numbers(amounts), numbers(envelopes), debits, credits_, users
        )

    @classmethod
    def joined(cls, parts: Sequence["Columns"]) -> "Columns":
        """Return the rows of all `parts` (at least one), in their order."""
        if len(parts) == 1:
            return parts[0]
        order_nos, kinds, amounts, envelopes, debits, credits_, users = zip(*parts, strict=True)
        join, names = arrays.joined, chain.from_iterable
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
    """One request; if it is a PAY, also its optimistic plan (see `wallet.decide`), with the postings encoded."""

    __slots__ = ("columns", "plan", "request")

    def __init__(self, request: WalletRequest) -> None:
        self.request = request
        # A create or a deposit is one posting: those of a batch are decided and encoded together, which costs less.
        self.plan = decide((request,), Known.nothing()) if isinstance(request, PayRequest) else None
        self.columns = Columns.of(self.plan.postings) if self.plan else None


def merge(drafts: Sequence[Draft], taken: Collection[int] = ()) -> tuple[Plan, Columns | None]:
    """Return the optimistic plan of a batch and its postings (None without any): PAYs as drafted.

    If an order number stands twice in the batch, all requests are decided again in order of arrival instead. `taken`
    are envelope IDs that other creates have taken and committed.

    PAYs are posted before creates and deposits, so that a user's history shows a credit before the money is spent. No
    other order matters: an escrow pays only after its create was answered.
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

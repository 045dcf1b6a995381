"""The checks between a SET and the wallet: every fund has its envelope, every claim its one credit, and no others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from audit.report import Report
from envelope.claim_log import ClaimLog
from envelope.header_hash import header_hashes
from envelope.outcomes import Entry
from envelope.split import Split
from wire.orders import escrow_account, payout_order

PENDING_S = 180.0
"""For this long a fund without a header counts as a create in flight; then the sweeper should have undone it."""
IN_FLIGHT_MOST = 50_000
"""What the first snapshot of the wallet cannot decide is decided by a later one as soon as there is so much of it: of a
wallet that has lost its rows that is everything."""
_USER = "user:"
PROVIDER = "channel:provider"
"""The one account beside the winner's own that a claim may be paid to, where there is a payment provider: it has paid
them outside."""
FUTURE_S = 86_400.0
"""Clocks of servers and databases differ by less than a day; what is from later than that would not be late in time."""
FUND, CLAIM, REFUND = 1, 2, 3
"""Kinds of transfers (`transfer.kind` in schema/wallet.sql)."""


class Due(NamedTuple):
    """What the wallet must have paid for one entry of a log: to which user, how much, under which kind."""

    receiver: str
    fen: int
    kind: int


@dataclass
class InFlight:
    """What the first snapshot of the wallet cannot decide; the last one does.

    `provider`: claims may have been paid out by a payment provider.
    """

    provider: bool = False
    credits: dict[str, tuple[int, Due]] = field(default_factory=dict)
    """Order number → (envelope, what is due): claimed, its payout no longer pending, not seen paid."""
    funds: dict[int, ClaimLog] = field(default_factory=dict)
    """Envelope → its log: it exists, but its fund was not seen."""

    def __len__(self) -> int:
        """How much is not decided."""
        return len(self.credits) + len(self.funds)


def match_fund(log: ClaimLog, funds: Sequence[Any], paid_fen: int, report: Report, in_flight: InFlight) -> None:
    """Compare an envelope with what was paid in for it; `paid_fen` is what the same snapshot shows as paid out."""
    terms = log.terms
    if not funds:
        in_flight.funds[terms.envelope_id] = log
        return
    fund = funds[0]
    check_fund(log, fund, report)
    left_fen = fund["total_fen"] - paid_fen
    if fund["left_fen"] != left_fen:
        sentence = (
            f"its fund says that {fund['left_fen']} fen are left, of {fund['total_fen']} {paid_fen} were paid out"
        )
        report.add("fund_left_is_what_was_not_paid", terms.envelope_id, sentence, fund["left_fen"] - left_fen)


def check_fund(log: ClaimLog, fund: Any, report: Report) -> None:
    """Compare one fund, and the transfer that paid it, with the header that it paid for."""
    terms = log.terms
    envelope_id, total_fen, sender = terms.envelope_id, terms.total_fen, _USER + terms.sender

    def differs(sentence: str, fen: int = total_fen) -> None:
        report.add("fund_matches_envelope", envelope_id, sentence, fen)

    paid_in = fund["amount_fen"] or 0
    if paid_in != total_fen or fund["total_fen"] != total_fen:
        differs(f"{paid_in} fen were paid in for {total_fen}", paid_in - total_fen)
    if fund["sender"] != sender:
        differs(f"paid in by {fund['sender']}, sent by {terms.sender}")
    if fund["amount_fen"] is not None:
        for sentence in _wrong_transfer(envelope_id, fund, sender):
            differs(sentence)
    if is_the_sweepers(log):
        return  # not the header that was paid for
    if log.closing is not None and log.closing.entry is Entry.UNDONE:
        report.add(
            "undone_is_by_the_sweeper", envelope_id, "it is closed as an undone create, and its create stood", total_fen
        )
    if fund["create_key"] != terms.create_key:
        differs("its fund belongs to another create", 0)
    if fund["header_hash"] and fund["header_hash"] not in header_hashes(terms):
        report.add("header_is_what_was_paid_for", envelope_id, "its header is not the one its fund paid for", total_fen)


def is_the_sweepers(log: ClaimLog) -> bool:
    """Say whether a log is one that undoes a create: bare, closed at once (setnode/queries/undo_creates.sql)."""
    terms, closing = log.terms, log.closing
    if closing is None or closing.entry is not Entry.UNDONE:
        return False
    bare = (terms.split, terms.count, terms.greeting, terms.create_key) == (Split.EQUAL, 1, "", "")
    return bare and not log.winners and terms.seal is None and terms.password_mac is None


def _wrong_transfer(envelope_id: int, fund: Any, sender: str) -> Iterator[str]:
    """Yield what is wrong with the transfer that paid a fund, beside its amount; `sender` is an account's name."""
    if fund["debit"] != sender or fund["shown_to"] != sender:
        yield f"paid from {fund['debit']} and shown to {fund['shown_to']}, sent by {sender.removeprefix(_USER)}"
    if fund["credit"] != escrow_account(envelope_id):
        yield f"paid into {fund['credit']}"
    if fund["kind"] != FUND or fund["paid_for"] != envelope_id:
        yield f"paid in by a transfer of kind {fund['kind']} for envelope {fund['paid_for']}"


def unaccounted(row: Any, report: Report) -> None:
    """Report money in the wallet that no SET's tables account for (queries/unaccounted.sql)."""
    if row["what"] == "fund" and row["in_escrow"] and report.age_s(row) <= PENDING_S:
        _not_from_the_future(row, report)
        return  # a create in flight, on a day whose tables are still being made
    sentence = f"order {row['order_no']} moved {row['amount_fen']} fen, which no SET can account for"
    if row["what"] == "deposit":
        moved = f"order {row['order_no']} moved {row['amount_fen']} fen"
        sentence = f"{moved}, which is no deposit from outside to the user that it names"
        report.add("deposit_is_from_outside", row["order_no"], sentence, abs(row["amount_fen"]))
        return
    check = {"fund": "fund_has_envelope", "transfer": "transfer_has_fund", "credit": "credit_has_claim"}[row["what"]]
    report.add(check, row["envelope_id"], sentence, row["amount_fen"])


def fund_without_envelope(report: Report, fund: Any) -> None:
    """Report a fund without a header, unless it is so young that its create may be in flight, its money in escrow."""
    envelope_id, total_fen = fund["envelope_id"], fund["total_fen"]
    for sentence in _wrong_transfer(envelope_id, fund, fund["sender"]):
        report.add(
            "fund_has_envelope", envelope_id, f"there is no such envelope, and its fund is {sentence}", total_fen
        )
    if fund["amount_fen"] != total_fen or fund["left_fen"] != total_fen:
        sentence = f"{fund['amount_fen']} fen were paid in for {total_fen}, {fund['left_fen']} are left"
        report.add("fund_has_envelope", envelope_id, f"there is no such envelope, and {sentence}", total_fen)
    if report.age_s(fund) > PENDING_S:
        report.add(
            "fund_has_envelope",
            fund["envelope_id"],
            f"{fund['total_fen']} fen were paid in {report.age_s(fund):.0f} s ago and there is no such envelope",
            fund["total_fen"],
        )
    else:
        _not_from_the_future(fund, report)
        report.sums.in_flight += 1
        report.sums.in_flight_fen += fund["total_fen"]


def _not_from_the_future(fund: Any, report: Report) -> None:
    # Its time and the audit's are of the wallet's own database; a standby that took over may differ by a little.
    if report.age_s(fund) < -PENDING_S:
        sentence = f"its fund is from {-report.age_s(fund):.0f} s later than now, and no header follows"
        report.add("fund_has_envelope", fund["envelope_id"], sentence)


def match_credits(
    log: ClaimLog, credits_: Sequence[Any], pending: set[int], report: Report, in_flight: InFlight
) -> None:
    """Compare an envelope's log with its credits; `pending` are the seqs whose payout is not final."""
    envelope_id = log.terms.envelope_id
    paid = {row["order_no"]: row for row in credits_}
    for seq, due in _expected_credits(log):
        order_no = payout_order(envelope_id, seq)
        row = paid.pop(order_no, None)
        if row is not None:
            check_credit(envelope_id, order_no, due, row, report, provider=in_flight.provider)
            report.sums.credited_fen += due.fen
            continue
        report.sums.in_flight += 1
        report.sums.in_flight_fen += due.fen
        if seq not in pending:
            in_flight.credits[order_no] = (envelope_id, due)
    entries = len(log.winners) + (log.closing is not None)
    for seq in sorted(pending - set(range(entries))):
        report.add("intent_has_claim", envelope_id, f"a payout of claim {seq} is pending, and there is no such claim")
    for order_no, row in paid.items():
        report.add(
            "credit_has_claim", envelope_id, f"order {order_no} paid {row['amount_fen']} fen; there is no such claim",
            row["amount_fen"],
        )  # fmt: skip


def check_credit(envelope_id: int, order_no: str, due: Due, row: Any, report: Report, *, provider: bool) -> None:
    """Compare one credit with the claim that it pays: both accounts, user, kind and amount."""

    def differs(sentence: str, fen: int = due.fen) -> None:
        report.add("credit_matches_claim", envelope_id, f"order {order_no} {sentence}", fen)

    receiver = _USER + due.receiver
    if row["amount_fen"] != due.fen:
        differs(f"paid {row['amount_fen']} fen for a claim of {due.fen}", row["amount_fen"] - due.fen)
    if row["receiver"] != receiver:
        differs(f"is shown to {row['receiver']}, not to {due.receiver}")
    if row["credit"] != receiver and not (provider and due.kind == CLAIM and row["credit"] == PROVIDER):
        differs(f"paid {row['credit']}, not {due.receiver}")
    if row["debit"] != escrow_account(envelope_id):
        differs(f"was paid out of {row['debit']}")
    if row["kind"] != due.kind or row["envelope_id"] != envelope_id:
        differs(f"is of kind {row['kind']} for envelope {row['envelope_id']}, not of kind {due.kind}")


def _expected_credits(log: ClaimLog) -> list[tuple[int, Due]]:
    """Return what is due for each entry of the log, by seq: to the winner, or to the sender for the closing one."""
    expected = [(seq, Due(user, log.amounts[seq], CLAIM)) for user, seq in log.winners.items()]
    if log.closing is not None:
        expected.append((log.closing.seq, Due(log.terms.sender, log.closing.amount_fen, REFUND)))
    return expected

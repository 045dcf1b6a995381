"""The checks between a SET and the wallet: every fund has its envelope, every claim its one credit, and no others."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from audit.report import Report
from envelope.claim_log import ClaimLog
from wire.orders import escrow_account, payout_order

PENDING_S = 180.0
"""For this long a fund without a header counts as a create in flight; then the sweeper should have undone it."""
_USER = "user:"


@dataclass
class InFlight:
    """What the first snapshot of the wallet cannot decide; the last one does."""

    credits: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    """Order number → (envelope, receiver, fen): claimed, its payout no longer pending, not seen paid."""
    funds: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Envelope → (sender, fen): it exists, but its fund was not seen."""


def match_fund(log: ClaimLog, funds: Sequence[Any], report: Report, in_flight: InFlight) -> None:
    """Compare an envelope with what was paid in for it."""
    terms = log.terms
    if not funds:
        in_flight.funds[terms.envelope_id] = (terms.sender, terms.total_fen)
        return
    check_fund(terms.envelope_id, terms.sender, terms.total_fen, funds[0], report)


def check_fund(envelope_id: int, sender: str, total_fen: int, fund: Any, report: Report) -> None:
    """Compare one fund with the header that it paid for."""
    paid_in = fund["amount_fen"] or 0
    if paid_in != total_fen or fund["total_fen"] != total_fen:
        report.add(
            "fund_matches_envelope", envelope_id, f"{paid_in} fen were paid in for {total_fen}", paid_in - total_fen
        )
    if fund["sender"] != _USER + sender:
        report.add("fund_matches_envelope", envelope_id, f"paid in by {fund['sender']}, sent by {sender}", total_fen)
    if fund["credit"] is not None and fund["credit"] != escrow_account(envelope_id):
        report.add("fund_matches_envelope", envelope_id, f"paid into {fund['credit']}", total_fen)


def unaccounted(row: Any, report: Report) -> None:
    """Report money in the wallet that no SET's tables account for (queries/unaccounted.sql)."""
    if row["what"] == "fund" and row["age_s"] <= PENDING_S:
        return  # a create in flight, on a day whose tables are still being made
    check = {"fund": "fund_has_envelope", "transfer": "transfer_has_fund", "credit": "credit_has_claim"}[row["what"]]
    sentence = f"order {row['order_no']} moved {row['amount_fen']} fen, which no SET can account for"
    report.add(check, row["envelope_id"], sentence, row["amount_fen"])


def fund_without_envelope(fund: Any, report: Report) -> None:
    """Report a fund without a header, unless it is so young that its create may be in flight."""
    if fund["age_s"] > PENDING_S:
        report.add(
            "fund_has_envelope",
            fund["envelope_id"],
            f"{fund['total_fen']} fen were paid in {fund['age_s']:.0f} s ago and there is no such envelope",
            fund["total_fen"],
        )
    else:
        report.sums.in_flight += 1
        report.sums.in_flight_fen += fund["total_fen"]


def match_credits(
    log: ClaimLog, credits_: Sequence[Any], pending: set[int], report: Report, in_flight: InFlight
) -> None:
    """Compare an envelope's log with its credits; `pending` are the seqs whose payout is not final."""
    envelope_id = log.terms.envelope_id
    paid = {row["order_no"]: row for row in credits_}
    for seq, receiver, fen in _expected_credits(log):
        order_no = payout_order(envelope_id, seq)
        row = paid.pop(order_no, None)
        if row is not None:
            check_credit(envelope_id, order_no, receiver, fen, row, report)
            report.sums.credited_fen += fen
            continue
        report.sums.in_flight += 1
        report.sums.in_flight_fen += fen
        if seq not in pending:
            in_flight.credits[order_no] = (envelope_id, receiver, fen)
    entries = len(log.winners) + (log.closing is not None)
    for seq in sorted(pending - set(range(entries))):
        report.add("intent_has_claim", envelope_id, f"a payout of claim {seq} is pending, and there is no such claim")
    for order_no, row in paid.items():
        report.add(
            "credit_has_claim", envelope_id, f"order {order_no} paid {row['amount_fen']} fen; there is no such claim",
            row["amount_fen"],
        )  # fmt: skip


def check_credit(envelope_id: int, order_no: str, receiver: str, fen: int, row: Any, report: Report) -> None:
    """Compare one credit with the claim that it pays."""
    if row["amount_fen"] != fen:
        report.add(
            "credit_matches_claim", envelope_id, f"order {order_no} paid {row['amount_fen']} fen for a claim of {fen}",
            row["amount_fen"] - fen,
        )  # fmt: skip
    if row["receiver"] != _USER + receiver:
        report.add("credit_matches_claim", envelope_id, f"order {order_no} paid {row['receiver']}, not {receiver}", fen)
    if row["debit"] != escrow_account(envelope_id):
        report.add("credit_matches_claim", envelope_id, f"order {order_no} was paid out of {row['debit']}", fen)


def _expected_credits(log: ClaimLog) -> list[tuple[int, str, int]]:
    """Return (seq, receiver, fen) for each entry of the log: the winner, or the sender for the closing one."""
    expected = [(seq, user, log.amounts[seq]) for user, seq in log.winners.items()]
    if log.closing is not None:
        expected.append((log.closing.seq, log.terms.sender, log.closing.amount_fen))
    return expected

"""The checks of one envelope within its SET: its log replays exactly from the seed, within its terms."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from audit.report import Report
from envelope.claim_log import ClaimLog
from envelope.outcomes import Entry
from envelope.terms import Terms
from errors import InvariantBroken
from schema.headers import read_terms
from sharding.ids import slot_of

SKEW_MS = 60_000
"""Clocks are set back, and those of two servers differ; a smaller difference between two claims is no violation."""


def _within(terms: Terms, kind: str, at_ms: int) -> bool:
    """Say whether an entry may carry this instant; SKEW_MS as between two entries."""
    if kind == Entry.OPEN:
        return terms.opens_at_ms - SKEW_MS <= at_ms <= terms.expires_at_ms + SKEW_MS
    return at_ms >= (terms.expires_at_ms if kind == Entry.EXPIRED else terms.created_at_ms) - SKEW_MS


def replay(header: Any, claims: Sequence[Any], receivers: frozenset[str], report: Report) -> ClaimLog | None:
    """Rebuild the log by the rules that wrote it; if it does not follow them, report that and return None.

    Every amount follows from the seed, seqs are dense, users distinct, the closing entry takes exactly what was left,
    and times do not run backwards by more than SKEW_MS (`seq` is the order of arrival).
    """
    envelope_id = header["envelope_id"]
    try:
        log = ClaimLog(read_terms(header, receivers if header["named"] else None))
        log.restore((row["seq"], row["kind"], row["user_id"], row["amount_fen"], row["at_ms"]) for row in claims)
        _compare(log, header, claims, report)
    except InvariantBroken as broken:
        claimed = sum(row["amount_fen"] or 0 for row in claims)
        report.add(broken.check, envelope_id, broken.detail, max(1, abs(claimed - (header["total_fen"] or 0))))
        return None
    except Exception as error:  # noqa: BLE001 - of any kind: rows edited by hand may hold anything
        sentence = f"its rows cannot be read: {type(error).__name__}: {error}"
        report.add("header_is_readable", envelope_id, sentence, header["total_fen"] or 0)
        return None
    return log


def _compare(log: ClaimLog, header: Any, claims: Sequence[Any], report: Report) -> None:
    """Report what a log that replays does not show: columns beside it, and instants."""
    envelope_id = header["envelope_id"]
    for row in claims:
        if row["shares"] != header["shares"]:
            report.add("claim_knows_shares", envelope_id, f"claim {row['seq']} says {row['shares']} shares")
        if (row["kind"] == Entry.OPEN) != bool(row["user_id"]):
            report.add(
                "claim_knows_user",
                envelope_id,
                f"claim {row['seq']} of kind {row['kind']} names no one, or one too many",
            )
    if any(row["slot"] != slot_of(envelope_id) for row in (header, *claims)):
        report.add("rows_are_in_their_slot", envelope_id, "a row of it is in the table of another slot")
    if any(not _within(log.terms, row["kind"], row["at_ms"]) for row in claims):
        report.add("claim_within_times", envelope_id, "a claim is from before it opened, or from after it expired")
    if any(later < earlier - SKEW_MS for earlier, later in pairwise(log.times)):
        report.add("log_in_order_of_time", envelope_id, "a later claim carries an earlier instant")
    if not log.final and not header["due"]:
        report.add("open_envelope_is_due", envelope_id, "it is open and not due: nothing will close it", log.left_fen)
    if not log.final and log.terms.expires_at_ms < report.overdue_before_ms:
        sentence = (
            "it is past its end, others were closed or made since, and it is still open: "
            f"{log.left_fen} fen are not refunded; the logs of the SET's setnodes say why"
        )
        report.add("envelope_is_closed_in_time", envelope_id, sentence, log.left_fen)

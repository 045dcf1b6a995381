"""The proof of one envelope from its own SET: the log replays exactly, from the seed, within its terms."""

from collections.abc import Sequence
from typing import Any

from audit.report import Report
from envelope.claim_log import ClaimLog
from envelope.errors import HongbaoError, InvariantBroken
from envelope.split import Split
from envelope.terms import Kind, Terms


def replay(header: Any, claims: Sequence[Any], report: Report) -> ClaimLog | None:
    """Rebuild the log by the same rules that wrote it; notes what does not follow and returns None then.

    Every amount is recomputed from the seed, seqs are dense, users distinct, the closing entry takes exactly what was
    left, and instants do not run backwards (answers came in the order of arrival).
    """
    envelope_id = header["envelope_id"]
    try:
        log = ClaimLog(_terms(header))
        log.restore((row["seq"], row["kind"], row["user_id"], row["amount_fen"], row["at_ms"]) for row in claims)
    except InvariantBroken as broken:
        claimed = sum(row["amount_fen"] for row in claims)
        report.add(broken.check, envelope_id, broken.detail, max(1, abs(claimed - header["total_fen"])))
        return None
    except (HongbaoError, ValueError) as error:
        report.add("header_is_readable", envelope_id, f"its header cannot be read: {error}", header["total_fen"])
        return None
    for row in claims:
        if row["shares"] != header["shares"]:
            report.add("claim_knows_shares", envelope_id, f"claim {row['seq']} says {row['shares']} shares")
    times = list(log.times)
    if times != sorted(times):
        report.add("log_in_order_of_time", envelope_id, "a later claim carries an earlier instant")
    return log


def _terms(row: Any) -> Terms:
    return Terms(
        envelope_id=row["envelope_id"],
        sender=row["sender"],
        kind=Kind(row["kind"]),
        split=Split(row["split"]),
        split_version=row["split_version"],
        total_fen=row["total_fen"],
        count=row["shares"],
        greeting="",
        created_at_ms=0,
        opens_at_ms=0,
        expires_at_ms=row["expires_at_ms"],
        seed=bytes.fromhex(row["seed"]),
        create_key=row["create_key"],
    )

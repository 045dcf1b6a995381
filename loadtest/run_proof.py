"""The end of every run: payouts drained, the audit, and every `opened` of a client found in the claim log."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from audit.report import Report
from installation.access import Access
from loadtest.drain import drain_payouts
from loadtest.tally import Won
from runtime import postgres

DRAIN_S: Final = 180.0
CHUNK: Final = 10_000
SHOWN: Final = 20
_CLAIMS: Final = """
    SELECT claim.envelope_id, claim.user_id, claim.amount_fen
    FROM unnest($1::bigint[], $2::text[]) AS told (envelope_id, user_id)
    JOIN claim ON claim.envelope_id = told.envelope_id AND claim.user_id = told.user_id
        AND claim.slot = (told.envelope_id % 1000)::smallint
"""
"""By the unique key (envelope_id, user_id, slot); takes no lock that a claim would wait for."""


async def audit_when_paid(access: Access, drain_s: float = DRAIN_S) -> Report:
    """Audit until no payout is in flight; returns the last report, also when `drain_s` are over before that."""
    deadline = time.monotonic() + drain_s
    while True:
        report = await access.audit()
        if not report.holds or report.sums.in_flight == 0 or time.monotonic() > deadline:
            return report
        await asyncio.sleep(0.5)


async def all_paid(access: Access) -> None:
    """Wait until no payout intent is left, so that the next measurement does not share the machine with payouts."""
    await drain_payouts(access.set_dsn(one.name) for one in access.topology().sets)


async def contradicted(access: Access, won: Sequence[Won]) -> list[str]:
    """Return a sentence for each `opened` that is not in the claim log with the amount the client was told."""
    topology = access.topology()
    by_set: dict[str, list[Won]] = {}
    for one in won:
        by_set.setdefault(topology.set_for(int(one[0])).name, []).append(one)
    found: list[str] = []
    for name, told in by_set.items():
        connection = await postgres.connect(access.set_dsn(name))
        try:
            for at in range(0, len(told), CHUNK):
                found += await _compare(connection, told[at : at + CHUNK])
        finally:
            await connection.close(timeout=postgres.CONNECT_S)
    return found


async def _compare(connection: object, told: Sequence[Won]) -> list[str]:
    rows = await connection.fetch(_CLAIMS, [int(one[0]) for one in told], [one[1] for one in told])  # type: ignore[attr-defined]
    claims = {(str(row["envelope_id"]), row["user_id"]): row["amount_fen"] for row in rows}
    return [
        f"{user} was told {fen} fen of {envelope_id}, the claim log has {claims.get((envelope_id, user), 'nothing')}"
        for envelope_id, user, fen in told
        if claims.get((envelope_id, user)) != fen
    ]

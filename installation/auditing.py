"""An audit while databases move and users are forgotten: what was seen on one side alone proves nothing."""

from collections.abc import Awaitable, Callable
from typing import Final

from audit.report import Report
from errors import Unavailable
from runtime import postgres
from sharding.topology import Topology

TRIES: Final = 3
"""An audit of an hour may meet a user who is forgotten each time; after these what the last two have found is real."""


async def audit_until_still(
    once: Callable[[Topology], Awaitable[Report]], topology: Callable[[], Topology], wallet_dsn: str
) -> Report:
    """Audit by `once` until it holds, or nothing has moved meanwhile; after TRIES return what the last two have found.

    A database that moved between two SETs' snapshots is in both or in neither, and a user whose name was replaced in
    one snapshot and not in another has two: such violations are others in the next audit. Raises as `once`; Unavailable
    `user_being_forgotten` if it does not hold while names are being replaced, `audit_disturbed` if the last two have
    found nothing in common: what is new in the last may be real.
    """
    reports: list[Report] = []
    for _ in range(TRIES):
        at = topology()
        report = await once(at)
        if report.holds or (
            topology().epoch_of == at.epoch_of and not await forgot_meanwhile(wallet_dsn, report.seconds)
        ):
            return report
        reports.append(report)
    *_, before, last = reports
    last.keep_common(before)
    if last.holds:
        raise Unavailable(
            "audit_disturbed",
            f"databases moved, or users were forgotten, during each of {TRIES} audits, and each found something else: "
            "audit again when none does",
        )
    return last


async def forgot_meanwhile(wallet_dsn: str, seconds: float) -> bool:
    """Say whether a user was forgotten while an audit, just over, ran.

    Raises Unavailable `user_being_forgotten` if one still is: then nothing of them can be proven.
    """
    async with postgres.connected(wallet_dsn) as wallet:
        if await wallet.fetchval("SELECT to_regclass('public.forgetting')") is None:
            return False  # a copy of before users could be forgotten
        begun_at = await wallet.fetchval("SELECT min(begun_at) FROM forgetting")
        if begun_at is not None:
            raise Unavailable(
                "user_being_forgotten",
                f"a user is being forgotten since {begun_at:%Y-%m-%d %H:%M} UTC, and the names on two sides differ "
                "until that is over: wait, or run `hongbao user forget` again where it was killed; then audit",
            )
        found: bool = await wallet.fetchval(
            "SELECT EXISTS (SELECT FROM forget_log WHERE at > now() - $1 * interval '1 second')", seconds + 1
        )
        return found

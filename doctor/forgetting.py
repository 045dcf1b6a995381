"""Users who are being forgotten: once it is begun, the audit proves nothing until it is finished."""

from datetime import UTC, datetime, timedelta

from doctor.finding import Finding, Level
from doctor.limits import FORGETTING_S
from doctor.place import Place
from errors import Unavailable
from runtime import postgres

_BEGUN = "SELECT min(begun_at) FROM forgetting"
_SUBJECT = "user forget"


async def forgetting(place: Place) -> list[Finding]:
    """Ask the wallet; one that does not answer is left to `parts`."""
    if place.access is None:
        return []
    try:
        async with postgres.connected(place.access.wallet_dsn()) as wallet:
            if await wallet.fetchval("SELECT to_regclass('public.forgetting')") is None:
                return []  # it was not started since the update
            begun_at = await wallet.fetchval(_BEGUN)
    except Unavailable:
        return []
    return [judge(begun_at, datetime.now(UTC))]


def judge(begun_at: datetime | None, now: datetime) -> Finding:
    """Say whether somebody is being forgotten, and whether that was left half done."""
    if begun_at is None:
        return Finding("forgetting", Level.OK, _SUBJECT, "no user is half forgotten")
    what = f"A user is being forgotten since {begun_at:%Y-%m-%d %H:%M} UTC."
    if now - begun_at < timedelta(seconds=FORGETTING_S):
        return Finding("forgetting", Level.NOTE, _SUBJECT, what, "Wait for the end of ./run user forget.")
    do = "If it was killed, run ./run user forget with the same ID again: until then no audit can hold."
    return Finding("forgetting", Level.WRONG, _SUBJECT, what, do)

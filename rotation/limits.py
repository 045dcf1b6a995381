"""Every bound of this room in one place, with its reason; relations are checked at import."""

from days.retry import LockRetry
from envelope.limits import LIMITS
from errors import check_limit
from schema.day_tables import AHEAD_DAYS

LOCK_RETRY = LockRetry("rotation_waits", patience_s=120.0)
"""How long a step asks for its table locks; then the processes that hold them are named. Long: nothing waits for it."""
MIN_AGE_DAYS = 2
"""A younger day is never closed, not even by name: round midnight creates of yesterday may still be on their way."""
GRACE_DAYS = 8
"""Age in business days from which a day is ordinary to rotate: envelopes live six days at most, payouts hours more."""
RETENTION_DAYS = 30
"""Days after its business date for which a verified day is kept in the database before it may be dropped."""
ORDINARY_S = 3 * 3600.0
"""What the daemon gives one SET's ordinary days in a round (10^6 claims take minutes); then the next SET follows."""
AHEAD_S = 600.0
"""And for making tables ahead: 1,000 slots of eleven days take half of it, after another process has made some."""
START_S = 120.0
"""Between the start of a stack and its first round: the tables of coming days are made first."""
URGENT_S = 15.0
"""Between two rounds while today's tables wait for names that an old day still has."""
TICK = 500
"""Envelopes between two reports of the proof's progress."""
WHO_CHARS = 64
"""Of an operator's name in the operation log: its column."""
REASON_CHARS = 200
"""Of a reason in the operation log: its column."""
PROOF_CHARS = 4_000
"""Of a proof in the operation log: its column."""

_LIVES_S = LIMITS.max_opens_in_s + LIMITS.max_expires_in_s
check_limit(
    GRACE_DAYS * 86_400 > _LIVES_S + 86_400,
    "an envelope made in the day's last second must have ended within the grace",
)
check_limit(MIN_AGE_DAYS <= GRACE_DAYS, "an ordinary day must be old enough to be closed")
check_limit(
    GRACE_DAYS + AHEAD_DAYS < 28,  # noqa: PLR2004 - February
    "a day must be gone before its name is made again, February's after 28 days",
)

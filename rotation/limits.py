"""Every bound of this room in one place, with its reason; relations are checked at import."""

from days.retry import LockRetry
from envelope.limits import LIMITS
from errors import check_limit
from schema.day_tables import AHEAD_DAYS

LOCK_RETRY = LockRetry("rotation_waits", patience_s=120.0)
"""How long a step tries for its table locks; the error then names who holds them. Long: no client waits for it."""
WATCH_S = 0.02
"""Pause between two looks at what a pending detach waits for: some in each try of LOCK_TIMEOUT_MS."""
MIN_AGE_DAYS = 2
"""A younger day is never closed, even if an operator names it: after midnight its creates may still be in flight."""
GRACE_DAYS = 8
"""Age in business days from which a day is rotated without being named: envelopes live six days, payouts hours more."""
RETENTION_DAYS = 30
"""Days after its business date for which a verified day is kept in the database before it may be dropped."""
ORDINARY_S = 3 * 3600.0
"""Most that one SET's ordinary days take of a daemon's round (10^6 claims take minutes); then the next SET follows."""
AHEAD_S = 600.0
"""Most that making one SET's tables ahead takes of a round: half of it for 1,000 slots and eleven days, the other half
for another process that is making tables and must be waited for."""
START_S = 120.0
"""Pause between the start of a stack and its first round: the tables of coming days are made first."""
URGENT_S = 15.0
"""Pause between two rounds while today's tables cannot be made, because an old day still has their names."""
MOVED_S = 5.0
"""Pause before the round after a move of a sandbox's clock: envelopes whose time is up by it are closed first."""
DEPENDENT_SHOWN = 5
"""Most objects that an error names as in the way of a drop."""
TICK = 500
"""Envelopes between two reports of the proof's progress."""
WHO_CHARS = 64
"""Length of an operator's name in the operation log: that of its column."""
REASON_CHARS = 200
"""Length of a reason in the operation log: that of its column."""
PROOF_CHARS = 4_000
"""Length of a proof in the operation log: that of its column. A proof has a few hundred characters."""

check_limit(
    LIMITS.max_lives_s + 86_400 < GRACE_DAYS * 86_400,
    "an envelope made in the day's last second must have ended within the grace",
)
check_limit(MIN_AGE_DAYS <= GRACE_DAYS, "an ordinary day must be old enough to be closed")
check_limit(
    GRACE_DAYS + AHEAD_DAYS < 28,  # noqa: PLR2004 - February
    "a day must be gone before its name is made again, February's after 28 days",
)

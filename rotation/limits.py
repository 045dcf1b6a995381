"""Every bound of this room in one place, with its reason; relations are checked at import."""

from envelope.errors import InvariantBroken
from envelope.limits import LIMITS
from schema.day_tables import AHEAD_DAYS

LOCK_TIMEOUT_MS = 200
"""For every lock of every statement: who comes behind a DDL that waits, waits as long."""
PATIENCE_S = 120.0
"""How long a step tries to get its locks, in tries of LOCK_TIMEOUT_MS; then whoever holds them is named."""
BUSY_S = 2.0
"""How long another rotation of the SET is waited for: a killed one's last statement may still be ending."""
MIN_AGE_DAYS = 2
"""A younger day is never closed, asked or not: creates of yesterday may be on their way round midnight."""
GRACE_DAYS = 8
"""Age in business days from which a day is ordinary to rotate: envelopes live six days at most, payouts hours more."""
RETENTION_DAYS = 30
"""Days after its business date for which a verified day is kept in the database before it may be dropped."""
ORDINARY_S = 3 * 3600.0
"""What the daemon gives one SET's ordinary days in a round (10^6 claims take minutes); then the others have a turn."""
AHEAD_S = 600.0
"""And for making the tables ahead: 1,000 slots of eleven days take half of it, with another maker before us."""
SHOWN = 100
"""Obstacles named one by one; the others are counted."""
REASON_CHARS = 200
"""Of a reason in the operation log: its column."""
PROOF_CHARS = 4_000
"""Of a proof in the operation log: its column."""

_LIVES_S = LIMITS.max_opens_in_s + LIMITS.max_expires_in_s
if GRACE_DAYS * 86_400 <= _LIVES_S + 86_400:
    raise InvariantBroken("limits", "an envelope made in the day's last second must have ended within the grace")
if GRACE_DAYS + AHEAD_DAYS >= 28:  # noqa: PLR2004 - February
    raise InvariantBroken("limits", "a day must be gone before its name is made again, February's after 28 days")

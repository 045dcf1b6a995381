"""Every bound of this room, with its reason; relations are checked at import."""

from errors import check_limit
from wire.limits import MAX_IN_FLIGHT

ORDERS_AT_ONCE = 1_000
"""Credits in one call: payers of the SETs, whose users wait, come in between."""
FUNDS_AT_ONCE = 200
"""Creates in flight; the wallet takes them into one batch."""
ENVELOPES_AT_ONCE = 10_000
"""Whose payouts are driven again in one transaction."""
WAITING = 200_000
"""Creates and their credits that no balance has covered yet, kept in memory (some 100 MB) to be tried again. What comes
on top is left out, and looked for again."""
NAMED = 100
"""What could not be made good, by name; the rest is counted."""

check_limit(FUNDS_AT_ONCE < MAX_IN_FLIGHT, "creates must fit into the link")
check_limit(ORDERS_AT_ONCE <= 4_000, "one call to the wallet takes so many orders")  # noqa: PLR2004

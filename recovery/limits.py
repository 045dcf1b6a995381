"""Every bound of this room, with its reason; relations are checked at import."""

from errors import check_limit
from wire.limits import MAX_IN_FLIGHT

ORDERS_AT_ONCE = 1_000
"""Credits in one call: payers of the SETs, whose users wait, come in between."""
FUNDS_AT_ONCE = 200
"""Creates in flight; the wallet takes them into one batch."""
ORDERS_BEHIND_CREATES = 20_000
"""Credits of creates in flight, of which each may have ten thousand."""
TRIES = 10
PAUSE_S = 3.0
"""Half a minute in all, for a wallet that restarts or is overloaded: what was compared would be compared anew."""
OUT_OF_ORDER_MS = 2_000
"""How much later than a younger envelope an older one may be read: IDs of one second are in order of slot."""
WAITING = 200_000
"""Creates and their credits that no balance has covered yet, kept in memory (some 100 MB) to be tried again. What comes
on top is left out, and looked for again."""
ROWS_AT_ONCE = 50_000
"""Claims that are put back in one transaction, some 25 MB in memory, and the rest of their last envelope."""
NAMED = 100
"""What could not be made good, by name; the rest is counted."""

check_limit(FUNDS_AT_ONCE < MAX_IN_FLIGHT, "creates must fit into the link")
check_limit(ORDERS_AT_ONCE <= 4_000, "one call to the wallet takes so many orders")  # noqa: PLR2004

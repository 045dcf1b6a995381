"""Every bound of this room in one place, with its reason; relations are checked at import."""

from days.limits import LOCK_TIMEOUT_MS
from days.retry import LockRetry
from errors import check_limit
from gateway.limits import HOLD_S
from wire.limits import DEADLINE_S

CUTOVER_S = 1.7
"""Most time from hold to switch. A gateway holds requests for HOLD_S and must have read of the switch by its end."""
LEAVE_S = 0.25
"""How long cancelled work may take to end; after that it hangs, and its connections are terminated."""
DELETE_COPIES_S = 2.0
"""Most time for deleting at the target what a failed cutover has copied; the next try deletes it as well."""
CLOSE_S = 0.25
"""Most lag of the copy at which a cutover may begin."""
CATCH_UP_ROUNDS = 600
"""Watermarks waited for until the lag is below CLOSE_S; after that many the target counts as too busy."""
DAY_TRIES = 20
"""Most tries of a cutover that days end, as their tables come or go; a first start makes eleven, one a second."""

SYNC_S = 3600.0
"""Most time for the first copy of all hot days: 180 million rows at 50,000 a second."""
WATERMARK_S = 60.0
"""Most time for a watermark to reach the target; after that an operator must look at the target's Postgres."""
SLOT_S = 10.0
"""Most time for the reader of a replication slot to end after its backend was terminated; it takes milliseconds."""
SLOT_POLL_S = 0.1
"""Pause between two looks at the first copy's progress, or at a slot's reader."""
WATERMARK_POLL_S = 0.005
"""Pause between two looks for a watermark; short, because a cutover waits for one."""
SETTLED_S = 20.0
"""Rows older than this are compared before the cutover. A server times a row just before its transaction, and waits for
the commit for less than this, so later commits of such rows are rare; if there is one, the leaf is hashed whole."""
CHUNKS = 16
"""Most chunks, of up to 64 KB, waiting between the two connections of a copy."""
DIFFERENCES_NAMED = 5
"""Most tables that an error names as different."""
NAMED = 8
"""Most obstacles to a move of old days that an error names."""

RELOAD_S = 15.0
"""Servers read the topology file every second; one that has not after this long hangs, or reads another file."""
ASK_S = 2.0
"""Most time for a server to say which topology version it goes by."""
ASK_AGAIN_S = 0.1
"""Pause between two rounds of asking the servers."""
GRACE_S = DEADLINE_S + 0.5
"""After this long, requests that a server accepted under the old topology have been answered or given up."""
NOTICE_S = 4 * RELOAD_S
"""Least time between a move's announcement and its date: by then every server goes by it."""

LOCK_RETRY = LockRetry("tables_locked", patience_s=25.0, pause_most_s=0.5)
"""Short pauses: within a cutover the fence must find a moment at which no statement holds one of the leaves."""

check_limit(CUTOVER_S + LEAVE_S < HOLD_S, "a cutover must be over before the gateways stop holding requests")
check_limit(
    LOCK_TIMEOUT_MS / 1000 < CUTOVER_S / 2, "a cutover must have time for more than one try at the fence's locks"
)
check_limit(WATERMARK_POLL_S < CUTOVER_S / 10, "waiting for watermarks must not take up the cutover")
check_limit(GRACE_S > DEADLINE_S, "old copies must outlast the last request that a server accepted before the switch")

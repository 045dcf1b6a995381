"""Every bound of this room in one place, with its reason; relations are checked at import."""

from days.limits import LOCK_TIMEOUT_MS
from days.retry import LockRetry
from errors import check_limit
from gateway.limits import HOLD_S
from wire.limits import DEADLINE_S

CUTOVER_S = 1.7
"""From hold to switch. A gateway holds requests for two seconds, and it must still read of the switch within them."""
LEAVE_S = 0.25
"""Work that was cancelled and has not ended after this long hangs; its connections are terminated."""
DELETE_COPIES_S = 2.0
"""For deleting at the target what a cutover has copied; the next try does it as well."""
CLOSE_S = 0.25
"""A copy that lags by no more than this may be cut over to."""
CATCH_UP_ROUNDS = 600
"""Watermarks waited for until the copy is that close; then the target counts as too busy."""
DAY_TRIES = 20
"""Cutovers that end because a day's tables came or went meanwhile; a first start makes eleven days, one a second."""

SYNC_S = 3600.0
"""The first copy of all hot days: at 50,000 rows a second 180 million."""
WATERMARK_S = 60.0
"""For a watermark to arrive at the target; if the copy lags more, an operator must look at the target's Postgres."""
SLOT_S = 10.0
"""For the reader of a replication slot to end after its backend was terminated; it takes milliseconds."""
SLOT_POLL_S = 0.1
"""Between two looks at the first copy's progress, or at a slot's reader."""
WATERMARK_POLL_S = 0.005
"""Between two looks for a watermark; one is waited for within a cutover."""
SETTLED_S = 20.0
"""Rows older than this are compared before the cutover. A row is timed before its commit, and a server waits for its
commit no longer than its patience with the database, which is less."""
CHUNKS = 16
"""Chunks of up to 64 KB between the two connections of a copy."""
DIFFERENCES_NAMED = 5
"""Tables that differ, as named in an error."""
NAMED = 8
"""Obstacles to a move of old days, as named in an error."""

RELOAD_S = 15.0
"""Servers read the topology file every second; one that has not after this long hangs, or reads another file."""
ASK_S = 2.0
"""For a server to say which topology version it goes by."""
ASK_AGAIN_S = 0.1
"""Between two rounds of asking them."""
GRACE_S = DEADLINE_S + 0.5
"""Requests that a server accepted under the old topology have been answered, or given up, after this long."""
NOTICE_S = 4 * RELOAD_S
"""A move's date begins at least this long after its announcement: by then every server goes by it."""

LOCK_RETRY = LockRetry("tables_locked", patience_s=25.0, pause_most_s=0.5)
"""Short pauses: within a cutover the fence must find a moment at which no statement holds one of the leaves."""

check_limit(CUTOVER_S + LEAVE_S < HOLD_S, "a cutover must be over before the gateways stop holding requests")
check_limit(
    LOCK_TIMEOUT_MS / 1000 < CUTOVER_S / 2, "a cutover must have time for more than one try at the fence's locks"
)
check_limit(WATERMARK_POLL_S < CUTOVER_S / 10, "waiting for watermarks must not take up the cutover")
check_limit(GRACE_S > DEADLINE_S, "old copies must outlast the last request that a server accepted before the switch")

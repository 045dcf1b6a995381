"""Every bound of this room in one place, with its reason; relations are checked at import."""

from envelope.errors import InvariantBroken
from gateway.limits import HOLD_S
from wire.link import DEADLINE_S

STALL_S = 1.7
"""From hold to switch; a gateway refuses after two seconds, and the news must reach it."""
LEAVE_S = 0.25
"""What was told to stop and has not after this long hangs; its connections are dropped."""
FORGET_S = 2.0
"""For deleting at the new SET what a stall has brought; the next try does it as well."""
CLOSE_S = 0.25
"""A copy that is not further behind may be cut over to."""
CATCH_UP_ROUNDS = 600
"""Looks at a copy that does not come as close as that, before the new SET is said to be too busy."""
DAY_TRIES = 20
"""Ends that a move begins because a day was made or left in the one before; a first start makes eleven days, one a
second."""

SYNC_S = 3600.0
"""The first copy of all hot days: at 50,000 rows a second 180 million."""
BEAT_S = 60.0
"""For what was committed by now to be there; a copy further behind needs a look at the new SET's Postgres."""
SLOT_S = 10.0
"""For the reader of a slot that was sent away: it is gone within milliseconds."""
SETTLED_S = 20.0
"""A row's instant is taken before its commit, which may last as long as a server has patience with its database."""
CHUNKS = 16
"""Chunks of up to 64 KB between the two connections of a copy."""

RELOAD_S = 15.0
"""Servers read the topology file every second; one that has not after this long hangs, or reads another file."""
ASK_S = 2.0
"""For one server to say which topology it goes by."""
GRACE_S = DEADLINE_S + 0.5
"""Requests that were let in under the old topology have been answered, or given up, after this long."""
NOTICE_S = 4 * RELOAD_S
"""The date of a move begins at least this long after it was announced: every server has read of it by then."""

LOCK_TIMEOUT_MS = 200
"""For every lock of every statement: who comes behind a DDL that waits, waits as long."""
PATIENCE_S = 25.0
"""How long locks are asked for, in tries of LOCK_TIMEOUT_MS; then traffic does not give way."""
BUSY_S = 2.0
"""How long a rotation is waited for: a killed one's last statement may still be ending."""

if STALL_S + LEAVE_S >= HOLD_S:
    raise InvariantBroken("limits", "a stall must be over before the gateways stop waiting for it")
if LOCK_TIMEOUT_MS / 1000 >= STALL_S / 2:
    raise InvariantBroken("limits", "a stall must have room for more than one try at the fence's locks")
if GRACE_S <= DEADLINE_S:
    raise InvariantBroken("limits", "old copies must outlast the last request that was let in to them")

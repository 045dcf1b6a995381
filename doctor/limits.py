"""Every bound and threshold of this room, with its reason; relations are checked at import.

Others are those of the room that acts on them: disk space (`machine.postgres.server`), days ahead
(`schema.day_tables`), files of a gateway (`gateway.limits`), clocks apart (`setnode.limits`).
"""

from errors import check_limit
from local.service import PROBE_S as PART_PROBE_S
from local.service import START_S as PART_START_S
from machine.postgres.binaries import PROBE_S
from runtime.postgres import CONNECT_S

PLACE_S = 5.0
"""To read a few small files; only a dead disk takes longer."""
CHECK_S = 12.0
"""For all checks, which run at once."""
CRASHES_S = 3600.0
"""How far back ends of parts are counted."""
OFTEN = 3
"""Ends of one part within CRASHES_S that are no accident any more."""
FILES_USED = 0.8
"""Share of the files that a process may open from which on it will soon have none left."""
UNROTATED_DAYS = 2
"""A day that could be rotated for longer than this has something in its way: rounds come every few hours at most."""
EARLY_S = PART_START_S + 5.0
"""A part's start is noted by the clock once the part is ready. Its process, whose age the kernel counts, may be older
than that by the longest start. If it is older by more, the clock was set back meanwhile."""
LATE_S = 2.0
"""A process is never younger than the note says, but for the grain of both clocks: else the clock was set forward."""
FUTURE_S = 2.0
"""A file that was written later than now by more than this was written before the clock went back."""
FORGETTING_S = 3_600.0
"""Forgetting a user takes minutes; one that was begun longer ago has been killed, or stands in front of something."""
REASONS_SHOWN = 3
"""Reasons of stuck payouts in one finding; `./run payout stuck` has all."""
SHOWN_S = 2.0
"""A server shows its certificate within milliseconds."""
EVENTS_BEHIND_S = 60.0
"""Events arrive within a second; a receiver that accepts them and is so far behind is not asked."""

check_limit(CHECK_S > PROBE_S, "a check may wait for a program to say its version")
check_limit(CHECK_S > 2 * CONNECT_S, "a check may wait for a server that is away, and tell it from one that is slow")
check_limit(CHECK_S > SHOWN_S, "a check may wait for a server that shows no certificate")
check_limit(CHECK_S > PART_PROBE_S, "a check may wait for a part that does not answer")

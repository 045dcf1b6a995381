"""Every bound of this room, with its reason; relations are checked at import."""

import signal

from errors import check_limit

COPY_S = 24 * 3600.0
"""For a base copy, its verification or a replay: a terabyte at 20 MB/s takes 14 hours."""
FREE_SHARE = 1.2
"""Free space that a base copy needs, as a share of what the cluster's databases take now."""
CONNECT_S = 5
"""For each host of a cluster to answer; libpq waits for ever unless it is told."""
CUT_BYTES = 8 * 1024**2
"""How far before the newest segment's beginning a replay may end: that segment may hold only the end of a record, and
replay stops in front of the whole record. Most are smaller than a page; DDL of a thousand leaves writes 100 KB."""
RETRY_MOST_S = 10.0
"""Longest pause between two tries to receive; the server keeps gigabytes of log, which it writes in minutes."""
RETRY_FIRST_S = 0.1
"""First pause, doubled with each try."""
CONNECTED_S = 10.0
"""A receiver that ran for so long had reached its server: why it ended is printed again, and pauses begin anew."""
SHIP_EVERY_S = 1.0
"""Between two looks for complete segments to be put into a bucket."""
PARTIAL_EVERY_S = 60.0
"""Between two puts of the segment that is being written: so much can be lost with the machine that receives the log."""
UNPUT_SEGMENTS = 16
"""Received and not yet in the bucket, 256 MB: what a server writes at its fastest while a slow store takes a few."""
UNPUT_S = 300.0
"""How long something may be received and not in the bucket: five puts of the newest segment. A quiet server needs hours
for one segment, so the number of them says nothing there."""
MANIFEST_BYTES = 4 * 1024**2
"""Most that the manifest of a base copy can have: it names the segments in it."""
STOP = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0))
"""How a program is stopped: signal, and how long it has to end; then it is killed."""
KEEP_COPIES = 7
"""Base copies that are kept unless told otherwise: a week, with one a day."""

check_limit(RETRY_FIRST_S <= RETRY_MOST_S, "pauses grow from the first to the longest")
check_limit(SHIP_EVERY_S < PARTIAL_EVERY_S, "complete segments go first")
check_limit(PARTIAL_EVERY_S * 2 < UNPUT_S, "one put that failed, or a slow one, is no reason for an alarm")
check_limit(CUT_BYTES < 16 * 1024**2, "a replay must not end a whole segment early without being noticed")

"""Every bound of this room, with its reason; relations are checked at import."""

from errors import check_limit

QUEUED_SPANS = 4_096
"""Spans that wait to be sent, about 4 MB; further ones are dropped and counted."""
BATCH_SPANS = 256
"""Spans in one call to the collector. Encoding takes about 20 µs each, in the loop that answers requests."""
EXPORT_EVERY_S = 1.0
"""Between two calls to a collector that answers. What a process has not sent when it ends is dropped."""
MOST_PAUSE_S = 30.0
"""The longest pause after calls that failed; pauses double until then."""
SEND_S = 5.0
"""A call that has not ended by then has failed."""
TRACES_PER_S = 200
"""Requests chosen in one second by one gateway. Five spans each and 25 µs a span: a fortieth of a core."""
LIVE_SPANS = 1_000
"""Traced requests that one setnode has in hand; further ones are not traced there."""

check_limit(BATCH_SPANS <= QUEUED_SPANS, "a batch must fit into the queue")
check_limit(EXPORT_EVERY_S <= MOST_PAUSE_S, "a pause after a failure is no shorter than one after a success")

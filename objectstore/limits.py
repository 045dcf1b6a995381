"""Every bound of an object store, each with its reason."""

from errors import check_limit

CONNECT_S = 5
"""For a connection: a store in the same region answers in milliseconds."""
REQUEST_S = 30
"""For one request: a part of PART_BYTES at 0.5 MB/s."""
RETRIES = 3
"""Of one request that the store did not answer, or answered with 5xx."""
FIRST_RETRY_MS, LAST_RETRY_MS = 100, 2_000
"""Between two attempts, growing from the first to the last, with jitter (obstore)."""
RETRY_S = 60
"""For a request with all its retries: whoever waits hears within that time."""
PART_BYTES = 16 << 20
"""Of what goes up or comes down in parts."""
MOST_PARTS = 10_000
"""The protocol's own bound for one upload: a file of more than 160 GB has larger parts."""
PARTS_AT_ONCE = 2
"""Parts in flight: they bound an upload's memory, 32 MB up to 160 GB."""
NAMES_PER_DELETE = 1_000
"""The protocol's own bound for one request."""

check_limit(RETRY_S > REQUEST_S, "a request that timed out once must be tried again")

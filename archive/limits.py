"""Every bound of the archive, each with its reason; their relations are checked at import."""

from errors import check_limit

EXPORT_MEMORY_MB = 128
"""DuckDB's memory for an export or a comparison: the process stays under 300 MB, Python and DuckDB's code included."""
DETAIL_MEMORY_MB = 96
"""For reading single envelopes: a row group of claims decodes to 2 MB; the rest caches what was read lately."""
QUERY_MEMORY_MB = 512
"""For a query over the whole archive; one that needs more is refused."""
QUERY_S = 300.0
"""For a query unless told otherwise: one that nobody waits for any more must not keep cores and disk busy."""
THREADS = 2
"""DuckDB's threads for an export."""
THREADS_IN_ORDER = 1
"""Threads for reading rows in order: more would read ahead of a slow reader and fill the memory."""
WORK_MEM = "64MB"
"""Of Postgres, for the comparison, which hashes or sorts all rows of one table and database."""

CLAIMS_ROW_GROUP = 61_440
"""Rows of a row group of claims: six times the largest envelope, so that a detail reads one, or two across a border.
With smaller groups the longer footer costs more than the rows saved."""
HEADERS_ROW_GROUP = 8_192
"""Rows of a row group of headers: smaller, because a detail needs a single row."""
ROWS_PER_FETCH = 2_000
"""Rows that a reader of all rows fetches at a time."""
CHUNK_BYTES = 1 << 20
"""Size of the pipe between COPY and DuckDB and of a read: a larger pipe means fewer switches between the threads."""

BLOCK_BYTES = 512 * 1024
"""A block of a file in an object store, hashed by itself: a row group of claims is one or two, and the hashes of a
database's day of 10^7 claims are 25 KB."""
CACHE_BYTES = 64 << 20
"""Blocks that a reader of an object store keeps: the footers of a hundred archives, or the row groups of thirty."""
MANIFEST_BYTES = 64 << 20
"""Most that a manifest's object can have: hashes of 400 GB."""
OPENED = 256
"""Manifests of archives in an object store that are remembered, the last used ones: each with its hashes, 15 KB."""

REMEMBERED = 65_536
"""Verified archives that are remembered, the last used ones: three years of 60 databases, about 300 bytes each."""
LEAVE_S = 30.0
"""After a cancellation, for the rest of a COPY; then the connection is terminated."""
KEY_BYTES = 16
"""Least length of a key: shorter ones can be guessed."""

check_limit(HEADERS_ROW_GROUP < CLAIMS_ROW_GROUP, "a header must cost a detail less than its claims")
check_limit(THREADS_IN_ORDER == 1, "rows come in order from one thread only")
check_limit(CACHE_BYTES >= 16 * BLOCK_BYTES, "one envelope's footers and row groups must fit in the cache")

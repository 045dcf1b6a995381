"""Every bound of this room, with its reason; the relations between them are checked at import."""

from typing import Final

from errors import check_limit
from sharding.slots import PRODUCTION

MAX_SETS: Final = 100
"""A SET has at least one database; more SETs would have none."""
MAX_SERVERS_PER_SET: Final = 64
"""A SET is one slice of the data: a few servers around one Postgres. For more servers, add a SET."""
POINTS_PER_WEIGHT: Final = 512
"""Points on the ring for each unit of weight. The share of a node varies by about 1/sqrt(points): 4 %."""
MAX_WEIGHT: Final = 100
"""Weights are small ratios of SETs; each unit costs a ring POINTS_PER_WEIGHT points, about 1 ms to make."""
MAX_MOVES: Final = 8
"""Moves that one database may have in the file. A move leaves it once its old days are copied: this many at a time
means that none is finished."""
NAME: Final = r"[A-Za-z0-9._-]{1,64}"
"""Of a SET or a server: it stands in keys of links, metrics and application names of connections."""
RESERVED: Final = frozenset({"wallet"})
"""Names that no setnode may have. Keys are derived from a server's name (`wire.keys`): a setnode of this name would
have those with which the wallet knows its operators, who deposit money."""
MAX_FILE_BYTES: Final = 1_048_576
"""A topology of MAX_SETS SETs with MAX_SERVERS_PER_SET servers fits; a longer file is something else."""
DAY_CACHE: Final = 1_024
"""Days whose six digits were read last. A few are in use at any time; 30,316 are possible."""

check_limit(PRODUCTION.databases >= MAX_SETS, "every SET must be able to have a database")

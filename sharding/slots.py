"""Slots: the last three digits of an ID. The first two of them are the database, the last one the table.

The slot of a new envelope is a keyed hash of (sender, idempotency key): a repeated create finds its first attempt in
the same slot, also across midnight, and a client without the key cannot choose its slot to overload one table.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct

from errors import InvariantBroken

TABLES_PER_DATABASE = 10
MAX_SLOTS = 1_000
TAILS = 10**5
"""IDs have five digits, the tail, between the second and the slot."""
KEY_BYTES = range(16, 65)
"""How long the slot key may be: a shorter one could be guessed, and blake2b takes 64 bytes at most."""
_halves = Struct(">QQ").unpack


@dataclass(frozen=True, slots=True)
class Layout:
    """How many slots there are: 1,000 in production, 100 embedded. Fixed for the life of the data."""

    slots: int

    def __post_init__(self) -> None:
        """Raise InvariantBroken unless the slots fill whole databases."""
        if not TABLES_PER_DATABASE <= self.slots <= MAX_SLOTS or self.slots % TABLES_PER_DATABASE:
            raise InvariantBroken("layout", f"slots must be a multiple of 10 from 10 to 1,000, not {self.slots}")

    @property
    def databases(self) -> int:
        """How many databases there are: db_00 up to, with 1,000 slots, db_99."""
        return self.slots // TABLES_PER_DATABASE


PRODUCTION = Layout(1_000)
EMBEDDED = Layout(100)


def place_for(sender: str, idempotency_key: str, key: bytes, layout: Layout) -> tuple[int, int]:
    """Return the slot of a new envelope, and the tail of its ID (0 to 99,999); the same for the same arguments.

    Two envelopes of one slot and second may get the same tail, the last of n with a chance of n * 10^-5; it then takes
    the next free tail of its slot (`ids.candidate_ids`). `key` is the installation's secret of 16 to 64 bytes; it must
    not change as long as any create may be repeated. Raises InvariantBroken for a key of another length.
    """
    # Headers may hold bytes that are no UTF-8, as lone surrogates; they are hashed like any other.
    first, second = sender.encode("utf-8", "surrogatepass"), idempotency_key.encode("utf-8", "surrogatepass")
    digest = _keyed(key).copy()
    # Lengths first, or ("ab", "c") and ("a", "bc") would get the same place.
    digest.update(b"0:%d:%d:%b%b" % (len(first), len(second), first, second))
    slots, tails = _halves(digest.digest())
    return slots % layout.slots, tails % TAILS


def database_of(slot: int) -> int:
    """Return the database `xx` of a slot: its first two digits."""
    return slot // TABLES_PER_DATABASE


def slots_of(database: int) -> range:
    """Return the slots of a database `xx`: 7 -> 070 to 079."""
    return range(database * TABLES_PER_DATABASE, (database + 1) * TABLES_PER_DATABASE)


def table_of(slot: int) -> int:
    """Return the table `y` of a slot: its last digit."""
    return slot % TABLES_PER_DATABASE


def database_name(database: int) -> str:
    """Return the name of a database as topology pins and schemas write it: 7 -> "db_07"."""
    return f"db_{database:02d}"


@lru_cache(maxsize=8)
def _keyed(key: bytes) -> hashlib.blake2b:
    """Return the hash of no text under a key, to be copied: a copy is cheaper than a new keyed hash."""
    if len(key) not in KEY_BYTES:
        raise InvariantBroken("slot_key", f"the slot key must have 16 to 64 bytes, not {len(key)}")
    return hashlib.blake2b(digest_size=16, key=key, person=b"hongbao.slot")

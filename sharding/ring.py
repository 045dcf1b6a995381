"""The consistent-hash ring: which node holds a key, and which one follows while it is away. Owns uhashring.

What is done around uhashring, and why:
- its default hash is MD5, which a FIPS build of OpenSSL refuses; we give it BLAKE2b. Never Python's `hash`,
  which differs between processes;
- of two points that collide, the node added last gets both (its issue 6), so points have 64 bits and nodes are added in
  sorted order: their order in a file does not matter;
- weights must be whole numbers (a float breaks its `range`), as the type here says;
- a ring is never changed: another topology makes another ring, so that a reader always sees a whole one.
"""

import hashlib
from collections.abc import Mapping

from uhashring import HashRing

from errors import InvariantBroken
from sharding.limits import POINTS_PER_WEIGHT


class Ring:
    """A fixed set of named nodes on a circle of 64-bit hashes. `nodes` maps names to weights (1 or more).

    A node of weight w that joins a ring of weight W takes about w / (W + w) of the keys; no other key moves.
    """

    __slots__ = ("_only", "_ring")

    def __init__(self, nodes: Mapping[str, int]) -> None:
        if not nodes or min(nodes.values()) < 1:
            raise InvariantBroken("ring_nodes", "a ring needs nodes, each of weight 1 or more")
        self._only = next(iter(nodes)) if len(nodes) == 1 else None
        self._ring = HashRing(dict(sorted(nodes.items())), hash_fn=_point, vnodes=POINTS_PER_WEIGHT)

    def node_for(self, key: str) -> str:
        """Return the name of the node that holds `key`."""
        if self._only is not None:
            # Without a choice there is nothing to hash.
            return self._only
        node: str = self._ring.get_node(key)
        return node

    def nodes_for(self, key: str) -> list[str]:
        """Return all names in the order in which they take over: `node_for(key)` first, each name once."""
        return list(self._ring.iterate_nodes(key))


def _point(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")

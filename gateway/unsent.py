"""How many bytes of answers are kept in this process for clients that do not read them, in all connections together.

Each connection keeps one answer at most: its next request is begun once the last answer is out (`gateway.connection`).
Above UNSENT_BYTES connections are ended, the oldest of the network that holds most, until a part of the bound is free:
clients that ask for much and read nothing push out each other, and hardly ever a client on a bad line elsewhere. Only
an answer that the kernel did not take at once is counted, so an open costs nothing here.
"""

import heapq
from collections.abc import Callable

from gateway.connection_bounds import Held
from gateway.limits import UNSENT_BYTES, UNSENT_ROOM
from runtime import metrics

_bytes = metrics.gauge("hongbao_http_unsent_bytes", "Answers kept for clients that do not read them")
REASON = "unread"


class UnsentAnswers:
    """The answers that wait, by network and in the order in which they began to. `end` ends a connection."""

    def __init__(self, end: Callable[[Held, str], None]) -> None:
        self.bytes = 0
        self._end = end
        self._network_of: dict[Held, str] = {}
        self._sizes: dict[str, dict[Held, int]] = {}
        self._sums: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._network_of)

    def add(self, one: Held, network: str, size: int) -> None:
        """Count an answer of `size` bytes that waits for the client `one`; above the bound make room.

        A connection that is ended for that is no longer counted; it may be `one` itself.
        """
        self._network_of[one] = network
        self._sizes.setdefault(network, {})[one] = size
        self._sums[network] = self._sums.get(network, 0) + size
        self.bytes += size
        if self.bytes > UNSENT_BYTES:
            self._make_room()
        _bytes.set(self.bytes)

    def remove(self, one: Held) -> None:
        """Forget the answer that waits for `one`, if there is one: it is out, or its connection has ended."""
        network = self._network_of.pop(one, None)
        if network is None:
            return
        sizes = self._sizes[network]
        size = sizes.pop(one)
        self._sums[network] -= size
        self.bytes -= size
        if not sizes:
            del self._sizes[network], self._sums[network]
        _bytes.set(self.bytes)

    def _make_room(self) -> None:
        # Some at a time: the heap costs a look at all networks.
        heaviest = [(-held, network) for network, held in self._sums.items()]
        heapq.heapify(heaviest)
        while self.bytes > UNSENT_BYTES - UNSENT_BYTES // UNSENT_ROOM:
            _, network = heapq.heappop(heaviest)
            oldest = next(iter(self._sizes[network]))
            self.remove(oldest)
            self._end(oldest, REASON)
            if network in self._sums:
                heapq.heappush(heaviest, (-self._sums[network], network))

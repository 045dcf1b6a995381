"""What this SET holds, by the topology as it was last read, and whether a caller may think otherwise.

A gateway says the epochs of its topology when it connects and whenever they change. As long as they are ours a request
costs one comparison. Where they differ only the databases whose epochs differ are concerned: the newer one knows. If
that is the gateway, our file is read again before anybody is answered, and what is still older then is refused, not
guessed.
"""

import asyncio
from collections.abc import Callable

from envelope.errors import Refused, Unavailable
from runtime import logs
from sharding.slots import database_of
from sharding.topology import Topology, TopologyFile, set_paused
from wire.server import Peer

READ_AGAIN_S = 0.02
"""The file is read at most this often because somebody knows a newer one: it may be on its way here."""

_log = logs.get("setnode")


class Holdings:
    """Answers for one SET. `changed` is called after the topology was replaced."""

    def __init__(
        self, file: TopologyFile, set_name: str, changed: Callable[[], None] = lambda: None, *, server: str = ""
    ) -> None:
        self._file = file
        self._set = set_name
        self._server = server
        self._changed = changed
        self._read_at = float("-inf")
        self._take_in()

    @property
    def topology(self) -> Topology:
        """The topology that was last accepted."""
        return self._file.current

    def holds(self, envelope_id: int) -> bool:
        """Say whether the envelope is on this SET, by the date in its ID; one that is held for a move still is."""
        slot = envelope_id % 1000
        if slot in self._whole:
            return True
        spans = self._spans.get(slot)
        return spans is not None and any(envelope_id in span for span in spans)

    def owns(self, envelope_id: int) -> bool:
        """Say whether our own server is the envelope's first on the ring."""
        if self._alone and envelope_id % 1000 in self._whole:
            return True
        return self.holds(envelope_id) and self.topology.server_for(envelope_id).name == self._server

    def serves(self, envelope_id: int) -> bool:
        """Say whether the envelope is on this SET and may be written just now."""
        return self.holds(envelope_id) and not self.topology.is_held(envelope_id)

    def admit(self, peer: Peer, envelope_id: int) -> None:
        """Raise Unavailable unless we serve it: `wrong_set`, `being_moved`, `topology_outdated`, `set_paused`.

        Nothing was done then; whoever asks looks at the topology again.
        """
        if peer.epochs is not self._epochs and peer.epochs is not None:
            self._compare(peer, database_of(envelope_id % 1000))
        if envelope_id % 1000 not in self._whole:
            self._look_closer(envelope_id)

    def reload(self) -> bool:
        """Take the file's topology if it is newer; say whether it was. Raises Refused `topology_invalid`."""
        if not self._file.reload():
            return False
        self._take_in()
        self._changed()
        _log.info("topology reloaded", version=self.topology.version)
        return True

    def _take_in(self) -> None:
        topology = self.topology
        self._epochs = topology.epoch_of
        self._spans = topology.ids_of(self._set)
        self._alone = any(one.serving == (self._server,) for one in topology.sets if one.name == self._set)
        self._paused = any(one.paused for one in topology.sets if one.name == self._set)
        held = {slot for slot in self._spans if self._paused or topology.is_held(slot)}
        self._whole = frozenset(slot for slot in self._spans if _always(topology, slot)) - held

    def _look_closer(self, envelope_id: int) -> None:
        if not self.holds(envelope_id):
            raise Unavailable("wrong_set", "this envelope lives in another SET; look at the topology again")
        if self._paused:
            raise set_paused()
        if self.topology.is_held(envelope_id):
            raise Unavailable("being_moved", "this envelope is on its way to another SET", retry_after_s=0.5)

    def _compare(self, peer: Peer, database: int) -> None:
        """Make sure that the caller does not know of an owner of this database that we have not heard of."""
        if self._knows_more(peer, database) and self._may_read():
            try:
                self.reload()
            except Refused as error:
                _log.warning("a caller knows a newer topology than can be read here", error=error.detail)
        if self._knows_more(peer, database):
            raise Unavailable(
                "topology_outdated", "this server has an older topology than its caller", retry_after_s=0.5
            )
        if peer.epochs == self._epochs:
            peer.epochs = self._epochs

    def _knows_more(self, peer: Peer, database: int) -> bool:
        theirs = peer.epochs or ()
        return database < min(len(theirs), len(self._epochs)) and theirs[database] > self._epochs[database]

    def _may_read(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._read_at < READ_AGAIN_S:
            return False
        self._read_at = now
        return True


def _always(topology: Topology, slot: int) -> bool:
    return len(topology.history(database_of(slot))) == 1

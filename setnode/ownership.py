"""Which envelopes this SET serves and this server owns, by the topology as last read; whether a caller's is newer.

A gateway sends the epochs of its topology when it connects and whenever they change. While they equal ours, a request
costs one comparison. If they differ, only the databases whose epochs differ are concerned, and the higher epoch is
right: if the gateway's is higher, our file is read again, and a database that is still older then is refused, not
guessed.
"""

import asyncio
from collections.abc import Callable

from errors import Refused, Unavailable
from runtime import logs
from setnode.limits import TOPOLOGY_AGAIN_S
from sharding.ids import database_for, slot_of
from sharding.slots import database_of
from sharding.topology import Topology, TopologyFile, set_paused
from wire.server import Caller

_log = logs.get("setnode")


class Ownership:
    """The envelopes of one SET and one of its servers. `look` asks for what is published, because a caller has newer.

    `changed` is called after a new topology has changed what this SET holds or which of its servers serve: then another
    server may have written what this one has in memory. Another SET's pause, move or address changes nothing here.
    """

    def __init__(
        self,
        file: TopologyFile,
        set_name: str,
        changed: Callable[[], None] = lambda: None,
        *,
        server: str = "",
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._file = file
        self._set = set_name
        self._server = server
        self._changed = changed
        self._look = look
        self._read_at = float("-inf")
        """When the file was last read because a caller knows a newer topology (loop time)."""
        self._derive()

    @property
    def topology(self) -> Topology:
        """The topology that was last accepted."""
        return self._file.current

    def holds(self, envelope_id: int) -> bool:
        """Say whether the envelope is on this SET, by the date in its ID; also while it is held for a move."""
        slot = slot_of(envelope_id)
        if slot in self._whole_slots:
            return True
        spans = self._spans.get(slot)
        return spans is not None and any(envelope_id in span for span in spans)

    def owns(self, envelope_id: int) -> bool:
        """Say whether this server is the envelope's first on the ring."""
        if self._only_server and slot_of(envelope_id) in self._whole_slots:
            return True
        return self.holds(envelope_id) and self.topology.server_for(envelope_id).name == self._server

    def owner_of(self, envelope_id: int) -> str:
        """Return the name of the server that is first on the ring of the envelope's SET."""
        return self.topology.server_for(envelope_id).name

    def serves(self, envelope_id: int) -> bool:
        """Say whether the envelope is on this SET and not held for a move; a paused SET still closes and pays."""
        return self.holds(envelope_id) and not self.topology.is_held(envelope_id)

    def admit(self, caller: Caller, envelope_id: int) -> None:
        """Raise Unavailable unless this SET serves it: `wrong_set`, `being_moved`, `topology_outdated`, `set_paused`.

        Nothing was done then; the caller reads the topology again.
        """
        if caller.epochs is not self._epochs and caller.epochs is not None:
            self._compare_epochs(caller, database_for(envelope_id))
        if slot_of(envelope_id) not in self._whole_slots:
            self._check_envelope(envelope_id)

    def reload(self) -> bool:
        """Take the file's topology if it is newer; returns whether it was. Raises Refused `topology_invalid`."""
        if not self._file.reload():
            return False
        before = self._concern
        self._derive()
        if self._concern != before:
            self._changed()
        _log.info("topology reloaded", version=self.topology.version)
        return True

    def _derive(self) -> None:
        """Derive what a request is checked against from the topology."""
        topology = self.topology
        self._epochs = topology.epoch_of
        self._spans = topology.ids_of(self._set)
        self._only_server = any(one.serving == (self._server,) for one in topology.sets if one.name == self._set)
        ours = {database_of(slot) for slot in self._spans}
        self._concern = (
            self._spans,
            [(xx, epoch) for xx, epoch in enumerate(self._epochs) if xx in ours],
            [sorted(one.serving) for one in topology.sets if one.name == self._set],
        )
        """What of the topology decides who may have written the envelopes of this SET."""
        self._paused = any(one.paused for one in topology.sets if one.name == self._set)
        # A slot alone, with the date zero, names the same database as its IDs.
        held = {slot for slot in self._spans if self._paused or topology.is_held(slot)}
        # Slots that this SET holds for every date and may serve now, so that nearly all requests need one look-up.
        self._whole_slots = frozenset(slot for slot in self._spans if _never_moved(topology, slot)) - held

    def _check_envelope(self, envelope_id: int) -> None:
        if not self.holds(envelope_id):
            raise Unavailable("wrong_set", "this envelope lives in another SET; look at the topology again")
        if self._paused:
            raise set_paused()
        if self.topology.is_held(envelope_id):
            raise Unavailable("being_moved", "this envelope is on its way to another SET", retry_after_s=0.5)

    def _compare_epochs(self, caller: Caller, database: int) -> None:
        """Refuse the request if the caller knows a newer owner of this database than our file does."""
        if self._caller_is_newer(caller, database) and self._may_read():
            self._look()
            try:
                self.reload()
            except Refused as error:
                _log.warning("a caller knows a newer topology than can be read here", error=error.detail)
        if self._caller_is_newer(caller, database):
            raise Unavailable(
                "topology_outdated", "this server has an older topology than its caller", retry_after_s=0.5
            )
        if caller.epochs == self._epochs:
            # The same object from now on, so that `admit` compares by identity.
            caller.epochs = self._epochs

    def _caller_is_newer(self, caller: Caller, database: int) -> bool:
        theirs = caller.epochs or ()
        return database < min(len(theirs), len(self._epochs)) and theirs[database] > self._epochs[database]

    def _may_read(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._read_at < TOPOLOGY_AGAIN_S:
            return False
        self._read_at = now
        return True


def _never_moved(topology: Topology, slot: int) -> bool:
    return len(topology.history(database_of(slot))) == 1

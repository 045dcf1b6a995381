"""What a caller may ask of the wallet, by the role whose key it has proven.

A gateway reads what it shows to users. A setnode takes the money of creates, pays shares, and takes and gives back
places of the day, for envelopes of its own SET only. Only an operator brings money in from outside. So an intruder in a
gateway, the one process that parses what strangers send, can neither print money nor pay it out; an intruder in a
setnode reaches the escrows of its own SET.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from errors import Refused, Unavailable
from runtime import logs
from sharding.ids import slot_of
from sharding.topology import TopologyFile
from wallet.limits import TOPOLOGY_AGAIN_S
from wire.keys import GATEWAY, OPERATOR, SETNODE
from wire.messages import Op
from wire.server import Caller

_log = logs.get("wallet")

_READS: Final = frozenset({Op.BALANCE, Op.ENTRIES, Op.ENVELOPES, Op.TOTALS, Op.PUBLISHED})
PERMITTED: Final[Mapping[str, frozenset[int]]] = {
    GATEWAY: _READS,
    SETNODE: frozenset({Op.FUND, Op.PAY, Op.FUNDS, Op.PAID_OUT, Op.PLACES, Op.GIVE_BACK, Op.PUBLISHED}),
    OPERATOR: _READS | {Op.DEPOSIT},
}
_NOTHING: Final[frozenset[int]] = frozenset()


class Rights:
    """Checks each request before it is begun; `file`: the topology, None where a SET may name any envelope.

    A database that has just moved is known after at most one more read of the file.
    """

    def __init__(self, file: TopologyFile | None, loop_time: Callable[[], float]) -> None:
        self._file = file
        self._loop_time = loop_time
        self._read_at = float("-inf")
        self._slots: dict[str, frozenset[int]] = {}
        """By path of a SET's key, the slots that it holds on any day of the topology."""

    def check(self, caller: Caller, op: int) -> None:
        """Raise Refused `not_permitted` unless the caller's role may ask for this operation."""
        if op not in PERMITTED.get(caller.role, _NOTHING):
            _log.warning("not permitted", caller=caller.path, op=op)
            raise Refused("not_permitted", f"the key of {caller.path or 'nobody'} does not permit operation {op}")

    def check_envelopes(self, caller: Caller, envelope_ids: Iterable[int]) -> None:
        """Raise Unavailable `topology_outdated` unless all are of slots that the caller's SET holds on some day.

        Unavailable, because the file may be older than the caller's: a payout that waits is paid later, and a gateway
        holds a create until the wallet has the newer file.
        """
        file = self._file
        if file is None:
            return
        slots = {slot_of(one) for one in envelope_ids}
        if slots <= self._held_by(file, caller.path):
            return
        if self._loop_time() - self._read_at >= TOPOLOGY_AGAIN_S:
            self.reload()
        strange = slots - self._held_by(file, caller.path)
        if strange:
            _log.warning("not permitted", caller=caller.path, slots=sorted(strange)[:10])
            raise Unavailable(
                "topology_outdated",
                f"{caller.path} does not hold slot {min(strange):03d} by the wallet's topology file; if it does, give "
                "the wallet the newest file",
                retry_after_s=0.5,
            )

    def reload(self) -> None:
        """Take the file's topology if it is newer; one that cannot be read is logged and changes nothing."""
        self._read_at = self._loop_time()
        if self._file is None:
            return
        try:
            if self._file.reload():
                self._slots.clear()
        except Refused as error:
            _log.error("the topology cannot be read; the last one stays", error=error.detail)

    def _held_by(self, file: TopologyFile, path: str) -> frozenset[int]:
        held = self._slots.get(path)
        if held is None:
            # The path of a SET's key at the wallet: setnode/SET/wallet.
            _, name, _ = path.split("/")
            held = self._slots[path] = frozenset(file.current.ids_of(name))
        return held
